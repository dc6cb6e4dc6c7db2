//! What an index reports, and to what.

use crate::{batch_log::IndexedBatch, index_change::IndexChange};

/// Called with whether the index reached the awaited position; `false` when it stopped or was closed.
pub type WaitReply = Box<dyn FnOnce(bool) + Send>;

/// What an index reports to the set that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexEvent {
    /// It is to replace another index, and a batch has ended that took in everything that was there
    /// when it began.
    CaughtUp,
    /// It stopped because its files, or the documents, cannot be read or written.
    Failed,
    /// A batch is in its entries.
    Indexed(IndexedBatch),
    /// Something that others may watch.
    Changed(IndexChange),
}

/// Called with the current name of an index and what has happened.
pub(crate) type OnEvent = Box<dyn Fn(&str, IndexEvent) + Send + Sync>;
