//! Assembly and lifecycle of databases: the catalog of all, the registry of open ones, and the parts of each.
//!
//! Uses plain threads and callbacks; the server adds its own asynchronous waiting.
//!
//! | module | what |
//! |---|---|
//! | `catalog` | [`ServerCatalog`]: the records of all databases, and the server's own environment |
//! | `name_locks` | locks by the name of a database |
//! | `recorded_settings` | the settings in a database's record that affect how it runs |
//! | `files`, `foreign_product` | checks whose files are in the directory of a database; recognises those of other products |
//! | `registry`, `transition` | [`DatabaseRegistry`]: opening on demand, closing, and requests that wait meanwhile |
//! | `open_database`, `usage_gate` | [`Database`], [`DatabaseLease`]: one open database and its users |
//! | `write_gate` | whether it takes writes of clients |
//! | `open_memory` | [`DatabaseMemory`]: what databases take that are being opened, and that are open |
//! | `closing` | [`Closing`]: its end, for those that wait for something else |
//! | `changes` | [`ChangesHub`]: notifies listeners of the changes of a database |
//! | `activity` | [`Activity`]: rates and totals of requests, writes and indexing |
//! | `log_follower` | [`LogFollowers`]: readers that are woken when the document log has grown |
//! | `held_snapshots` | [`HeldSnapshot`]: a state seen by several requests of a client |
//! | `cluster_transactions` | documents of cluster-wide transactions |
//! | `index_outputs` | the documents that indexes produce |
//! | `flusher` | [`Flusher`]: the threads that copy journals to data files |
//! | `resource_watch` | [`ResourceWatch`]: checks memory, disks and slow I/O, and reacts |
//! | `policy_position` | which time series the policies need not look at again |
//! | `time_series_policies` | rollups of time series, and deletion of their old entries |
//! | `retention` | [`Retention`]: the threads that expire, refresh and archive documents |
//! | `disk_space` | whether the disks of a database have room |
//! | `memory_pressure` | [`MemoryPressure`]: how much memory is left |
//! | `uncounted_memory` | [`UncountedMemory`]: memory of the process beyond what its budgets count |
//! | `notice_board` | [`NoticeBoard`]: notices that operators have dismissed or postponed |
//! | `tombstones` | removal of tombstones, and which holders still need them |
//! | `operations` | [`Operations`]: long operations of one database |
//! | `error` | errors of opening and using a database, or the catalog |

#![forbid(unsafe_code)]

mod activity;
mod catalog;
mod changes;
mod closing;
mod cluster_transactions;
mod disk_space;
mod error;
mod files;
mod flusher;
mod foreign_product;
mod held_snapshots;
mod huge_documents;
mod index_outputs;
mod log_follower;
mod memory_pressure;
mod name_locks;
mod notice_board;
mod open_database;
mod open_memory;
mod operations;
mod policy_position;
mod recorded_settings;
mod registry;
mod resource_watch;
mod retention;
mod standing;
mod time_series_policies;
mod tombstones;
mod transition;
mod uncounted_memory;
mod usage_gate;
mod write_gate;

pub use crate::{
    activity::{Activity, RunningRequest, StoredMeters},
    catalog::{Decision, DeletedFiles, NewDatabase, Replacement, ServerCatalog, WrittenRecord},
    changes::{
        ChangesHub, Dispatched, Dispatcher, Event, HubClosed, Listener, ListenerBudget,
        ListenerEnd, ListenerOptions, ListenerView, TooManyWatches, Wake,
    },
    closing::Closing,
    cluster_transactions::{ExecutionError, guarded_transaction, transaction_version},
    disk_space::{DiskSpaceLevel, DiskSpaceLimits, DiskSpaceReading},
    error::{AccessError, CatalogError, LoadError},
    flusher::Flusher,
    foreign_product::{ForeignProduct, foreign_product},
    held_snapshots::{HeldSnapshot, SnapshotEnd, TooManySnapshots},
    huge_documents::{HugeDocument, HugeDocumentLimits, HugeDocuments},
    log_follower::{LogFollower, LogFollowers, LogWatch},
    memory_pressure::{MemoryChange, MemoryLevel, MemoryPressure, MemoryReading},
    notice_board::{Hidden, NoticeBoard, NoticeUpdate},
    open_database::{
        Database, DatabaseLease, DatabaseOptions, DeletionsNeeded, INDEXES_DIRECTORY,
        IndexingOptions, OnDatabaseIndexEvent,
    },
    open_memory::DatabaseMemory,
    operations::{Operation, OperationState, Operations, TooManyOperations},
    registry::{Access, DatabaseRegistry, RegistryEvent, RegistryOptions},
    resource_watch::{ResourceEvent, ResourceWatch},
    retention::{Retention, RetentionEvent},
    time_series_policies::frame_of,
    tombstones::{TombstoneError, TombstoneHolder, TombstoneHolders, TombstoneNeed},
    transition::{Arrival, Ticket},
    uncounted_memory::UncountedMemory,
    write_gate::{PausedWrites, WritesRefused},
};
