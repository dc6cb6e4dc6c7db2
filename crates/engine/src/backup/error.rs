//! Why a backup or a restore failed.

use std::{error::Error, fmt, io, path::PathBuf, sync::Arc};

use smuggler::DumpError;

/// Why a backup or a restore failed.
#[derive(Clone, Debug)]
pub enum BackupError {
    /// The caller's: the folder is not below the one for backups.
    PlaceRefused {
        /// Names both, and says what to do.
        message: String,
    },
    /// The caller's: there is nothing to restore.
    NothingToRestore {
        /// What is missing.
        message: String,
    },
    /// The environment's: reading or writing a file failed.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was done with it, as a verb.
        operation: &'static str,
        /// What the system reported.
        source: Arc<io::Error>,
    },
    /// The environment's: a bucket could not be written or read.
    Cloud {
        /// What was to be done with it, and what it said.
        message: String,
    },
    /// The text of a dump is no dump from some place on, so nothing behind it can be read.
    Damaged {
        /// The file.
        file: String,
        /// Where, and what is wrong.
        source: DumpError,
    },
    /// A file can be read to its end, but something in it is not what it says: a hash, a number of elements, an element.
    Inconsistent {
        /// The file.
        file: String,
        /// What is wrong.
        detail: String,
    },
}

impl BackupError {
    pub(crate) fn io(
        path: impl Into<PathBuf>,
        operation: &'static str,
        source: io::Error,
    ) -> BackupError {
        BackupError::Io { path: path.into(), operation, source: Arc::new(source) }
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlaceRefused { message }
            | Self::NothingToRestore { message }
            | Self::Cloud { message } => formatter.write_str(message),
            Self::Io { path, operation, source } => {
                write!(formatter, "Cannot {operation} {}: {source}", path.display())
            }
            Self::Damaged { file, source } => {
                write!(formatter, "The backup '{file}' is damaged: {source}")
            }
            Self::Inconsistent { file, detail } => {
                write!(formatter, "The backup '{file}' contradicts itself: {detail}")
            }
        }
    }
}

impl Error for BackupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(&**source),
            Self::Damaged { source, .. } => Some(source),
            Self::PlaceRefused { .. }
            | Self::NothingToRestore { .. }
            | Self::Cloud { .. }
            | Self::Inconsistent { .. } => None,
        }
    }
}
