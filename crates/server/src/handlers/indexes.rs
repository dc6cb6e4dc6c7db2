//! What an operator and the clients see of the indexes of a database.

use std::sync::Arc;

use database::Database;
use documents::CollectionStatistics;
use http::StatusCode;
use indexing::{BatchFacts, Index, IndexError, IndexingAction};
use model::{CollectionName, Etag, date};
use platform::Timestamp;
use search::{IndexReader, TermValue};
use serde_json::{Value, json};
use storage::{ReadTransaction, Transaction};
use wire::{
    ErrorKind, IndexState, ProtocolError,
    index_performance::IndexBatch,
    index_shapes::{CollectionProgress, IndexStatistics, IndexSummary},
};

use crate::{answer::Answer, call::Call, error_mapping::document_error, index_choice::index_error};

/// Terms that are given at once when nobody says how many.
const TERMS_MAX: usize = 1024;
const ALL_DOCUMENTS: &str = "@all_docs";

/// The refusal of who names an index that there is not.
pub(crate) fn missing(name: &str) -> ProtocolError {
    let message = format!("There is no index with '{name}' name.");
    ProtocolError::new(ErrorKind::IndexDoesNotExist, message)
}

/// The index that the request names.
pub(crate) fn named(call: &Call, name: &str) -> Result<Arc<Index>, ProtocolError> {
    call.database()?.indexes().get(name).ok_or_else(|| missing(name))
}

/// The indexes that the request names, or all of them.
fn named_or_all(call: &Call) -> Result<Vec<Arc<Index>>, ProtocolError> {
    let query = call.query();
    let mut names = query.all("name").filter(|name| !name.is_empty()).peekable();
    match names.peek() {
        None => Ok(call.database()?.indexes().all()),
        Some(_) => names.map(|name| named(call, name)).collect(),
    }
}

/// The indexes that the request names, as far as there are such, or all of them.
fn known_or_all(call: &Call) -> Result<Vec<Arc<Index>>, ProtocolError> {
    let indexes = call.database()?.indexes();
    let query = call.query();
    let mut names = query.all("name").filter(|name| !name.is_empty()).peekable();
    Ok(match names.peek() {
        None => indexes.all(),
        Some(_) => names.filter_map(|name| indexes.get(name)).collect(),
    })
}

fn results(call: &Call, results: Vec<Value>) -> Answer {
    let metadata = call.state.debug_metadata();
    Answer::shape(StatusCode::OK, &json!({"@metadata": metadata, "Results": results}))
}

/// `GET /indexes`: definitions, or names.
pub(crate) fn list(call: &Call) -> Result<Answer, ProtocolError> {
    let query = call.query();
    let indexes = call.database()?.indexes();
    let listed = match query.get("name").filter(|name| !name.is_empty()) {
        Some(name) => match indexes.get(name) {
            Some(index) => vec![index],
            None => return Ok(Answer::empty(StatusCode::NOT_FOUND)),
        },
        None => {
            let start = usize::try_from(query.start()?).unwrap_or(0);
            let count = usize::try_from(query.page_size()?).unwrap_or(0);
            indexes.all().into_iter().skip(start).take(count).collect()
        }
    };
    let names_only = query.bool("namesOnly")?.unwrap_or(false);
    let shown = listed.iter().map(|index| match names_only {
        true => json!(index.name()),
        false => json!(index.shown_definition()),
    });
    Ok(results(call, shown.collect()))
}

/// `GET /indexes/stats`: of all, or of one.
pub(crate) fn stats(call: &Call) -> Result<Answer, ProtocolError> {
    let database = call.database()?;
    let listed = match call.query().get("name").filter(|name| !name.is_empty()) {
        Some(name) => match database.indexes().get(name) {
            Some(index) => vec![index],
            None => return Ok(Answer::empty(StatusCode::NOT_FOUND)),
        },
        None => database.indexes().all(),
    };
    let shown: Result<_, _> =
        listed.iter().map(|index| Ok(statistics_of(database, index)?.to_json())).collect();
    Ok(results(call, shown?))
}

