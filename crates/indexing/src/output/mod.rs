//! Results of a reduce as documents of a collection. The formats are on `docs/internals/map-reduce.md`.
//!
//! An index never writes documents itself: it gives changes to an [`OutputQueue`]. Its own files and the
//! documents are two environments, so the transaction that changes results also notes which keys are
//! *owed*, and what may be written for them already; the debt is gone when the documents are durable.
//! Every change may be made twice, so whatever is cut off is done again.
//!
//! Invariants: whatever the documents hold of a key is in what is noted of it; an index that is to take
//! the place of another writes nothing before it has; a document that is no output is never deleted.
//!
//! | file | what |
//! |---|---|
//! | `target` | what a definition says about its outputs |
//! | `pattern` | ids of the documents that refer to outputs |
//! | `output_id` | ids of outputs |
//! | `flow` | which definitions would feed themselves |
//! | `format` | what is owed and noted, byte by byte |
//! | `settle` | owed keys become documents |
//! | `sweep` | outputs that nobody knows any more are deleted |

mod flow;
mod format;
mod output_id;
mod pattern;
mod settle;
mod sweep;
mod target;

use documents::{OutputChange, OutputWritten};

pub(crate) use flow::{Flow, check};
pub(crate) use format::{Sweep, add_sweep, is_anything_open, note_owed, sweeps};
pub(crate) use settle::settle;
pub(crate) use sweep::{SweepPlace, sweep};
pub(crate) use target::OutputTarget;

/// Through which an index changes documents.
pub trait OutputQueue: Send + Sync {
    /// Makes the changes in one transaction and waits until it is durable. One answer for each change.
    ///
    /// # Errors
    ///
    /// See [`OutputError`]; nothing was done, unless it says that nobody knows.
    fn commit(&self, changes: Vec<OutputChange>) -> Result<Vec<OutputWritten>, OutputError>;
}

/// For indexes that write no documents: refuses every change.
pub struct NoOutputs;

impl OutputQueue for NoOutputs {
    fn commit(&self, _: Vec<OutputChange>) -> Result<Vec<OutputWritten>, OutputError> {
        Err(OutputError::Refused { message: "there are no documents to write to".to_owned() })
    }
}

/// Why documents were not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputError {
    /// One of the changes cannot be made.
    Refused {
        /// Why.
        message: String,
    },
    /// It may go later, or nobody knows whether it went: the same changes have to be made again.
    Later {
        /// Why.
        message: String,
    },
}
