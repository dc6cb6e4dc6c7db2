//! Events that an index reports.

use crate::{batch_log::IndexedBatch, index_change::IndexChange};

/// Called with whether the index reached the awaited position; `false` when it stopped or was closed.
pub type WaitReply = Box<dyn FnOnce(bool) + Send>;

/// An event that an index reports to its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexEvent {
    /// It is to replace another index, and a batch has indexed everything that was pending at its
    /// beginning.
    CaughtUp,
    /// It stopped because its files, or the documents, cannot be read or written.
    Failed,
    /// A batch is in its entries.
    Indexed(IndexedBatch),
    /// A change that listeners are notified of.
    Changed(IndexChange),
}

/// Called with the current name of an index and an event.
pub(crate) type OnEvent = Box<dyn Fn(&str, IndexEvent) + Send + Sync>;
