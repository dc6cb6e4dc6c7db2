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
    /// Set until what opening replayed is in the data file.
    pub(crate) unfinished: Option<UnfinishedRecovery>,
}

/// A recovery that found no space to extend the data file: what was replayed is in memory and in the
/// journals of the last process.
pub(crate) struct UnfinishedRecovery {
    /// The end of those journals, in a file that does not exist yet.
    pub(crate) position: JournalPosition,
    /// The numbers of the journal files.
    pub(crate) journals: Vec<u64>,
}

impl FlushState {
    /// `header` is on disk, and everything up to its floor is in the data file.
    pub(crate) fn new(header: EnvironmentHeader, unfinished: Option<UnfinishedRecovery>) -> Self {
        let flushed_through = header.replay_from.transaction;
        Self { header, floors: VecDeque::new(), flushed_through, unfinished }
    }
}
