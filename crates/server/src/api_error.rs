//! The engine's errors in the protocol's form.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use cluster_state::ClusterError;
use commands::{CommandError, PatchError, SubmitError};
use database::{AccessError, CatalogError};
use documents::{DocumentError, ErrorKind as Origin, time_series::InvalidTimeSeries};
use engine::{BackupError, EngineError, InvalidTransaction, KeyError, Violations};
use indexing::IndexError;
use model::DocumentIdTooLong;
use platform::descriptors;
use query::{Family, QueryError};
use script::{Exhausted, Refusal};
use security::Denial;
use settings::Problem;
use smuggler::DumpError;
use storage::{MemoryExhausted, StorageError};
use wire::{ConcurrencyFields, ConcurrencyViolation, ErrorFields, ErrorKind, ProtocolError};

/// An error of a request. Errors of everything that a handler calls convert to it with `?`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ApiError(ProtocolError);

impl ApiError {
    /// As [`ProtocolError::new`].
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> ApiError {
        ApiError(ProtocolError::new(kind, message))
    }

    /// As [`ProtocolError::argument`].
    pub(crate) fn argument(message: impl Into<String>) -> ApiError {
        ApiError(ProtocolError::argument(message))
    }

    /// As [`ProtocolError::invalid_operation`].
    pub(crate) fn invalid_operation(message: impl Into<String>) -> ApiError {
        ApiError(ProtocolError::invalid_operation(message))
    }

    /// As [`ProtocolError::caused_by`].
    pub(crate) fn caused_by(self, cause: impl Into<String>) -> ApiError {
        ApiError(self.0.caused_by(cause))
    }
}

impl From<MemoryExhausted> for ApiError {
    fn from(error: MemoryExhausted) -> ApiError {
        no_room("Answers", error)
    }
}

impl From<Denial> for ApiError {
    fn from(denial: Denial) -> ApiError {
        ApiError::new(ErrorKind::InvalidAuth, denial.to_string())
    }
}

impl Deref for ApiError {
    type Target = ProtocolError;

    fn deref(&self) -> &ProtocolError {
        &self.0
    }
}

