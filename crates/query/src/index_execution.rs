//! Queries that run on an index: entries in the order of the query, and their documents.
//!
//! Entries come from one snapshot of the index, documents from a snapshot taken after it. A
//! document that was deleted in between is missing from its page.

use std::{
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
};

use blittable::Object;
use cluster_state::DatabaseValues;
use indexing::{Index, IndexError, IndexRecord, RESULT_FIELD};
use rql::Query;
use search::{IndexReader, SearchError};
use storage::Transaction;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::QueryError;
use crate::exchange_value::version_of_values;
use crate::index_fields::FieldsOfIndex;
use crate::index_rows::{IndexPlan, IndexRows, Page, distances_of};
use crate::paging::{Paging, as_long};
use crate::parameters::QueryContext;
use crate::planned_source::PlannedSource;
use crate::projection::Projection;
use crate::result::{IndexFacts, QueryResult, ResultFacts};
use crate::row::RowSource;
use crate::row_notes::RowNotes;
use crate::stored_projection::ProjectionBehavior;

/// An index and a snapshot of it.
pub struct IndexSnapshot<'t, I> {
    /// The index whose entries are read.
    pub index: &'t Index,
    /// The snapshot of its environment.
    pub tx: &'t I,
    /// The compare exchange values; `None` for none.
    pub values: Option<&'t DatabaseValues>,
    /// Determines the order of `random()`.
    pub seed: u64,
    /// Set when the query is canceled.
    pub stop: Arc<AtomicBool>,
}

/// How rows from an index are returned, as requested.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowOptions {
    /// Where projected values come from.
    pub projection: ProjectionBehavior,
    /// Whether a document is returned once for each of its entries.
    pub repeats_documents: bool,
}

/// Runs `query` on an index.
///
/// # Errors
///
/// [`QueryError::Invalid`] and its like for what no query may request of this index;
/// [`QueryError::Index`] and [`QueryError::Documents`] when files cannot be read.
pub fn execute_on_index<'t, D: Transaction, I: Transaction>(
    documents: &'t D,
    snapshot: &IndexSnapshot<'t, I>,
    query: &Query,
    parameters: Option<Object<'_>>,
    paging: Paging,
    options: RowOptions,
) -> Result<QueryResult<'t, D>, QueryError> {
    let context = QueryContext::new(query, parameters).reading(snapshot.values);
    context.refuse_unanswered_clauses()?;
    let reader = IndexReader::open(snapshot.tx)?.interruptible(Arc::clone(&snapshot.stop));
    let index = snapshot.index;
    let record = index.record_in(snapshot.tx).map_err(unreadable)?;
    let fields = FieldsOfIndex::of(index, &reader, &record, documents);
    let condition = context.index_condition(&fields)?;
    let order = context.index_order(&fields, snapshot.seed)?;
    let mut shown = context.shown_rows(paging)?;
    let stored = match &mut shown.projection {
        None if shown.is_script => {
            let all_stored = fields.all_stored()?;
            shown.script_fields = context.script_fields(&all_stored, options.projection)?;
            all_stored.iter().map(|(_, number)| Some(*number)).collect()
        }
        None => Vec::new(),
        Some(projection) if projection.is_all_stored_fields() => {
            let all_stored = fields.all_stored()?;
            *projection = Projection::of_stored(all_stored.iter().map(|(name, _)| name.as_str()));
            let number = |name: &str| fields.stored(name);
            projection.look_in_index(
                &context,
                index.name(),
                ProjectionBehavior::FromIndex,
                &number,
            )?
        }
        Some(projection) => {
            let number = |name: &str| fields.stored(name);
            if index.shows_results() {
                options.projection.refuse_on_results(&context)?;
            }
            let numbers =
                projection.look_in_index(&context, index.name(), options.projection, &number)?;
            // A result is stored in the index.
            projection.lookup.in_document |= index.shows_results();
            numbers
        }
    };
    let shows_documents = shown.projection.is_none() && !shown.is_script;
    let has_repetitions = 1 < record.outputs_max && !index.shows_results();
    let shows_each_once = has_repetitions && shows_documents && !options.repeats_documents;
    let result = match index.shows_results() {
        true => reader.field(RESULT_FIELD)?,
        false => None,
    };
    let notes =
        RowNotes::new(&shown.notes, &condition, &|name| fields.highlighted(name), &|name| {
            Ok(fields.stored(name)?.map(|field| field.number))
        })?;
    let distances = distances_of(&reader, &order)?;
    let plan = IndexPlan { condition, order, stored, result, distances, shows_each_once, notes };
    let (reader, plan) = (Rc::new(reader), Arc::new(plan));
    let mut rows = IndexRows { documents, reader, plan, page: None };
    let total = rows.prepare(&shown)?;
    let mut facts = facts_of(documents, snapshot, query, &record, total, shown.shows_others())?;
    // Clients leave it out of what identifies a cached response.
    facts.result_etag = facts.result_etag.wrapping_add(options.projection as i64);
    let planned = PlannedSource::Index(Arc::clone(&rows.plan), rows.page.clone());
    let source = (Box::new(rows) as Box<dyn RowSource<'t> + 't>, planned);
    QueryResult::new((documents, snapshot.values), source, Arc::new(shown), facts)
}

