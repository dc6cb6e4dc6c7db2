//! Running a query: the best few in an order, or all of them one by one.

use std::{cmp::Ordering, sync::Arc};

use storage::Transaction;

use crate::{
    cursor::{BoxedCursor, END},
    distance_walk::DistanceWalk,
    entry_set::EntrySet,
    error::SearchError,
    ids::{EntryId, FieldId},
    plan::{Planner, collect},
    query::Query,
    reader::IndexReader,
    record::RecordReader,
    sort::{FieldOrder, ResolvedBy, ResolvedKey, Sort, SortValue},
    sorted_walk::SortedWalk,
    term::TermKind,
};

/// What looking at an entry's record costs, in terms walked past.
pub(crate) const RECORD_COST: u64 = 6;

/// Whether hits carry scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// They do.
    On,
    /// Every hit's score is 1. An order by score switches scoring on by itself.
    Off,
}

/// A part of the matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Hits {
    /// How many entries match.
    pub total: u64,
    /// The asked-for part of them, in order.
    pub rows: Vec<Hit>,
}

/// A matching entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The entry.
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

    /// The matches from `skip` on in the order asked for, `take` of them at most, and how many there
    /// are altogether.
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
        // Scores that decide nothing are found afterwards, for the hits that are handed out.
        let cursor = Planner::new(self, by_score).plan(query)?;
        let mut hits = match keys[0].by {
            ResolvedBy::Field { field, kind }
                if kind != FieldOrder::AlphaNumeric
                    && !by_score
                    && self.walking_is_cheaper(field, cursor.estimate(), skip, take)? =>
            {
                self.by_walking(cursor, &keys, skip, take)?
            }
            ResolvedBy::Distance { field, .. }
                if !by_score
                    && self.walking_is_cheaper(field, cursor.estimate(), skip, take)? =>
            {
                self.by_walking(cursor, &keys, skip, take)?
            }
            _ => self.by_values(cursor, &keys, skip, take)?,
        };
        if scoring && !by_score {
            self.score(query, &mut hits.rows)?;
        }
        Ok(hits)
    }

    /// All matches in entry order, one by one, in constant memory but for the sets that ranges and
    /// patterns come to.
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

    /// All matches in an order. By one field it takes a bit of memory per match; with more keys also
    /// that of the largest group of equals; by score, randomly or alphanumerically, that of all hits.
    pub fn stream_sorted<'r>(
        &'r self,
        query: &Query,
        sort: &Sort,
    ) -> Result<SortedStream<'r, 't, T>, SearchError> {
        SortedStream::new(self, query, sort)
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
            cursor.advance()?;
            passed += 1;
        }
        let mut rows = Vec::new();
        while (rows.len() as u64) < take && cursor.current() != END {
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

    /// Whether the first few of so many matches are found sooner by walking the field's terms than
    /// by looking at the record of each match.
    fn walking_is_cheaper(
        &self,
        field: FieldId,
        matches: u64,
        skip: u64,
        take: u64,
    ) -> Result<bool, SearchError> {
        let entries = self.list_count(field, TermKind::Exists, &[])?;
        let wanted = skip.saturating_add(take).min(matches);
        let walked = u128::from(wanted) * u128::from(entries) / u128::from(matches.max(1));
        Ok(walked < u128::from(matches) * u128::from(RECORD_COST))
    }

    fn by_walking(
        &self,
        mut cursor: BoxedCursor<'t>,
        keys: &[ResolvedKey],
        skip: u64,
        take: u64,
    ) -> Result<Hits, SearchError> {
        let mut set = EntrySet::new(self.state.next_entry);
        collect(cursor.as_mut(), &mut set, &self.interrupt)?;
        let total = set.len();
        let mut walk = GroupedWalk::new(self, Arc::new(set), keys)?;
        let mut rows = Vec::new();
        let mut passed = 0;
        while (rows.len() as u64) < take
            && let Some(entry) = walk.next(self, keys)?
        {
            self.interrupt.check()?;
            passed += 1;
            if passed > skip {
                rows.push(Hit { entry: EntryId(entry), score: 1.0 });
            }
        }
        Ok(Hits { total, rows })
    }

    /// Gives hits their scores.
    fn score(&self, query: &Query, hits: &mut [Hit]) -> Result<(), SearchError> {
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

/// The hit at the cursor, which is moved on.
fn next_hit(cursor: &mut BoxedCursor<'_>) -> Result<Hit, SearchError> {
    let hit = Hit { entry: EntryId(cursor.current()), score: cursor.score()? };
    cursor.advance()?;
    Ok(hit)
}

/// A hit with its values for the keys.
struct RankedHit<'t> {
    hit: Hit,
    values: Vec<SortValue<'t>>,
}

/// The first few of the hits that are offered, by some keys.
struct BestHits<'r, 't, T> {
    reader: &'r IndexReader<'t, T>,
    keys: &'r [ResolvedKey],
    wanted: usize,
    /// Up to twice as many as wanted; the last `wanted` limit holds once it was cut.
    kept: Vec<RankedHit<'t>>,
    /// Whether `kept[wanted - 1]` is the worst that can still come in.
    is_cut: bool,
}

impl<'r, 't, T: Transaction> BestHits<'r, 't, T> {
    fn new(reader: &'r IndexReader<'t, T>, keys: &'r [ResolvedKey], wanted: usize) -> Self {
        Self { reader, keys, wanted, kept: Vec::new(), is_cut: false }
    }

    fn offer(&mut self, hit: Hit) -> Result<(), SearchError> {
        if self.wanted == 0 {
            return Ok(());
        }
        let mut record: Option<RecordReader<'t>> = None;
        let first = self.keys[0].value(self.reader, hit.entry.0, hit.score, &mut record)?;
        if self.is_cut
            && self.keys[0].compare(&first, &self.kept[self.wanted - 1].values[0]).is_gt()
        {
            return Ok(());
        }
        let mut values = vec![first];
        for key in &self.keys[1..] {
            values.push(key.value(self.reader, hit.entry.0, hit.score, &mut record)?);
        }
        self.kept.push(RankedHit { hit, values });
        if self.kept.len() >= self.wanted.saturating_mul(2).max(self.wanted.saturating_add(64)) {
            self.cut();
        }
        Ok(())
    }

    /// Keeps the best, the worst of them last.
    fn cut(&mut self) {
        let keys = self.keys;
        if self.kept.len() > self.wanted {
            self.kept.select_nth_unstable_by(self.wanted - 1, |left, right| {
                compare_ranked(keys, left, right)
            });
            self.kept.truncate(self.wanted);
            self.is_cut = true;
        }
    }

    fn into_sorted(mut self) -> Vec<Hit> {
        let keys = self.keys;
        self.cut();
        self.kept.sort_unstable_by(|left, right| compare_ranked(keys, left, right));
        self.kept.into_iter().map(|ranked| ranked.hit).collect()
    }
}

fn compare_ranked(keys: &[ResolvedKey], left: &RankedHit<'_>, right: &RankedHit<'_>) -> Ordering {
    let values = left.values.iter().zip(&right.values);
    keys.iter()
        .zip(values)
        .map(|(key, (left, right))| key.compare(left, right))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
        .then(left.hit.entry.cmp(&right.hit.entry))
}

/// A walk by a field.
enum Walk<'r, 't, T> {
    Terms(SortedWalk<'r, 't, T>),
    Distances(DistanceWalk<'r, 't, T>),
}

impl<T: Transaction> Walk<'_, '_, T> {
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
struct GroupedWalk<'r, 't, T> {
    walk: Walk<'r, 't, T>,
    /// Entries of the group that are sorted, the next one last.
    group: Vec<u64>,
    begun: bool,
}

impl<'r, 't, T: Transaction> GroupedWalk<'r, 't, T> {
    fn new(
        reader: &'r IndexReader<'t, T>,
        matches: Arc<EntrySet>,
        keys: &[ResolvedKey],
    ) -> Result<Self, SearchError> {
        let descending = keys[0].descending;
        let walk = match keys[0].by {
            ResolvedBy::Field { field, kind } => {
                Walk::Terms(SortedWalk::new(reader, matches, field, kind, descending)?)
            }
            ResolvedBy::Distance { field, from } => {
                Walk::Distances(DistanceWalk::new(reader, &matches, field, from, descending)?)
            }
            ResolvedBy::Score | ResolvedBy::Random(_) | ResolvedBy::Nothing => {
                unreachable!("only orders by a field are walked")
            }
        };
        Ok(Self { walk, group: Vec::new(), begun: false })
    }

    fn next(
        &mut self,
        reader: &'r IndexReader<'t, T>,
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
        reader: &'r IndexReader<'t, T>,
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

/// All matches in an order; see [`IndexReader::stream_sorted`]. Like everything that reads an index, it
/// may go on in another thread.
pub struct SortedStream<'r, 't, T> {
    reader: &'r IndexReader<'t, T>,
    keys: Vec<ResolvedKey>,
    source: StreamSource<'r, 't, T>,
    total: u64,
}

enum StreamSource<'r, 't, T> {
    Walk(Box<GroupedWalk<'r, 't, T>>),
    Sorted(std::vec::IntoIter<Hit>),
}

impl<'r, 't, T: Transaction> SortedStream<'r, 't, T> {
    fn new(
        reader: &'r IndexReader<'t, T>,
        query: &Query,
        sort: &Sort,
    ) -> Result<Self, SearchError> {
        let mut keys = Vec::with_capacity(sort.len());
        for key in sort {
            keys.push(ResolvedKey::resolve(reader, key)?);
        }
        let by_score = keys.iter().any(|key| key.by == ResolvedBy::Score);
        let walkable =
            matches!(
                keys.first().map(|key| key.by),
                Some(ResolvedBy::Field { kind, .. }) if kind != FieldOrder::AlphaNumeric
            ) || matches!(keys.first().map(|key| key.by), Some(ResolvedBy::Distance { .. }));
        if !walkable || by_score {
            let hits = reader.search(query, sort, 0, u64::MAX, Scoring::Off)?;
            let (total, rows) = (hits.total, hits.rows.into_iter());
            return Ok(Self { reader, keys, source: StreamSource::Sorted(rows), total });
        }
        let mut set = EntrySet::new(reader.state.next_entry);
        let mut cursor = Planner::new(reader, false).plan(query)?;
        collect(cursor.as_mut(), &mut set, &reader.interrupt)?;
        let total = set.len();
        let walk = GroupedWalk::new(reader, Arc::new(set), &keys)?;
        Ok(Self { reader, keys, source: StreamSource::Walk(Box::new(walk)), total })
    }

    /// How many entries match.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl<T: Transaction> Iterator for SortedStream<'_, '_, T> {
    type Item = Result<Hit, SearchError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.source {
            StreamSource::Sorted(rows) => rows.next().map(Ok),
            StreamSource::Walk(walk) => {
                let entry = walk.next(self.reader, &self.keys);
                if entry.is_err() {
                    self.source = StreamSource::Sorted(Vec::new().into_iter());
                }
                entry
                    .transpose()
                    .map(|entry| entry.map(|entry| Hit { entry: EntryId(entry), score: 1.0 }))
            }
        }
    }
}
