//! Why the engine rejected a request or failed.

use std::{error::Error, fmt, io, path::PathBuf, sync::Arc};

use cluster_state::ClusterError;
use commands::{CommandError, PatchError, SubmitError};
use database::{AccessError, CatalogError};
use documents::DocumentError;
use indexing::IndexError;
use platform::Exposure;
use query::QueryError;
use settings::Problem;
use storage::{MemoryExhausted, StorageError};
use wire::{ProtocolError, header_names::SNAPSHOT};

use crate::{
    backup::BackupError,
    encryption_keys::KeyError,
    indexes_behind::IndexesBehind,
    invalid_transaction::{InvalidTransaction, Violations},
    replicas_behind::ReplicasBehind,
    subscription_key::SubscriptionKey,
};

/// A request that the engine rejected, or could not complete. It had no effect, unless the error of
/// the lower layer says otherwise.
#[derive(Debug)]
pub enum EngineError {
    /// A backup or a restore failed.
    Backup(BackupError),
    /// From the catalog of databases.
    Catalog(CatalogError),
    /// From the state that all nodes agree on.
    Cluster(ClusterError),
    /// A batch of commands failed.
    Command(CommandError),
    /// Reading documents failed.
    Document(DocumentError),
    /// Reading or changing an index failed.
    Index(IndexError),
    /// From planning or running a query.
    Query(QueryError),
    /// The storage of the documents failed.
    Storage(StorageError),
    /// The commit queue rejected a batch.
    Submit(SubmitError),
    /// The commands of a cluster-wide transaction cannot be executed.
    InvalidTransaction(InvalidTransaction),
    /// The files of a database are an older copy than what the other nodes have, so that it takes no writes.
    ChangesLost {
        /// The database.
        database: String,
        /// What another node has answered.
        reason: String,
    },
    /// A database takes no writes on this node, because it is about to be taken from it.
    Leaving {
        /// The database.
        database: String,
    },
    /// A database cannot be taken from a node now: nothing has changed.
    NotTaken {
        /// The message for the caller: names the node and the database, and says what to do.
        message: String,
    },
    /// A cluster-wide transaction expects other versions than the present ones.
    Violations(Violations),
    /// A record must not use a directory. The message names it, and says what to do.
    DirectoryRefused {
        /// The message for the caller: names the directory, and says what to do.
        message: String,
    },
    /// A directory that a new database is to use cannot be listed.
    DirectoryUnreadable {
        /// The directory that cannot be listed.
        directory: PathBuf,
        /// What the system reported.
        source: io::Error,
    },
    /// A database is deleted, but some of its files are still there.
    FilesNotRemoved {
        /// The name of the deleted database.
        database: String,
        /// Why they could not be removed.
        source: StorageError,
    },
    /// The key of an encrypted database cannot be stored or read.
    EncryptionKey(KeyError),
    /// An index could not be opened.
    IndexNotOpened {
        /// The name of the index.
        name: String,
        /// The error that opening it returned.
        error: Arc<IndexError>,
    },
    /// An index has stopped.
    IndexFailed {
        /// The name of the index.
        name: String,
        /// The error that stopped it.
        error: Arc<IndexError>,
    },
    /// An index failed on too many documents.
    IndexErrored {
        /// The name of the index.
        name: String,
        /// The error rate of its attempts, in words.
        error_rate: String,
    },
    /// An index was defined, but could not be created.
    IndexNotCreated {
        /// The error that creating it returned.
        error: Arc<IndexError>,
    },
    /// An index must not have this name.
    IndexName {
        /// For the caller: the rule.
        message: String,
    },
    /// Another index, or the lock of this one, does not allow the definition.
    IndexConflict {
        /// The message for the caller: names the conflict.
        message: String,
    },
    /// Indexes have not caught up with a write in time. The write is complete.
    IndexesBehind(Box<IndexesBehind>),
    /// Other nodes do not have a write in time. The write is complete.
    ReplicasBehind(Box<ReplicasBehind>),
    /// The database is being closed: what the caller waited for is not awaited any longer.
    DatabaseClosing {
        /// Whether the caller waited for the consequences of a write, which is complete.
        is_written: bool,
    },
    /// The caller's: a snapshot has no entries of the index that a query needs.
    IndexNotInSnapshot {
        /// The index.
        name: String,
    },
    /// There is no such subscription.
    SubscriptionMissing {
        /// How the request identifies it.
        key: SubscriptionKey,
    },
    /// A subscription has the name or the number already.
    SubscriptionNameTaken {
        /// The name of the database.
        database: String,
        /// The name of the subscription.
        name: String,
    },
    /// A database that a long task needs cannot be used.
    NotOpened {
        /// The name of the database.
        name: String,
        /// Why.
        error: AccessError,
    },
    /// The database was deleted at the same moment.
    DatabaseMissing {
        /// The name of the database, as requested.
        name: String,
    },
    /// The record of a database cannot be read.
    RecordDamaged {
        /// What cannot be read in the record.
        detail: String,
    },
    /// An index was deleted at the same moment.
    IndexDeleted {
        /// The name of the index.
        name: String,
    },
    /// The request is not possible here.
    Refused {
        /// The message for the caller.
        message: String,
    },
    /// An operation with a limit selects more documents than can be changed at once.
    PageTooLarge {
        /// How many documents were changed.
        done: u64,
    },
    /// No thread could be started.
    NoThread {
        /// What the system reported.
        source: io::Error,
    },
    /// A bug: something that must exist is missing.
    Internal {
        /// What is missing, for the log.
        what: String,
    },
    /// The maximum number of operations is running.
    TooManyOperations,
    /// The maximum number of definitions is being compiled.
    TooManyDefinitions,
    /// There is no memory for compiling a definition.
    NoRoomToCompile {
        /// The budget, and what it would have to hold.
        exhausted: MemoryExhausted,
    },
    /// There is no memory for changing a large record.
    NoRoomForRecord {
        /// The budget, and what it would have to hold.
        exhausted: MemoryExhausted,
    },
    /// The operation was stopped.
    Stopped,
    /// The operation panicked, which is a bug.
    Panicked,
    /// The content of an attachment has too many bytes.
    ContentTooLong,
    /// A setting in a record is invalid.
    Setting(Problem),
    /// A section of a record would be invalid after a change.
    Section(ProtocolError),
    /// Nodes to be put in order are not those of the database.
    OtherNodes,
    /// Memory is nearly used up.
    MemoryCritical {
        /// How much is left.
        left_bytes: u64,
        /// The limit of the process.
        limit_bytes: u64,
        /// Where the limit comes from.
        limited_by: &'static str,
    },
}

