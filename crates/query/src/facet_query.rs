//! Facet queries: how the entries that a query selects are distributed over the terms of a field or
//! over ranges, with aggregated numbers.
//!
//! The counting is done by `search`; this module produces the protocol's shapes: `null` and the
//! empty string under their names, pages of terms, no numbers that were not requested.

use std::{cell::Cell, collections::HashSet, sync::Arc};

use blittable::Object;
use documents::DocumentRow;
use model::DocumentId;
use rql::Query;
use search::{Facet, IndexReader, Matches, NumberSummary};
use storage::{Transaction, WorkingMemory};

use crate::error::QueryError;
use crate::facet_plan::{
    ALL_RESULTS, Aggregation, FacetBy, FacetOptions, FacetPlanner, PlannedFacet, PlannedRange,
};
use crate::facet_setup::FacetSetup;
use crate::index_execution::{IndexSnapshot, facts_of, unreadable};
use crate::index_fields::FieldsOfIndex;
use crate::parameters::QueryContext;
use crate::planned_include::is_timings;
use crate::result::ResultFacts;
use crate::row_document::{decompressed_bytes, printed_bytes};
use crate::term_text::term_text;

/// Approximate size of a copy of a term: it is copied for each sum.
const TERM_COPY_BYTES: usize = 32;

/// The result of a facet query.
pub struct FacetResult<'t> {
    /// Facts about the result.
    pub facts: ResultFacts,
    /// In the order of the query.
    pub facets: Vec<CountedFacet>,
    /// The documents named by the terms of an included field.
    pub includes: Vec<DocumentRow<'t>>,
}

/// A facet with its counted values, as paged by its options.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedFacet {
    /// The name of the field, or its alias in the query.
    pub name: String,
    /// One for each term or range, and for each field whose numbers are requested.
    pub values: Vec<FacetValue>,
    /// The number of entries with a term after the page.
    pub remaining_hits: u64,
    /// The number of terms after the page.
    pub remaining_terms_count: u64,
    /// Their names, when requested.
    pub remaining_terms: Vec<String>,
    /// The field whose terms are counted.
    field: Option<String>,
}

impl CountedFacet {
    /// The approximate size of its values and terms in memory.
    fn bytes(&self) -> u64 {
        let text_bytes = |text: &String| size_of::<String>() + text.len();
        let values = self.values.iter().map(|value| size_of::<FacetValue>() + value.range.len());
        (values.sum::<usize>() + self.remaining_terms.iter().map(text_bytes).sum::<usize>()) as u64
    }
}

/// The entries of one term or range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FacetValue {
    /// The term or range.
    pub range: String,
    /// The number of entries.
    pub count: u64,
    /// The name of the field that is aggregated.
    pub name: Option<String>,
    /// The average of the numbers, if requested.
    pub average: Option<f64>,
    /// The maximum of the numbers, if requested.
    pub max: Option<f64>,
    /// The minimum of the numbers, if requested.
    pub min: Option<f64>,
    /// The sum of the numbers, if requested.
    pub sum: Option<f64>,
}

/// Counts the facets that `query` requests. What it returns is charged to `memory`, with the bodies of
/// included documents.
///
/// # Errors
///
/// [`QueryError::Memory`] when there is no memory for that; [`QueryError::Invalid`] and its like
/// for what no query may request; [`QueryError::Index`] and [`QueryError::Documents`] when files
/// cannot be read.
pub fn facets_of_index<'t, D: Transaction, I: Transaction>(
    documents: &'t D,
    snapshot: &IndexSnapshot<'_, I>,
    query: &Query,
    parameters: Option<Object<'_>>,
    memory: &WorkingMemory,
) -> Result<FacetResult<'t>, QueryError> {
    let context = QueryContext::new(query, parameters).reading(snapshot.values);
    let reader = IndexReader::open(snapshot.tx)?.interruptible(Arc::clone(&snapshot.stop));
    let index = snapshot.index;
    let record = index.record_in(snapshot.tx).map_err(unreadable)?;
    let fields = FieldsOfIndex::of(index, &reader, &record, documents);
    let has_setup = Cell::new(false);
    let setup = |id: &str| -> Result<Vec<PlannedFacet>, QueryError> {
        has_setup.set(true);
        let found = match DocumentId::new(id) {
            Ok(id) => documents::get(documents, &id)?,
            Err(_) => None,
        };
        let document = found.ok_or_else(|| QueryError::MissingDocument { id: id.to_owned() })?;
        FacetSetup { context: &context, fields: &fields, id }.facets(document.body()?.root())
    };
    let planned = FacetPlanner { context: &context, fields: &fields, setup: &setup }.facets()?;
    let condition = context.index_condition(&fields)?;
    // Facets have no order, but an invalid one is an error nevertheless.
    context.index_order(&fields, snapshot.seed)?;
    let matches = reader.matches(&condition)?;
    let counter = FacetCounter { reader: &reader, matches: &matches, memory };
    let facets = planned.into_iter().map(|facet| counter.count(facet));
    let facets = facets.collect::<Result<Vec<_>, _>>()?;
    let includes = included(documents, &context, &facets, memory)?;
    let depends_on_all = has_setup.get() || !query.include.is_empty();
    let facts = facts_of(documents, snapshot, query, &record, facets.len() as u64, depends_on_all)?;
    Ok(FacetResult { facts, facets, includes })
}