/// What the statistics of a database, which are asked for all the time, tell of an index.
pub(crate) fn summary_of(
    documents: &ReadTransaction,
    index: &Index,
) -> Result<IndexSummary, ProtocolError> {
    let definition = index.shown_definition();
    let last_indexing_ticks = index.record().last_indexing_ticks;
    Ok(IndexSummary {
        name: definition.name,
        is_stale: index.is_stale(documents).map_err(|error| document_error(&error))?,
        lock_mode: definition.lock_mode.unwrap_or(wire::IndexLockMode::Unlock),
        priority: definition.priority.unwrap_or(wire::IndexPriority::Normal),
        state: index.state(),
        index_type: definition.index_type.unwrap_or(wire::IndexType::Map),
        source_type: definition.source_type.unwrap_or(wire::IndexSourceType::Documents),
        last_indexing_time: (last_indexing_ticks != 0).then(|| date::format(last_indexing_ticks)),
    })
}

/// What is told of an index.
pub(crate) fn statistics_of(
    database: &Database,
    index: &Index,
) -> Result<IndexStatistics, ProtocolError> {
    let documents = database.read();
    // Asked first: an index that is told to have everything shows the entries of everything.
    let is_stale = index.is_stale(&documents).map_err(|error| document_error(&error))?;
    let definition = index.shown_definition();
    let (record, state) = (index.record(), index.state());
    let failed = |error| index_error(&IndexError::from(error));
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
        priority: definition.priority.unwrap_or(wire::IndexPriority::Normal),
        lock_mode: definition.lock_mode.unwrap_or(wire::IndexLockMode::Unlock),
        index_type: definition.index_type.unwrap_or(wire::IndexType::Map),
        source_type: definition.source_type.unwrap_or(wire::IndexSourceType::Documents),
        status: status_of(index),
        is_stale,
        is_invalid: state == IndexState::Error,
        entries,
        errors: index.error_count().map_err(|error| index_error(&error))?,
        disk_bytes: files.data_file_bytes + files.journal_bytes,
        mapped_per_second: index.mapped_per_second(),
        last_batch: index.batches().last().map(shown_batch),
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

fn progress_of(
    documents: &ReadTransaction,
    index: &Index,
) -> Result<Vec<CollectionProgress>, ProtocolError> {
    let failed = |error| document_error(&error);
    let progress = index.progress();
    let of_log = |collection: String, last: Etag, lag: u64| CollectionProgress {
        collection,
        last_etag: progress.min(last).0,
        lag,
    };
    if index.collections().is_empty() {
        let last = documents::progress(documents).map_err(failed)?.last_etag;
        let lag = lag_of(documents, None, progress, last)?;
        return Ok(vec![of_log(ALL_DOCUMENTS.to_owned(), last, lag)]);
    }
    let of_one = |name: &CollectionName| {
        let last = documents::last_etag_of_collection(documents, name).map_err(failed)?;
        let known: Option<CollectionStatistics> =
            documents::collection(documents, name).map_err(failed)?;
        let shown = known.map_or_else(|| name.clone(), |known| known.name);
        let lag = lag_of(documents, Some(name), progress, last)?;
        Ok(of_log(shown.as_str().to_owned(), last, lag))
    };
    index.collections().iter().map(of_one).collect()
}

/// Changes that are not indexed yet, counted up to [`LAG_COUNTED_MAX`].
fn lag_of(
    documents: &ReadTransaction,
    collection: Option<&CollectionName>,
    progress: Etag,
    last: Etag,
) -> Result<u64, ProtocolError> {
    /// Some 2,000 pages.
    const LAG_COUNTED_MAX: u64 = 1_000_000;
    if last <= progress {
        return Ok(0);
    }
    let counted = documents::changes_after(documents, collection, progress, LAG_COUNTED_MAX);
    counted.map_err(|error| document_error(&error))
}

/// `GET /indexes/errors`: of all, or of those that are named.
pub(crate) fn errors(call: &Call) -> Result<Answer, ProtocolError> {
    let of_one = |index: Arc<Index>| {
        let errors = index.errors().map_err(|error| index_error(&error))?;
        let shown: Vec<_> = errors
            .iter()
            .map(|error| {
                let action = match error.action {
                    IndexingAction::Map => "Map",
                    IndexingAction::Write => "Write",
                    IndexingAction::Reduce => "Reduce",
                };
                json!({
                    "Timestamp": date::format(error.ticks), "Document": error.document,
                    "Action": action, "Error": error.message
                })
            })
            .collect();
        Ok(json!({"Name": index.name(), "Errors": shown}))
    };
    let shown: Result<_, _> = named_or_all(call)?.into_iter().map(of_one).collect();
    Ok(results(call, shown?))
}

/// `GET /indexes/performance`: the last batches. Names of indexes that there are not are left out.
pub(crate) fn performance(call: &Call) -> Result<Answer, ProtocolError> {
    let of_one = |index: Arc<Index>| {
        let batches = index.batches();
        let shown: Vec<_> = batches.iter().map(|batch| shown_batch(batch).to_json()).collect();
        json!({"Name": index.name(), "Performance": shown})
    };
    Ok(results(call, known_or_all(call)?.into_iter().map(of_one).collect()))
}

fn shown_batch(batch: &BatchFacts) -> IndexBatch {
    let completed = Timestamp::from_ticks(batch.started_ticks).plus(batch.time());
    IndexBatch {
        number: batch.number,
        started: date::format(batch.started_ticks),
        completed: date::format(completed.ticks()),
        map_time: batch.map_time,
        commit_time: batch.commit_time,
        inputs: batch.mapped,
        failed: batch.failed,
        outputs: batch.entries,
        has_more: batch.has_more,
    }
}

/// `GET /indexes/progress`: of those that are stale.
pub(crate) fn progress(call: &Call) -> Result<Answer, ProtocolError> {
    let database = call.database()?;
    let mut shown = Vec::new();
    for index in database.indexes().all() {
        let statistics = statistics_of(database, &index)?;
        if statistics.is_stale {
            shown.push(statistics.to_progress_json());
        }
    }
    Ok(Answer::shape(StatusCode::OK, &json!({"Results": shown})))
}

/// `GET /indexes/status`.
pub(crate) fn status(call: &Call) -> Result<Answer, ProtocolError> {
    let indexes = call.database()?.indexes();
    let status = if indexes.is_paused() { "Paused" } else { "Running" };
    let of_one = |index: &Arc<Index>| json!({"Name": index.name(), "Status": status_of(index)});
    let listed: Vec<_> = indexes.all().iter().map(of_one).collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"Status": status, "Indexes": listed})))
}

