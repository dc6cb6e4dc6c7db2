//! Facets: how the matches of a query spread over the terms of a field, or over other queries.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Bound,
};

use storage::{StorageError, Transaction, WorkingMemory};

use crate::{
    entry_set::EntrySet,
    error::SearchError,
    ids::{EntryId, FieldId},
    plan::{Planner, collect},
    postings::PostingList,
    query::Query,
    reader::IndexReader,
    search::RECORD_COST,
    term::{self, TermKind, TermValue},
};

/// Terms in the answer of one facet, at most.
pub const FACET_TERMS_MAX: usize = 1_000_000;

/// What an entry takes in a column of numbers while that is built.
const COLUMN_ENTRY_BYTES: u64 = 32;
/// What the allocator adds to a text.
const ALLOCATION_BYTES: usize = 16;

/// The matches of a query, as a set.
#[derive(Clone)]
pub struct Matches {
    set: EntrySet,
    /// Whether every entry is one.
    is_all: bool,
}

impl Matches {
    /// How many there are.
    pub fn len(&self) -> u64 {
        self.set.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.set.next_from(0).is_none()
    }

    /// Whether the entry is one.
    pub fn contains(&self, entry: EntryId) -> bool {
        self.set.contains(entry.0)
    }

    /// All of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = EntryId> + '_ {
        self.set.iter().map(EntryId)
    }
}

/// The matches that share a term, or that another query matches too.
#[derive(Clone, Debug, PartialEq)]
pub struct Facet {
    /// Null or a text; `None` for a query's facet.
    pub value: Option<TermValue>,
    /// How many matches it has.
    pub entries: u64,
    /// The numbers of these matches, for each requested field, in that order.
    pub numbers: Vec<NumberSummary>,
}

/// Aggregates of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberSummary {
    /// How many numbers there are.
    pub count: u64,
    /// The sum of all numbers.
    pub sum: f64,
    /// The minimum; infinite when there are no numbers.
    pub min: f64,
    /// The maximum; negative infinity when there are no numbers.
    pub max: f64,
}

