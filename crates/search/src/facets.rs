//! Facets: how the matches of a query spread over the terms of a field, or over other queries.

use std::ops::Bound;

use storage::Transaction;

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

/// The matches of a query, as a set.
#[derive(Clone)]
pub struct Matches {
    set: EntrySet,
}

impl Matches {
    /// How many there are.
    pub fn len(&self) -> u64 {
        self.set.len()
    }

    /// Whether there is none.
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
    /// The numbers of these matches, for each field asked for, in that order.
    pub numbers: Vec<NumberSummary>,
}

/// What some numbers come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberSummary {
    /// How many numbers there are.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The least; infinite when there is none.
    pub min: f64,
    /// The greatest; negatively infinite when there is none.
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
        Ok(Matches { set })
    }

    /// The matches by the terms of a field: null first, then texts, ascending; those without a match
    /// are left out. An entry counts at each of its terms. `number_fields` are the fields whose numbers
    /// are added up.
    pub fn facet_by_term(
        &self,
        matches: &Matches,
        field: &str,
        number_fields: &[&str],
    ) -> Result<Vec<Facet>, SearchError> {
        let Some(field) = self.field(field)? else { return Ok(Vec::new()) };
        let columns = self.columns(matches, number_fields)?;
        let mut facets = Vec::new();
        if let Some(list) = self.list(field, TermKind::Null, &[])? {
            self.push_facet(&mut facets, matches, &columns, list, || Ok(TermValue::Null))?;
        }
        let mut scan = self.scan_terms(field, TermKind::Text, Bound::Unbounded)?;
        while let Some((bytes, list)) = scan.next()? {
            let value = || Ok(TermValue::Text(term::text_of(bytes)?.to_owned()));
            self.push_facet(&mut facets, matches, &columns, list, value)?;
        }
        Ok(facets)
    }

    /// The matches by other queries, usually ranges: one facet for each, empty ones too.
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
        list.for_each_chunk(self.tx, |chunk| {
            let entries = chunk.entries().iter().copied();
            entries.filter(|entry| matches.set.contains(*entry)).for_each(|entry| count.add(entry));
        })?;
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
                None => NumberColumn::default(),
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
            return Ok(NumberColumn { numbers });
        }
        let mut scan = self.scan_terms(field, TermKind::Double, Bound::Unbounded)?;
        while let Some((bytes, list)) = scan.next()? {
            let number = term::double_of(bytes)?;
            list.for_each_chunk(self.tx, |chunk| {
                let entries = chunk.entries().iter().filter(|entry| matches.set.contains(**entry));
                numbers.extend(entries.map(|entry| (*entry, number)));
            })?;
        }
        numbers.sort_by_key(|(entry, _)| *entry);
        Ok(NumberColumn { numbers })
    }
}

/// Numbers of one field by entry, ascending.
#[derive(Default)]
struct NumberColumn {
    numbers: Vec<(u64, f64)>,
}

/// Counts one facet; entries are added in ascending order.
struct FacetCount<'c> {
    entries: u64,
    /// What of each column lies ahead, and the summary of what was added.
    columns: Vec<(&'c [(u64, f64)], NumberSummary)>,
}

impl<'c> FacetCount<'c> {
    fn new(columns: &'c [NumberColumn]) -> Self {
        let columns =
            columns.iter().map(|column| (&column.numbers[..], NumberSummary::default())).collect();
        Self { entries: 0, columns }
    }

    fn add(&mut self, entry: u64) {
        self.entries += 1;
        for (ahead, summary) in &mut self.columns {
            *ahead = &ahead[ahead.partition_point(|(other, _)| *other < entry)..];
            while let Some(((other, number), rest)) = ahead.split_first()
                && *other == entry
            {
                summary.add(*number);
                *ahead = rest;
            }
        }
    }

    fn finish(self, value: Option<TermValue>) -> Facet {
        let numbers = self.columns.into_iter().map(|(_, summary)| summary).collect();
        Facet { value, entries: self.entries, numbers }
    }
}