/// `GET /indexes/staleness`.
pub(crate) fn staleness(call: &Call) -> Result<Answer, ProtocolError> {
    let query = call.query();
    let index = named(call, query.single_non_empty("name")?)?;
    let reasons = staleness_reasons(&call.database()?.read(), &index)?;
    let shape = json!({"IsStale": !reasons.is_empty(), "StalenessReasons": reasons});
    Ok(Answer::shape(StatusCode::OK, &shape))
}

fn staleness_reasons(
    documents: &ReadTransaction,
    index: &Index,
) -> Result<Vec<String>, ProtocolError> {
    let behind = progress_of(documents, index)?.into_iter().filter(|progress| 0 < progress.lag);
    let of_one = |progress: CollectionProgress| {
        let last = match CollectionName::new(progress.collection.as_str()) {
            Ok(name) if progress.collection != ALL_DOCUMENTS => {
                documents::last_etag_of_collection(documents, &name)
            }
            _ => documents::progress(documents).map(|progress| progress.last_etag),
        };
        let last = last.map_err(|error| document_error(&error))?.0;
        let newest = newest_of(documents, &progress.collection, last)?;
        let CollectionProgress { collection, last_etag, .. } = progress;
        Ok(format!(
            "There are still some documents to process from collection '{collection}'. The last \
             Document etag in that collection is '{last}'{newest}, but last committed document etag for \
             that collection is '{last_etag}'"
        ))
    };
    behind.map(of_one).collect()
}

/// Which document the last change of a collection was; empty when it was a deletion.
fn newest_of(
    documents: &ReadTransaction,
    collection: &str,
    last: u64,
) -> Result<String, ProtocolError> {
    let failed = |error| document_error(&error);
    let newest = match CollectionName::new(collection) {
        Ok(name) if collection != ALL_DOCUMENTS => {
            documents::newest_first_of_collection(documents, &name).map_err(failed)?.next()
        }
        _ => documents::newest_first(documents).map_err(failed)?.next(),
    };
    let newest = newest.transpose().map_err(failed)?.filter(|row| row.etag().0 == last);
    Ok(newest.map_or(String::new(), |row| {
        let written = date::format(row.last_modified_ticks());
        let (day, time) = day_and_time(&written);
        format!(" (@id: '{}', @last-modified: '{day} {time}')", row.id())
    }))
}

