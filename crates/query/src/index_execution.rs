//! Queries that run on an index: entries in the order of the query, and the documents behind them.
//!
//! Entries come from one snapshot of the index, documents from one of the documents that was taken
//! after it. A document that was deleted in between is left out of its page.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
};

use blittable::Object;
use indexing::{
    AutoIndexDefinition, Index, IndexError, IndexKind, IndexRecord, exact_field_name, is_stored,
    search_field_name, static_field_options, time_field_name,
};
use model::DocumentId;
use rql::Query;
use search::{
    EntryId, FieldId, FieldOptions, Hit, Hits, IndexReader, Indexing, Scoring, SearchError,
    SortKey, TermValue,
};
use storage::Transaction;
use wire::IndexDefinition;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::entry_rows::FirstOfDocument;
use crate::error::QueryError;
use crate::index_condition::Conditions;
use crate::paging::{PageWindow, Paging, as_long};
use crate::parameters::Asked;
use crate::plan::ShownRows;
use crate::result::{IndexFacts, QueryResult, ResultFacts, Row, RowSource, Rows};
use crate::searched_fields::{ID_FIELD, Look, SearchedFields};
use crate::stored_projection::{ProjectionBehavior, StoredField, is_value};

/// Pages of at most so many rows are found at once; longer ones are walked through.
const PAGE_ROWS_MAX: usize = 4096;
/// Entries whose terms are shown at once.
pub const ENTRIES_MAX: u64 = 4096;
/// Documents that one part of `intersect()` may choose in an index with several entries of one.
const INTERSECTED_DOCUMENTS_MAX: usize = 1 << 20;
/// What clients know `null` by among terms.
const NULL_TERM: &str = "NULL_VALUE";
/// What clients know the empty text by among terms.
const EMPTY_TERM: &str = "EMPTY_STRING";

/// An index and a moment of it.
pub struct IndexSnapshot<'t, I> {
    /// The index.
    pub index: &'t Index,
    /// What its environment looked like.
    pub tx: &'t I,
    /// Decides the order of `random()`.
    pub seed: u64,
    /// Set when the query is to end without an answer.
    pub stop: Arc<AtomicBool>,
}

/// How the rows of an index are shown, as the request says it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowOptions {
    /// Where projected values come from.
    pub projection: ProjectionBehavior,
    /// Whether a document is shown once for each of its entries.
    pub repeats_documents: bool,
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
    options: RowOptions,
) -> Result<QueryResult<'t, D>, QueryError> {
    let asked = Asked { query, parameters };
    asked.refuse_unanswered_clauses()?;
    let reader = IndexReader::open(snapshot.tx)?.interruptible(Arc::clone(&snapshot.stop));
    let index = snapshot.index;
    let record = index.record_in(snapshot.tx).map_err(unreadable)?;
    let fields = FieldsOfIndex::of(index, &reader, &record);
    let condition = asked.index_condition(&fields)?;
    let order = asked.index_order(&fields, snapshot.seed)?;
    let mut shown = asked.shown_rows(paging)?;
    let stored = match &mut shown.projection {
        None => Vec::new(),
        Some(projection) => {
            let number = |name: &str| fields.stored(name);
            projection.look_in_index(&asked, index.name(), options.projection, &number)?
        }
    };
    let shows_documents = shown.projection.is_none() && !shown.is_script;
    let shows_each_once = 1 < record.outputs_max && shows_documents && !options.repeats_documents;
    let reader = Rc::new(reader);
    let mut rows =
        IndexRows { documents, reader, condition, order, stored, shows_each_once, page: None };
    let total = rows.prepare(&shown)?;
    let facts = facts_of(documents, index, &record, total, !shown.includes.is_empty())?;
    QueryResult::new(documents, Box::new(rows), shown, facts)
}

/// An entry as it is in an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownEntry {
    /// The lower-cased id of its document.
    pub document_id: String,
    /// Fields by name, ascending, and their terms as clients know them.
    pub fields: Vec<(String, Vec<String>)>,
}

