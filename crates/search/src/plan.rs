//! From a query to a cursor.

use std::{borrow::Cow, ops::Bound, sync::Arc};

use storage::Transaction;

use crate::{
    boosts::{self, BoostedCursor},
    cursor::{
        BoxedCursor, Cursor, DifferenceCursor, END, EmptyCursor, FilteredCursor,
        IntersectionCursor, SetCursor, TermCursor, UnionCursor,
    },
    entry_set::EntrySet,
    error::SearchError,
    fields::FieldRecord,
    ids::FieldId,
    interrupt::Interrupt,
    phrase::PhraseFilter,
    postings::PostingList,
    query::{LikeWord, PhraseWord, QUERY_DEPTH_MAX, Query, TermRange},
    reader::IndexReader,
    scoring::{TermScorer, likeness_rarity},
    spatial_search::SpatialSearch,
    term::{self, TermKind, TermValue},
    term_match::{FuzzyText, TermMatcher, TextPattern},
};

/// Alternatives with more entries are turned into a set right away when no scores are requested.
/// Few in tests, so that both paths are covered.
const UNION_ENTRIES_MAX: u64 = if cfg!(test) { 8 } else { 2048 };

/// Compiles queries into cursors.
pub(crate) struct Planner<'r, 't, T> {
    reader: &'r IndexReader<'t, T>,
    /// Whether scores are requested.
    scoring: bool,
}

type Planned<'t> = Result<BoxedCursor<'t>, SearchError>;

impl<'r, 't, T: Transaction> Planner<'r, 't, T> {
    pub(crate) fn new(reader: &'r IndexReader<'t, T>, scoring: bool) -> Self {
        Self { reader, scoring }
    }

