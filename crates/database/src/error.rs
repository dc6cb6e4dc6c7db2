//! Errors of opening and using a database, or the server's catalog.

use std::{error::Error, fmt, path::PathBuf, sync::Arc};

use cluster_state::ClusterError;
use documents::DocumentError;
use storage::{HistoryMismatch, MemoryExhausted, StorageError};

use crate::foreign_product::ForeignProduct;

/// The catalog refused or failed.
#[derive(Clone, Debug)]
pub enum CatalogError {
    /// The caller's: there is a database of that name, and no version of its record was expected.
    AlreadyExists {
        /// The name of the database.
        name: String,
    },
    /// The caller's: the record has another version than expected.
    VersionMismatch {
        /// The name of the database.
        name: String,
        /// The version of the stored record.
        actual: u64,
        /// The version that the caller expected.
        expected: u64,
    },
    /// The caller's: a version was expected of a database that does not exist.
    Missing {
        /// The name of the database.
        name: String,
    },
    /// The caller's: a record would have more bytes than this server has memory for.
    RecordTooLarge {
        /// The name of the database.
        name: String,
        /// The size of the record.
        bytes: usize,
        /// The maximum size of a record in bytes.
        bytes_max: usize,
    },
    /// The caller's: a database of that name was deleted, and some of its files are still there.
    BeingDeleted {
        /// The name of the database.
        name: String,
    },
    /// The directory holds data of another product.
    Foreign {
        /// The directory that was to be used.
        directory: PathBuf,
        /// The product whose data it holds.
        product: ForeignProduct,
    },
    /// A record in the catalog cannot be read.
    CorruptRecord {
        /// The key of the record.
        key: String,
    },
    /// A value of this node in the catalog cannot be read.
    CorruptNodeValue {
        /// The name of the value.
        name: String,
    },
    /// The environment's or ours: see the storage error.
    Storage(StorageError),
    /// The cluster's state cannot be used.
    Cluster(ClusterError),
}

/// A database cannot be used.
#[derive(Clone, Debug)]
pub enum AccessError {
    /// The caller's: no database has this name.
    Missing,
    /// The caller's: the database is disabled.
    Disabled,
    /// The caller's: other nodes of the cluster have the database.
    NotRelevant,
    /// The environment's: a long task has locked its files.
    Locked {
        /// The name of the task, such as a compaction.
        reason: &'static str,
    },
    /// The environment's: too many requests are already waiting for this database.
    TooManyWaiting,
    /// The server is shutting down.
    ShuttingDown,
    /// It could not be opened.
    Load(Arc<LoadError>),
}

/// A database could not be opened.
#[derive(Clone, Debug)]
pub enum LoadError {
    /// Its record has invalid settings.
    Settings {
        /// Which setting is invalid, and why.
        message: String,
    },
    /// Its directory holds other files than its own.
    Files {
        /// What was found, and what to do.
        message: String,
    },
    /// The server's record of it cannot be read, or does not exist.
    Catalog(CatalogError),
    /// Its environment could not be opened.
    Storage(StorageError),
    /// Its files are missing although it has been written to.
    FilesMissing {
        /// The directory where they should be.
        directory: PathBuf,
    },
    /// Its files are not those that the server knows, or are older.
    OtherFiles {
        /// The directory of the files.
        directory: PathBuf,
        /// How their history differs from the one that the server knows.
        mismatch: HistoryMismatch,
    },
    /// The cluster's state could not be read.
    Cluster(ClusterError),
    /// Its documents could not be read.
    Documents(DocumentError),
    /// Its identities could not be moved to the cluster's state.
    Identities {
        /// Why moving them failed.
        message: String,
    },
    /// A thread could not be started.
    Thread {
        /// The operating system's message.
        message: String,
    },
    /// There is not enough memory to open it.
    NoMemory {
        /// The memory of open databases, and what it would have to hold.
        exhausted: MemoryExhausted,
    },
    /// The code that opens it panicked.
    Panicked,
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CatalogError::AlreadyExists { name } => write!(f, "Database '{name}' already exists!"),
            CatalogError::VersionMismatch { name, actual, expected } => write!(
                f,
                "Concurrency violation, the database {name} has etag {actual} but was expecting \
                 {expected}"
            ),
            CatalogError::RecordTooLarge { name, bytes, bytes_max } => write!(
                f,
                "The record of the database '{name}', with the definitions of its indexes, would have {bytes} \
                 bytes, and this server has memory for {bytes_max}. Delete indexes that are not needed, or raise \
                 the server's memory limit."
            ),
            CatalogError::Missing { name } => {
                write!(f, "Attempted to modify non-existing database: '{name}'")
            }
            CatalogError::BeingDeleted { name } => write!(
                f,
                "The database '{name}' is being deleted. What is left of it is removed when the \
                 server starts again; until then, use another name"
            ),
            CatalogError::Foreign { directory, product } => {
                write!(
                    f,
                    "{}: {product}. Give the server a DataDir of its own",
                    directory.display()
                )
            }
            CatalogError::CorruptRecord { key } => {
                write!(f, "the record of the database '{key}' is damaged")
            }
            CatalogError::CorruptNodeValue { name } => write!(
                f,
                "the value '{name}' of this server is damaged: restore the System directory from a copy"
            ),
            CatalogError::Storage(error) => error.fmt(f),
            CatalogError::Cluster(error) => error.fmt(f),
        }
    }
}