/// A date as the invariant culture of .NET shows it: `11/20/2026` and `14:07:58`.
fn day_and_time(iso: &str) -> (String, &str) {
    let part = |from: usize, to: usize| iso.get(from..to).unwrap_or_default();
    (format!("{}/{}/{}", part(5, 7), part(8, 10), part(0, 4)), part(11, 19))
}

/// `GET /indexes/terms`.
pub(crate) fn terms(call: &Call) -> Result<Answer, ProtocolError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    let field = query.single_non_empty("field")?;
    let index = named(call, name)?;
    let tx = index.read();
    let etag = terms_etag(&index).to_string();
    if call.if_none_match() == Some(etag.as_str()) {
        return Ok(Answer::empty(StatusCode::NOT_MODIFIED));
    }
    let limit = query.int("pageSize")?.and_then(|size| usize::try_from(size).ok());
    let limit = limit.unwrap_or(TERMS_MAX);
    let after = query.get("fromValue").filter(|value| !value.is_empty());
    let terms = terms_of(&index, &tx, field, after, limit)?;
    let shape = json!({
        "IndexName": index.name(), "ResultEtag": terms_etag(&index), "Terms": terms
    });
    Ok(Answer::shape(StatusCode::OK, &shape).with_header("etag", &etag))
}

fn terms_etag(index: &Index) -> i64 {
    let record = index.record();
    record.created_ticks ^ record.last_etag.cast_signed().rotate_left(32)
}

fn terms_of(
    index: &Index,
    tx: &impl Transaction,
    field: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<String>, ProtocolError> {
    let failed = |error| index_error(&IndexError::from(error));
    let reader = IndexReader::open(tx).map_err(failed)?;
    let layout = index.spatial_layout(field);
    let Some(field) = reader.field(field).map_err(failed)? else { return Ok(Vec::new()) };
    // Clients know null and the empty text by names, and these stand where texts like them would.
    let mut named = Vec::new();
    for value in [TermValue::Text(String::new()), TermValue::Null] {
        let is_there = 0 < reader.count_of(field, &value).map_err(failed)?;
        let name = query::term_text(value).unwrap_or_default();
        if is_there && after.is_none_or(|after| after < name.as_str()) {
            named.push(name);
        }
    }
    let after_text = TermValue::Text(after.unwrap_or_default().to_owned());
    let texts = reader.terms(field, Some(&after_text), limit).map_err(failed)?;
    let mut terms: Vec<String> =
        texts.into_iter().filter_map(|term| query::term_text(term.value)).collect();
    for name in named {
        let place = terms.partition_point(|term| *term < name);
        if place < limit {
            terms.insert(place, name);
        }
    }
    terms.truncate(limit);
    let room = limit - terms.len();
    let cells = reader.cell_names(field, &layout, after.unwrap_or_default(), room);
    terms.extend(cells.map_err(failed)?);
    Ok(terms)
}

/// `GET /indexes/source` and `GET /indexes/debug`: not there yet; a missing index is no error.
pub(crate) fn details(call: &Call) -> Result<Answer, ProtocolError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    let Some(index) = call.database()?.indexes().get(name) else {
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    };
    match query.get("op") {
        Some(operation) if operation.eq_ignore_ascii_case("entries-fields") => {
            let mut fields = index.fields();
            if !index.has_reduce() {
                fields.push("id()".to_owned());
            }
            Ok(Answer::shape(StatusCode::OK, &json!({"Static": fields, "Dynamic": []})))
        }
        Some(operation) if operation.eq_ignore_ascii_case("source-doc-ids") => {
            let message = "Getting doc ids for map indexes is not supported";
            Err(ProtocolError::new(ErrorKind::NotSupported, message))
        }
        Some(operation) => {
            let message = format!("{operation} is not supported");
            Err(ProtocolError::new(ErrorKind::NotSupported, message))
        }
        None => Err(ProtocolError::new(
            ErrorKind::NotSupported,
            "This view of an index is not supported by this server yet",
        )),
    }
}

/// `GET /indexes/total-time`: times are not summed up yet.
pub(crate) fn total_time(call: &Call) -> Result<Answer, ProtocolError> {
    let none = "00:00:00";
    let of_one = |index: Arc<Index>| json!({"Name": index.name(), "TotalIndexingTime": none, "LagTime": none});
    let listed: Vec<_> = known_or_all(call)?.into_iter().map(of_one).collect();
    Ok(Answer::shape(StatusCode::OK, &json!(listed)))
}