/// The documents whose ids are terms of a facet on an included field. Their bodies are charged.
fn included<'t, D: Transaction>(
    documents: &'t D,
    context: &QueryContext<'_>,
    facets: &[CountedFacet],
    memory: &WorkingMemory,
) -> Result<Vec<DocumentRow<'t>>, QueryError> {
    let (mut rows, mut met) = (Vec::new(), HashSet::new());
    for item in context.query.include.iter().filter(|item| !is_timings(item)) {
        let include = context.include(item, None)?;
        let by_field = facets.iter().filter(|facet| {
            facet.field.as_deref().is_some_and(|field| field == include.path.as_str())
        });
        for value in by_field.flat_map(|facet| &facet.values) {
            // A term that is not a valid id matches no document.
            let Ok(id) = DocumentId::new(value.range.as_str()) else { continue };
            if met.insert(id.clone()) {
                let Some(row) = documents::get(documents, &id)? else { continue };
                // The body becomes part of a response that is buffered as a whole, and grows.
                let printed = {
                    let (_scope, unread) = (memory.scope(), row.unread());
                    memory.take(decompressed_bytes(&unread))?;
                    printed_bytes(&unread.body()?)?
                };
                memory.take(2 * printed)?;
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

struct FacetCounter<'r, 't, I> {
    reader: &'r IndexReader<'t, I>,
    matches: &'r Matches,
    memory: &'r WorkingMemory,
}

impl<I: Transaction> FacetCounter<'_, '_, I> {
    fn count(&self, facet: PlannedFacet) -> Result<CountedFacet, QueryError> {
        let PlannedFacet { name, by, sums } = facet;
        let numbers: Vec<&str> = sums.iter().map(|sums| sums.field.as_str()).collect();
        match by {
            FacetBy::Nothing => {
                let range =
                    PlannedRange { text: ALL_RESULTS.to_owned(), query: search::Query::All };
                let mut counted = self.ranges(name, &[range], &sums, &numbers)?;
                counted.values.retain(|value| 0 < value.count);
                Ok(counted)
            }
            FacetBy::Ranges(ranges) => self.ranges(name, &ranges, &sums, &numbers),
            FacetBy::Terms { field, options } => {
                let counted = {
                    let _scope = self.memory.scope();
                    let facets =
                        self.reader.facet_by_term(self.matches, &field, &numbers, self.memory)?;
                    let of_term = size_of::<(String, Facet)>()
                        + sums.len().max(1) * (size_of::<FacetValue>() + TERM_COPY_BYTES);
                    self.memory.take((facets.len() * of_term) as u64)?;
                    page_of(name, field, facets, &sums, &options)
                };
                self.memory.take(counted.bytes())?;
                Ok(counted)
            }
        }
    }

    fn ranges(
        &self,
        name: String,
        ranges: &[PlannedRange],
        sums: &[Aggregation],
        numbers: &[&str],
    ) -> Result<CountedFacet, QueryError> {
        let queries: Vec<_> = ranges.iter().map(|range| range.query.clone()).collect();
        let facets = self.reader.facet_by_query(self.matches, &queries, numbers)?;
        let mut values = Vec::with_capacity(facets.len());
        for (range, facet) in ranges.iter().zip(&facets) {
            add_values(range.text.clone(), facet, sums, &mut values);
        }
        Ok(CountedFacet {
            name,
            values,
            remaining_hits: 0,
            remaining_terms_count: 0,
            remaining_terms: Vec::new(),
            field: None,
        })
    }
}

/// The requested terms, in the requested order.
fn page_of(
    name: String,
    field: String,
    facets: Vec<Facet>,
    sums: &[Aggregation],
    options: &FacetOptions,
) -> CountedFacet {
    let named = |mut facet: Facet| Some((term_text(facet.value.take()?)?, facet));
    let mut terms: Vec<(String, Facet)> = facets.into_iter().filter_map(named).collect();
    options.order.sort(&mut terms, |(term, facet)| (term.as_str(), facet.entries));
    let end = options.start.saturating_add(options.page_size).min(terms.len());
    let remaining = terms.split_off(end);
    let mut values = Vec::new();
    for (term, facet) in terms.into_iter().skip(options.start) {
        add_values(term, &facet, sums, &mut values);
    }
    let remaining_hits = remaining.iter().map(|(_, facet)| facet.entries).sum();
    let remaining_terms_count = remaining.len() as u64;
    let remaining_terms = match options.names_remaining {
        true => remaining.into_iter().map(|(term, _)| term).collect(),
        false => Vec::new(),
    };
    let field = Some(field);
    CountedFacet { name, values, remaining_hits, remaining_terms_count, remaining_terms, field }
}

/// One value, or one for each field whose numbers are requested.
fn add_values(range: String, facet: &Facet, sums: &[Aggregation], values: &mut Vec<FacetValue>) {
    let plain = FacetValue { range, count: facet.entries, ..Default::default() };
    if sums.is_empty() {
        values.push(plain);
        return;
    }
    for (wanted, numbers) in sums.iter().zip(&facet.numbers) {
        let mut value = FacetValue { name: Some(wanted.name.clone()), ..plain.clone() };
        if 0 < facet.entries {
            let number_if = |is_wanted: bool, number: f64| is_wanted.then_some(number);
            let NumberSummary { count, sum, min, max } = *numbers;
            // Clients expect zero where there is no number.
            let (average, min, max) = match count {
                0 => (0.0, 0.0, 0.0),
                _ => (sum / count as f64, min, max),
            };
            value.average = number_if(wanted.has_average, average);
            value.max = number_if(wanted.has_max, max);
            value.min = number_if(wanted.has_min, min);
            value.sum = number_if(wanted.has_sum, sum);
        }
        values.push(value);
    }
}