    pub(crate) fn plan(&self, query: &Query) -> Planned<'t> {
        self.plan_boosted(query, 1.0)
    }

    /// As [`Planner::plan`], with all scores multiplied.
    pub(crate) fn plan_boosted(&self, query: &Query, boost: f32) -> Planned<'t> {
        self.node(query, boost, 0)
    }

    fn node(&self, query: &Query, boost: f32, depth: usize) -> Planned<'t> {
        if depth > QUERY_DEPTH_MAX {
            return Err(SearchError::QueryTooDeep);
        }
        match query {
            Query::All => self.constant_list(FieldId::ALL_ENTRIES, TermKind::Exists, boost),
            Query::None => Ok(Box::new(EmptyCursor)),
            Query::Exists { field } => match self.reader.field(field)? {
                Some(field) => self.constant_list(field, TermKind::Exists, boost),
                None => Ok(Box::new(EmptyCursor)),
            },
            Query::And(clauses) => self.and(clauses, boost, depth),
            Query::Or(clauses) => self.or(clauses, boost, depth),
            Query::Likeness(words) => self.likeness(words, boost),
            Query::Not(_) => self.and(std::slice::from_ref(query), boost, depth),
            Query::Boost(inner, factor) => self.node(inner, boost * factor, depth + 1),
            Query::Preferring(required, preferred) => {
                self.preferring(required, preferred, boost, depth + 1)
            }
            Query::Entries(entries) => {
                let mut set = EntrySet::new(self.reader.state.next_entry);
                entries.iter().for_each(|entry| set.insert(entry.0));
                let set = Box::new(SetCursor::new(Arc::new(set), boost));
                let all = self.constant_list(FieldId::ALL_ENTRIES, TermKind::Exists, 0.0)?;
                Ok(Box::new(IntersectionCursor::new(vec![set, all])?))
            }
            Query::Term { field, .. }
            | Query::AnyOf { field, .. }
            | Query::AllOf { field, .. }
            | Query::Range { field, .. }
            | Query::Prefix { field, .. }
            | Query::Suffix { field, .. }
            | Query::Contains { field, .. }
            | Query::Wildcard { field, .. }
            | Query::Regex { field, .. }
            | Query::Fuzzy { field, .. }
            | Query::Phrase { field, .. }
            | Query::Spatial { field, .. } => match self.reader.field_record(field)? {
                Some(field) => self.field_node(&field, query, boost),
                None => Ok(Box::new(EmptyCursor)),
            },
        }
    }

    /// A query about one field, which there is.
    fn field_node(&self, field: &FieldRecord, query: &Query, boost: f32) -> Planned<'t> {
        match query {
            Query::Term { value, .. } => self.term(field, value, boost),
            Query::AnyOf { values, .. } => self.any_of(field, values, boost),
            Query::AllOf { values, .. } if values.is_empty() => Ok(Box::new(EmptyCursor)),
            Query::AllOf { values, .. } => {
                let cursors = values
                    .iter()
                    .map(|value| self.constant_term(field.id, value, boost))
                    .collect::<Result<_, _>>()?;
                Ok(Box::new(IntersectionCursor::new(cursors)?))
            }
            Query::Range { range, .. } => self.range(field.id, range, boost),
            Query::Prefix { text, .. } => self.matching(field.id, TextPattern::prefix(text), boost),
            Query::Suffix { text, .. } => self.matching(field.id, TextPattern::suffix(text), boost),
            Query::Contains { text, .. } => {
                self.matching(field.id, TextPattern::contains(text), boost)
            }
            Query::Wildcard { pattern, .. } => {
                self.matching(field.id, TextPattern::wildcard(pattern), boost)
            }
            Query::Regex { pattern, .. } => {
                self.matching(field.id, TextPattern::regex(pattern)?, boost)
            }
            Query::Fuzzy { text, similarity, .. } => {
                self.matched(field.id, FuzzyText::new(text, *similarity), boost)
            }
            Query::Phrase { words, slop, .. } => self.phrase(field, words, *slop, boost),
            Query::Spatial { layout, relation, shape, .. } => {
                let search = SpatialSearch::new(self.reader, field.id, layout, shape);
                Ok(Box::new(SetCursor::new(Arc::new(search.entries(*relation)?), boost)))
            }
            Query::All
            | Query::None
            | Query::Exists { .. }
            | Query::And(_)
            | Query::Or(_)
            | Query::Likeness(_)
            | Query::Not(_)
            | Query::Boost(..)
            | Query::Preferring(..)
            | Query::Entries(_) => unreachable!("only queries of one field get here"),
        }
    }

    /// All entries of a list, with the same score.
    fn constant_list(&self, field: FieldId, kind: TermKind, score: f32) -> Planned<'t> {
        self.constant(field, kind, &[], score)
    }

    fn constant_term(&self, field: FieldId, value: &TermValue, score: f32) -> Planned<'t> {
        let cursor = self.constant(field, value.kind(), &value.bytes(), score)?;
        Ok(self.with_boosts(cursor, field, value.kind()))
    }

    /// Terms and phrases count as much as the values they were indexed from; numbers never do.
    fn with_boosts(
        &self,
        cursor: BoxedCursor<'t>,
        field: FieldId,
        kind: TermKind,
    ) -> BoxedCursor<'t> {
        let may_be_boosted = boosts::counts_for(field, kind) && cursor.current() != END;
        match self.scoring && self.reader.has_boosts && may_be_boosted {
            true => Box::new(BoostedCursor::new(cursor, self.reader.tx, field)),
            false => cursor,
        }
    }

    fn constant(&self, field: FieldId, kind: TermKind, bytes: &[u8], score: f32) -> Planned<'t> {
        match self.reader.list(field, kind, bytes)? {
            Some(list) => {
                let cursor = list.cursor(self.reader.tx)?;
                Ok(Box::new(TermCursor::new(cursor, TermScorer::constant(score))))
            }
            None => Ok(Box::new(EmptyCursor)),
        }
    }

    fn term(&self, field: &FieldRecord, value: &TermValue, boost: f32) -> Planned<'t> {
        let Some(list) = self.reader.list(field.id, value.kind(), &value.bytes())? else {
            return Ok(Box::new(EmptyCursor));
        };
        let scorer = match self.scoring {
            true => self.scorer(field, list.count(), boost)?,
            false => TermScorer::constant(boost),
        };
        let cursor = Box::new(TermCursor::new(list.cursor(self.reader.tx)?, scorer));
        Ok(self.with_boosts(cursor, field.id, value.kind()))
    }

    fn scorer(
        &self,
        field: &FieldRecord,
        matching: u64,
        boost: f32,
    ) -> Result<TermScorer, SearchError> {
        let average = match field.has_words {
            true => {
                let texts = self.reader.list_count(field.id, TermKind::Exists, &[])?;
                field.words as f32 / texts.max(1) as f32
            }
            false => 1.0,
        };
        Ok(TermScorer::new(self.reader.state.live, matching, average, boost))
    }

    fn any_of(&self, field: &FieldRecord, values: &[TermValue], boost: f32) -> Planned<'t> {
        let mut cursors = Vec::with_capacity(values.len());
        for value in values {
            cursors.push(self.constant_term(field.id, value, boost)?);
        }
        self.union(cursors)
    }

    fn union(&self, mut cursors: Vec<BoxedCursor<'t>>) -> Planned<'t> {
        cursors.retain(|cursor| cursor.current() != END);
        match cursors.len() {
            0 => return Ok(Box::new(EmptyCursor)),
            1 => return Ok(cursors.remove(0)),
            _ => {}
        }
        let union = UnionCursor::new(cursors);
        if self.scoring || union.estimate() <= UNION_ENTRIES_MAX {
            return Ok(Box::new(union));
        }
        let mut cursors = union.into_cursors();
        let mut set = EntrySet::new(self.reader.state.next_entry);
        for cursor in &mut cursors {
            collect(cursor.as_mut(), &mut set, &self.reader.interrupt)?;
        }
        Ok(Box::new(SetCursor::new(Arc::new(set), 1.0)))
    }

    /// All clauses; the negated ones are subtracted from the rest.
    fn and(&self, clauses: &[Query], boost: f32, depth: usize) -> Planned<'t> {
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for clause in clauses {
            match clause {
                Query::Not(inner) => unwanted.push(self.node(inner, boost, depth + 1)?),
                other => wanted.push(self.node(other, boost, depth + 1)?),
            }
        }
        if wanted.is_empty() {
            wanted.push(self.constant_list(FieldId::ALL_ENTRIES, TermKind::Exists, 0.0)?);
        }
        let found = match wanted.len() {
            1 => wanted.remove(0),
            _ => Box::new(IntersectionCursor::new(wanted)?),
        };
        if unwanted.is_empty() {
            return Ok(found);
        }
        let bonus = boost * unwanted.len() as f32;
        let unwanted = self.union(unwanted)?;
        Ok(Box::new(DifferenceCursor::new(found, unwanted, bonus)?))
    }

    fn or(&self, clauses: &[Query], boost: f32, depth: usize) -> Planned<'t> {
        let cursors = clauses
            .iter()
            .map(|clause| self.node(clause, boost, depth + 1))
            .collect::<Result<_, _>>()?;
        self.union(cursors)
    }

    /// Words count by the square of their rarity, scaled so that queries of more words score no higher.
    fn likeness(&self, words: &[LikeWord], boost: f32) -> Planned<'t> {
        let (mut found, mut squares) = (Vec::new(), 0.0);
        for word in words {
            let Some(field) = self.reader.field(&word.field)? else { continue };
            let bytes = term::shortened(&word.text);
            let Some(list) = self.reader.list(field, TermKind::Text, bytes.as_bytes())? else {
                continue;
            };
            let rarity = likeness_rarity(self.reader.state.live, list.count());
            squares += (rarity * word.boost).powi(2);
            found.push((field, list, rarity * rarity * word.boost));
        }
        let mut cursors: Vec<BoxedCursor<'t>> = Vec::with_capacity(found.len());
        for (field, list, weight) in found {
            let scorer = TermScorer::likeness(boost * weight / squares.sqrt());
            let cursor = Box::new(TermCursor::new(list.cursor(self.reader.tx)?, scorer));
            cursors.push(self.with_boosts(cursor, field, TermKind::Text));
        }
        match self.scoring {
            true => Ok(Box::new(UnionCursor::new(cursors).by_share_of(words.len()))),
            false => self.union(cursors),
        }
    }

    /// Preferred clauses affect only scores.
    fn preferring(
        &self,
        required: &Query,
        preferred: &[Query],
        boost: f32,
        depth: usize,
    ) -> Planned<'t> {
        let required = self.node(required, boost, depth)?;
        if !self.scoring {
            return Ok(required);
        }
        let mut alternatives =
            vec![self.constant_list(FieldId::ALL_ENTRIES, TermKind::Exists, 0.0)?];
        for query in preferred {
            alternatives.push(self.node(query, boost, depth)?);
        }
        let preferred = self.union(alternatives)?;
        Ok(Box::new(IntersectionCursor::new(vec![required, preferred])?))
    }

    fn range(&self, field: FieldId, range: &TermRange, score: f32) -> Planned<'t> {
        let mut set = EntrySet::new(self.reader.state.next_entry);
        for_each_in_range(self.reader, field, range, |list| {
            list.insert_into(self.reader.tx, &mut set)
        })?;
        Ok(Box::new(SetCursor::new(Arc::new(set), score)))
    }

    /// Entries with a text that matches; any value at all when the pattern matches every text.
    fn matching(&self, field: FieldId, pattern: TextPattern<'_>, score: f32) -> Planned<'t> {
        if pattern.matches_everything() {
            return self.constant_list(field, TermKind::Exists, score);
        }
        self.matched(field, pattern, score)
    }

    fn matched(&self, field: FieldId, mut matcher: impl TermMatcher, score: f32) -> Planned<'t> {
        let mut set = EntrySet::new(self.reader.state.next_entry);
        self.reader.for_each_match(field, &mut matcher, |_, list| {
            list.insert_into(self.reader.tx, &mut set)
        })?;
        Ok(Box::new(SetCursor::new(Arc::new(set), score)))
    }

    fn phrase(
        &self,
        field: &FieldRecord,
        words: &[PhraseWord],
        slop: u32,
        boost: f32,
    ) -> Planned<'t> {
        let mut cursors: Vec<BoxedCursor<'t>> = Vec::new();
        let mut scorer: Option<TermScorer> = None;
        for word in words {
            let bytes = term::shortened(&word.text);
            let Some(list) = self.reader.list(field.id, TermKind::Text, bytes.as_bytes())? else {
                return Ok(Box::new(EmptyCursor));
            };
            let own = self.scorer(field, list.count(), boost)?;
            scorer = Some(scorer.map_or(own, |sum| sum.plus(own)));
            cursors.push(Box::new(TermCursor::new(list.cursor(self.reader.tx)?, own)));
        }
        let Some(scorer) = scorer else { return Ok(Box::new(EmptyCursor)) };
        if words.len() == 1 {
            return Ok(self.with_boosts(cursors.remove(0), field.id, TermKind::Text));
        }
        let candidates = Box::new(IntersectionCursor::new(cursors)?);
        if !field.has_words {
            return Ok(self.with_boosts(candidates, field.id, TermKind::Text));
        }
        let words: Vec<(Cow<'_, str>, u32)> =
            words.iter().map(|word| (term::shortened(&word.text), word.position)).collect();
        let filter = PhraseFilter::new(self.reader.tx, field.id, &words, slop, scorer);
        let found = Box::new(FilteredCursor::new(candidates, filter)?);
        Ok(self.with_boosts(found, field.id, TermKind::Text))
    }
}

