//! What an ETL task sends: changes of the log as commands of the protocol, for another database.
//!
//! Functions over a snapshot, without network, threads or clock: the caller decides when a batch is read, sends it, and
//! stores how far it has come. A batch depends only on the snapshot and on where it begins, so that one that is sent
//! twice leaves the destination as it is.
//!
//! | file | what |
//! |---|---|
//! | `plan` | which documents a transformation reads, and its compiled script |
//! | `batch` | reads a part of the log |
//! | `document` | the commands for one document |
//! | `additions` | attachments, counters and time series of a document |
//! | `loads` | what a script loads: its host |
//! | `outgoing` | the commands while they are made, within the limits of a batch |
//! | `command_list` | the commands as they are sent |
#![forbid(unsafe_code)]

mod additions;
mod batch;
mod command_list;
mod document;
mod loads;
mod outgoing;
mod plan;

pub use batch::{
    BatchLimits, DocumentProblem, EtlBatch, Pace, ScriptRun, TestRun, read_batch, test,
};
pub use command_list::{CommandList, RequestBody};
pub use plan::{Plan, PlanError, deletions_read};