/// What a batch lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Something that others use now: memory, a place in the queue, pages that are not flushed yet.
    Passing,
    /// It needs more than there may ever be, but parts of it may fit.
    TooLarge,
}

impl EngineError {
    /// What a batch lacked, if another try may succeed, later or in smaller parts.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        match self {
            EngineError::Command(CommandError::NotWritten(error))
            | EngineError::Command(CommandError::Document(DocumentError::Storage(error)))
            | EngineError::Document(DocumentError::Storage(error))
            | EngineError::Storage(error) => shortage_of(error),
            EngineError::Command(CommandError::Document(
                DocumentError::TooLarge { .. } | DocumentError::TooLong { .. },
            )) => Some(Shortage::TooLarge),
            EngineError::Command(
                CommandError::Patch(PatchError::Engine { .. })
                | CommandError::NoMemoryForScripts(_),
            )
            | EngineError::Submit(SubmitError::Full) => Some(Shortage::Passing),
            _ => None,
        }
    }

    /// Whether a smaller batch might succeed, because there was not enough memory for this one.
    pub(crate) fn is_low_memory(&self) -> bool {
        let is_storages = |error: &StorageError| {
            matches!(error, StorageError::NoMemory(_) | StorageError::NoMemoryToDecrypt(_))
        };
        match self {
            EngineError::Command(CommandError::NotWritten(error))
            | EngineError::Command(CommandError::Document(DocumentError::Storage(error)))
            | EngineError::Storage(error) => is_storages(error),
            EngineError::Command(CommandError::Patch(PatchError::Engine { .. })) => true,
            _ => false,
        }
    }
}

