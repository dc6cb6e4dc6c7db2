//! Results of a reduce as documents of a collection. The formats are on `docs/internals/map-reduce.md`.
//!
//! An index never writes documents itself: it passes changes to an [`OutputQueue`]. Its own files
//! and the documents are two environments, so the transaction that changes results also records
//! which keys are *pending*, and what may already be written for them; a key is cleared when its
//! documents are durable. Every change is idempotent, so whatever is interrupted is repeated.
//!
//! Invariants: every document of a key is covered by its record; a replacement writes nothing
//! before the swap; a document that is not an output is never deleted.
//!
//! | file | what |
//! |---|---|
//! | `target` | what a definition says about its outputs |
//! | `pattern` | ids of the documents that reference outputs |
//! | `output_id` | ids of outputs |
//! | `flow` | which definitions would feed themselves |
//! | `format` | what is pending and recorded, byte by byte |
//! | `settle` | writing the documents of pending keys |
//! | `sweep` | deleting unknown outputs |

mod flow;
mod format;
mod output_id;
mod pattern;
mod settle;
mod sweep;
mod target;

use documents::{OutputChange, OutputWritten};

pub(crate) use flow::{Flow, check};
pub(crate) use format::{Sweep, add_pending, add_sweep, is_anything_open, sweeps};
pub(crate) use settle::settle;
pub(crate) use sweep::{SweepPlace, sweep};
pub(crate) use target::OutputTarget;

/// The interface through which an index changes documents.
pub trait OutputQueue: Send + Sync {
    /// Applies the changes in one transaction and waits until it is durable. Returns one result per
    /// change.
    ///
    /// # Errors
    ///
    /// See [`OutputError`]; nothing was applied, unless the outcome is unknown.
    fn commit(&self, changes: Vec<OutputChange>) -> Result<Vec<OutputWritten>, OutputError>;
}

/// For indexes that write no documents: rejects every change.
pub struct NoOutputs;

impl OutputQueue for NoOutputs {
    fn commit(&self, _: Vec<OutputChange>) -> Result<Vec<OutputWritten>, OutputError> {
        Err(OutputError::Refused { message: "there are no documents to write to".to_owned() })
    }
}

/// Why documents were not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputError {
    /// One of the changes is impossible.
    Refused {
        /// The reason.
        message: String,
    },
    /// It may succeed later, or the outcome is unknown: the same changes must be repeated.
    Later {
        /// The reason.
        message: String,
    },
}
