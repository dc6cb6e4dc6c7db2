//! Entries that any of several cursors match.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{BoxedCursor, Cursor, END};
use crate::error::SearchError;

pub(crate) struct UnionCursor<'c> {
    cursors: Vec<BoxedCursor<'c>>,
    /// Entry and number of each cursor that is not at its end.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    estimate: u64,
    /// The number of alternatives for a full score; an entry that matches fewer scores
    /// proportionally less.
    wanted: Option<usize>,
}

impl<'c> UnionCursor<'c> {
    pub(crate) fn new(cursors: Vec<BoxedCursor<'c>>) -> Self {
        let heap = cursors
            .iter()
            .enumerate()
            .filter(|(_, cursor)| cursor.current() != END)
            .map(|(number, cursor)| Reverse((cursor.current(), number)))
            .collect();
        let estimate =
            cursors.iter().fold(0u64, |sum, cursor| sum.saturating_add(cursor.estimate()));
        Self { cursors, heap, estimate, wanted: None }
    }

    /// The same, with each score multiplied by the fraction of `wanted` alternatives that the entry
    /// matches.
    pub(crate) fn by_share_of(self, wanted: usize) -> Self {
        Self { wanted: Some(wanted), ..self }
    }

    /// The cursors it was built from.
    pub(crate) fn into_cursors(self) -> Vec<BoxedCursor<'c>> {
        self.cursors
    }

    /// Moves every cursor that is below `target` with `step`.
    fn move_all(
        &mut self,
        target: u64,
        step: impl Fn(&mut BoxedCursor<'c>) -> Result<u64, SearchError>,
    ) -> Result<u64, SearchError> {
        while let Some(mut top) = self.heap.peek_mut() {
            let Reverse((entry, number)) = *top;
            if entry >= target {
                return Ok(entry);
            }
            match step(&mut self.cursors[number])? {
                END => drop(std::collections::binary_heap::PeekMut::pop(top)),
                next => *top = Reverse((next, number)),
            }
        }
        Ok(END)
    }
}

impl Cursor for UnionCursor<'_> {
    fn current(&self) -> u64 {
        self.heap.peek().map_or(END, |Reverse((entry, _))| *entry)
    }

    fn advance(&mut self) -> Result<u64, SearchError> {
        match self.current() {
            END => Ok(END),
            current => self.move_all(current + 1, |cursor| cursor.advance()),
        }
    }

    fn seek(&mut self, target: u64) -> Result<u64, SearchError> {
        self.move_all(target, |cursor| cursor.seek(target))
    }

    fn estimate(&self) -> u64 {
        self.estimate
    }

    fn score(&mut self) -> Result<f32, SearchError> {
        let current = self.current();
        let (mut score, mut matching) = (0.0, 0);
        if current != END {
            for cursor in &mut self.cursors {
                if cursor.current() == current {
                    score += cursor.score()?;
                    matching += 1;
                }
            }
        }
        Ok(match self.wanted {
            Some(wanted) => score * matching as f32 / wanted as f32,
            None => score,
        })
    }
}
