//! Cursors over one posting list, or none.

use storage::Transaction;

use super::{Cursor, END};
use crate::{error::SearchError, postings::ListCursor, scoring::TermScorer};

/// Matches nothing.
pub(crate) struct EmptyCursor;

impl Cursor for EmptyCursor {
    fn current(&self) -> u64 {
        END
    }

    fn advance(&mut self) -> Result<u64, SearchError> {
        Ok(END)
    }

    fn seek(&mut self, _target: u64) -> Result<u64, SearchError> {
        Ok(END)
    }

    fn estimate(&self) -> u64 {
        0
    }

    fn score(&mut self) -> Result<f32, SearchError> {
        Ok(0.0)
    }
}

/// The entries of one term.
pub(crate) struct TermCursor<'c, T> {
    list: ListCursor<'c, T>,
    scorer: TermScorer,
}

impl<'c, T> TermCursor<'c, T> {
    pub(crate) fn new(list: ListCursor<'c, T>, scorer: TermScorer) -> Self {
        Self { list, scorer }
    }
}

impl<T: Transaction> Cursor for TermCursor<'_, T> {
    fn current(&self) -> u64 {
        self.list.current()
    }

    fn advance(&mut self) -> Result<u64, SearchError> {
        self.list.advance()
    }

    fn seek(&mut self, target: u64) -> Result<u64, SearchError> {
        self.list.seek(target)
    }

    fn estimate(&self) -> u64 {
        self.list.count()
    }

    fn score(&mut self) -> Result<f32, SearchError> {
        Ok(self.scorer.score(self.list.weight()))
    }
}
