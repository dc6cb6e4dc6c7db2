//! All matches in an order, without having them all in memory.

use std::sync::Arc;

use storage::Transaction;

use crate::{
    entry_set::EntrySet,
    error::SearchError,
    grouped_walk::GroupedWalk,
    ids::EntryId,
    plan::{Planner, collect},
    query::Query,
    reader::IndexReader,
    search::{Hit, Scoring, bounds_of},
    sort::{FieldOrder, ResolvedBy, ResolvedKey, Sort},
    sorted_walk::WalkedMatches,
};

/// Up to this many matches are sorted in memory. Few in tests, so that both paths are covered.
const AT_ONCE_MAX: u64 = if cfg!(test) { 2 } else { 1 << 16 };
/// Hits that are scored together; each chunk runs the query again.
const CHUNK: usize = if cfg!(test) { 3 } else { 1 << 14 };

impl<'t, T: Transaction> IndexReader<'t, T> {
    /// All matches in an order. When there are many, and the first key is a field or a distance,
    /// memory is one bit per match, plus the largest group of equals when there are more keys.
    /// Sorting by score, randomly or alphanumerically holds all hits in memory.
    pub fn stream_sorted(
        &self,
        query: &Query,
        sort: &Sort,
        scoring: Scoring,
    ) -> Result<SortedStream<'t, T>, SearchError> {
        let mut keys = Vec::with_capacity(sort.len());
        for key in sort {
            keys.push(ResolvedKey::resolve(self, key)?);
        }
        let source = match self.walked_matches(query, &keys)? {
            Some(matches) => {
                let bounds = bounds_of(query, sort);
                let walk = GroupedWalk::new(self, matches, &keys, bounds, u64::MAX)?;
                Some(Walked { walk, query: query.clone(), keys, scoring })
            }
            None => None,
        };
        let ready = match &source {
            Some(_) => Vec::new(),
            None => self.search(query, sort, 0, u64::MAX, scoring)?.rows,
        };
        Ok(SortedStream { reader: self.clone(), source, ready: ready.into_iter() })
    }

    /// The matches, if they are to be walked in the order of the first key.
    fn walked_matches(
        &self,
        query: &Query,
        keys: &[ResolvedKey],
    ) -> Result<Option<WalkedMatches>, SearchError> {
        let is_by_field = match keys.first().map(|key| key.by) {
            Some(ResolvedBy::Field { kind, .. }) => kind != FieldOrder::AlphaNumeric,
            Some(ResolvedBy::Distance { .. }) => true,
            _ => false,
        };
        if !is_by_field || keys.iter().any(|key| key.by == ResolvedBy::Score) {
            return Ok(None);
        }
        let mut cursor = Planner::new(self, false).plan(query)?;
        if cursor.estimate() <= AT_ONCE_MAX {
            return Ok(None);
        }
        if matches!((query, keys[0].by), (Query::All, ResolvedBy::Field { .. })) {
            return Ok(Some(WalkedMatches::All));
        }
        let mut set = EntrySet::new(self.state.next_entry);
        collect(cursor.as_mut(), &mut set, &self.interrupt)?;
        Ok(Some(WalkedMatches::Set(Arc::new(set))))
    }
}

/// See [`IndexReader::stream_sorted`]. Like everything that reads an index, it may be moved to
/// another thread.
pub struct SortedStream<'t, T> {
    reader: IndexReader<'t, T>,
    /// Where more hits come from.
    source: Option<Walked<'t, T>>,
    /// Hits that were found.
    ready: std::vec::IntoIter<Hit>,
}

struct Walked<'t, T> {
    walk: GroupedWalk<'t, T>,
    query: Query,
    keys: Vec<ResolvedKey>,
    scoring: Scoring,
}

impl<'t, T: Transaction> Walked<'t, T> {
    /// The next hits; none at the end.
    fn chunk(&mut self, reader: &IndexReader<'t, T>) -> Result<Vec<Hit>, SearchError> {
        let mut hits = Vec::new();
        while hits.len() < CHUNK
            && let Some(entry) = self.walk.next(reader, &self.keys)?
        {
            reader.interrupt.check()?;
            hits.push(Hit { entry: EntryId(entry), score: 1.0 });
        }
        if self.scoring == Scoring::On {
            reader.score(&self.query, &mut hits)?;
        }
        Ok(hits)
    }
}

impl<T: Transaction> Iterator for SortedStream<'_, T> {
    type Item = Result<Hit, SearchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(hit) = self.ready.next() {
            return Some(Ok(hit));
        }
        match self.source.as_mut()?.chunk(&self.reader) {
            Ok(hits) => {
                self.ready = hits.into_iter();
                self.ready.next().map(Ok)
            }
            Err(error) => {
                self.source = None;
                Some(Err(error))
            }
        }
    }
}
