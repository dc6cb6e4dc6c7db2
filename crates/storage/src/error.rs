//! Errors of the engine, in three kinds that are never mixed: the caller's, the environment's
//! (retryable), and ours (corruption).

use std::{fmt, io, path::PathBuf, sync::Arc};

use crate::{format::PageNumber, memory_budget::MemoryExhausted};

/// An error of the storage engine.
#[derive(Clone, Debug)]
pub enum StorageError {
    /// The caller's: a key longer than [`crate::KEY_BYTES_MAX`].
    KeyTooLong {
        /// Length of the refused key, in bytes.
        bytes: usize,
    },
    /// The caller's: a value or row longer than [`crate::VALUE_BYTES_MAX`].
    ValueTooLong {
        /// Length of the refused value, in bytes.
        bytes: usize,
    },
    /// The environment's, retryable: there is no space left. Nothing of the transaction was kept;
    /// reads continue, and writes succeed again once there is space.
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// The environment's, retryable: more page versions wait for the flush than memory allows, most
    /// likely because a reader has kept an old snapshot open.
    TooManyUnflushed {
        /// Bytes of page versions held now.
        bytes: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The environment's, retryable: the transaction changes more pages than there is memory for.
    /// Nothing of it is kept; a smaller one may succeed, or the same one after others have ended.
    NoMemory(MemoryExhausted),
    /// The environment's, retryable: the transaction has read more of an encrypted environment than there is memory
    /// for in decrypted form.
    NoMemoryToDecrypt(MemoryExhausted),
    /// The environment's, retryable: this transaction was built on one that could not be written
    /// and was abandoned with it. Nothing of it was kept.
    BuiltOnFailed {
        /// Why the earlier transaction was not written.
        reason: Arc<StorageError>,
    },
    /// The environment's, retryable: a sealed transaction was dropped instead of made durable.
    GivenUp {
        /// The transaction.
        transaction: u64,
    },
    /// A write or a sync failed, so it is unknown how much of the transactions in flight is on
    /// disk. The environment refuses writes until it has been reopened and recovered.
    Failed {
        /// The failure that closed the write path.
        reason: Arc<StorageError>,
    },
    /// The environment's, retryable: the environment above could not be notified that writing begins.
    /// Nothing was written.
    Unwitnessed {
        /// Why not.
        reason: Arc<StorageError>,
    },
    /// The environment was closed, see [`crate::Environment::close`].
    Closed,
    /// The environment's: another process, or another environment of this one, has the directory.
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The files were written by a version this one does not know.
    UnknownVersion {
        /// The file whose version is unknown.
        path: PathBuf,
        /// The version it carries.
        found: u32,
        /// The newest version that this build reads.
        known: u32,
    },
    /// The caller's: there is no environment in the directory, and none is to be created.
    NotAnEnvironment {
        /// The directory.
        path: PathBuf,
    },
    /// The caller's: a new environment was to be created where something already exists.
    TargetInUse {
        /// The directory.
        path: PathBuf,
    },
    /// The caller's: it stopped the work. Nothing was changed.
    Stopped,
    /// The caller's: the environment has a table whose schema was not passed.
    UnknownTable {
        /// The name of the table's rows.
        rows: String,
    },
    /// The caller's: the data file is missing although there are journal files, which hold what is not
    /// in it.
    DataFileMissing {
        /// The data file that should be there.
        path: PathBuf,
        /// A journal file that was found.
        journal: PathBuf,
    },
    /// The caller's: a journal file that recovery needs is not there, so acknowledged transactions
    /// would be lost.
    JournalMissing {
        /// The journal file.
        path: PathBuf,
    },
    /// The caller's: the directory of the journal has a file of another environment.
    JournalOfAnother {
        /// The journal file.
        path: PathBuf,
    },
    /// The caller's: the directory holds a different environment from the one expected.
    AnotherEnvironment {
        /// The directory.
        path: PathBuf,
    },
    /// The caller's: the environment is encrypted, and no key was passed.
    KeyMissing {
        /// The data file.
        path: PathBuf,
    },
    /// The caller's: the key is not that of the environment; or somebody has changed its header.
    WrongKey {
        /// The data file.
        path: PathBuf,
    },
    /// The caller's: a key was passed, and the environment is not encrypted.
    NotEncrypted {
        /// The data file.
        path: PathBuf,
    },
    /// An operation of the disk failed.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was attempted: "read", "write", "sync", ….
        operation: &'static str,
        /// The error of the disk.
        source: Arc<io::Error>,
    },
    /// Ours, or the disk's: bytes read back differ from what was written.
    Corrupt(Corruption),
}

