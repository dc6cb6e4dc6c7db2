//! Entries of a cursor that pass a test on each.

use super::{BoxedCursor, Cursor, END};
use crate::error::SearchError;

/// A test on an entry, and the score of those that pass.
pub(crate) trait EntryFilter: Send {
    /// The score of the entry, `None` when it does not pass.
    fn matches(&mut self, entry: u64) -> Result<Option<f32>, SearchError>;
}

pub(crate) struct FilteredCursor<'c, F> {
    candidates: BoxedCursor<'c>,
    filter: F,
    score: f32,
}

impl<'c, F: EntryFilter> FilteredCursor<'c, F> {
    pub(crate) fn new(candidates: BoxedCursor<'c>, filter: F) -> Result<Self, SearchError> {
        let mut filtered = Self { candidates, filter, score: 0.0 };
        let first = filtered.candidates.current();
        filtered.settle(first)?;
        Ok(filtered)
    }

    fn settle(&mut self, mut candidate: u64) -> Result<u64, SearchError> {
        while candidate != END {
            if let Some(score) = self.filter.matches(candidate)? {
                self.score = score;
                break;
            }
            candidate = self.candidates.advance()?;
        }
        Ok(candidate)
    }
}

impl<F: EntryFilter> Cursor for FilteredCursor<'_, F> {
    fn current(&self) -> u64 {
        self.candidates.current()
    }

    fn advance(&mut self) -> Result<u64, SearchError> {
        let next = self.candidates.advance()?;
        self.settle(next)
    }

    fn seek(&mut self, target: u64) -> Result<u64, SearchError> {
        if self.current() >= target {
            return Ok(self.current());
        }
        let next = self.candidates.seek(target)?;
        self.settle(next)
    }

    fn estimate(&self) -> u64 {
        self.candidates.estimate()
    }

    fn score(&mut self) -> Result<f32, SearchError> {
        Ok(self.score)
    }
}