/// The rows of a plan that was made before, and the page that was found, if it was.
pub(crate) fn rows_of_plan<'t, D: Transaction, I: Transaction>(
    documents: &'t D,
    snapshot: &IndexSnapshot<'t, I>,
    plan: &Arc<IndexPlan>,
    page: Option<&Arc<Page>>,
) -> Result<Box<dyn RowSource<'t> + 't>, QueryError> {
    let reader = IndexReader::open(snapshot.tx)?.interruptible(Arc::clone(&snapshot.stop));
    let (reader, plan) = (Rc::new(reader), Arc::clone(plan));
    Ok(Box::new(IndexRows { documents, reader, plan, page: page.cloned() }))
}

pub(crate) fn unreadable(error: IndexError) -> QueryError {
    match error {
        IndexError::Search(error) => error.into(),
        IndexError::Storage(error) => SearchError::Storage(error).into(),
        IndexError::Documents(error) => error.into(),
        IndexError::Values(error) => error.into(),
        IndexError::Corrupt { detail } => SearchError::Corrupt { detail }.into(),
        other => QueryError::InvalidOperation { message: other.to_string() },
    }
}

pub(crate) fn facts_of<D: Transaction, I>(
    documents: &D,
    snapshot: &IndexSnapshot<'_, I>,
    query: &Query,
    record: &IndexRecord,
    total: u64,
    depends_on_all: bool,
) -> Result<ResultFacts, QueryError> {
    let index = snapshot.index;
    let last = index.last_position_in(documents).map_err(unreadable)?;
    let mut seed = index.name().as_bytes().to_vec();
    seed.extend_from_slice(&record.created_ticks.to_le_bytes());
    seed.extend_from_slice(&record.last_etag.to_le_bytes());
    seed.extend_from_slice(&last.etag.0.to_le_bytes());
    if index.reads_values() {
        seed.extend_from_slice(&record.last_value.to_le_bytes());
        seed.extend_from_slice(&last.value.to_le_bytes());
    }
    if depends_on_all {
        seed.extend_from_slice(&documents::progress(documents)?.last_etag.0.to_le_bytes());
    }
    let version = version_of_values(query, snapshot.values)?;
    seed.extend(version.into_iter().flat_map(u64::to_le_bytes));
    Ok(ResultFacts {
        index_name: index.name().to_owned(),
        total_results: as_long(total),
        result_etag: xxh3_64(&seed).cast_signed(),
        index: Some(IndexFacts {
            // The entries in this snapshot may be older than what the index has reached since.
            is_stale: !record.has_reached(last) || !index.has_reached(last),
            timestamp_ticks: record.last_indexing_ticks,
            last_query_ticks: index.last_query_ticks(),
        }),
    })
}
