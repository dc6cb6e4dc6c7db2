//! Running a query: the best few in an order, or all of them one by one.

use std::sync::Arc;

use storage::Transaction;

use crate::{
    best_hits::BestHits,
    cursor::{BoxedCursor, END, SetCursor},
    entry_set::EntrySet,
    error::SearchError,
    grouped_walk::GroupedWalk,
    ids::EntryId,
    plan::{Planner, collect, for_each_in_range},
    query::Query,
    reader::IndexReader,
    sort::{FieldOrder, ResolvedBy, ResolvedKey, Sort, SortBy},
    sorted_walk::WalkedMatches,
    term::TermKind,
    walk_bounds::WalkBounds,
};

/// What looking at an entry's record costs, in terms walked past.
pub(crate) const RECORD_COST: u64 = 6;

/// A walk passes at least this many terms before it is abandoned; few in tests, so that walks end
/// early.
const PATIENCE_MIN: u64 = if cfg!(test) { 1 } else { 64 };

/// Whether hits carry scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// They do.
    On,
    /// Every hit's score is 1. Sorting by score turns scoring on.
    Off,
}

/// A part of the matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Hits {
    /// How many entries match.
    pub total: u64,
    /// The requested page of them, in order.
    pub rows: Vec<Hit>,
}

/// A matching entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The id of the matching entry.
    pub entry: EntryId,
    /// How well it matches.
    pub score: f32,
}

impl<'t, T: Transaction> IndexReader<'t, T> {
    /// How many entries match.
    pub fn count(&self, query: &Query) -> Result<u64, SearchError> {
        if let Some(count) = self.count_at_once(query)? {
            return Ok(count);
        }
        let mut cursor = Planner::new(self, false).plan(query)?;
        self.count_rest(&mut cursor)
    }

    /// The matches from `skip` on in the requested order, at most `take` of them, and the total
    /// number of matches.
    pub fn search(
        &self,
        query: &Query,
        sort: &Sort,
        skip: u64,
        take: u64,
        scoring: Scoring,
    ) -> Result<Hits, SearchError> {
        let mut keys = Vec::with_capacity(sort.len());
        for key in sort {
            keys.push(ResolvedKey::resolve(self, key)?);
        }
        let by_score = keys.iter().any(|key| key.by == ResolvedBy::Score);
        let scoring = scoring == Scoring::On;
        if keys.is_empty() {
            return self.in_entry_order(query, skip, take, scoring);
        }
        // Scores that do not affect the order are computed afterwards, only for the returned hits.
        let mut hits = match keys[0].by {
            ResolvedBy::Field { kind, .. } if kind != FieldOrder::AlphaNumeric && !by_score => {
                self.by_field(query, sort, &keys, skip, take)?
            }
            ResolvedBy::Distance { .. } if !by_score => {
                self.by_field(query, sort, &keys, skip, take)?
            }
            _ => self.by_values(Planner::new(self, by_score).plan(query)?, &keys, skip, take)?,
        };
        if scoring && !by_score {
            self.score(query, &mut hits.rows)?;
        }
        Ok(hits)
    }

    /// All matches in entry order, one by one, in constant memory except for the sets that ranges
    /// and patterns are resolved to.
    pub fn stream(
        &self,
        query: &Query,
        scoring: Scoring,
    ) -> Result<impl Iterator<Item = Result<Hit, SearchError>> + Send + use<'t, T>, SearchError>
    {
        let mut cursor = Planner::new(self, scoring == Scoring::On).plan(query)?;
        let mut failed = false;
        Ok(std::iter::from_fn(move || {
            let entry = cursor.current();
            if entry == END || failed {
                return None;
            }
            let hit = next_hit(&mut cursor);
            failed = hit.is_err();
            Some(hit)
        }))
    }

    fn count_rest(&self, cursor: &mut BoxedCursor<'t>) -> Result<u64, SearchError> {
        let mut count = 0;
        let mut entry = cursor.current();
        while entry != END {
            self.interrupt.check()?;
            count += 1;
            entry = cursor.advance()?;
        }
        Ok(count)
    }