impl Default for NumberSummary {
    fn default() -> Self {
        Self { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl NumberSummary {
    fn add(&mut self, number: f64) {
        self.count += 1;
        self.sum += number;
        self.min = self.min.min(number);
        self.max = self.max.max(number);
    }
}

impl<'t, T: Transaction> IndexReader<'t, T> {
    /// The matches of a query, in a bit of memory each.
    pub fn matches(&self, query: &Query) -> Result<Matches, SearchError> {
        let mut set = EntrySet::new(self.state.next_entry);
        let mut cursor = Planner::new(self, false).plan(query)?;
        collect(cursor.as_mut(), &mut set, &self.interrupt)?;
        let is_all = set.len() == self.state.live;
        Ok(Matches { set, is_all })
    }

    /// The matches by the terms of a field: null first, then texts, ascending; those without a
    /// match are left out. An entry counts under each of its terms. `number_fields` are the fields
    /// whose numbers are added up. What is returned is charged to `memory`.
    ///
    /// # Errors
    ///
    /// [`StorageError::NoMemory`] when that is refused; damage; an interruption; too many terms.
    pub fn facet_by_term(
        &self,
        matches: &Matches,
        field: &str,
        number_fields: &[&str],
        memory: &WorkingMemory,
    ) -> Result<Vec<Facet>, SearchError> {
        let Some(field) = self.field(field)? else { return Ok(Vec::new()) };
        let column_bytes = matches.len().saturating_mul(COLUMN_ENTRY_BYTES);
        charge(memory, column_bytes.saturating_mul(number_fields.len() as u64))?;
        let columns = self.columns(matches, number_fields)?;
        let listed = self.list_count(field, TermKind::Exists, &[])?;
        if matches.len().saturating_mul(RECORD_COST) < listed {
            return self.facet_by_record(matches, field, &columns, memory);
        }
        let mut facets = Vec::new();
        if let Some(list) = self.list(field, TermKind::Null, &[])? {
            self.push_facet(&mut facets, matches, &columns, list, || {
                charge(memory, facet_bytes(0, &columns))?;
                Ok(TermValue::Null)
            })?;
        }
        let mut scan = self.scan_terms(field, TermKind::Text, Bound::Unbounded)?;
        while let Some((bytes, list)) = scan.next()? {
            let value = || {
                charge(memory, facet_bytes(bytes.len(), &columns))?;
                Ok(TermValue::Text(term::text_of(bytes)?.to_owned()))
            };
            self.push_facet(&mut facets, matches, &columns, list, value)?;
        }
        Ok(facets)
    }

    /// The same for few matches, by looking at what each of them has.
    fn facet_by_record(
        &self,
        matches: &Matches,
        field: FieldId,
        columns: &[NumberColumn],
        memory: &WorkingMemory,
    ) -> Result<Vec<Facet>, SearchError> {
        // Null sorts before all texts.
        let mut counts: BTreeMap<Option<&'t str>, FacetCount<'_>> = BTreeMap::new();
        for entry in matches.set.iter() {
            self.interrupt.check()?;
            let Some(mut section) = self.record(entry)?.field(field)? else { continue };
            while let Some(term) = section.next_term()? {
                let key = match term.kind {
                    TermKind::Null => None,
                    TermKind::Text => Some(term.text()?),
                    TermKind::Exists
                    | TermKind::Many
                    | TermKind::Long
                    | TermKind::Double
                    | TermKind::Numeric
                    | TermKind::Point
                    | TermKind::Center
                    | TermKind::Cell
                    | TermKind::Shape => continue,
                };
                match counts.entry(key) {
                    Entry::Occupied(count) => count.into_mut().add(entry),
                    Entry::Vacant(place) => {
                        // In the map, and as the facet that it becomes.
                        let text_bytes = key.map_or(0, str::len);
                        charge(memory, 2 * facet_bytes(text_bytes, columns))?;
                        place.insert(FacetCount::new(columns)).add(entry);
                    }
                }
            }
            if FACET_TERMS_MAX < counts.len() {
                return Err(SearchError::TooManyFacetTerms);
            }
        }
        let facet = |(key, count): (Option<&str>, FacetCount<'_>)| {
            let value = key.map_or(TermValue::Null, |text| TermValue::Text(text.to_owned()));
            count.finish(Some(value))
        };
        Ok(counts.into_iter().map(facet).collect())
    }

    /// The matches by other queries, usually ranges: one facet for each, including empty ones.
    pub fn facet_by_query(
        &self,
        matches: &Matches,
        queries: &[Query],
        number_fields: &[&str],
    ) -> Result<Vec<Facet>, SearchError> {
        let columns = self.columns(matches, number_fields)?;
        let mut facets = Vec::with_capacity(queries.len());
        for query in queries {
            let mut count = FacetCount::new(&columns);
            self.matches(query)?
                .set
                .iter()
                .filter(|entry| matches.set.contains(*entry))
                .for_each(|entry| count.add(entry));
            facets.push(count.finish(None));
        }
        Ok(facets)
    }

    fn push_facet(
        &self,
        facets: &mut Vec<Facet>,
        matches: &Matches,
        columns: &[NumberColumn],
        list: PostingList<'t>,
        value: impl FnOnce() -> Result<TermValue, SearchError>,
    ) -> Result<(), SearchError> {
        let mut count = FacetCount::new(columns);
        if matches.is_all && columns.is_empty() {
            count.entries = list.count();
        } else {
            list.for_each_chunk(self.tx, |chunk| {
                let entries = chunk.entries().iter().copied();
                let matching = entries.filter(|entry| matches.set.contains(*entry));
                matching.for_each(|entry| count.add(entry));
            })?;
        }
        if count.entries > 0 {
            if facets.len() == FACET_TERMS_MAX {
                return Err(SearchError::TooManyFacetTerms);
            }
            facets.push(count.finish(Some(value()?)));
        }
        Ok(())
    }

    fn columns(
        &self,
        matches: &Matches,
        fields: &[&str],
    ) -> Result<Vec<NumberColumn>, SearchError> {
        let mut columns = Vec::with_capacity(fields.len());
        for field in fields {
            columns.push(match self.field(field)? {
                Some(field) => self.column(matches, field)?,
                None => NumberColumn::Listed(Vec::new()),
            });
        }
        Ok(columns)
    }

    /// The numbers that matches have in a field: by their records when they are few, else by walking
    /// the field.
    fn column(&self, matches: &Matches, field: FieldId) -> Result<NumberColumn, SearchError> {
        let mut numbers = Vec::new();
        let numeric = self.list_count(field, TermKind::Numeric, &[])?;
        if matches.len().saturating_mul(RECORD_COST) < numeric {
            for entry in matches.set.iter() {
                let Some(mut section) = self.record(entry)?.field(field)? else { continue };
                while let Some(term) = section.next_term()? {
                    if term.kind == TermKind::Double {
                        numbers.push((entry, term::double_of(term.bytes())?));
                    }
                }
            }
            return Ok(NumberColumn::Listed(numbers));
        }
        let mut scan = self.scan_terms(field, TermKind::Double, Bound::Unbounded)?;
        while let Some((bytes, list)) = scan.next()? {
            let number = term::double_of(bytes)?;
            list.for_each_chunk(self.tx, |chunk| {
                let entries = chunk.entries().iter().filter(|entry| matches.set.contains(**entry));
                numbers.extend(entries.map(|entry| (*entry, number)));
            })?;
        }
        Ok(NumberColumn::new(numbers, self.state.next_entry))
    }
}

/// Charges what is about to be allocated.
fn charge(memory: &WorkingMemory, bytes: u64) -> Result<(), SearchError> {
    memory.take(bytes).map_err(|exhausted| StorageError::from(exhausted).into())
}

/// What the facet of a term holds, in a vector that grows.
fn facet_bytes(text_bytes: usize, columns: &[NumberColumn]) -> u64 {
    let numbers = columns.len() * size_of::<(NumbersAhead<'_>, NumberSummary)>();
    (2 * size_of::<Facet>() + text_bytes + ALLOCATION_BYTES + numbers) as u64
}

/// Entries per number up to which a column is stored as an array with a slot for every entry.
const PLACES_PER_NUMBER_MAX: u64 = 4;

/// Numbers of one field.
enum NumberColumn {
    /// With their entries, ascending.
    Listed(Vec<(u64, f64)>),
    /// By entry; NaN marks an entry without a number.
    Placed(Vec<f64>),
}

impl NumberColumn {
    /// A column of these numbers of entries below `limit`.
    fn new(mut numbers: Vec<(u64, f64)>, limit: u64) -> Self {
        let has_places = limit <= PLACES_PER_NUMBER_MAX.saturating_mul(numbers.len() as u64);
        if let Some(placed) = has_places.then(|| Self::placed(&numbers, limit)).flatten() {
            return placed;
        }
        numbers.sort_by_key(|(entry, _)| *entry);
        NumberColumn::Listed(numbers)
    }

    /// `None` when an entry has several numbers.
    fn placed(numbers: &[(u64, f64)], limit: u64) -> Option<Self> {
        let mut places = vec![f64::NAN; limit as usize];
        for (entry, number) in numbers {
            let place = places.get_mut(*entry as usize)?;
            if !place.is_nan() || number.is_nan() {
                return None;
            }
            *place = *number;
        }
        Some(NumberColumn::Placed(places))
    }
}

/// Counts one facet; entries are added in ascending order.
struct FacetCount<'c> {
    entries: u64,
    numbers: Vec<(NumbersAhead<'c>, NumberSummary)>,
}

/// Where the numbers of the next entry are.
enum NumbersAhead<'c> {
    Listed(&'c [(u64, f64)]),
    Placed(&'c [f64]),
}

impl<'c> FacetCount<'c> {
    fn new(columns: &'c [NumberColumn]) -> Self {
        let ahead = |column: &'c NumberColumn| match column {
            NumberColumn::Listed(numbers) => NumbersAhead::Listed(numbers),
            NumberColumn::Placed(places) => NumbersAhead::Placed(places),
        };
        let numbers =
            columns.iter().map(|column| (ahead(column), NumberSummary::default())).collect();
        Self { entries: 0, numbers }
    }

    fn add(&mut self, entry: u64) {
        self.entries += 1;
        for (ahead, summary) in &mut self.numbers {
            match ahead {
                NumbersAhead::Placed(places) => {
                    let number = places.get(entry as usize).filter(|number| !number.is_nan());
                    number.into_iter().for_each(|number| summary.add(*number));
                }
                NumbersAhead::Listed(ahead) => {
                    *ahead = &ahead[ahead.partition_point(|(other, _)| *other < entry)..];
                    while let Some(((other, number), rest)) = ahead.split_first()
                        && *other == entry
                    {
                        summary.add(*number);
                        *ahead = rest;
                    }
                }
            }
        }
    }

    fn finish(self, value: Option<TermValue>) -> Facet {
        let numbers = self.numbers.into_iter().map(|(_, summary)| summary).collect();
        Facet { value, entries: self.entries, numbers }
    }
}