/// Where corruption was seen.
#[derive(Clone, Debug)]
pub enum Corruption {
    /// Something that always holds does not: see [`crate::invariant`].
    Contradiction {
        /// What should hold, as a statement.
        what: &'static str,
        /// The source file that checks it.
        file: &'static str,
        /// The line of the check.
        line: u32,
    },
    /// The page's checksum does not match its content.
    PageChecksum {
        /// The page.
        page: PageNumber,
    },
    /// The page does not authenticate: it was changed, or belongs to another place or environment.
    PageAuthentication {
        /// The page.
        page: PageNumber,
    },
    /// The page carries a different number or kind from what its parent says.
    PageHeader {
        /// The page.
        page: PageNumber,
        /// What was expected.
        expected: &'static str,
    },
    /// A page number past the end of the environment.
    PageOutOfRange {
        /// The page.
        page: PageNumber,
    },
    /// Both copies of the environment's header are unreadable.
    Header {
        /// The data file.
        path: PathBuf,
    },
    /// The data file is shorter than its pages.
    DataFileTooShort {
        /// The data file.
        path: PathBuf,
        /// Its length, in bytes.
        bytes: u64,
        /// The length that its header calls for, in bytes.
        expected: u64,
    },
    /// A journal record before the end of the journal is damaged: an acknowledged transaction is lost.
    Journal {
        /// The journal file.
        path: PathBuf,
        /// Offset of the damage, in bytes.
        offset: u64,
        /// The first transaction that cannot be read.
        transaction: u64,
        /// A later transaction that can.
        later: u64,
    },
    /// The header of a journal file is unreadable.
    JournalHeader {
        /// The journal file.
        path: PathBuf,
    },
    /// The end of a journal file is missing: acknowledged transactions may have been in it.
    JournalTooShort {
        /// The journal file.
        path: PathBuf,
        /// Its length, in bytes.
        bytes: u64,
        /// The length with which it was created, in bytes.
        expected: u64,
    },
    /// A structure inside a page contradicts itself.
    Structure {
        /// The page.
        page: PageNumber,
        /// The contradiction.
        detail: &'static str,
    },
}

impl StorageError {
    pub(crate) fn io(
        path: impl Into<PathBuf>,
        operation: &'static str,
        source: io::Error,
    ) -> StorageError {
        let path = path.into();
        if source.kind() == io::ErrorKind::StorageFull {
            StorageError::DiskFull { path }
        } else {
            StorageError::Io { path, operation, source: Arc::new(source) }
        }
    }

    pub(crate) fn structure(page: PageNumber, detail: &'static str) -> StorageError {
        StorageError::Corrupt(Corruption::Structure { page, detail })
    }

