//! The indexes of a database as operators and clients see them.

use std::sync::Arc;

use database::Database;
use engine::progress_of;
use http::StatusCode;
use indexing::{Index, IndexError, IndexSet, IndexingAction};
use model::{IndexLockMode, IndexPriority, IndexSourceType, IndexState, IndexType, date};
use search::IndexReader;
use serde_json::{Value, json};
use storage::ReadTransaction;
use wire::{
    ErrorKind,
    index_shapes::{IndexStatistics, IndexSummary},
};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    handlers::{
        index_faults::{Known, all_known, errors_of_faulty, known, statistics_of_faulty},
        index_performance::shown_batch,
    },
};

/// The error for an index that does not exist.
pub(crate) fn missing(name: &str) -> ApiError {
    let message = format!("There is no index with '{name}' name.");
    ApiError::new(ErrorKind::IndexDoesNotExist, message)
}

/// The index that the request names.
pub(crate) fn named(call: &Call, name: &str) -> Result<Arc<Index>, ApiError> {
    call.database()?.indexes().get(name).ok_or_else(|| missing(name))
}

/// The indexes that the request names, as far as they exist, or all of them.
pub(crate) fn known_or_all(call: &Call) -> Result<Vec<Arc<Index>>, ApiError> {
    let indexes = call.database()?.indexes();
    let query = call.query();
    let mut names = query.all("name").filter(|name| !name.is_empty()).peekable();
    Ok(match names.peek() {
        None => indexes.all(),
        Some(_) => names.filter_map(|name| indexes.get(name)).collect(),
    })
}

/// A response in the envelope that most routes use.
pub(crate) fn results(call: &Call, results: Vec<Value>) -> Answer {
    let metadata = call.state.debug_metadata();
    Answer::shape(StatusCode::OK, &json!({"@metadata": metadata, "Results": results}))
}

/// `GET /indexes`: definitions, or names.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let indexes = call.database()?.indexes();
    let listed = match query.get("name").filter(|name| !name.is_empty()) {
        Some(name) => match known(indexes, name) {
            Some(index) => vec![index],
            None => return Ok(Answer::empty(StatusCode::NOT_FOUND)),
        },
        None => {
            let start = usize::try_from(query.start()?).unwrap_or(0);
            let count = usize::try_from(query.page_size()?).unwrap_or(0);
            all_known(indexes).into_iter().skip(start).take(count).collect()
        }
    };
    let names_only = query.bool("namesOnly")?.unwrap_or(false);
    let shown = listed.iter().map(|index| match names_only {
        true => json!(index.name()),
        false => wire::index_definition_json(&index.definition()),
    });
    Ok(results(call, shown.collect()))
}

/// `GET /indexes/stats`: of all indexes, or of one.
pub(crate) fn stats(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let listed = match call.query().get("name").filter(|name| !name.is_empty()) {
        Some(name) => match known(database.indexes(), name) {
            Some(index) => vec![index],
            None => return Ok(Answer::empty(StatusCode::NOT_FOUND)),
        },
        None => all_known(database.indexes()),
    };
    let of_one = |index: &Known| match index {
        Known::Open(index) => Ok::<_, ApiError>(statistics_of(database, index)?.to_json()),
        Known::Faulty(faulty) => Ok(statistics_of_faulty(faulty).to_json()),
    };
    let shown: Result<_, _> = listed.iter().map(of_one).collect();
    Ok(results(call, shown?))
}

/// The part of the database's statistics, which are requested continuously, about an index.
pub(crate) fn summary_of(
    documents: &ReadTransaction,
    index: &Index,
) -> Result<IndexSummary, ApiError> {
    let definition = index.shown_definition();
    let last_indexing_ticks = index.record().last_indexing_ticks;
    Ok(IndexSummary {
        name: definition.name,
        is_stale: index.is_stale(documents)?,
        lock_mode: definition.lock_mode.unwrap_or(IndexLockMode::Unlock),
        priority: definition.priority.unwrap_or(IndexPriority::Normal),
        state: index.state(),
        index_type: definition.index_type.unwrap_or(IndexType::Map),
        source_type: definition.source_type.unwrap_or(IndexSourceType::Documents),
        last_indexing_time: (last_indexing_ticks != 0).then(|| date::format(last_indexing_ticks)),
    })
}

