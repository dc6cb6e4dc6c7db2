//! Queries that run on an index: entries in the order of the query, and the documents behind them.
//!
//! Entries come from one snapshot of the index, documents from one of the documents that was taken
//! after it. A document that was deleted in between is left out of its page.

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
use crate::index_rows::{IndexRows, distances_of};
use crate::paging::{Paging, as_long};
use crate::parameters::Asked;
use crate::projection::Projection;
use crate::result::{IndexFacts, QueryResult, ResultFacts};
use crate::row_notes::RowNotes;
use crate::stored_projection::ProjectionBehavior;

/// An index and a moment of it.
pub struct IndexSnapshot<'t, I> {
    /// The index.
    pub index: &'t Index,
    /// What its environment looked like.
    pub tx: &'t I,
    /// The values of compare exchange; there are none without.
    pub values: Option<&'t DatabaseValues>,
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
    let asked = Asked::new(query, parameters).reading(snapshot.values);
    asked.refuse_unanswered_clauses()?;
    let reader = IndexReader::open(snapshot.tx)?.interruptible(Arc::clone(&snapshot.stop));
    let index = snapshot.index;
    let record = index.record_in(snapshot.tx).map_err(unreadable)?;
    let fields = FieldsOfIndex::of(index, &reader, &record, documents);
    let condition = asked.index_condition(&fields)?;
    let order = asked.index_order(&fields, snapshot.seed)?;
    let mut shown = asked.shown_rows(paging)?;
    let stored = match &mut shown.projection {
        None if shown.is_script => {
            let all_stored = fields.all_stored()?;
            shown.script_fields = asked.script_fields(&all_stored, options.projection)?;
            all_stored.iter().map(|(_, number)| Some(*number)).collect()
        }
        None => Vec::new(),
        Some(projection) if projection.is_all_stored_fields() => {
            let all_stored = fields.all_stored()?;
            *projection = Projection::of_stored(all_stored.iter().map(|(name, _)| name.as_str()));
            let number = |name: &str| fields.stored(name);
            projection.look_in_index(
                &asked,
                index.name(),
                ProjectionBehavior::FromIndex,
                &number,
            )?
        }
        Some(projection) => {
            let number = |name: &str| fields.stored(name);
            if index.shows_results() {
                options.projection.refuse_on_results(&asked)?;
            }
            let numbers =
                projection.look_in_index(&asked, index.name(), options.projection, &number)?;
            // A result is kept in the index.
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
    let mut rows = IndexRows {
        documents,
        reader: Rc::new(reader),
        condition,
        order,
        stored,
        result,
        distances,
        shows_each_once,
        notes,
        page: None,
    };
    let total = rows.prepare(&shown)?;
    let mut facts = facts_of(documents, snapshot, query, &record, total, shown.shows_others())?;
    // Clients leave it out of what they remember an answer by.
    facts.result_etag = facts.result_etag.wrapping_add(options.projection as i64);
    QueryResult::new((documents, snapshot.values), Box::new(rows), shown, facts)
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
            // The entries that are read may be older than what the index has reached meanwhile.
            is_stale: !record.has_reached(last) || !index.has_reached(last),
            timestamp_ticks: record.last_indexing_ticks,
            last_query_ticks: index.last_query_ticks(),
        }),
    })
}
