//! What the rounds of the flush remember.

use std::collections::VecDeque;

use crate::header::{EnvironmentHeader, JournalPosition};

/// State that one flush leaves for the next.
pub(crate) struct FlushState {
    pub(crate) header: EnvironmentHeader,
    /// Floors started and not yet passed by the header, oldest first.
    pub(crate) floors: VecDeque<JournalPosition>,
    /// Versions of transactions up to this one are in the data file.
    pub(crate) flushed_through: u64,
}

impl FlushState {
    /// `header` is on disk, as is everything up to its floor.
    pub(crate) fn new(header: EnvironmentHeader) -> Self {
        let flushed_through = header.replay_from.transaction;
        Self { header, floors: VecDeque::new(), flushed_through }
    }
}
