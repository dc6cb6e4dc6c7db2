//! Assembly and lifecycle of databases: which there are, which are open, and what one consists of.
//!
//! Plain threads and callbacks; the server brings its own way of waiting.
//!
//! | module | what |
//! |---|---|
//! | `catalog` | [`ServerCatalog`]: the records of all databases, and the server's own environment |
//! | `recorded_settings` | what a record says about how its database works |
//! | `files`, `foreign_product` | whose files lie in the directory of a database; those of other products |
//! | `registry`, `transition` | [`DatabaseRegistry`]: opening on demand, closing, and who waits meanwhile |
//! | `open_database`, `usage_gate` | [`Database`], [`DatabaseLease`]: one open database and its users |
//! | `changes` | [`ChangesHub`]: who watches a database, and what they are told |
//! | `activity` | [`Activity`]: how much is asked, written and indexed, in all and of late |
//! | `log_follower` | [`LogFollowers`]: who reads on when the document log has grown |
//! | `held_snapshots` | [`HeldSnapshot`]: a state that several requests of a client see |
//! | `cluster_transactions` | documents of cluster-wide transactions |
//! | `index_outputs` | the documents that indexes write |
//! | `flusher` | [`Flusher`]: the threads that bring journals to data files |
//! | `resource_watch` | [`ResourceWatch`]: looks at memory, disks and slow I/O, and acts |
//! | `policy_position` | which time series the next look of the policies leaves out |
//! | `time_series_policies` | rollups of time series, and their old entries |
//! | `retention` | [`Retention`]: the threads that deal with documents whose time has come |
//! | `disk_space` | whether the disks of a database have room, and what that means |
//! | `memory_pressure` | [`MemoryPressure`]: how much memory is left, and what that means |
//! | `uncounted_memory` | [`UncountedMemory`]: what the process has taken beyond what is counted |
//! | `notice_board` | [`NoticeBoard`]: which notices operators do not want to see |
//! | `tombstones` | removing tombstones, and who still needs them |
//! | `operations` | [`Operations`]: long operations of one database |
//! | `error` | why a database or the catalog could not be used |

#![forbid(unsafe_code)]

mod activity;
mod catalog;
mod changes;
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
mod notice_board;
mod open_database;
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

pub use crate::{
    activity::{Activity, RunningRequest, StoredMeters},
    catalog::{Deletion, NewRecord, ServerCatalog, WrittenRecord},
    changes::{
        ChangesHub, Dispatched, Dispatcher, Event, HubClosed, Listener, ListenerEnd,
        ListenerOptions, ListenerView, QueueBudget, TooManyWatches, Wake,
    },
    cluster_transactions::{ExecutionError, guarded_transaction, transaction_version},
    disk_space::{DiskSpaceLevel, DiskSpaceLimits, DiskSpaceReading},
    error::{AccessError, CatalogError, LoadError},
    flusher::Flusher,
    foreign_product::{ForeignProduct, foreign_product},
    held_snapshots::{HeldSnapshot, SnapshotEnd, TooManySnapshots},
    huge_documents::{HugeDocument, HugeDocumentLimits, HugeDocuments},
    log_follower::{LogFollower, LogFollowers},
    memory_pressure::{MemoryChange, MemoryLevel, MemoryPressure, MemoryReading},
    notice_board::{Hidden, NoticeBoard, NoticeUpdate},
    open_database::{
        Database, DatabaseLease, DatabaseOptions, INDEXES_DIRECTORY, IndexingOptions,
        OnDatabaseIndexEvent,
    },
    operations::{Operation, OperationState, Operations, TooManyOperations},
    registry::{Access, DatabaseRegistry, RegistryEvent, RegistryOptions},
    resource_watch::{ResourceEvent, ResourceWatch},
    retention::{Retention, RetentionEvent},
    time_series_policies::frame_of,
    tombstones::{TombstoneError, TombstoneHolder, TombstoneHolders, TombstoneNeed},
    transition::{Arrival, Ticket},
    uncounted_memory::UncountedMemory,
};
