//! The engine's facade: all databases of one data directory, without HTTP and without an asynchronous runtime.
//!
//! A server and an embedding program use the same calls. They block, unless their documentation says
//! otherwise; a program with an asynchronous runtime calls them on threads that may block.
//!
//! | module | what |
//! |---|---|
//! | `engine` | [`Engine`]: opening and closing a data directory, and the periodic work |
//! | `databases`, `agreed_state` | the records of databases and the open ones; the state that all nodes agree on |
//! | `certificates`, `known_certificates` | what clients are known by |
//! | `memory_plan` | [`MemoryPlan`]: how much memory each part may take |
//! | `database_files`, `directories`, `unknown_directories` | where the files of databases are, which directories a record may name, and what else is there |
//! | `deletion` | deleting databases with their files |
//! | `departures` | taking databases from nodes, after everything there was sent |
//! | `encryption_keys` | [`EncryptionKeys`]: the keys of encrypted databases |
//! | `key_change` | [`KeyChange`]: encrypting and decrypting a database, and replacing its key |
//! | `deleted_values` | forgetting deletions of compare exchange values |
//! | `index_builds`, `index_progress` | progress of indexes |
//! | `catch_up` | waiting until indexes have caught up |
//! | `index_wait`, `indexes_behind` | waiting for indexes after a write; which ones are late |
//! | `replica_wait`, `replicas_behind` | waiting for other nodes after a write; why that failed |
//! | `submission`, `next_identities` | batches of commands, from a caller to the commit queue and back; the values that complete their ids |
//! | `bound_query`, `recorded_series` | running a query on its snapshots; the time series settings that it follows |
//! | `query_target`, `auto_indexes` | which index runs a query; creating and deleting automatic ones |
//! | `compilation` | how many definitions of indexes are compiled at a time, and the memory for it |
//! | `configuration`, `client_configuration` | what records configure, and the server: each change as a call; the configuration that clients load |
//! | `index_definitions`, `record_changes` | defining, changing and deleting indexes; changes of records |
//! | `reservations` | memory for changes of definitions and records |
//! | `cluster_transaction`, `invalid_transaction` | cluster-wide transactions, from a client's commands into the shared state and the database; why one is refused |
//! | `bulk_insert`, `content_upload`, `busy_wait` | elements and contents of attachments that arrive piece by piece: what is stored when, and in which parts when memory is short |
//! | `cron_expression` | times that repeat |
//! | `bulk_operation`, `chosen_documents` | an operation on all documents that a query selects |
//! | `revision_operation`, `compaction` | enforcing the configuration of revisions, reverting documents; compacting |
//! | `operation_thread` | running long operations |
//! | `running_queries` | queries that are running |
//! | `shared_by_name` | [`SharedByName`]: values that exist while they are used, such as locks of databases |
//! | `backup` | backing up databases, and restoring them |
//! | `replication` | links over which databases send their changes to others, and what they receive |
//! | `etl` | tasks that send documents to other databases, and connection strings |
//! | `smuggler` | exporting a database, and importing one |
//! | `subscriptions`, `subscription_key`, `subscription_progress` | changes of subscriptions, and where they begin; what is stored while workers work |
//! | `database_log`, `index_log`, `index_build_log`, `resource_log`, `retention_log` | events in the log |
//! | `conflicts` | resolving conflicts as the configuration says |
//! | `error` | [`EngineError`], [`OpenError`] |

#![forbid(unsafe_code)]

mod agreed_state;
mod api_keys;
mod auto_indexes;
mod backup;
mod bound_query;
mod bulk_insert;
mod bulk_operation;
mod busy_wait;
mod catch_up;
mod certificates;
mod chosen_documents;
mod client_configuration;
mod cluster_transaction;
mod compaction;
mod compilation;
mod configuration;
mod conflicts;
mod content_upload;
mod cron_expression;
mod database_files;
mod database_groups;
mod database_log;
mod databases;
mod deleted_values;
mod deletion;
mod departures;
mod directories;
mod encryption_keys;
mod engine;
mod error;
mod etl;
mod executed_transactions;
mod followed_changes;
mod group_observer;
mod index_build_log;
mod index_builds;
mod index_definitions;
mod index_log;
mod index_progress;
mod index_wait;
mod indexes_behind;
mod invalid_transaction;
mod key_change;
mod known_api_keys;
mod known_certificates;
mod last_looks;
mod memory_plan;
mod migration;
mod next_identities;
mod noted_changes;
mod observer_log;
mod operation_thread;
mod query_target;
mod record_changes;
mod recorded_series;
mod replica_wait;
mod replicas_behind;
mod replication;
mod reservations;
mod resource_log;
mod retention_log;
mod revision_operation;
mod running_queries;
mod shared_by_name;
mod smuggler;
mod stored_tasks;
mod submission;
mod subscription_key;
mod subscription_progress;
mod subscriptions;
mod unknown_directories;