fn shortage_of(error: &StorageError) -> Option<Shortage> {
    match error {
        StorageError::BuiltOnFailed { reason } | StorageError::Unwitnessed { reason } => {
            shortage_of(reason)
        }
        StorageError::NoMemory(exhausted) | StorageError::NoMemoryToDecrypt(exhausted)
            if exhausted.is_too_large() =>
        {
            Some(Shortage::TooLarge)
        }
        StorageError::NoMemory(_)
        | StorageError::NoMemoryToDecrypt(_)
        | StorageError::TooManyUnflushed { .. }
        | StorageError::GivenUp { .. } => Some(Shortage::Passing),
        _ => None,
    }
}

macro_rules! from {
    ($($variant:ident($source:ty)),+ $(,)?) => {
        $(impl From<$source> for EngineError {
            fn from(error: $source) -> Self {
                EngineError::$variant(error)
            }
        })+
    };
}

from! {
    Backup(BackupError),
    Catalog(CatalogError),
    Cluster(ClusterError),
    Command(CommandError),
    Document(DocumentError),
    Index(IndexError),
    Query(QueryError),
    Storage(StorageError),
    Submit(SubmitError),
    InvalidTransaction(InvalidTransaction),
    Violations(Violations),
    EncryptionKey(KeyError),
    Section(ProtocolError),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Backup(error) => error.fmt(f),
            EngineError::Catalog(error) => error.fmt(f),
            EngineError::Cluster(error) => error.fmt(f),
            EngineError::Command(error) => error.fmt(f),
            EngineError::Document(error) => error.fmt(f),
            EngineError::Index(error) => error.fmt(f),
            EngineError::Query(error) => error.fmt(f),
            EngineError::Storage(error) => error.fmt(f),
            EngineError::Submit(error) => error.fmt(f),
            EngineError::ChangesLost { database, reason } => write!(
                f,
                "The database '{database}' takes no writes on this node, because they could not reach the other nodes. \
                 {reason}"
            ),
            EngineError::Leaving { database } => write!(
                f,
                "The database '{database}' is about to be taken from this node, which takes no more writes for it. Another \
                 node of the database does"
            ),
            EngineError::NotTaken { message } => f.write_str(message),
            EngineError::InvalidTransaction(error) => error.fmt(f),
            EngineError::Violations(error) => error.fmt(f),
            EngineError::EncryptionKey(error) => error.fmt(f),
            EngineError::DirectoryRefused { message } => f.write_str(message),
            EngineError::DirectoryUnreadable { directory, source } => {
                write!(f, "Cannot read the directory {}: {source}", directory.display())
            }
            EngineError::FilesNotRemoved { database, source } => write!(
                f,
                "The database '{database}' is deleted, but its files could not be removed: {source}. The \
                 server tries again when it starts."
            ),
            EngineError::IndexNotOpened { name, error } => {
                write!(f, "Index '{name}' cannot be queried, it could not be opened: {error}")
            }
            EngineError::IndexFailed { name, error } => {
                write!(f, "Index '{name}' cannot be queried: {error}")
            }
            EngineError::IndexErrored { name, error_rate } => write!(
                f,
                "Index '{name}' is marked as errored. Index {name} is invalid, {error_rate} exceeds \
                 allowed 15% error rate"
            ),
            EngineError::IndexNotCreated { error } => error.fmt(f),
            EngineError::IndexName { message } | EngineError::IndexConflict { message } => {
                f.write_str(message)
            }
            EngineError::IndexesBehind(behind) => behind.fmt(f),
            EngineError::ReplicasBehind(behind) => behind.fmt(f),
            EngineError::DatabaseClosing { is_written: false } => {
                f.write_str("The database is being closed.")
            }
            EngineError::DatabaseClosing { is_written: true } => f.write_str(
                "The database is being closed. The write is complete, but what was to be awaited after it \
                 has not happened yet.",
            ),
            EngineError::IndexNotInSnapshot { name } => write!(
                f,
                "The snapshot has no index '{name}', which the query needs. Let the index be created \
                 by a query without the header {SNAPSHOT}, then open another snapshot"
            ),
            EngineError::SubscriptionMissing { key } => {
                write!(f, "Subscription with {key} was not found in server store")
            }
            EngineError::SubscriptionNameTaken { database, name } => write!(
                f,
                "A subscription could not be modified because the name \
                 'values/{database}/subscriptions/{name}' is already in use in a subscription with \
                 different Id."
            ),
            EngineError::NotOpened { name, error } => {
                write!(f, "The database '{name}' cannot be used: {error}")
            }
            EngineError::DatabaseMissing { name } => {
                write!(f, "Database '{name}' does not exist.")
            }
            EngineError::RecordDamaged { detail } => f.write_str(detail),
            EngineError::IndexDeleted { name } => {
                write!(f, "Index '{name}' was deleted while it was being created")
            }
            EngineError::Refused { message } => f.write_str(message),
            EngineError::PageTooLarge { done } => write!(
                f,
                "A query with a limit may change only as many documents as are selected at once; {done} were \
                 changed. Leave out the limit, or select fewer by a condition"
            ),
            EngineError::NoThread { source } => {
                write!(f, "No thread could be started: {source}. Try again later")
            }
            EngineError::Internal { what } => f.write_str(what),
            EngineError::TooManyOperations => {
                f.write_str("Too many operations are running; try again when some have ended")
            }
            EngineError::TooManyDefinitions => f.write_str(
                "Too many definitions of indexes are being compiled; try again when some have ended",
            ),
            EngineError::NoRoomToCompile { exhausted } => {
                write!(f, "The definition of the index cannot be compiled now: {exhausted}")
            }
            EngineError::NoRoomForRecord { exhausted } => {
                write!(f, "The record of the database cannot be changed now: {exhausted}")
            }
            EngineError::Panicked => f.write_str("The operation panicked"),
            EngineError::Stopped => f.write_str("The operation was stopped"),
            EngineError::ContentTooLong => f.write_str("An attachment has too many bytes"),
            EngineError::Setting(problem) => problem.fmt(f),
            EngineError::Section(error) => error.fmt(f),
            EngineError::OtherNodes => f.write_str(
                "The reordered list doesn't correspond to the existing nodes of the database group.",
            ),
            EngineError::MemoryCritical { left_bytes, limit_bytes, limited_by } => write!(
                f,
                "The server is short of memory: {left_bytes} bytes are left of the {limit_bytes} that \
                 {limited_by} allows. Large requests are rejected until more is free; nothing of this one \
                 was done. Try again later."
            ),
        }
    }
}