impl DerefMut for ApiError {
    fn deref_mut(&mut self) -> &mut ProtocolError {
        &mut self.0
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<ProtocolError> for ApiError {
    fn from(error: ProtocolError) -> ApiError {
        ApiError(error)
    }
}

impl From<ApiError> for ProtocolError {
    fn from(error: ApiError) -> ProtocolError {
        error.0
    }
}

/// Errors whose protocol form is determined by a function of this file.
macro_rules! from {
    ($($source:ty => $shown:expr),+ $(,)?) => {
        $(impl From<$source> for ApiError {
            fn from(error: $source) -> ApiError {
                ApiError($shown(error))
            }
        })+
    };
}

from! {
    EngineError => engine_error,
    QueryError => query_error,
    CatalogError => |error| catalog_error(&error),
    ClusterError => |error| cluster_error(&error),
    CommandError => |error| command_error(&error),
    DocumentError => |error| document_error(&error),
    DocumentIdTooLong => |error: DocumentIdTooLong| ProtocolError::argument(error.to_string()),
    IndexError => |error| index_error(&error),
    Arc<IndexError> => |error: Arc<IndexError>| index_error(&error),
    StorageError => |error| storage_error(&error),
    SubmitError => |error| submit_error(&error),
}

/// An error of the engine.
fn engine_error(error: EngineError) -> ProtocolError {
    let message = error.to_string();
    match error {
        EngineError::Backup(error) => backup_error(&error),
        EngineError::NotOpened { name, error } => access_error(&error, &name).into(),
        EngineError::Catalog(error) => catalog_error(&error),
        EngineError::Cluster(error) => cluster_error(&error),
        EngineError::Command(error) => command_error(&error),
        EngineError::Document(error) => document_error(&error),
        EngineError::Index(error) => index_error(&error),
        EngineError::Query(error) => query_error(error),
        EngineError::Storage(error) => storage_error(&error),
        EngineError::Submit(error) => submit_error(&error),
        EngineError::InvalidTransaction(error) => invalid_transaction(&error),
        EngineError::Violations(violations) => violated(violations),
        EngineError::EncryptionKey(error) => key_error(&error),
        EngineError::Setting(problem) => setting_error(&problem),
        EngineError::Section(error) => error,
        EngineError::ContentTooLong => ProtocolError::new(ErrorKind::RequestTooLarge, message),
        EngineError::OtherNodes => ProtocolError::argument(message),
        EngineError::DirectoryRefused { .. } => ProtocolError::new(ErrorKind::BadRequest, message),
        EngineError::DirectoryUnreadable { .. } | EngineError::FilesNotRemoved { .. } => {
            ProtocolError::new(ErrorKind::Internal, message)
        }
        EngineError::IndexNotOpened { error, .. } | EngineError::IndexFailed { error, .. } => {
            let kind = retryable_kind(&error).unwrap_or(ErrorKind::IndexInvalid);
            ProtocolError::new(kind, message)
        }
        EngineError::IndexNotCreated { error } => index_error(&error),
        EngineError::IndexName { .. } => ProtocolError::argument(message),
        EngineError::IndexConflict { .. } => ProtocolError::new(ErrorKind::IndexCreation, message),
        EngineError::SubscriptionMissing { .. } => {
            ProtocolError::new(ErrorKind::SubscriptionDoesNotExist, message)
        }
        EngineError::SubscriptionNameTaken { .. } => {
            ProtocolError::new(ErrorKind::StateChangeRefused, message)
        }
        EngineError::DatabaseMissing { .. } => {
            ProtocolError::new(ErrorKind::DatabaseDoesNotExist, message)
        }
        EngineError::RecordDamaged { .. } => ProtocolError::new(ErrorKind::Internal, message),
        EngineError::IndexesBehind(_) | EngineError::ReplicasBehind(_) => {
            let mut error = ProtocolError::new(ErrorKind::Timeout, message);
            error.fields = ErrorFields::FailImmediately;
            error
        }
        EngineError::IndexErrored { .. }
        | EngineError::IndexDeleted { .. }
        | EngineError::IndexNotInSnapshot { .. }
        | EngineError::Refused { .. } => ProtocolError::invalid_operation(message),
        EngineError::PageTooLarge { .. } => ProtocolError::new(ErrorKind::NotSupported, message),
        EngineError::NoRoomToCompile { exhausted } => {
            no_room("Definitions of indexes", exhausted).0
        }
        EngineError::NoRoomForRecord { exhausted } => {
            no_room("Changes of large database records", exhausted).0
        }
        EngineError::TooManyOperations
        | EngineError::TooManyDefinitions
        | EngineError::NoThread { .. } => ProtocolError::new(ErrorKind::Overloaded, message),
        EngineError::Internal { .. } => ProtocolError::new(ErrorKind::Internal, message),
        EngineError::Panicked => ProtocolError::new(ErrorKind::Internal, message),
        EngineError::Stopped => ProtocolError::new(ErrorKind::OperationCanceled, message),
        EngineError::DatabaseClosing { is_written } => {
            let mut error = ProtocolError::new(ErrorKind::DatabaseDisabled, message);
            if is_written {
                // What was written would be written again by a client that tries again.
                error.fields = ErrorFields::FailImmediately;
            }
            error
        }
        EngineError::ChangesLost { .. }
        | EngineError::Leaving { .. }
        | EngineError::NotTaken { .. } => ProtocolError::new(ErrorKind::StorageFailed, message),
        EngineError::MemoryCritical { .. } => ProtocolError::new(ErrorKind::LowMemory, message),
    }
}

/// A backup or a restore that failed.
fn backup_error(error: &BackupError) -> ProtocolError {
    let kind = match error {
        BackupError::PlaceRefused { .. } | BackupError::NothingToRestore { .. } => {
            ErrorKind::Argument
        }
        BackupError::Io { .. } | BackupError::Cloud { .. } => ErrorKind::PartsCut,
        BackupError::Damaged { source: DumpError::UnexpectedEnd { .. }, .. } => {
            ErrorKind::EndOfStream
        }
        BackupError::Damaged { .. } | BackupError::Inconsistent { .. } => ErrorKind::InvalidData,
    };
    ProtocolError::new(kind, error.to_string())
}

/// A cluster-wide transaction whose commands cannot be executed.
fn invalid_transaction(error: &InvalidTransaction) -> ProtocolError {
    let kind = match error {
        InvalidTransaction::NameMissing { .. }
        | InvalidTransaction::Unfinished { .. }
        | InvalidTransaction::DeletesByPrefix
        | InvalidTransaction::Expiry { .. } => ErrorKind::RachisApply,
        InvalidTransaction::Unsupported { .. } => ErrorKind::ArgumentOutOfRange,
        InvalidTransaction::AtomicGuard { .. } => ErrorKind::CompareExchangeInvalidKey,
        InvalidTransaction::NegativeIndex => ErrorKind::InvalidData,
        InvalidTransaction::ValueMissing => ErrorKind::InvalidOperation,
    };
    ProtocolError::new(kind, error.to_string())
}

/// A cluster-wide transaction that expects other versions.
fn violated(violations: Violations) -> ProtocolError {
    let mut error =
        ProtocolError::new(ErrorKind::ClusterTransactionConcurrency, violations.to_string());
    let reported = violations.0.into_iter().map(|violation| ConcurrencyViolation {
        is_document: violation.document.is_some(),
        key: violation.key,
        expected: violation.expected,
        actual: violation.actual,
    });
    error.fields = ErrorFields::Violations(reported.collect());
    error
}

/// An invalid setting in a record.
fn setting_error(problem: &Problem) -> ProtocolError {
    let message = match problem {
        Problem::InvalidValue { name, .. } => {
            format!("Could not set '{name}' configuration setting value.")
        }
        Problem::ServerOnly { name } => {
            format!("Configuration '{name}' can only be set at server level.")
        }
        other => return ProtocolError::new(ErrorKind::BadRequest, other.to_string()),
    };
    ProtocolError::invalid_operation(message).caused_by(problem.to_string())
}

/// The response when there is not enough memory for something; `what` begins a sentence, in the
/// plural. A retry is suggested only where it can succeed.
pub(crate) fn no_room(what: &str, exhausted: MemoryExhausted) -> ApiError {
    let MemoryExhausted { own, taken, bytes_max } = exhausted;
    if exhausted.is_too_large() {
        let message = format!(
            "{what} may hold {bytes_max} bytes of memory, and this one needs at least {own} for \
             the part read so far. Split it, or raise the server's memory limit."
        );
        return ApiError::new(ErrorKind::RequestTooLarge, message);
    }
    let message = format!(
        "{what} in progress and other work leave no room for this one: {taken} bytes of memory would be \
         taken, and {bytes_max} may be. Try again later, or request less at once."
    );
    ApiError::new(ErrorKind::LowMemory, message)
}

/// An error of reading or writing documents.
fn document_error(error: &DocumentError) -> ProtocolError {
    let message = error.to_string();
    let kind = match error {
        DocumentError::Concurrency { id, expected, actual, message } => {
            let (id, expected, actual) = (id.clone(), expected.clone(), actual.clone());
            let fields = ConcurrencyFields { id, expected, actual };
            return ProtocolError::concurrency(message.clone(), fields);
        }
        DocumentError::Conflict { id, largest_etag } => {
            let mut error = ProtocolError::new(ErrorKind::DocumentConflict, message);
            error.fields = ErrorFields::Conflict(id.clone(), largest_etag.0);
            return error;
        }
        DocumentError::CollectionMismatch { .. } => ErrorKind::CollectionMismatch,
        DocumentError::DocumentMissing { .. } => ErrorKind::DocumentDoesNotExist,
        DocumentError::AttachmentMissing { .. } => ErrorKind::AttachmentDoesNotExist,
        DocumentError::CounterOverflow { .. } => ErrorKind::CounterOverflow,
        DocumentError::InvalidTimeSeries(error) => match error {
            InvalidTimeSeries::NotANumber { .. } => ErrorKind::NanValue,
            InvalidTimeSeries::NoValues { .. } => ErrorKind::InvalidData,
            InvalidTimeSeries::TooManyValues { .. }
            | InvalidTimeSeries::TagTooLong { .. }
            | InvalidTimeSeries::OutsideTheCalendar => ErrorKind::ArgumentOutOfRange,
            InvalidTimeSeries::NameTooLong(_) => ErrorKind::Argument,
            InvalidTimeSeries::ReservedName { .. }
            | InvalidTimeSeries::AppendToIncremental
            | InvalidTimeSeries::IncrementOfOrdinary
            | InvalidTimeSeries::TooManyAtOneMoment => ErrorKind::InvalidOperation,
        },
        DocumentError::IdTooLong(_) | DocumentError::InvalidAttachment { .. } => {
            ErrorKind::Argument
        }
        DocumentError::MetadataIsNotAnObject { .. } | DocumentError::NotANumber { .. } => {
            ErrorKind::Format
        }
        DocumentError::InvalidMetadata { .. } => ErrorKind::InvalidData,
        DocumentError::UnresolvedIdentity { .. } => ErrorKind::NotSupported,
        DocumentError::TooLarge { .. } | DocumentError::TooLong { .. } => {
            ErrorKind::RequestTooLarge
        }
        DocumentError::Storage(error) => return storage_error(error),
        _ if error.kind() == Origin::Caller => ErrorKind::InvalidOperation,
        _ => ErrorKind::Internal,
    };
    ProtocolError::new(kind, message)
}

/// The key of a database that cannot be stored or read.
fn key_error(error: &KeyError) -> ProtocolError {
    let message = error.to_string();
    match error {
        KeyError::Invalid => ProtocolError::argument(message),
        KeyError::Exists { .. }
        | KeyError::Missing { .. }
        | KeyError::Same { .. }
        | KeyError::InUse { .. } => ProtocolError::invalid_operation(message),
        KeyError::MasterKey { .. }
        | KeyError::Program(_)
        | KeyError::ProgramOutput { .. }
        | KeyError::Damaged { .. }
        | KeyError::Undecryptable { .. }
        | KeyError::Io { .. } => ProtocolError::new(ErrorKind::Internal, message),
    }
}

/// An error of the storage.
fn storage_error(error: &StorageError) -> ProtocolError {
    let kind = match error {
        StorageError::KeyTooLong { .. } | StorageError::ValueTooLong { .. } => ErrorKind::Argument,
        StorageError::DiskFull { .. } => ErrorKind::DiskFull,
        // What keeps the server's own environment from being written keeps a database from it.
        StorageError::BuiltOnFailed { reason } | StorageError::Unwitnessed { reason } => {
            return storage_error(reason);
        }
        StorageError::TooManyUnflushed { .. } | StorageError::GivenUp { .. } => {
            ErrorKind::Overloaded
        }
        StorageError::NoMemory(exhausted) | StorageError::NoMemoryToDecrypt(exhausted)
            if exhausted.is_too_large() =>
        {
            ErrorKind::RequestTooLarge
        }
        StorageError::NoMemory(_) | StorageError::NoMemoryToDecrypt(_) => ErrorKind::LowMemory,
        StorageError::Io { source, .. } if descriptors::are_exhausted(source) => {
            ErrorKind::Overloaded
        }
        StorageError::Stopped => ErrorKind::OperationCanceled,
        StorageError::Failed { .. } | StorageError::Closed | StorageError::Io { .. } => {
            ErrorKind::StorageFailed
        }
        StorageError::Locked { .. }
        | StorageError::UnknownVersion { .. }
        | StorageError::NotAnEnvironment { .. }
        | StorageError::TargetInUse { .. }
        | StorageError::UnknownTable { .. }
        | StorageError::DataFileMissing { .. }
        | StorageError::JournalMissing { .. }
        | StorageError::JournalOfAnother { .. }
        | StorageError::AnotherEnvironment { .. }
        | StorageError::KeyMissing { .. }
        | StorageError::WrongKey { .. }
        | StorageError::NotEncrypted { .. }
        | StorageError::Corrupt(_) => ErrorKind::Internal,
    };
    ProtocolError::new(kind, error.to_string())
}

/// A batch that failed.
fn command_error(error: &CommandError) -> ProtocolError {
    match error {
        CommandError::Document(error) => document_error(error),
        CommandError::Patch(error) => patch_error(error),
        CommandError::NoMemoryForScripts(_) => {
            ProtocolError::new(ErrorKind::LowMemory, error.to_string())
        }
        CommandError::NotWritten(error) => storage_error(error),
        CommandError::OutcomeUnknown(_) | CommandError::Closed => {
            ProtocolError::new(ErrorKind::StorageFailed, error.to_string())
        }
        CommandError::Panicked { .. } => ProtocolError::new(ErrorKind::Internal, error.to_string()),
    }
}

/// The script of a patch that failed.
fn patch_error(error: &PatchError) -> ProtocolError {
    let kind = match error {
        PatchError::Parse { .. } => ErrorKind::JavaScriptParse,
        PatchError::Exhausted(Exhausted::Recursion) => ErrorKind::JavaScriptRecursion,
        PatchError::Threw { .. } | PatchError::Exhausted(_) | PatchError::TooMuch { .. } => {
            ErrorKind::JavaScript
        }
        PatchError::Refused { kind: Refusal::Value, .. } => ErrorKind::Argument,
        PatchError::Refused { kind: Refusal::NotHere, .. } => ErrorKind::NotSupported,
        PatchError::Refused { kind: Refusal::Renamed, .. } => ErrorKind::MissingMethod,
        PatchError::Refused { kind: Refusal::Call, .. } | PatchError::Result { .. } => {
            ErrorKind::InvalidOperation
        }
        PatchError::Engine { .. } => ErrorKind::LowMemory,
    };
    ProtocolError::new(kind, error.to_string())
}

/// A batch that was not accepted.
fn submit_error(error: &SubmitError) -> ProtocolError {
    let kind = match error {
        SubmitError::Full => ErrorKind::Overloaded,
        SubmitError::Closed => ErrorKind::StorageFailed,
        SubmitError::LowDiskSpace(_) => ErrorKind::DiskFull,
    };
    ProtocolError::new(kind, error.to_string())
}

/// A database that is not accessible. `name` is as the client wrote it.
pub(crate) fn access_error(error: &AccessError, name: &str) -> ApiError {
    match error {
        AccessError::Missing => ApiError::new(
            ErrorKind::DatabaseDoesNotExist,
            format!("Database '{name}' does not exist."),
        ),
        AccessError::Disabled => {
            ApiError::new(ErrorKind::DatabaseDisabled, format!("{name} has been disabled"))
        }
        AccessError::NotRelevant => ApiError::new(
            ErrorKind::DatabaseNotRelevant,
            format!("Database {name} is not on this node. Ask the cluster for its topology."),
        ),
        AccessError::Locked { reason } => ApiError::new(
            ErrorKind::DatabaseDisabled,
            format!("The database '{name}' has been unloaded and locked because {reason}"),
        ),
        AccessError::TooManyWaiting | AccessError::ShuttingDown => {
            ApiError::new(ErrorKind::Overloaded, error.to_string())
        }
        AccessError::Load(cause) => ApiError::new(
            ErrorKind::DatabaseLoadFailure,
            format!("Failed to start database {name}: {cause}"),
        ),
    }
}

/// An error of the cluster's state.
fn cluster_error(error: &ClusterError) -> ProtocolError {
    let kind = match error {
        ClusterError::CommandTooLarge { .. } => ErrorKind::RequestTooLarge,
        ClusterError::NameTooLong { .. } => ErrorKind::Argument,
        ClusterError::KeyTooLong { .. } => ErrorKind::CompareExchangeKeyTooBig,
        ClusterError::Busy => ErrorKind::Overloaded,
        ClusterError::Storage(error) => return storage_error(error),
        ClusterError::Refused { .. } | ClusterError::Membership { .. } => {
            ErrorKind::InvalidOperation
        }
        ClusterError::NoLeader { .. } => ErrorKind::NoLeader,
        ClusterError::Closed | ClusterError::Unfinished { .. } => ErrorKind::StorageFailed,
        ClusterError::Corrupt { .. }
        | ClusterError::CorruptRow { .. }
        | ClusterError::UnknownVersion { .. }
        | ClusterError::Start { .. } => ErrorKind::Internal,
    };
    ProtocolError::new(kind, error.to_string())
}

/// An error of the server's catalog.
fn catalog_error(error: &CatalogError) -> ProtocolError {
    let message = error.to_string();
    match error {
        CatalogError::AlreadyExists { .. } => {
            ProtocolError::concurrency(message, ConcurrencyFields::default())
        }
        CatalogError::VersionMismatch { .. } => {
            ProtocolError::new(ErrorKind::RecordConcurrency, message)
        }
        CatalogError::Missing { .. } | CatalogError::BeingDeleted { .. } => {
            ProtocolError::new(ErrorKind::BadRequest, message)
        }
        CatalogError::RecordTooLarge { .. } => {
            ProtocolError::new(ErrorKind::RequestTooLarge, message)
        }
        CatalogError::Foreign { .. } => ProtocolError::new(ErrorKind::Internal, message),
        CatalogError::CorruptRecord { .. } | CatalogError::CorruptNodeValue { .. } => {
            ProtocolError::new(ErrorKind::Internal, message)
        }
        CatalogError::Storage(error) => storage_error(error),
        CatalogError::Cluster(error) => cluster_error(error),
    }
}

/// The kind of an error because there is no room, in whichever part of the index: a retry may succeed.
fn retryable_kind(error: &IndexError) -> Option<ErrorKind> {
    match (error, error.storage()) {
        (_, Some(StorageError::DiskFull { .. })) => Some(ErrorKind::DiskFull),
        (
            _,
            Some(
                StorageError::NoMemory(_)
                | StorageError::NoMemoryToDecrypt(_)
                | StorageError::TooManyUnflushed { .. },
            ),
        ) => Some(ErrorKind::LowMemory),
        (IndexError::Output { .. }, _) => Some(ErrorKind::Overloaded),
        (IndexError::Directory { source, .. }, _) if descriptors::are_exhausted(source) => {
            Some(ErrorKind::Overloaded)
        }
        (_, Some(StorageError::Io { source, .. })) if descriptors::are_exhausted(source) => {
            Some(ErrorKind::Overloaded)
        }
        (_, _) => None,
    }
}

/// An error of an index.
fn index_error(error: &IndexError) -> ProtocolError {
    if let Some(StorageError::NoMemory(exhausted) | StorageError::NoMemoryToDecrypt(exhausted)) =
        error.storage()
    {
        return no_room("Indexes", *exhausted).0;
    }
    if let Some(kind) = retryable_kind(error) {
        return ProtocolError::new(kind, error.to_string());
    }
    match error {
        IndexError::Definition { message } => {
            ProtocolError::new(ErrorKind::IndexCompilation, message.clone())
        }
        IndexError::Invalid { message } => {
            ProtocolError::new(ErrorKind::IndexInvalid, message.clone())
        }
        IndexError::Documents(error) => document_error(error),
        IndexError::Values(error) => cluster_error(error),
        IndexError::Storage(_)
        | IndexError::Search(_)
        | IndexError::Directory { .. }
        | IndexError::Corrupt { .. }
        | IndexError::Output { .. }
        | IndexError::DeletionsMissed
        | IndexError::Closing
        | IndexError::Panicked => ProtocolError::new(ErrorKind::Internal, error.to_string()),
    }
}

/// An error of a query.
fn query_error(error: QueryError) -> ProtocolError {
    let kind = match error.family() {
        Family::Parse => ErrorKind::QueryParse,
        Family::InvalidQuery => ErrorKind::InvalidQuery,
        Family::InvalidOperation => ErrorKind::InvalidOperation,
        Family::MissingIndex => ErrorKind::IndexDoesNotExist,
        Family::MissingDocument => ErrorKind::DocumentDoesNotExist,
        Family::NotSupported => ErrorKind::NotSupported,
        Family::Argument => ErrorKind::Argument,
        Family::OutOfRange => ErrorKind::ArgumentOutOfRange,
        Family::Lucene => ErrorKind::LuceneParse,
        Family::MissingSorter => ErrorKind::SorterDoesNotExist,
        Family::Format => ErrorKind::Format,
        Family::Shape => ErrorKind::InvalidShape,
        Family::Pattern => ErrorKind::RegularExpression,
        Family::Index => ErrorKind::Internal,
        Family::Interrupted => return canceled().0,
        Family::Script => ErrorKind::JavaScript,
        Family::Memory => match error {
            QueryError::Memory(exhausted) => return no_room("Answers", exhausted).0,
            _ => ErrorKind::LowMemory,
        },
        Family::Documents => match &error {
            QueryError::Documents(error) => return document_error(error),
            QueryError::Values(error) => return cluster_error(error),
            _ => ErrorKind::Internal,
        },
    };
    ProtocolError::new(kind, error.to_string())
}

/// The response to a query that was canceled.
pub(crate) fn canceled() -> ApiError {
    ApiError::new(ErrorKind::OperationCanceled, "The operation was canceled.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_without_room_may_be_asked_again() {
        let full = || StorageError::DiskFull { path: "x".into() };
        let exhausted = storage::MemoryExhausted { own: 1, taken: 9, bytes_max: 9 };
        // `EMFILE`.
        let files = || std::io::Error::from_raw_os_error(24);
        let no_files =
            || StorageError::Io { path: "x".into(), operation: "open", source: Arc::new(files()) };
        let table = [
            (IndexError::Storage(full()), ErrorKind::DiskFull),
            (IndexError::Documents(full().into()), ErrorKind::DiskFull),
            (IndexError::Storage(StorageError::NoMemory(exhausted)), ErrorKind::LowMemory),
            (IndexError::Output { message: "later".into() }, ErrorKind::Overloaded),
            (
                IndexError::Directory { directory: "x".into(), source: files() },
                ErrorKind::Overloaded,
            ),
            (IndexError::Storage(no_files()), ErrorKind::Overloaded),
        ];
        for (error, kind) in table {
            let error = Arc::new(error);
            let failed = EngineError::IndexFailed { name: "I".into(), error: Arc::clone(&error) };
            for answer in [ApiError::from(error), failed.into()] {
                assert_eq!((answer.kind, answer.kind.status()), (kind, 503), "{}", answer.message);
            }
        }
        assert_eq!(storage_error(&no_files()).kind, ErrorKind::Overloaded);
    }
}
