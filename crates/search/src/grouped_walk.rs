//! Matches in the order of several keys: a walk by the first, with groups of equals sorted by the
//! others.

use storage::Transaction;

use crate::{
    best_hits::BestHits,
    distance_walk::DistanceWalk,
    error::SearchError,
    ids::EntryId,
    reader::IndexReader,
    search::Hit,
    sort::{ResolvedBy, ResolvedKey},
    sorted_walk::{SortedWalk, WalkedMatches},
    walk_bounds::WalkBounds,
};

/// A walk by a field.
enum Walk<'t, T> {
    Terms(SortedWalk<'t, T>),
    Distances(DistanceWalk<'t, T>),
}

impl<T: Transaction> Walk<'_, T> {
    fn next_group(&mut self) -> Result<bool, SearchError> {
        match self {
            Walk::Terms(walk) => walk.next_group(),
            Walk::Distances(walk) => walk.next_group(),
        }
    }

    fn next_entry(&mut self) -> Result<Option<u64>, SearchError> {
        match self {
            Walk::Terms(walk) => walk.next_entry(),
            Walk::Distances(walk) => Ok(walk.next_entry()),
        }
    }
}

/// A walk by the first key; groups of equals are sorted by the others.
pub(crate) struct GroupedWalk<'t, T> {
    walk: Walk<'t, T>,
    /// Entries of the group that are sorted, the next one last.
    group: Vec<u64>,
    begun: bool,
}

impl<'t, T: Transaction> GroupedWalk<'t, T> {
    /// A walk over the matches that ends after `patience` terms, as if there were no more.
    pub(crate) fn new(
        reader: &IndexReader<'t, T>,
        matches: WalkedMatches,
        keys: &[ResolvedKey],
        bounds: Option<WalkBounds>,
        patience: u64,
    ) -> Result<Self, SearchError> {
        let descending = keys[0].descending;
        let walk = match keys[0].by {
            ResolvedBy::Field { field, kind } => {
                let walk = SortedWalk::new(reader, matches, field, kind, descending, bounds)?;
                Walk::Terms(walk.with_patience(patience))
            }
            ResolvedBy::Distance { field, from } => {
                let WalkedMatches::Set(set) = matches else {
                    unreachable!("only the terms of a field are walked without a set")
                };
                Walk::Distances(DistanceWalk::new(reader, &set, field, from, descending)?)
            }
            ResolvedBy::Score | ResolvedBy::Random(_) | ResolvedBy::Nothing => {
                unreachable!("only orders by a field are walked")
            }
        };
        Ok(Self { walk, group: Vec::new(), begun: false })
    }

    /// The next entry.
    pub(crate) fn next(
        &mut self,
        reader: &IndexReader<'t, T>,
        keys: &[ResolvedKey],
    ) -> Result<Option<u64>, SearchError> {
        loop {
            if let Some(entry) = self.group.pop() {
                return Ok(Some(entry));
            }
            if keys.len() == 1
                && self.begun
                && let Some(entry) = self.walk.next_entry()?
            {
                return Ok(Some(entry));
            }
            if !self.walk.next_group()? {
                return Ok(None);
            }
            self.begun = true;
            if keys.len() > 1 {
                self.sort_group(reader, &keys[1..])?;
            }
        }
    }

    fn sort_group(
        &mut self,
        reader: &IndexReader<'t, T>,
        keys: &[ResolvedKey],
    ) -> Result<(), SearchError> {
        let mut best = BestHits::new(reader, keys, usize::MAX);
        while let Some(entry) = self.walk.next_entry()? {
            best.offer(Hit { entry: EntryId(entry), score: 1.0 })?;
        }
        self.group = best.into_sorted().into_iter().map(|hit| hit.entry.0).collect();
        self.group.reverse();
        Ok(())
    }
}