/// The entries that a query chooses.
pub struct ShownEntries {
    /// What is told beside them.
    pub facts: ResultFacts,
    /// At most [`ENTRIES_MAX`] of them.
    pub entries: Vec<ShownEntry>,
}

/// Shows the terms of the entries that `query` chooses.
///
/// # Errors
///
/// As [`execute_on_index`].
pub fn entries_of_index<D: Transaction, I: Transaction>(
    documents: &D,
    snapshot: &IndexSnapshot<'_, I>,
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
) -> Result<ShownEntries, QueryError> {
    let asked = Asked { query, parameters };
    asked.refuse_unanswered_clauses()?;
    let reader = IndexReader::open(snapshot.tx)?.interruptible(Arc::clone(&snapshot.stop));
    let index = snapshot.index;
    let record = index.record_in(snapshot.tx).map_err(unreadable)?;
    let fields = FieldsOfIndex::of(index, &reader, &record);
    let condition = asked.index_condition(&fields)?;
    let order = asked.index_order(&fields, snapshot.seed)?;
    let window = PageWindow::of(&asked, paging)?;
    let count = window.page_size.min(ENTRIES_MAX);
    let hits = reader.search(&condition, &order, window.start, count, Scoring::Off)?;
    let names = reader.fields()?.into_iter().map(|field| (field.id, field.name));
    let names: HashMap<_, _> = names.collect();
    let shown = hits.rows.iter().map(|hit| shown_entry(&reader, &names, hit.entry));
    Ok(ShownEntries {
        entries: shown.collect::<Result<_, _>>()?,
        facts: facts_of(documents, index, &record, hits.total, false)?,
    })
}

fn shown_entry<I: Transaction>(
    reader: &IndexReader<'_, I>,
    names: &HashMap<FieldId, String>,
    entry: EntryId,
) -> Result<ShownEntry, QueryError> {
    let gone = SearchError::Corrupt { detail: "a listed entry is not there" };
    let view = reader.entry(entry)?.ok_or(gone)?;
    let text_of = |term: TermValue| match term {
        TermValue::Null => Some(NULL_TERM.to_owned()),
        TermValue::Text(text) if text.is_empty() => Some(EMPTY_TERM.to_owned()),
        TermValue::Text(text) => Some(text),
        TermValue::Long(_) | TermValue::Double(_) => None,
    };
    let mut fields = Vec::new();
    for field in view.fields()? {
        let terms: Vec<_> = field.terms.into_iter().filter_map(text_of).collect();
        if let Some(name) = names.get(&field.field)
            && !terms.is_empty()
        {
            fields.push((name.clone(), terms));
        }
    }
    fields.sort_unstable();
    Ok(ShownEntry { document_id: view.document_id()?.to_owned(), fields })
}

fn unreadable(error: IndexError) -> QueryError {
    match error {
        IndexError::Search(error) => error.into(),
        IndexError::Storage(error) => SearchError::Storage(error).into(),
        IndexError::Documents(error) => error.into(),
        IndexError::Corrupt { detail } => SearchError::Corrupt { detail }.into(),
        other => QueryError::InvalidOperation { message: other.to_string() },
    }
}

fn facts_of<D: Transaction>(
    documents: &D,
    index: &Index,
    record: &IndexRecord,
    total: u64,
    depends_on_all: bool,
) -> Result<ResultFacts, QueryError> {
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
    /// The stored fields behind the projected ones; empty when none is taken from the index.
    stored: Vec<Option<FieldId>>,
    /// Whether further entries of a document are left out.
    shows_each_once: bool,
    page: Option<Page>,
}

/// Rows that are found already.
struct Page {
    first: usize,
    count: usize,
    hits: Vec<Hit>,
    repeated: u64,
}

