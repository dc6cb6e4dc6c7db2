//! Why an `offline` command did nothing, or not everything.

use std::fmt;

use database::{CatalogError, LoadError};
use engine::KeyError;
use storage::StorageError;

pub(crate) enum Refusal {
    /// Another reason, a full sentence.
    Because(String),
    Key(KeyError),
    Storage(StorageError),
    Catalog(CatalogError),
    Files(LoadError),
}

pub(crate) fn because<T>(text: String) -> Result<T, Refusal> {
    Err(Refusal::Because(text))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Because(text) => f.write_str(text),
            Refusal::Storage(StorageError::Locked { .. })
            | Refusal::Catalog(CatalogError::Storage(StorageError::Locked { .. })) => {
                f.write_str("A server has it open. Stop the server first.")
            }
            Refusal::Key(error) => error.fmt(f),
            Refusal::Storage(error) => error.fmt(f),
            Refusal::Catalog(error) => error.fmt(f),
            Refusal::Files(error) => error.fmt(f),
        }
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Refusal {
        Refusal::Key(error)
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Refusal {
        Refusal::Storage(error)
    }
}

impl From<CatalogError> for Refusal {
    fn from(error: CatalogError) -> Refusal {
        Refusal::Catalog(error)
    }
}

impl From<LoadError> for Refusal {
    fn from(error: LoadError) -> Refusal {
        Refusal::Files(error)
    }
}
