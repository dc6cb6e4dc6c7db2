//! Queries that run on an index: entries in the order of the query, and the documents behind them.
//!
//! Entries come from one snapshot of the index, documents from one of the documents that was taken
//! after it. A document that was deleted in between is left out of its page.

use std::{rc::Rc, sync::Arc};

use blittable::Object;
use indexing::{
    AutoIndexDefinition, Index, IndexKind, exact_field_name, search_field_name,
    static_field_options, time_field_name,
};
use model::DocumentId;
use rql::Query;
use search::{FieldOptions, Hit, Hits, IndexReader, Indexing, Scoring, SortKey};
use storage::Transaction;
use wire::IndexDefinition;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::QueryError;
use crate::index_condition::Conditions;
use crate::paging::{Paging, as_long};
use crate::parameters::Asked;
use crate::plan::ShownRows;
use crate::result::{IndexFacts, QueryResult, ResultFacts, Row, RowSource, Rows};
use crate::searched_fields::{Look, SearchedFields};

/// Pages of at most so many rows are found at once; longer ones are walked through.
const PAGE_ROWS_MAX: usize = 4096;

/// An index and a moment of it.
pub struct IndexSnapshot<'t, I> {
    /// The index.
    pub index: &'t Index,
    /// What its environment looked like.
    pub tx: &'t I,
    /// Decides the order of `random()`.
    pub seed: u64,
}

/// Answers `query` from an index.
///
/// # Errors
///
/// [`QueryError::Invalid`] and its like for what no query may ask of this index;
/// [`QueryError::Index`] and [`QueryError::Documents`] when files cannot be read.
pub fn execute_on_index<'t, D: Transaction, I: Transaction>(
    documents: &'t D,
    snapshot: &IndexSnapshot<'t, I>,
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
) -> Result<QueryResult<'t, D>, QueryError> {
    let asked = Asked { query, parameters };
    asked.refuse_unanswered_clauses()?;
    let reader = IndexReader::open(snapshot.tx)?;
    let index = snapshot.index;
    let fields =
        FieldsOfIndex { index, kind: index.kind(), names: index.fields(), reader: &reader };
    let conditions = Conditions { asked: &asked, fields: &fields };
    let condition = match &query.condition {
        Some(condition) => conditions.query(condition, Look::Default)?,
        None => search::Query::All,
    };
    let order = asked.index_order(&fields, snapshot.seed)?;
    let shown = asked.shown_rows(paging)?;
    let reader = Rc::new(reader);
    let mut rows = IndexRows { documents, reader, condition, order, page: None };
    let total = rows.prepare(&shown)?;
    let facts = facts_of(documents, snapshot.index, total, !shown.includes.is_empty())?;
    QueryResult::new(documents, Box::new(rows), shown, facts)
}

fn facts_of<D: Transaction>(
    documents: &D,
    index: &Index,
    total: u64,
    depends_on_all: bool,
) -> Result<ResultFacts, QueryError> {
    let record = index.record();
    let is_stale = index.is_stale(documents)?;
    let mut seed = index.name().as_bytes().to_vec();
    seed.extend_from_slice(&record.created_ticks.to_le_bytes());
    seed.extend_from_slice(&record.last_etag.to_le_bytes());
    seed.extend_from_slice(&index.last_etag_in(documents)?.0.to_le_bytes());
    if depends_on_all {
        seed.extend_from_slice(&documents::progress(documents)?.last_etag.0.to_le_bytes());
    }
    Ok(ResultFacts {
        index_name: index.name().to_owned(),
        total_results: as_long(total),
        result_etag: xxh3_64(&seed).cast_signed(),
        index: Some(IndexFacts {
            is_stale,
            timestamp_ticks: record.last_indexing_ticks,
            last_query_ticks: index.last_query_ticks(),
        }),
    })
}

/// The rows of a query on an index.
struct IndexRows<'t, D, I> {
    documents: &'t D,
    reader: Rc<IndexReader<'t, I>>,
    condition: search::Query,
    order: Vec<SortKey>,
    page: Option<Page>,
}

/// Rows that are found already.
struct Page {
    first: usize,
    count: usize,
    hits: Vec<Hit>,
}

