//! Errors of indexes.

use std::{error::Error, fmt, io, path::PathBuf};

use cluster_state::ClusterError;
use documents::DocumentError;
use search::SearchError;
use storage::StorageError;

/// Why an index could not be created, opened, written or read.
#[derive(Debug)]
pub enum IndexError {
    /// The caller's: the definition is invalid.
    Definition {
        /// What is wrong, and where.
        message: String,
    },
    /// The caller's: the definition is valid, but not for this database.
    Invalid {
        /// The reason.
        message: String,
    },
    /// The environment's, retryable: outputs could not be written to the documents.
    Output {
        /// The reason.
        message: String,
    },
    /// The files of the index, or the disk.
    Storage(StorageError),
    /// The entries.
    Search(SearchError),
    /// The directory of its files.
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The documents that it reads.
    Documents(DocumentError),
    /// Compare exchange, which it reads.
    Values(ClusterError),
    /// The files of the index are damaged. Its documents are safe: it can be reset.
    Corrupt {
        /// The damage.
        detail: &'static str,
    },
    /// Tombstones that it has not read were removed, for example because its files are older than
    /// its documents. It is rebuilt when it is opened again.
    DeletionsMissed,
    /// Ours: a batch ended in a panic.
    Panicked,
    /// The index was closed during a batch, which was discarded.
    Closing,
}

impl IndexError {
    /// Whether there was not enough memory for the changes of a batch, pending or written.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        let of_memory = |error| {
            matches!(error, &StorageError::NoMemory(_) | &StorageError::TooManyUnflushed { .. })
        };
        self.storage().is_some_and(of_memory)
    }

    /// The underlying storage error.
    pub fn storage(&self) -> Option<&StorageError> {
        match self {
            Self::Storage(error)
            | Self::Search(SearchError::Storage(error))
            | Self::Documents(DocumentError::Storage(error)) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn corrupt(detail: &'static str) -> Self {
        Self::Corrupt { detail }
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Definition { message } | Self::Invalid { message } => f.write_str(message),
            Self::Output { message } => write!(f, "the outputs could not be written: {message}"),
            Self::Storage(error) => error.fmt(f),
            Self::Documents(error) => error.fmt(f),
            Self::Values(error) => error.fmt(f),
            Self::Search(error) => error.fmt(f),
            Self::Directory { directory, source } => {
                write!(f, "the files in {} could not be deleted: {source}", directory.display())
            }
            Self::Corrupt { detail } => write!(f, "the files of the index are damaged: {detail}"),
            Self::DeletionsMissed => {
                f.write_str("tombstones that the index has not read were removed; it is rebuilt")
            }
            Self::Panicked => f.write_str("indexing panicked"),
            Self::Closing => f.write_str("the index is closing"),
        }
    }
}

impl Error for IndexError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            Self::Documents(error) => Some(error),
            Self::Values(error) => Some(error),
            Self::Search(error) => Some(error),
            Self::Directory { source, .. } => Some(source),
            Self::Definition { .. }
            | Self::Invalid { .. }
            | Self::Output { .. }
            | Self::Corrupt { .. }
            | Self::DeletionsMissed
            | Self::Panicked
            | Self::Closing => None,
        }
    }
}

impl From<StorageError> for IndexError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<ClusterError> for IndexError {
    fn from(error: ClusterError) -> Self {
        Self::Values(error)
    }
}

impl From<DocumentError> for IndexError {
    fn from(error: DocumentError) -> Self {
        Self::Documents(error)
    }
}

impl From<SearchError> for IndexError {
    fn from(error: SearchError) -> Self {
        Self::Search(error)
    }
}