/// Entries one after the other.
type HitStream<'t> = Box<dyn Iterator<Item = Result<Hit, QueryError>> + 't>;

impl<'t, D: Transaction, I: Transaction> IndexRows<'t, D, I> {
    /// How many entries the query chooses; finds the page on the way when it is a short one.
    fn prepare(&mut self, shown: &ShownRows) -> Result<u64, QueryError> {
        let first = usize::try_from(shown.window.start).unwrap_or(usize::MAX);
        let count = usize::try_from(shown.window.page_size).unwrap_or(usize::MAX);
        if PAGE_ROWS_MAX < count || shown.distinct_projection().is_some() {
            return Ok(self.reader.count(&self.condition)?);
        }
        let (total, hits, repeated) = match self.shows_each_once {
            true => self.find_once(first, count)?,
            false => {
                let Hits { total, rows } = self.find(first, count)?;
                (total, rows, 0)
            }
        };
        self.page = Some(Page { first, count, hits, repeated });
        Ok(total)
    }

    fn find(&self, first: usize, count: usize) -> Result<Hits, QueryError> {
        let (first, count) = (first as u64, count as u64);
        Ok(self.reader.search(&self.condition, &self.order, first, count, Scoring::On)?)
    }

    /// A page of different documents. Looks at more entries until it is full.
    fn find_once(&self, first: usize, count: usize) -> Result<(u64, Vec<Hit>, u64), QueryError> {
        let mut wanted = first.saturating_add(count);
        loop {
            let Hits { total, rows } = self.find(0, wanted)?;
            let is_all = rows.len() < wanted || total <= wanted as u64;
            let mut once = self.once(rows.into_iter().map(Ok), first);
            let hits = once.by_ref().take(count).collect::<Result<Vec<_>, _>>()?;
            if is_all || hits.len() == count {
                return Ok((total, hits, once.repeated()));
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    fn once<E>(&self, hits: E, first: usize) -> FirstOfDocument<'t, Hit, E>
    where
        E: Iterator<Item = Result<Hit, QueryError>>,
    {
        let reader = Rc::clone(&self.reader);
        let document_of =
            move |hit: &Hit| Ok(reader.document_id(hit.entry)?.map(|id| xxh3_128(id.as_bytes())));
        FirstOfDocument::new(hits, first, Box::new(document_of))
    }

    /// All entries from the one at `first`, `count` of them.
    fn hits(&self, first: usize, count: usize) -> Result<HitStream<'t>, QueryError> {
        if self.order.is_empty() {
            let hits = self.reader.stream(&self.condition, Scoring::On)?;
            return Ok(Box::new(hits.skip(first).take(count).map(|hit| Ok(hit?))));
        }
        Ok(Box::new(self.find(first, count)?.rows.into_iter().map(Ok)))
    }
}

impl<'t, D: Transaction, I: Transaction> RowSource<'t> for IndexRows<'t, D, I> {
    fn rows(&self, first: usize, count: usize) -> Result<Rows<'t>, QueryError> {
        let page = self.page.as_ref().filter(|page| (page.first, page.count) == (first, count));
        let hits: HitStream<'t> = match page {
            Some(page) => Box::new(page.hits.clone().into_iter().map(Ok)),
            None if self.shows_each_once => {
                Box::new(self.once(self.hits(0, usize::MAX)?, first).take(count))
            }
            None => self.hits(first, count)?,
        };
        let (documents, reader) = (self.documents, Rc::clone(&self.reader));
        let stored = self.stored.clone();
        Ok(Box::new(
            hits.filter_map(move |hit| row_of(documents, &reader, &stored, hit).transpose()),
        ))
    }

    fn repeated(&self, first: usize, count: usize) -> Result<u64, QueryError> {
        if !self.shows_each_once {
            return Ok(0);
        }
        if let Some(page) = &self.page {
            return Ok(page.repeated);
        }
        let mut once = self.once(self.hits(0, usize::MAX)?, first);
        let mut wanted = count;
        while 0 < wanted && once.next().transpose()?.is_some() {
            wanted -= 1;
        }
        Ok(once.repeated())
    }
}