impl<'t, D: Transaction, I: Transaction> IndexRows<'t, D, I> {
    /// How many entries the query chooses; finds the page on the way when it is a short one.
    fn prepare(&mut self, shown: &ShownRows) -> Result<u64, QueryError> {
        let first = usize::try_from(shown.window.start).unwrap_or(usize::MAX);
        let count = usize::try_from(shown.window.page_size).unwrap_or(usize::MAX);
        if PAGE_ROWS_MAX < count || shown.distinct_projection().is_some() {
            return Ok(self.reader.count(&self.condition)?);
        }
        let Hits { total, rows: hits } = self.find(first, count)?;
        self.page = Some(Page { first, count, hits });
        Ok(total)
    }

    fn find(&self, first: usize, count: usize) -> Result<Hits, QueryError> {
        let (first, count) = (first as u64, count as u64);
        Ok(self.reader.search(&self.condition, &self.order, first, count, Scoring::On)?)
    }
}

impl<'t, D: Transaction, I: Transaction> RowSource<'t> for IndexRows<'t, D, I> {
    fn rows(&self, first: usize, count: usize) -> Result<Rows<'t>, QueryError> {
        let page = self.page.as_ref().filter(|page| (page.first, page.count) == (first, count));
        let hits: Box<dyn Iterator<Item = Result<Hit, QueryError>> + 't> = match page {
            Some(page) => Box::new(page.hits.clone().into_iter().map(Ok)),
            None if self.order.is_empty() => {
                let hits = self.reader.stream(&self.condition, Scoring::On)?;
                Box::new(hits.skip(first).take(count).map(|hit| Ok(hit?)))
            }
            None => Box::new(self.find(first, count)?.rows.into_iter().map(Ok)),
        };
        let (documents, reader) = (self.documents, Rc::clone(&self.reader));
        Ok(Box::new(hits.filter_map(move |hit| row_of(documents, &reader, hit).transpose())))
    }
}

/// The document behind an entry; `None` when it was deleted after the entry was made.
fn row_of<'t, D: Transaction, I: Transaction>(
    documents: &'t D,
    reader: &IndexReader<'t, I>,
    hit: Result<Hit, QueryError>,
) -> Result<Option<Row<'t>>, QueryError> {
    let Hit { entry, score } = hit?;
    let Some(id) = reader.document_id(entry)? else { return Ok(None) };
    let Ok(id) = DocumentId::new(id) else { return Ok(None) };
    let document = documents::get(documents, &id)?;
    Ok(document.map(|document| Row { document, score: Some(score) }))
}

/// The fields of an index that a query runs on.
struct FieldsOfIndex<'t, 'r, I> {
    index: &'t Index,
    kind: Arc<IndexKind>,
    /// Those that are known without a document.
    names: Vec<String>,
    reader: &'r IndexReader<'t, I>,
}

impl<I: Transaction> FieldsOfIndex<'_, '_, I> {
    fn has_entries(&self, name: &str) -> bool {
        let entries = self.reader.count(&search::Query::exists(name));
        entries.is_ok_and(|entries| 0 < entries)
    }

    /// Whether the field is one that only documents name.
    fn is_made_by_a_document(&self, definition: &IndexDefinition, name: &str) -> bool {
        let is_moments_of_another = name
            .strip_suffix(&time_field_name(""))
            .is_some_and(|field| self.names.iter().any(|known| known == field));
        !is_moments_of_another && (definition.fields.contains_key(name) || self.has_entries(name))
    }
}

fn automatic_options(definition: &AutoIndexDefinition, name: &str) -> Option<FieldOptions> {
    definition.fields().iter().find_map(|field| {
        let plain = field.name();
        let indexing = if name == plain {
            Indexing::Default
        } else if name == search_field_name(&plain) {
            Indexing::Search
        } else if name == exact_field_name(&plain) {
            Indexing::Exact
        } else {
            return None;
        };
        Some(FieldOptions::new(indexing))
    })
}

impl<I: Transaction> SearchedFields for FieldsOfIndex<'_, '_, I> {
    fn is_automatic(&self) -> bool {
        matches!(self.kind.as_ref(), IndexKind::Auto(_))
    }

    fn options(&self, name: &str) -> Option<FieldOptions> {
        let known = match self.kind.as_ref() {
            IndexKind::Auto(definition) => automatic_options(definition, name),
            IndexKind::Static(definition) => {
                let is_known = self.names.iter().any(|known| known == name);
                let options = || static_field_options(definition, name).ok();
                (is_known || self.is_made_by_a_document(definition, name)).then(options).flatten()
            }
        };
        // Fields of moments are there while a document has a date.
        known.or_else(|| self.has_entries(name).then(|| FieldOptions::new(Indexing::Exact)))
    }

    fn index_name(&self) -> &str {
        self.index.name()
    }
}
