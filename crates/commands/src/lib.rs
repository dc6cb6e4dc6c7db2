//! Typed commands, batches of them, and the queue through which every change of a database goes.
//!
//! Whoever wants to change documents submits a [`Batch`] to the [`CommitQueue`]; nobody else writes.
//! [`execute_batch`] is the same without threads, for tests that must be repeatable.
//!
//! Invariants: a batch happens whole or not at all; its caller is answered with success only after
//! it is durable; a batch that fails takes no other batch with it.
//!
//! | file | what |
//! |---|---|
//! | `command` | commands, batches and their results |
//! | `change_listener` | who is told what batches changed |
//! | `execute` | one batch inside a write transaction |
//! | `patch_command` | patches as they are asked for, and what became of them |
//! | `patch`, `patch_host`, `patch_scripts` | running their scripts over the open transaction |
//! | `patch_time_series` | time series in their scripts |
//! | `json_patch.js` | the script of a patch by operations (RFC 6902) |
//! | `commit_queue` | the queue as its callers see it |
//! | `queue_state` | what the threads of the queue share |
//! | `writer_thread` | batches into transactions |
//! | `trainer_thread` | dictionaries for what is compressed |
//! | `journal_thread` | transactions onto the disk, answers to the callers |
//! | `error`, `patch_error` | why a batch failed |
#![forbid(unsafe_code)]

mod change_listener;
mod command;
mod commit_queue;
mod error;
mod execute;
mod journal_thread;
mod patch;
mod patch_command;
mod patch_error;
mod patch_host;
mod patch_scripts;
mod patch_time_series;
mod queue_state;
mod trainer_thread;
mod writer_thread;

pub use change_listener::ChangeListener;
pub use command::{Batch, BatchOutcome, Command, CommandResult, HeldResults};
pub use commit_queue::{CommitQueue, CommitQueueOptions, CommitQueueStatistics, Reply};
pub use error::{CommandError, LowDiskSpace, SubmitError};
pub use execute::execute_batch;
pub use patch::{PatchLimits, Patcher, ValueReader};
pub use patch_command::{
    IncrementNote, PatchCommand, PatchEach, PatchNotes, PatchOutcome, PatchRequest, PatchStatus,
    PatchedEach, PatchedOne, WhenMissing,
};
pub use patch_error::PatchError;