/// The document behind an entry; `None` when it was deleted after the entry was made.
fn row_of<'t, D: Transaction, I: Transaction>(
    documents: &'t D,
    reader: &IndexReader<'t, I>,
    stored: &[Option<FieldId>],
    hit: Result<Hit, QueryError>,
) -> Result<Option<Row<'t>>, QueryError> {
    let Hit { entry, score } = hit?;
    let Some(id) = reader.document_id(entry)? else { return Ok(None) };
    let Ok(id) = DocumentId::new(id) else { return Ok(None) };
    let Some(document) = documents::get(documents, &id)? else { return Ok(None) };
    let stored = stored_of(reader, entry, stored)?;
    Ok(Some(Row { document, score: Some(score), stored }))
}

fn stored_of<'t, I: Transaction>(
    reader: &IndexReader<'t, I>,
    entry: EntryId,
    fields: &[Option<FieldId>],
) -> Result<Vec<Option<&'t [u8]>>, QueryError> {
    if fields.is_empty() {
        return Ok(Vec::new());
    }
    let Some(values) = reader.stored(entry)? else { return Ok(Vec::new()) };
    let of_one = |field: &Option<FieldId>| match field {
        None => Ok(None),
        Some(field) => Ok(values.get(*field)?.filter(|json| is_value(json))),
    };
    fields.iter().map(of_one).collect()
}

/// The fields of an index that a query runs on.
struct FieldsOfIndex<'t, 'r, I> {
    index: &'t Index,
    kind: Arc<IndexKind>,
    /// Those that are known without a document.
    names: Vec<String>,
    reader: &'r IndexReader<'t, I>,
    /// Whether a document may have several entries.
    has_several_entries: bool,
}

impl<'a> Asked<'a> {
    /// The query of the index that chooses what the condition of the query does.
    fn index_condition(&self, fields: &dyn SearchedFields) -> Result<search::Query, QueryError> {
        match &self.query.condition {
            None => Ok(search::Query::All),
            Some(condition) => Conditions { asked: self, fields }.query(condition, Look::Default),
        }
    }
}

impl<'t, 'r, I: Transaction> FieldsOfIndex<'t, 'r, I> {
    fn of(index: &'t Index, reader: &'r IndexReader<'t, I>, record: &IndexRecord) -> Self {
        let (kind, names) = (index.kind(), index.fields());
        let has_several_entries = 1 < record.outputs_max;
        FieldsOfIndex { index, kind, names, reader, has_several_entries }
    }

    /// The number of a field whose values the index may keep.
    fn stored(&self, name: &str) -> Result<Option<StoredField>, QueryError> {
        let IndexKind::Static(definition) = self.kind.as_ref() else { return Ok(None) };
        let number = self.reader.field(name)?.filter(|_| name != ID_FIELD);
        // What its definition does not say of a field, a map may say of single values.
        let is_declared =
            is_stored(definition, name) || !self.names.iter().any(|known| known == name);
        Ok(number.map(|number| StoredField { number, is_declared }))
    }

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

    fn has_several_entries(&self) -> bool {
        self.has_several_entries
    }

    fn documents_of(&self, query: &search::Query) -> Result<HashSet<String>, QueryError> {
        let mut documents = HashSet::new();
        for hit in self.reader.stream(query, Scoring::Off)? {
            if let Some(id) = self.reader.document_id(hit?.entry)? {
                documents.insert(id.to_owned());
            }
            if INTERSECTED_DOCUMENTS_MAX < documents.len() {
                let message = format!(
                    "A part of intersect() chooses more than {INTERSECTED_DOCUMENTS_MAX} documents"
                );
                return Err(QueryError::InvalidOperation { message });
            }
        }
        Ok(documents)
    }
}