/// Puts all entries of a cursor into a set.
pub(crate) fn collect(
    cursor: &mut (impl Cursor + ?Sized),
    set: &mut EntrySet,
    interrupt: &Interrupt,
) -> Result<(), SearchError> {
    let mut entry = cursor.current();
    while entry != END {
        interrupt.check()?;
        set.insert(entry);
        entry = cursor.advance()?;
    }
    Ok(())
}

/// Calls back with the entries of each term in a range, ascending.
pub(crate) fn for_each_in_range<'t, T: Transaction>(
    reader: &IndexReader<'t, T>,
    field: FieldId,
    range: &TermRange,
    mut take: impl FnMut(PostingList<'t>) -> Result<(), SearchError>,
) -> Result<(), SearchError> {
    let (kind, low, high) = range_bytes(range);
    let mut scan = reader.scan_terms(field, kind, term::as_slices(&low))?;
    while let Some((bytes, list)) = scan.next()? {
        let inside = match &high {
            Bound::Included(high) => bytes <= &high[..],
            Bound::Excluded(high) => bytes < &high[..],
            Bound::Unbounded => true,
        };
        if !inside {
            break;
        }
        take(list)?;
    }
    Ok(())
}

type ByteBounds = (TermKind, Bound<Vec<u8>>, Bound<Vec<u8>>);

fn range_bytes(range: &TermRange) -> ByteBounds {
    fn both<V: Clone>(
        kind: TermKind,
        low: &Bound<V>,
        high: &Bound<V>,
        bytes: impl Fn(V) -> Vec<u8>,
    ) -> ByteBounds {
        (kind, low.clone().map(&bytes), high.clone().map(&bytes))
    }
    match range {
        TermRange::Text(low, high) => {
            both(TermKind::Text, low, high, |text| term::shortened(&text).into_owned().into_bytes())
        }
        TermRange::Long(low, high) => {
            both(TermKind::Long, low, high, |value| term::long_bytes(value).to_vec())
        }
        TermRange::Double(low, high) => {
            both(TermKind::Double, low, high, |value| term::double_bytes(value).to_vec())
        }
    }
}
