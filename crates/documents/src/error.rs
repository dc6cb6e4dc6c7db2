//! Errors of documents, in three kinds that are never mixed.

use std::fmt;

use blittable::{BuildError, Corrupt};
use model::{ContentHash, DocumentIdTooLong, Etag, date};
use storage::StorageError;

use crate::{HILO_END_MAX, attachments::ContentNumber, time_series::InvalidTimeSeries};

/// An error of reading or writing documents. The messages of the caller's errors are part of the
/// protocol.
#[derive(Clone, Debug)]
pub enum DocumentError {
    /// The caller's: the document's version is not the expected one.
    Concurrency {
        /// The document's id as the protocol names it in this response; absent for deletions.
        id: Option<String>,
        /// The expected change vector as the protocol repeats it.
        expected: Option<String>,
        /// The change vector of the stored document; absent when there is none.
        actual: Option<String>,
        /// The message that the protocol specifies.
        message: String,
    },
    /// The caller's: the document is in conflict, so there is none to read.
    Conflict {
        /// The document.
        id: String,
        /// The largest etag of its versions.
        largest_etag: Etag,
    },
    /// The caller's: an update cannot move a document to another collection.
    CollectionMismatch {
        /// The document, as the request writes its id.
        id: String,
        /// The collection in which the document is.
        stored: String,
        /// The collection of the request.
        requested: String,
    },
    /// The caller's: the id of a document, a prefix or a collection is too long.
    IdTooLong(DocumentIdTooLong),
    /// The caller's: `@metadata` is not an object.
    MetadataIsNotAnObject {
        /// The message that the protocol specifies.
        message: String,
    },
    /// The caller's: a reserved metadata key has an impossible value.
    InvalidMetadata {
        /// The message that the protocol specifies.
        message: String,
    },
    /// The caller's: `@expires` or `@refresh` is not a date.
    InvalidExpiration {
        /// The document.
        id: String,
        /// The text that is not a date.
        text: String,
        /// The current time in ticks, used as an example of the format.
        now_ticks: i64,
    },
    /// The caller's: a revision was requested of a missing document.
    NothingToRevise {
        /// The message that the protocol specifies.
        message: String,
    },
    /// The caller's: an identity where only complete ids are allowed.
    UnresolvedIdentity {
        /// The id, ending in `|`.
        id: String,
    },
    /// The caller's: an expected version for a document whose id is yet to be assigned.
    VersionOfIdentity {
        /// The assigned id.
        id: String,
        /// The expected change vector.
        expected: String,
    },
    /// The caller's: a number was expected in a document that the server reads itself.
    NotANumber {
        /// The text found instead.
        text: String,
    },
    /// The caller's: there are too few numbers for another range, or a client claims too many.
    HiLoExhausted {
        /// What the range is for.
        tag: String,
        /// The number that the range would follow.
        start: i64,
    },
    /// The caller's: an attachment or counter for a missing document.
    DocumentMissing {
        /// The message that the protocol specifies.
        message: String,
    },
    /// The caller's: an attachment to copy or move is missing.
    AttachmentMissing {
        /// The message that the protocol specifies.
        message: String,
    },
    /// The caller's: an attachment that cannot be stored.
    InvalidAttachment {
        /// What is wrong with it.
        message: String,
    },
    /// The caller's: a counter would overflow.
    CounterOverflow {
        /// The message that the protocol specifies.
        message: String,
    },
    /// The caller's: a counter for a document that an index writes.
    ArtificialDocument {
        /// The document.
        id: String,
    },
    /// The caller's: an impossible change of a time series.
    InvalidTimeSeries(InvalidTimeSeries),
    /// The caller's: nothing is staged under the number; it was discarded or put already.
    ContentGone {
        /// The number.
        number: ContentNumber,
    },
    /// The caller's: the document with its metadata is larger than a document may be.
    TooLarge {
        /// The reason.
        reason: BuildError,
    },
    /// The caller's: the JSON text of the document is longer than it may be.
    TooLong {
        /// The limit, in bytes.
        bytes_max: u64,
    },
    /// The environment's or ours; see the storage error.
    Storage(StorageError),
    /// The environment's: the content of an attachment that another database has sent is not here; it is sent again.
    ContentMissing {
        /// What identifies it.
        hash: ContentHash,
    },
    /// The environment's: a cluster-wide transaction arrived before its predecessor.
    OutOfTurn {
        /// The index of the transaction.
        index: u64,
        /// The index of the last executed transaction.
        executed: u64,
    },
    /// Ours: a stored row or record is inconsistent.
    Corrupt {
        /// The inconsistency.
        detail: &'static str,
    },
    /// Ours: a stored document cannot be read because its dictionary is missing.
    DictionaryMissing {
        /// The number of the document's collection.
        collection: u32,
        /// The number of the dictionary.
        number: u16,
    },
    /// Ours: a stored document cannot be read.
    CorruptDocument(Corrupt),
}