/// The statistics of an index.
pub(crate) fn statistics_of(
    database: &Database,
    index: &Index,
) -> Result<IndexStatistics, ApiError> {
    let documents = database.read();
    // Read first: an index that is reported as caught up must show the entries of everything.
    let is_stale = index.is_stale(&documents)?;
    let definition = index.shown_definition();
    let (record, state, rates) = (index.record(), index.state(), index.rates());
    let failed = |error| ApiError::from(IndexError::from(error));
    let tx = index.read();
    let entries = IndexReader::open(&tx).map_err(failed)?.entry_count();
    let time = |ticks: i64| (ticks != 0).then(|| date::format(ticks));
    let files = index.environment().statistics();
    Ok(IndexStatistics {
        name: index.name().to_owned(),
        map_attempts: record.map_attempts,
        map_errors: record.map_errors,
        reduce_attempts: record.reduce_attempts,
        reduce_errors: record.reduce_errors,
        outputs_max: record.outputs_max,
        collections: progress_of(&documents, index)?,
        last_querying_time: time(index.last_query_ticks()),
        last_indexing_time: time(record.last_indexing_ticks),
        created: date::format(record.created_ticks),
        state,
        priority: definition.priority.unwrap_or(IndexPriority::Normal),
        lock_mode: definition.lock_mode.unwrap_or(IndexLockMode::Unlock),
        index_type: definition.index_type.unwrap_or(IndexType::Map),
        source_type: definition.source_type.unwrap_or(IndexSourceType::Documents),
        status: status_of(index),
        is_stale,
        is_invalid: state == IndexState::Error,
        entries,
        errors: index.error_count()?,
        disk_bytes: files.data_file_bytes + files.journal_bytes,
        mapped_per_second: rates.mapped,
        reduced_per_second: rates.reduced,
        last_batch: index.batches().last().map(|batch| shown_batch(index, batch)),
        search_engine: definition.search_engine(),
        output_collection: definition.output_reduce_to_collection,
        output_pattern: definition.pattern_for_output_reduce_to_collection_references,
        references_collection: definition.pattern_references_collection_name,
    })
}

fn status_of(index: &Index) -> &'static str {
    match index.state() {
        IndexState::Disabled => "Disabled",
        _ if index.is_paused() => "Paused",
        IndexState::Error => "Paused",
        IndexState::Normal | IndexState::Idle => "Running",
    }
}

/// `GET /indexes/errors`: of all indexes, or of those named.
pub(crate) fn errors(call: &Call) -> Result<Answer, ApiError> {
    let indexes = call.database()?.indexes();
    let query = call.query();
    let mut names = query.all("name").filter(|name| !name.is_empty()).peekable();
    let listed = match names.peek() {
        None => all_known(indexes),
        Some(_) => names
            .map(|name| known(indexes, name).ok_or_else(|| missing(name)))
            .collect::<Result<_, _>>()?,
    };
    let now_ticks = call.state.engine.clock().now().ticks();
    let of_one = |index: Known| {
        let index = match index {
            Known::Open(index) => index,
            Known::Faulty(faulty) => {
                return Ok::<_, ApiError>(errors_of_faulty(&faulty, now_ticks));
            }
        };
        let errors = index.errors()?;
        let shown: Vec<_> = errors
            .iter()
            .map(|error| {
                json!({
                    "Timestamp": date::format(error.ticks), "Document": error.document,
                    "Action": action_name(error.action), "Error": error.message
                })
            })
            .collect();
        Ok(json!({"Name": index.name(), "Errors": shown}))
    };
    let shown: Result<_, _> = listed.into_iter().map(of_one).collect();
    Ok(results(call, shown?))
}

/// The protocol's name of what an index did when an error occurred.
pub(crate) fn action_name(action: IndexingAction) -> &'static str {
    match action {
        IndexingAction::Map => "Map",
        IndexingAction::Write => "Write",
        IndexingAction::Reduce => "Reduce",
    }
}

/// Whether the indexes of a database run.
pub(crate) fn indexing_status(indexes: &IndexSet) -> &'static str {
    match () {
        () if indexes.is_disabled() => "Disabled",
        () if indexes.is_paused() => "Paused",
        () => "Running",
    }
}

/// `GET /indexes/status`.
pub(crate) fn status(call: &Call) -> Result<Answer, ApiError> {
    let indexes = call.database()?.indexes();
    let status = indexing_status(indexes);
    let of_one = |index: &Known| {
        let status = match index {
            Known::Open(index) => status_of(index),
            Known::Faulty(_) => "Paused",
        };
        json!({"Name": index.name(), "Status": status})
    };
    let listed: Vec<_> = all_known(indexes).iter().map(of_one).collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"Status": status, "Indexes": listed})))
}
