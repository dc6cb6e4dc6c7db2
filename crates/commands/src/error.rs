//! Why a batch was not executed, or why it is unknown whether it was.

use std::{fmt, path::PathBuf, sync::Arc};

use documents::{DocumentError, ErrorKind};
use storage::{MemoryExhausted, StorageError};

use crate::patch_error::PatchError;

/// The answer to a batch that did not succeed.
#[derive(Clone, Debug)]
pub enum CommandError {
    /// Only this batch failed; nothing of it was kept. See [`DocumentError::kind`].
    Document(DocumentError),
    /// The script of a patch failed; nothing of the batch was kept.
    Patch(PatchError),
    /// The environment's, retryable: for some seconds there was no memory for the heap of the batch's scripts; nothing of
    /// it was executed.
    NoMemoryForScripts(MemoryExhausted),
    /// The environment's, retryable: the transaction of the batch could not be written; nothing of
    /// it was kept.
    NotWritten(StorageError),
    /// The write to the disk failed in a way that leaves it open whether the batch is durable.
    /// Reopening the database settles that.
    OutcomeUnknown(StorageError),
    /// The queue was closed, or failed, before the batch was started; nothing of it was executed.
    Closed,
    /// Ours: executing the batch panicked; nothing of it was kept.
    Panicked {
        /// The panic's message.
        message: String,
    },
}

impl CommandError {
    /// Who is responsible for the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Document(error) => error.kind(),
            Self::Patch(error) => error.kind(),
            Self::NoMemoryForScripts(_)
            | Self::NotWritten(_)
            | Self::OutcomeUnknown(_)
            | Self::Closed => ErrorKind::Environment,
            Self::Panicked { .. } => ErrorKind::Ours,
        }
    }
}

impl CommandError {
    /// Whether there was not enough memory for the changes. Fewer of them, or the same later, may
    /// succeed.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        matches!(self, Self::Document(DocumentError::Storage(StorageError::NoMemory(_))))
    }
}

impl From<DocumentError> for CommandError {
    fn from(error: DocumentError) -> CommandError {
        CommandError::Document(error)
    }
}

impl From<PatchError> for CommandError {
    fn from(error: PatchError) -> CommandError {
        CommandError::Patch(error)
    }
}

/// Why a batch was not accepted into the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// The environment's, retryable: the queue is full.
    Full,
    /// The queue is closed or has failed; the database must be opened again.
    Closed,
    /// The environment's, retryable: writes are rejected until the disk has free space again.
    LowDiskSpace(Arc<LowDiskSpace>),
}

/// A disk with so little free space that nothing more is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowDiskSpace {
    /// The directory on the full file system.
    pub directory: PathBuf,
    /// The free space, in bytes.
    pub free_bytes: u64,
    /// The free space at which writes are accepted again, in bytes.
    pub free_bytes_min: u64,
    /// Whether a write ran out of space, regardless of the reported free space.
    pub was_full: bool,
}

/// Whether the write path is unusable after the error, so that the database has to be reopened.
pub(crate) fn ends_writing(error: &StorageError) -> bool {
    match error {
        StorageError::DiskFull { .. }
        | StorageError::TooManyUnflushed { .. }
        | StorageError::NoMemory(_)
        | StorageError::NoMemoryToDecrypt(_)
        | StorageError::BuiltOnFailed { .. }
        | StorageError::GivenUp { .. }
        | StorageError::Unwitnessed { .. }
        | StorageError::Stopped
        | StorageError::KeyTooLong { .. }
        | StorageError::ValueTooLong { .. } => false,
        StorageError::Failed { .. }
        | StorageError::Closed
        | StorageError::Locked { .. }
        | StorageError::UnknownVersion { .. }
        | StorageError::NotAnEnvironment { .. }
        | StorageError::AnotherEnvironment { .. }
        | StorageError::DataFileMissing { .. }
        | StorageError::JournalMissing { .. }
        | StorageError::JournalOfAnother { .. }
        | StorageError::UnknownTable { .. }
        | StorageError::TargetInUse { .. }
        | StorageError::KeyMissing { .. }
        | StorageError::WrongKey { .. }
        | StorageError::NotEncrypted { .. }
        | StorageError::Io { .. }
        | StorageError::Corrupt(_) => true,
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document(error) => error.fmt(formatter),
            Self::Patch(error) => error.fmt(formatter),
            Self::NoMemoryForScripts(exhausted) => write!(
                formatter,
                "for some seconds there was no memory for the heap of a script: {exhausted}. Try again later"
            ),
            Self::NotWritten(error) => write!(formatter, "the changes were not written: {error}"),
            Self::OutcomeUnknown(error) => {
                write!(formatter, "it is unknown whether the changes were written: {error}")
            }
            Self::Closed => formatter.write_str("the database no longer accepts changes"),
            Self::Panicked { message } => {
                write!(formatter, "executing the batch failed: {message}")
            }
        }
    }
}

impl std::error::Error for CommandError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Document(error) => Some(error),
            Self::Patch(error) => Some(error),
            Self::NotWritten(error) | Self::OutcomeUnknown(error) => Some(error),
            Self::NoMemoryForScripts(_) | Self::Closed | Self::Panicked { .. } => None,
        }
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => formatter.write_str("too many changes are waiting"),
            Self::Closed => formatter.write_str("the database no longer accepts changes"),
            Self::LowDiskSpace(low) => low.fmt(formatter),
        }
    }
}

impl fmt::Display for LowDiskSpace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, free_bytes, free_bytes_min, was_full } = self;
        let found = if *was_full { "a write ran out of space, and " } else { "" };
        write!(
            formatter,
            "the disk of {} is too full to write to: {found}{free_bytes} bytes are free, and \
             {free_bytes_min} must be. Nothing was written; reads continue, and writes do when \
             there is room again",
            directory.display()
        )
    }
}

impl std::error::Error for SubmitError {}