    /// The count of queries that need no walk.
    fn count_at_once(&self, query: &Query) -> Result<Option<u64>, SearchError> {
        Ok(match query {
            Query::All => Some(self.state.live),
            Query::None => Some(0),
            Query::Term { field, value } => match self.field(field)? {
                Some(field) => Some(self.count_of(field, value)?),
                None => Some(0),
            },
            Query::Exists { field } => match self.field(field)? {
                Some(field) => Some(self.list_count(field, TermKind::Exists, &[])?),
                None => Some(0),
            },
            Query::Boost(inner, _) => self.count_at_once(inner)?,
            Query::Not(inner) => {
                self.count_at_once(inner)?.map(|count| self.state.live.saturating_sub(count))
            }
            _ => None,
        })
    }

    fn in_entry_order(
        &self,
        query: &Query,
        skip: u64,
        take: u64,
        scoring: bool,
    ) -> Result<Hits, SearchError> {
        let mut cursor = Planner::new(self, scoring).plan(query)?;
        let mut passed = 0;
        while passed < skip && cursor.current() != END {
            self.interrupt.check()?;
            cursor.advance()?;
            passed += 1;
        }
        let mut rows = Vec::new();
        while (rows.len() as u64) < take && cursor.current() != END {
            self.interrupt.check()?;
            rows.push(next_hit(&mut cursor)?);
        }
        passed += rows.len() as u64;
        let total = match self.count_at_once(query)? {
            Some(total) => total,
            None if cursor.current() == END => passed,
            // Without scores, unions are counted as sets.
            None if scoring => self.count(query)?,
            None => passed + self.count_rest(&mut cursor)?,
        };
        Ok(Hits { total, rows })
    }

    /// In the order of a field first: by walking its terms or places, or by looking at the record of each match.
    fn by_field(
        &self,
        query: &Query,
        sort: &Sort,
        keys: &[ResolvedKey],
        skip: u64,
        take: u64,
    ) -> Result<Hits, SearchError> {
        let bounds = bounds_of(query, sort);
        let (matches, total) = match (query, keys[0].by) {
            (Query::All, ResolvedBy::Field { .. }) => (WalkedMatches::All, self.state.live),
            _ => {
                let all_between = bounds.as_ref().is_some_and(|bounds| bounds.is_whole_query);
                let is_exact = bounds.as_ref().is_some_and(|bounds| bounds.is_exact);
                if all_between
                    && is_exact
                    && let Some(total) = self.range_count(query)?
                {
                    // The walk begins at the range and visits each of its entries once.
                    return self.by_walk(
                        query,
                        keys,
                        (WalkedMatches::All, total),
                        bounds,
                        skip,
                        take,
                    );
                }
                let mut cursor = Planner::new(self, false).plan(query)?;
                if !all_between && !self.walking_is_cheaper(keys, cursor.estimate(), skip, take)? {
                    return self.by_values(cursor, keys, skip, take);
                }
                let mut set = EntrySet::new(self.state.next_entry);
                collect(cursor.as_mut(), &mut set, &self.interrupt)?;
                let total = set.len();
                (WalkedMatches::Set(Arc::new(set)), total)
            }
        };
        self.by_walk(query, keys, (matches, total), bounds, skip, take)
    }

    /// How many entries a range has, where no entry of its field has several values.
    fn range_count(&self, query: &Query) -> Result<Option<u64>, SearchError> {
        let Query::Range { field, range } = query else { return Ok(None) };
        let Some(field) = self.field(field)? else { return Ok(Some(0)) };
        if 0 < self.list_count(field, TermKind::Many, &[])? {
            return Ok(None);
        }
        let mut count = 0;
        for_each_in_range(self, field, range, |list| {
            count += list.count();
            Ok(())
        })?;
        Ok(Some(count))
    }