impl Error for EngineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            EngineError::Backup(error) => Some(error),
            EngineError::NotOpened { error, .. } => Some(error),
            EngineError::Catalog(error) => Some(error),
            EngineError::Cluster(error) => Some(error),
            EngineError::Command(error) => Some(error),
            EngineError::Document(error) => Some(error),
            EngineError::Index(error) => Some(error),
            EngineError::Query(error) => Some(error),
            EngineError::Storage(error) | EngineError::FilesNotRemoved { source: error, .. } => {
                Some(error)
            }
            EngineError::Submit(error) => Some(error),
            EngineError::InvalidTransaction(error) => Some(error),
            EngineError::Violations(error) => Some(error),
            EngineError::EncryptionKey(error) => Some(error),
            EngineError::Section(error) => Some(error),
            EngineError::DirectoryUnreadable { source, .. } | EngineError::NoThread { source } => {
                Some(source)
            }
            EngineError::IndexNotOpened { error, .. }
            | EngineError::IndexNotCreated { error }
            | EngineError::IndexFailed { error, .. } => Some(&**error),
            EngineError::DirectoryRefused { .. }
            | EngineError::ChangesLost { .. }
            | EngineError::Leaving { .. }
            | EngineError::NotTaken { .. }
            | EngineError::IndexErrored { .. }
            | EngineError::IndexDeleted { .. }
            | EngineError::IndexName { .. }
            | EngineError::IndexConflict { .. }
            | EngineError::IndexesBehind(_)
            | EngineError::ReplicasBehind(_)
            | EngineError::DatabaseClosing { .. }
            | EngineError::IndexNotInSnapshot { .. }
            | EngineError::SubscriptionMissing { .. }
            | EngineError::SubscriptionNameTaken { .. }
            | EngineError::DatabaseMissing { .. }
            | EngineError::RecordDamaged { .. }
            | EngineError::Refused { .. }
            | EngineError::PageTooLarge { .. }
            | EngineError::TooManyOperations
            | EngineError::TooManyDefinitions
            | EngineError::NoRoomToCompile { .. }
            | EngineError::NoRoomForRecord { .. }
            | EngineError::Internal { .. }
            | EngineError::Stopped
            | EngineError::Panicked
            | EngineError::ContentTooLong
            | EngineError::Setting(_)
            | EngineError::OtherNodes
            | EngineError::MemoryCritical { .. } => None,
        }
    }
}

