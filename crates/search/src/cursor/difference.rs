//! Entries of one cursor that another does not match.

use super::{BoxedCursor, Cursor, END};
use crate::error::SearchError;

pub(crate) struct DifferenceCursor<'c> {
    from: BoxedCursor<'c>,
    without: BoxedCursor<'c>,
    /// A constant added to the score of every entry.
    bonus: f32,
}

impl<'c> DifferenceCursor<'c> {
    pub(crate) fn new(
        from: BoxedCursor<'c>,
        without: BoxedCursor<'c>,
        bonus: f32,
    ) -> Result<Self, SearchError> {
        let mut difference = Self { from, without, bonus };
        let first = difference.from.current();
        difference.settle(first)?;
        Ok(difference)
    }

    fn settle(&mut self, mut candidate: u64) -> Result<u64, SearchError> {
        while candidate != END && self.without.seek(candidate)? == candidate {
            candidate = self.from.advance()?;
        }
        Ok(candidate)
    }
}

impl Cursor for DifferenceCursor<'_> {
    fn current(&self) -> u64 {
        self.from.current()
    }

    fn advance(&mut self) -> Result<u64, SearchError> {
        let next = self.from.advance()?;
        self.settle(next)
    }

    fn seek(&mut self, target: u64) -> Result<u64, SearchError> {
        if self.current() >= target {
            return Ok(self.current());
        }
        let next = self.from.seek(target)?;
        self.settle(next)
    }

    fn estimate(&self) -> u64 {
        self.from.estimate()
    }

    fn score(&mut self) -> Result<f32, SearchError> {
        Ok(self.from.score()? + self.bonus)
    }
}