    /// By walking the terms or places of the first key, or by reading the records of the matches
    /// when that takes too long.
    fn by_walk(
        &self,
        query: &Query,
        keys: &[ResolvedKey],
        (matches, total): (WalkedMatches, u64),
        bounds: Option<WalkBounds>,
        skip: u64,
        take: u64,
    ) -> Result<Hits, SearchError> {
        // All the matches may be at the far end of the field.
        let patience = total.saturating_mul(RECORD_COST).max(PATIENCE_MIN);
        let mut walk = GroupedWalk::new(self, matches.clone(), keys, bounds, patience)?;
        let mut rows = Vec::new();
        let mut passed = 0;
        while (rows.len() as u64) < take && passed < total {
            self.interrupt.check()?;
            let Some(entry) = walk.next(self, keys)? else {
                let cursor = match matches {
                    WalkedMatches::Set(set) => Box::new(SetCursor::new(set, 1.0)),
                    WalkedMatches::All => Planner::new(self, false).plan(query)?,
                };
                return self.by_values(cursor, keys, skip, take);
            };
            passed += 1;
            if passed > skip {
                rows.push(Hit { entry: EntryId(entry), score: 1.0 });
            }
        }
        Ok(Hits { total, rows })
    }

    /// Whether walking the terms of the first key's field is expected to find the first few of
    /// `total` matches sooner than reading the record of each match.
    fn walking_is_cheaper(
        &self,
        keys: &[ResolvedKey],
        matches: u64,
        skip: u64,
        take: u64,
    ) -> Result<bool, SearchError> {
        let (ResolvedBy::Field { field, .. } | ResolvedBy::Distance { field, .. }) = keys[0].by
        else {
            return Ok(false);
        };
        let entries = self.list_count(field, TermKind::Exists, &[])?;
        let wanted = skip.saturating_add(take).min(matches);
        let walked = u128::from(wanted) * u128::from(entries) / u128::from(matches.max(1));
        Ok(walked < u128::from(matches) * u128::from(RECORD_COST))
    }

    /// Computes the scores of hits.
    pub(crate) fn score(&self, query: &Query, hits: &mut [Hit]) -> Result<(), SearchError> {
        if let Some(score) = constant_score(query) {
            hits.iter_mut().for_each(|hit| hit.score = score);
            return Ok(());
        }
        let mut cursor = Planner::new(self, true).plan(query)?;
        let mut ascending: Vec<&mut Hit> = hits.iter_mut().collect();
        ascending.sort_unstable_by_key(|hit| hit.entry);
        for hit in ascending {
            if cursor.seek(hit.entry.0)? == hit.entry.0 {
                hit.score = cursor.score()?;
            }
        }
        Ok(())
    }

    fn by_values(
        &self,
        mut cursor: BoxedCursor<'t>,
        keys: &[ResolvedKey],
        skip: u64,
        take: u64,
    ) -> Result<Hits, SearchError> {
        let wanted = usize::try_from(skip.saturating_add(take)).unwrap_or(usize::MAX);
        let mut best = BestHits::new(self, keys, wanted);
        let mut total = 0;
        while cursor.current() != END {
            self.interrupt.check()?;
            let hit = next_hit(&mut cursor)?;
            total += 1;
            best.offer(hit)?;
        }
        let rows = best.into_sorted().into_iter().skip(skip as usize).collect();
        Ok(Hits { total, rows })
    }
}

/// Where the walk of the first key's field may begin.
pub(crate) fn bounds_of(query: &Query, sort: &Sort) -> Option<WalkBounds> {
    match &sort.first()?.by {
        SortBy::Text(field) => WalkBounds::of(query, field, FieldOrder::Text),
        SortBy::Long(field) => WalkBounds::of(query, field, FieldOrder::Long),
        SortBy::Double(field) => WalkBounds::of(query, field, FieldOrder::Double),
        SortBy::Score | SortBy::AlphaNumeric(_) | SortBy::Random(_) | SortBy::Distance(..) => None,
    }
}

/// The score of every match, when all have the same and it is plain to see.
fn constant_score(query: &Query) -> Option<f32> {
    match query {
        Query::All | Query::Exists { .. } | Query::Range { .. } | Query::Entries(_) => Some(1.0),
        Query::Prefix { .. }
        | Query::Suffix { .. }
        | Query::Contains { .. }
        | Query::Wildcard { .. }
        | Query::Regex { .. }
        | Query::Fuzzy { .. } => Some(1.0),
        Query::Boost(inner, factor) => Some(constant_score(inner)? * factor),
        _ => None,
    }
}

/// The hit at the cursor, which is moved on.
fn next_hit(cursor: &mut BoxedCursor<'_>) -> Result<Hit, SearchError> {
    let hit = Hit { entry: EntryId(cursor.current()), score: cursor.score()? };
    cursor.advance()?;
    Ok(hit)
}