pub use crate::{
    api_keys::API_KEYS_MAX,
    backup::{
        BackupError, BackupTask, BackupTaskState, ChangedBackupTask, ChangedServerWideBackup,
        CloudError, CloudObject, CloudStorage, NextBackup, RunningBackup, SequentialFile,
        ServerWideBackupTask, StillWantedThere, verify_backup,
    },
    bound_query::{BoundQuery, QueryPlan, QuerySnapshot, answering_index},
    bulk_insert::{BulkInsert, BulkInsertStep, BulkInsertTotals},
    bulk_operation::{BulkOptions, BulkSelection, BulkWork},
    busy_wait::BusyWait,
    catch_up::CatchUp,
    cluster_transaction::{
        CommittedTransaction, Guards, PreparedTransaction, SubmittedTransaction,
        TransactionPreparation, check_expiry,
    },
    compilation::RoomToCompile,
    configuration::ServerConfiguration,
    conflicts::conflict_solver,
    content_upload::{
        Backlog, CARRIED_BYTES_MAX, ContentChunk, ContentUpload, StagedContent, StagedContents,
    },
    cron_expression::{CronExpression, InvalidCron},
    database_files::{DATABASES_DIRECTORY, DatabaseFiles, SYSTEM_DIRECTORY},
    database_groups::WantedNodes,
    deletion::{FilesLeft, FinishedDeletion},
    departures::Departure,
    encryption_keys::{EncryptionKeys, KeyError, ReplacedKey},
    engine::Engine,
    error::{EngineError, OpenError},
    etl::{
        Cancel, ChangedEtlTask, ClientIdentity, EtlProblem, EtlProgress, EtlRun, EtlStatistics,
        EtlTask, EtlTrial, Outbound, OutboundAnswer, OutboundError, OutboundRequest,
        OutboundStream, ProcessStatistics, StillWanted,
    },
    index_builds::INDEX_CHECK_INTERVAL,
    index_definitions::{IndexSetting, check_index_name, complete_definition, would_change},
    index_progress::{ALL_DOCUMENTS, progress_of},
    index_wait::{IndexWait, PendingIndexes},
    indexes_behind::IndexesBehind,
    invalid_transaction::{InvalidTransaction, Violations},
    key_change::KeyChange,
    memory_plan::MemoryPlan,
    migration::RemoteServer,
    next_identities::NextIdentities,
    observer_log::ObserverDecision,
    operation_thread::ShowFailure,
    query_target::{
        MissingIndex, NEW_INDEX_WAIT, NeededSource, QueryTarget, check_index_answers,
        needed_source, query_target,
    },
    recorded_series::RecordedSeries,
    replica_wait::{PendingReplicas, ReplicaWait},
    replicas_behind::ReplicasBehind,
    replication::{
        ChangedReplicationTask, ChangedServerWideTask, ConnectedSink, DestinationKey, Direction,
        HubAnswer, HubTask, IncomingLink, InternalDestination, LinkRun, LinkState, LinkStatistics,
        RegisteredAccess, ReplicationTask, SinkCall, SinkTask,
    },
    revision_operation::RevisionTask,
    running_queries::{QueryFacts, RunningQueries, RunningQuery, StopWhenGone, WakeQuery},
    shared_by_name::SharedByName,
    smuggler::{
        DumpExport, DumpImport, ExportSince, ExportSources, ImportNext, ImportTask, Importer,
        SmugglerProgress, TaskOutcome, VerifiedDump,
    },
    submission::{Preparation, PreparedBatch, SubmittedBatch},
    subscription_key::SubscriptionKey,
    subscription_progress::{StoredConnection, StoredProgress, node_of_subscription},
    subscriptions::{
        LostPosition, NewSubscription, SubscriptionUpdate, lost_position, position_of, position_on,
    },
    unknown_directories::has_databases,
};