impl Error for CatalogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            CatalogError::Storage(error) => Some(error),
            CatalogError::Cluster(error) => Some(error),
            CatalogError::AlreadyExists { .. }
            | CatalogError::VersionMismatch { .. }
            | CatalogError::Missing { .. }
            | CatalogError::RecordTooLarge { .. }
            | CatalogError::BeingDeleted { .. }
            | CatalogError::Foreign { .. }
            | CatalogError::CorruptRecord { .. }
            | CatalogError::CorruptNodeValue { .. } => None,
        }
    }
}

impl From<StorageError> for CatalogError {
    fn from(error: StorageError) -> CatalogError {
        CatalogError::Storage(error)
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessError::Missing => f.write_str("there is no such database"),
            AccessError::Disabled => f.write_str("the database is disabled"),
            AccessError::NotRelevant => f.write_str("the database is not on this node"),
            AccessError::Locked { reason } => {
                write!(f, "the database has been unloaded and locked because {reason}")
            }
            AccessError::TooManyWaiting => {
                f.write_str("too many requests are already waiting for the database")
            }
            AccessError::ShuttingDown => f.write_str("the server is shutting down"),
            AccessError::Load(error) => write!(f, "the database could not be opened: {error}"),
        }
    }
}

impl Error for AccessError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AccessError::Load(error) => Some(error.as_ref()),
            AccessError::Missing
            | AccessError::Disabled
            | AccessError::NotRelevant
            | AccessError::Locked { .. }
            | AccessError::TooManyWaiting
            | AccessError::ShuttingDown => None,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Settings { message } => write!(f, "its settings are invalid: {message}"),
            LoadError::Files { message } => f.write_str(message),
            LoadError::Catalog(error) => error.fmt(f),
            LoadError::Storage(error) => error.fmt(f),
            LoadError::FilesMissing { directory } => write!(
                f,
                "its files are not in {}; mount or put back the directory, or delete the database to \
                 start empty",
                directory.display()
            ),
            LoadError::OtherFiles { directory, mismatch } => write!(
                f,
                "the files in {} are not the newest ones of this database: {mismatch}. Nothing was \
                 changed. Put the right directory back, or stop the server and say that this one \
                 is the current one: corvus offline adopt <data directory> <database>",
                directory.display()
            ),
            LoadError::Cluster(error) => error.fmt(f),
            LoadError::Documents(error) => error.fmt(f),
            LoadError::Identities { message } => {
                write!(f, "its identities cannot be moved to the cluster: {message}")
            }
            LoadError::Thread { message } => write!(f, "a thread could not be started: {message}"),
            LoadError::NoMemory { exhausted } => write!(
                f,
                "there is not enough memory to open it besides the databases in use: {exhausted}. Try again later, or \
                 raise the server's memory limit"
            ),
            LoadError::Panicked => f.write_str("opening it panicked"),
        }
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LoadError::Catalog(error) => Some(error),
            LoadError::Storage(error) => Some(error),
            LoadError::Cluster(error) => Some(error),
            LoadError::Documents(error) => Some(error),
            LoadError::Settings { .. }
            | LoadError::FilesMissing { .. }
            | LoadError::OtherFiles { .. }
            | LoadError::Files { .. }
            | LoadError::Identities { .. }
            | LoadError::Thread { .. }
            | LoadError::NoMemory { .. }
            | LoadError::Panicked => None,
        }
    }
}

impl From<CatalogError> for LoadError {
    fn from(error: CatalogError) -> LoadError {
        LoadError::Catalog(error)
    }
}

impl From<StorageError> for LoadError {
    fn from(error: StorageError) -> LoadError {
        LoadError::Storage(error)
    }
}

impl From<DocumentError> for LoadError {
    fn from(error: DocumentError) -> LoadError {
        LoadError::Documents(error)
    }
}