/// Who is responsible for an error, and so how to respond to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request cannot be executed as it is; nothing was changed.
    Caller,
    /// The machine cannot execute it now; the same request may succeed later.
    Environment,
    /// Stored data is not what was written, or the code is wrong: writing must stop.
    Ours,
}

/// An error for impossible stored data, which means damage.
pub(crate) const fn corrupt(detail: &'static str) -> DocumentError {
    DocumentError::Corrupt { detail }
}

impl DocumentError {
    /// Who is responsible for the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Concurrency { .. }
            | Self::Conflict { .. }
            | Self::CollectionMismatch { .. }
            | Self::IdTooLong(_)
            | Self::MetadataIsNotAnObject { .. }
            | Self::InvalidMetadata { .. }
            | Self::InvalidExpiration { .. }
            | Self::NothingToRevise { .. }
            | Self::UnresolvedIdentity { .. }
            | Self::VersionOfIdentity { .. }
            | Self::NotANumber { .. }
            | Self::HiLoExhausted { .. }
            | Self::DocumentMissing { .. }
            | Self::AttachmentMissing { .. }
            | Self::InvalidAttachment { .. }
            | Self::CounterOverflow { .. }
            | Self::ArtificialDocument { .. }
            | Self::InvalidTimeSeries(_)
            | Self::ContentGone { .. }
            | Self::TooLong { .. }
            | Self::TooLarge { .. } => ErrorKind::Caller,
            Self::Storage(StorageError::KeyTooLong { .. } | StorageError::ValueTooLong { .. }) => {
                ErrorKind::Caller
            }
            Self::Storage(StorageError::NoMemory(exhausted)) if exhausted.is_too_large() => {
                ErrorKind::Caller
            }
            Self::OutOfTurn { .. } | Self::ContentMissing { .. } => ErrorKind::Environment,
            Self::Storage(error) if error.is_retryable() => ErrorKind::Environment,
            Self::Storage(_)
            | Self::Corrupt { .. }
            | Self::DictionaryMissing { .. }
            | Self::CorruptDocument(_) => ErrorKind::Ours,
        }
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Concurrency { message, .. }
            | Self::MetadataIsNotAnObject { message }
            | Self::DocumentMissing { message }
            | Self::AttachmentMissing { message }
            | Self::InvalidAttachment { message }
            | Self::CounterOverflow { message }
            | Self::InvalidMetadata { message }
            | Self::NothingToRevise { message } => formatter.write_str(message),
            Self::Conflict { id, .. } => write!(
                formatter,
                "Conflict detected on '{id}', conflict must be resolved before the document will be accessible."
            ),
            Self::CollectionMismatch { id, stored, requested } => write!(
                formatter,
                "Changing '{id}' from '{stored}' to '{requested}' via update is not supported. \
                 Delete it and recreate the document '{id}'."
            ),
            Self::IdTooLong(error) => error.fmt(formatter),
            Self::InvalidExpiration { id, text, now_ticks } => write!(
                formatter,
                "The expiration date format for document '{id}' is not valid: '{text}'. \
                 Use the following format: {}",
                date::format(*now_ticks)
            ),
            Self::UnresolvedIdentity { id } => write!(
                formatter,
                "Document ids cannot end with '|', but was called with {id}. Identities are only \
                 generated for external requests, not calls to PutDocument and such."
            ),
            Self::VersionOfIdentity { id, expected } => write!(
                formatter,
                "You cannot use change vector ({expected}) when using identity in the document ID \
                 ({id})."
            ),
            Self::NotANumber { text } => write!(
                formatter,
                "Could not convert Sparrow.Json.LazyStringValue ('{text}') to System.Int64"
            ),
            Self::HiLoExhausted { tag, start } => write!(
                formatter,
                "No range of numbers after {start} can be assigned to '{tag}': a request may claim \
                 numbers up to {HILO_END_MAX}, and there is none after {}",
                i64::MAX
            ),
            Self::ArtificialDocument { id } => write!(
                formatter,
                "Document '{id}' has 'Artificial' flag set. Cannot put Counters on artificial \
                 documents."
            ),
            Self::InvalidTimeSeries(error) => error.fmt(formatter),
            Self::ContentGone { number } => write!(
                formatter,
                "The content {number} of an attachment is not staged any more; send it again"
            ),
            Self::TooLarge { reason } => reason.fmt(formatter),
            Self::TooLong { bytes_max } => write!(
                formatter,
                "The document would have more than the {bytes_max} bytes that \
                 Documents.MaxDocumentSizeInMb allows; nothing of it was stored"
            ),
            Self::Storage(error) => error.fmt(formatter),
            Self::OutOfTurn { index, executed } => write!(
                formatter,
                "the cluster-wide transaction {index} cannot be executed: the last one that was is \
                 {executed}, and one between is missing"
            ),
            Self::ContentMissing { hash } => write!(
                formatter,
                "the content {hash} of an attachment that was replicated is not here"
            ),
            Self::Corrupt { detail } => write!(formatter, "stored documents are damaged: {detail}"),
            Self::DictionaryMissing { collection, number } => write!(
                formatter,
                "stored documents are damaged: the dictionary {number} of the collection \
                 {collection} is missing, and with it every document that needs it"
            ),
            Self::CorruptDocument(error) => {
                write!(formatter, "a stored document is damaged: {error}")
            }
        }
    }
}