    /// Whether the same request may succeed later without any repair.
    pub fn is_retryable(&self) -> bool {
        match self {
            StorageError::DiskFull { .. }
            | StorageError::TooManyUnflushed { .. }
            | StorageError::BuiltOnFailed { .. }
            | StorageError::GivenUp { .. }
            | StorageError::Failed { .. }
            | StorageError::Unwitnessed { .. }
            | StorageError::Closed => true,
            StorageError::NoMemory(exhausted) | StorageError::NoMemoryToDecrypt(exhausted) => {
                !exhausted.is_too_large()
            }
            StorageError::KeyTooLong { .. }
            | StorageError::ValueTooLong { .. }
            | StorageError::Locked { .. }
            | StorageError::UnknownVersion { .. }
            | StorageError::NotAnEnvironment { .. }
            | StorageError::TargetInUse { .. }
            | StorageError::UnknownTable { .. }
            | StorageError::Stopped
            | StorageError::DataFileMissing { .. }
            | StorageError::JournalMissing { .. }
            | StorageError::JournalOfAnother { .. }
            | StorageError::AnotherEnvironment { .. }
            | StorageError::KeyMissing { .. }
            | StorageError::WrongKey { .. }
            | StorageError::NotEncrypted { .. }
            | StorageError::Io { .. }
            | StorageError::Corrupt(_) => false,
        }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorageError::KeyTooLong { bytes } => {
                write!(f, "a key of {bytes} bytes is longer than {} bytes", crate::KEY_BYTES_MAX)
            }
            StorageError::ValueTooLong { bytes } => {
                write!(
                    f,
                    "a value of {bytes} bytes is longer than {} bytes",
                    crate::VALUE_BYTES_MAX
                )
            }
            StorageError::DiskFull { path } => write!(
                f,
                "there is no space left for {}; writes are refused until there is",
                path.display()
            ),
            StorageError::TooManyUnflushed { bytes, limit } => write!(
                f,
                "{bytes} bytes of changed pages wait to be written to the data file, and the limit is \
                 {limit}; a long-running read may be holding them back"
            ),
            StorageError::NoMemory(exhausted) => {
                let MemoryExhausted { own, taken, bytes_max } = exhausted;
                if exhausted.is_too_large() {
                    return write!(
                        f,
                        "the changes of one transaction take at least {own} bytes of memory, and may \
                         take {bytes_max}; none of them was kept. Change less at once, or raise the \
                         server's memory limit"
                    );
                }
                write!(
                    f,
                    "the changes of transactions in progress take {taken} bytes of memory with these, \
                     and may take {bytes_max}; none of them was kept. Change less at once, or try again \
                     later"
                )
            }
            StorageError::NoMemoryToDecrypt(MemoryExhausted { taken, bytes_max, .. }) => write!(
                f,
                "what transactions read of encrypted data takes {taken} bytes of memory, and may take \
                 {bytes_max}. Read less at once, or try again later"
            ),
            StorageError::BuiltOnFailed { reason } => {
                write!(f, "an earlier transaction could not be written: {reason}")
            }
            StorageError::Unwitnessed { reason } => write!(
                f,
                "writing cannot begin, because the server's own environment cannot be written: {reason}"
            ),
            StorageError::Closed => f.write_str("the environment is closed"),
            StorageError::GivenUp { transaction } => {
                write!(f, "transaction {transaction} was abandoned before it was written")
            }
            StorageError::Failed { reason } => write!(
                f,
                "the environment stopped accepting writes and has to be opened again: {reason}"
            ),
            StorageError::Locked { path } => {
                write!(f, "{} is locked: another server uses this directory", path.display())
            }
            StorageError::UnknownVersion { path, found, known } => write!(
                f,
                "{} has format version {found}, and this version of Corvus reads up to {known}",
                path.display()
            ),
            StorageError::NotAnEnvironment { path } => {
                write!(f, "{} holds no data of Corvus", path.display())
            }
            StorageError::TargetInUse { path } => {
                write!(f, "{} is not an empty directory outside of the source", path.display())
            }
            StorageError::Stopped => f.write_str("the work was stopped before its end"),
            StorageError::UnknownTable { rows } => {
                write!(f, "{rows} belongs to a table that this version of Corvus does not know")
            }
            StorageError::DataFileMissing { path, journal } => write!(
                f,
                "{} is missing although its journal is there ({}): nothing was changed; put the file \
                 back, or move the journal away to start empty",
                path.display(),
                journal.display()
            ),
            StorageError::JournalMissing { path } => write!(
                f,
                "{} is missing, and acknowledged writes are in it: nothing was changed; mount or put \
                 back the journal directory, or run `corvus offline salvage` to continue without it",
                path.display()
            ),
            StorageError::JournalOfAnother { path } => write!(
                f,
                "{} belongs to the journal of another environment: two of them cannot share a journal \
                 directory; nothing was changed",
                path.display()
            ),
            StorageError::AnotherEnvironment { path } => {
                write!(f, "{} holds another environment: nothing was changed", path.display())
            }
            StorageError::KeyMissing { path } => {
                write!(f, "{} is encrypted, and there is no key for it", path.display())
            }
            StorageError::WrongKey { path } => write!(
                f,
                "the key is not that of {}, or the header of that file was changed",
                path.display()
            ),
            StorageError::NotEncrypted { path } => {
                write!(f, "there is a key for {}, which is not encrypted", path.display())
            }
            StorageError::Io { path, operation, source } => {
                write!(f, "cannot {operation} {}: {source}", path.display())
            }
            StorageError::Corrupt(corruption) => corruption.fmt(f),
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Corruption::PageChecksum { page } => {
                write!(f, "page {page} is damaged: its checksum does not match its content")
            }
            Corruption::PageAuthentication { page } => write!(
                f,
                "page {page} is damaged or was changed: it is not what was written in its place"
            ),
            Corruption::PageHeader { page, expected } => {
                write!(f, "page {page} is not {expected}, which its place demands")
            }
            Corruption::PageOutOfRange { page } => {
                write!(f, "page {page} is past the end of the environment")
            }
            Corruption::Header { path } => {
                write!(f, "both copies of the header of {} are damaged", path.display())
            }
            Corruption::DataFileTooShort { path, bytes, expected } => {
                write!(f, "{} has {bytes} bytes and should have {expected}", path.display())
            }
            Corruption::Journal { path, offset, transaction, later } => write!(
                f,
                "{} is damaged at byte {offset}: transaction {transaction} cannot be read although \
                 transaction {later} after it can; run `corvus offline salvage` on a copy",
                path.display()
            ),
            Corruption::JournalHeader { path } => write!(
                f,
                "the header of {} is damaged, and acknowledged writes are in it; run `corvus offline \
                 salvage` on a copy",
                path.display()
            ),
            Corruption::JournalTooShort { path, bytes, expected } => write!(
                f,
                "{} has {bytes} bytes and was created with {expected}: its end is missing, and \
                 acknowledged writes may be in it; put the whole file back, or run `corvus offline \
                 salvage` on a copy",
                path.display()
            ),
            Corruption::Structure { page, detail } => write!(f, "page {page} is damaged: {detail}"),
            Corruption::Contradiction { what, file, line } => write!(
                f,
                "a bug of Corvus, or damaged memory: it does not hold that {what} ({file}:{line}). \
                 Please report it"
            ),
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StorageError::Io { source, .. } => Some(source.as_ref()),
            StorageError::Failed { reason }
            | StorageError::BuiltOnFailed { reason }
            | StorageError::Unwitnessed { reason } => Some(reason.as_ref()),
            _ => None,
        }
    }
}

impl From<MemoryExhausted> for StorageError {
    fn from(exhausted: MemoryExhausted) -> Self {
        StorageError::NoMemory(exhausted)
    }
}

impl From<Corruption> for StorageError {
    fn from(corruption: Corruption) -> Self {
        StorageError::Corrupt(corruption)
    }
}
