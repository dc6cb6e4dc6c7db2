//! A cursor over a set of entries, to which a query over very many terms is resolved.

use std::sync::Arc;

use super::{Cursor, END};
use crate::{entry_set::EntrySet, error::SearchError};

pub(crate) struct SetCursor {
    set: Arc<EntrySet>,
    current: u64,
    estimate: u64,
    score: f32,
}

impl SetCursor {
    pub(crate) fn new(set: Arc<EntrySet>, score: f32) -> Self {
        let (estimate, current) = (set.len(), set.next_from(0).unwrap_or(END));
        Self { set, current, estimate, score }
    }
}

impl Cursor for SetCursor {
    fn current(&self) -> u64 {
        self.current
    }

    fn advance(&mut self) -> Result<u64, SearchError> {
        if self.current != END {
            self.current = self.set.next_from(self.current + 1).unwrap_or(END);
        }
        Ok(self.current)
    }

    fn seek(&mut self, target: u64) -> Result<u64, SearchError> {
        if self.current < target {
            self.current = self.set.next_from(target).unwrap_or(END);
        }
        Ok(self.current)
    }

    fn estimate(&self) -> u64 {
        self.estimate
    }

    fn score(&mut self) -> Result<f32, SearchError> {
        Ok(self.score)
    }
}