impl std::error::Error for DocumentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::IdTooLong(error) => Some(error),
            Self::TooLarge { reason } => Some(reason),
            Self::Storage(error) => Some(error),
            Self::CorruptDocument(error) => Some(error),
            Self::OutOfTurn { .. }
            | Self::ContentMissing { .. }
            | Self::Concurrency { .. }
            | Self::Conflict { .. }
            | Self::TooLong { .. }
            | Self::CollectionMismatch { .. }
            | Self::MetadataIsNotAnObject { .. }
            | Self::InvalidMetadata { .. }
            | Self::InvalidExpiration { .. }
            | Self::NothingToRevise { .. }
            | Self::UnresolvedIdentity { .. }
            | Self::VersionOfIdentity { .. }
            | Self::NotANumber { .. }
            | Self::HiLoExhausted { .. }
            | Self::DocumentMissing { .. }
            | Self::AttachmentMissing { .. }
            | Self::InvalidAttachment { .. }
            | Self::CounterOverflow { .. }
            | Self::ArtificialDocument { .. }
            | Self::InvalidTimeSeries(_)
            | Self::ContentGone { .. }
            | Self::DictionaryMissing { .. }
            | Self::Corrupt { .. } => None,
        }
    }
}

impl From<StorageError> for DocumentError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<InvalidTimeSeries> for DocumentError {
    fn from(error: InvalidTimeSeries) -> Self {
        Self::InvalidTimeSeries(error)
    }
}

impl From<timeseries::Damaged> for DocumentError {
    fn from(error: timeseries::Damaged) -> Self {
        Self::Corrupt { detail: error.detail }
    }
}

impl From<Corrupt> for DocumentError {
    fn from(error: Corrupt) -> Self {
        Self::CorruptDocument(error)
    }
}

impl From<BuildError> for DocumentError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Corrupt(corrupt) => Self::CorruptDocument(corrupt),
            reason => Self::TooLarge { reason },
        }
    }
}

impl From<DocumentIdTooLong> for DocumentError {
    fn from(error: DocumentIdTooLong) -> Self {
        Self::IdTooLong(error)
    }
}
