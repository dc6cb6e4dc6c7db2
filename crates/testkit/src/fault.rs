//! What a driver found wrong: damage that the engine itself reports, or an answer that is not so.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use commands::CommandError;
use documents::DocumentError;
use storage::StorageError;

/// Why a check of a database did not pass.
#[derive(Debug)]
pub enum Fault {
    /// The engine itself reported the error.
    Reported(DocumentError),
    /// The engine reported no error, but the data is wrong.
    Wrong(String),
    /// The engine panicked.
    Panicked(String),
}

impl Fault {
    /// A difference from the model.
    pub fn wrong(what: impl Into<String>) -> Self {
        Self::Wrong(what.into())
    }

    /// The same, and when it happened.
    #[must_use]
    pub fn during(self, step: &str) -> Self {
        match self {
            Self::Reported(error) => Self::Wrong(format!("{step}: {error}")),
            Self::Wrong(what) => Self::Wrong(format!("{step}: {what}")),
            Self::Panicked(what) => Self::Panicked(format!("{step}: {what}")),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported(error) => error.fmt(formatter),
            Self::Wrong(what) => formatter.write_str(what),
            Self::Panicked(what) => write!(formatter, "a panic: {what}"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<DocumentError> for Fault {
    fn from(error: DocumentError) -> Self {
        Self::Reported(error)
    }
}

impl From<CommandError> for Fault {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Document(error) => Self::Reported(error),
            other => Self::Wrong(other.to_string()),
        }
    }
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Self {
        Self::Reported(error.into())
    }
}

/// Runs a driver; a panic in it is a fault like any other.
///
/// # Errors
/// Those of `run`, and [`Fault::Panicked`].
pub fn guarded<T>(run: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(Fault::Panicked(message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