/// The data directory could not be opened. The display form suggests what to do.
#[derive(Debug)]
pub enum OpenError {
    /// The server's own environment could not be opened.
    Catalog {
        /// The data directory of the server.
        directory: String,
        /// The error that opening it returned.
        source: CatalogError,
    },
    /// There are databases, but the server's own environment, which has their records, is missing.
    SystemMissing {
        /// The data directory of the server.
        directory: String,
    },
    /// Another process, a server or an offline command, uses the data directory.
    InUse {
        /// The data directory of the server.
        directory: String,
    },
    /// Other users could change or replace the data.
    Exposed {
        /// The directory that others can access.
        directory: String,
        /// How other users can access it.
        exposure: Exposure,
    },
    /// A thread could not be started.
    Thread {
        /// What the system reported.
        source: io::Error,
    },
}

impl OpenError {
    /// Whether another configuration would help, rather than a retry.
    pub fn is_configuration(&self) -> bool {
        match self {
            OpenError::SystemMissing { .. }
            | OpenError::InUse { .. }
            | OpenError::Exposed { .. }
            | OpenError::Catalog { source: CatalogError::Foreign { .. }, .. } => true,
            OpenError::Catalog { source: CatalogError::Storage(error), .. } => {
                matches!(error, StorageError::Locked { .. } | StorageError::UnknownVersion { .. })
                    || is_permission_problem(error)
            }
            OpenError::Catalog { source: CatalogError::Cluster(error), .. } => {
                matches!(error, ClusterError::UnknownVersion { .. })
            }
            OpenError::Catalog { .. } | OpenError::Thread { .. } => false,
        }
    }
}

fn is_permission_problem(error: &StorageError) -> bool {
    let StorageError::Io { source, .. } = error else { return false };
    matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Catalog { directory, source } => write_catalog(f, directory, source),
            OpenError::SystemMissing { directory } => write!(
                f,
                "{directory} contains databases, but the server's own directory System, which \
                 has their records, is missing. Nothing was changed. Mount or put back System, or create a \
                 new one that takes the databases in: corvus offline adopt {directory}"
            ),
            OpenError::InUse { directory } => write!(
                f,
                "another server or an offline command uses the data directory {directory}. Stop it, or \
                 set DataDir to another directory"
            ),
            OpenError::Exposed { directory, exposure } => write_exposure(f, directory, *exposure),
            OpenError::Thread { source } => write!(f, "cannot start a thread: {source}"),
        }
    }
}

fn write_catalog(
    f: &mut fmt::Formatter<'_>,
    directory: &str,
    source: &CatalogError,
) -> fmt::Result {
    write!(f, "cannot open the data directory {directory}: {source}")?;
    match source {
        CatalogError::Storage(StorageError::Locked { .. }) => {
            f.write_str(". Stop the other server, or set DataDir to another directory")
        }
        CatalogError::Storage(error) if is_permission_problem(error) => f.write_str(
            ". The server must be allowed to write there; set DataDir to a directory it owns",
        ),
        _ => Ok(()),
    }
}

fn write_exposure(f: &mut fmt::Formatter<'_>, directory: &str, exposure: Exposure) -> fmt::Result {
    match exposure {
        Exposure::OwnedByAnother { owner, own } => write!(
            f,
            "the directory {directory} belongs to the user {owner}, and the server runs as the user \
             {own}. Run it as that user, or change the owner to {own} (chown)"
        ),
        Exposure::WritableByAll | Exposure::OpenToOthers | Exposure::Private => write!(
            f,
            "every user of this machine may write to the directory {directory}. Remove that permission \
             (chmod o-w), or set DataDir to a directory of its own"
        ),
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            OpenError::Catalog { source, .. } => Some(source),
            OpenError::Thread { source } => Some(source),
            OpenError::SystemMissing { .. }
            | OpenError::InUse { .. }
            | OpenError::Exposed { .. } => None,
        }
    }
}
