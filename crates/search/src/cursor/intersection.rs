//! Entries that all of several cursors match.

use super::{BoxedCursor, Cursor, END};
use crate::error::SearchError;

pub(crate) struct IntersectionCursor<'c> {
    /// The one with the fewest entries leads.
    cursors: Vec<BoxedCursor<'c>>,
    current: u64,
}

impl<'c> IntersectionCursor<'c> {
    /// At least one cursor.
    pub(crate) fn new(mut cursors: Vec<BoxedCursor<'c>>) -> Result<Self, SearchError> {
        cursors.sort_by_key(|cursor| cursor.estimate());
        let first = cursors.first().map_or(END, |cursor| cursor.current());
        let mut intersection = Self { cursors, current: END };
        intersection.settle(first)?;
        Ok(intersection)
    }

    /// Finds the first common entry at or above `candidate`, the leader's current entry.
    fn settle(&mut self, mut candidate: u64) -> Result<u64, SearchError> {
        let Some((leader, others)) = self.cursors.split_first_mut() else { return Ok(END) };
        'candidates: while candidate != END {
            for other in &mut *others {
                let found = other.seek(candidate)?;
                if found != candidate {
                    candidate = leader.seek(found)?;
                    continue 'candidates;
                }
            }
            break;
        }
        self.current = candidate;
        Ok(candidate)
    }
}

impl Cursor for IntersectionCursor<'_> {
    fn current(&self) -> u64 {
        self.current
    }

    fn advance(&mut self) -> Result<u64, SearchError> {
        if self.current == END {
            return Ok(END);
        }
        let next = self.cursors[0].advance()?;
        self.settle(next)
    }

    fn seek(&mut self, target: u64) -> Result<u64, SearchError> {
        if self.current >= target {
            return Ok(self.current);
        }
        let next = self.cursors[0].seek(target)?;
        self.settle(next)
    }

    fn estimate(&self) -> u64 {
        self.cursors.first().map_or(0, |cursor| cursor.estimate())
    }

    fn score(&mut self) -> Result<f32, SearchError> {
        let mut score = 0.0;
        for cursor in &mut self.cursors {
            score += cursor.score()?;
        }
        Ok(score)
    }
}
