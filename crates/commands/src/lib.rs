//! Typed commands, batches of them, and the queue through which every change of a database goes.
//!
//! All changes of documents are submitted as a [`Batch`] to the [`CommitQueue`]; there is no other
//! writer. [`execute_batch`] is the same without threads, for deterministic tests.
//!
//! Invariants: a batch is atomic; its caller is acknowledged only after it is durable; a batch that
//! fails does not affect any other batch.
//!
//! | file | what |
//! |---|---|
//! | `command` | commands, batches and their results |
//! | `change_listener` | the listener to what batches changed |
//! | `execute` | one batch inside a write transaction |
//! | `patch_command` | requests for patches, and their results |
//! | `patch`, `patch_host`, `patch_scripts` | running their scripts over the open transaction |
//! | `script_places` | how many of them run at the same time |
//! | `patch_time_series` | time series in their scripts |
//! | `json_patch.js` | the script of a patch by operations (RFC 6902) |
//! | `commit_queue` | the queue as its callers see it |
//! | `commit_threads` | the threads that serve all queues of a server |
//! | `queue_state` | what callers and threads of a queue share |
//! | `writer` | executes batches into transactions |
//! | `journal` | writes transactions to disk, acknowledges callers |
//! | `trainer_thread` | trains dictionaries for compression |
//! | `error`, `patch_error` | why a batch failed |
#![forbid(unsafe_code)]

mod change_listener;
mod command;
mod commit_queue;
mod commit_threads;
mod error;
mod execute;
mod journal;
mod patch;
mod patch_command;
mod patch_error;
mod patch_host;
mod patch_scripts;
mod patch_time_series;
mod queue_state;
mod script_places;
mod trainer_thread;
mod writer;

pub use change_listener::ChangeListener;
pub use command::{Batch, BatchOutcome, Command, CommandResult, HeldResults};
pub use commit_queue::{CommitQueue, CommitQueueOptions, CommitQueueStatistics, Reply};
pub use commit_threads::{CommitThreads, ThreadLimits};
pub use error::{CommandError, LowDiskSpace, SubmitError};
pub use execute::execute_batch;
pub use patch::{PatchLimits, Patcher, ValueReader};
pub use patch_command::{
    IncrementNote, PatchCommand, PatchEach, PatchNotes, PatchOutcome, PatchRequest, PatchStatus,
    PatchedEach, PatchedOne, WhenMissing,
};
pub use patch_error::PatchError;
