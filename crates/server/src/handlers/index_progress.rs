//! The progress of an index: what remains in each collection, and why it is stale.

use cluster_state::DatabaseValues;
use documents::{
    DocumentError,
    log::{self, EntryKind, EntryKinds, LogEntry, Selection},
};
use engine::{ALL_DOCUMENTS, progress_of};
use http::StatusCode;
use indexing::{Index, SourceKind};
use model::{CollectionName, Etag, date, ticks::TICKS_PER_MILLISECOND};
use serde_json::json;
use storage::ReadTransaction;
use wire::index_shapes::CollectionProgress;

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    handlers::indexes::{named, statistics_of},
};

/// `GET /indexes/progress`: of stale indexes.
pub(crate) fn progress(call: &Call) -> Result<Answer, ApiError> {
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

/// `GET /indexes/staleness`.
pub(crate) fn staleness(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let index = named(call, query.single_non_empty("name")?)?;
    let database = call.database()?;
    let mut reasons = staleness_reasons(&database.read(), &index)?;
    reasons.append(&mut values_reasons(&database.values(), &index)?);
    let shape = json!({"IsStale": !reasons.is_empty(), "StalenessReasons": reasons});
    Ok(Answer::shape(StatusCode::OK, &shape))
}

fn staleness_reasons(documents: &ReadTransaction, index: &Index) -> Result<Vec<String>, ApiError> {
    let behind = progress_of(documents, index)?.into_iter().filter(CollectionProgress::is_behind);
    match index.source_kind() {
        SourceKind::Documents => {}
        SourceKind::Counters => {
            return behind.map(|progress| counters_reason(documents, &progress)).collect();
        }
        SourceKind::TimeSeries => {
            let mut reasons = Vec::new();
            for progress in behind {
                add_time_series_reasons(documents, &progress, &mut reasons)?;
            }
            return Ok(reasons);
        }
    }
    let of_one = |progress: CollectionProgress| {
        let last = match CollectionName::new(progress.collection.as_str()) {
            Ok(name) if progress.collection != ALL_DOCUMENTS => {
                log::last_etag(documents, &[Selection::of_collection(EntryKinds::DOCUMENTS, &name)])
            }
            _ => documents::progress(documents).map(|progress| progress.last_etag),
        };
        let last = last?.0;
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

/// Why an index is stale that has not seen the newest compare exchange values.
fn values_reasons(values: &DatabaseValues, index: &Index) -> Result<Vec<String>, ApiError> {
    if !index.reads_values() {
        return Ok(Vec::new());
    }
    let last = values.last_change()?;
    let reached = index.record().last_value;
    let names = match index.collections() {
        [] => vec![ALL_DOCUMENTS],
        names => names.iter().map(CollectionName::as_str).collect(),
    };
    let behind = names.into_iter().filter(|_| reached < last);
    let reasons = behind.map(|name| {
        format!(
            "There are still some compare exchange references to process for collection '{name}'. The \
             last compare exchange etag is '{last}', but last processed compare exchange etag for that \
             collection is '{reached}'."
        )
    });
    Ok(reasons.collect())
}

/// Why an index of counters is stale.
fn counters_reason(
    documents: &ReadTransaction,
    progress: &CollectionProgress,
) -> Result<String, ApiError> {
    let CollectionProgress { collection, last_etag, .. } = progress;
    let name = collection_named(collection);
    let counters = Selection::of_collection(EntryKinds::COUNTERS, name.as_ref());
    let (last, newest) = newest_in(documents, counters)?;
    let key = newest.map_or(String::new(), |entry| key_of(&entry));
    Ok(format!(
        "There are still some counters to process from collection '{collection}'. The last Counters \
         etag in that collection is '{}'{key}, but last committed counter etag for that collection is \
         '{last_etag}'",
        last.0
    ))
}

/// Why an index of time series is stale.
fn add_time_series_reasons(
    documents: &ReadTransaction,
    progress: &CollectionProgress,
    reasons: &mut Vec<String>,
) -> Result<(), ApiError> {
    let CollectionProgress { collection, last_etag, .. } = progress;
    let name = collection_named(collection);
    let newest_of =
        |kind: EntryKind| newest_in(documents, Selection::of_collection(kind, name.as_ref()));
    let (written, segment) = newest_of(EntryKind::Segment)?;
    if *last_etag < written.0 {
        let newest = match segment {
            Some(LogEntry::Segment(row)) => {
                let start = row.start_ms().saturating_mul(TICKS_PER_MILLISECOND);
                let start = date::american(start);
                let (id, name) = (row.lower_document_id(), row.lower_name());
                format!(" (@key: '{id}|{name}', @last-modified: '{start}')")
            }
            _ => String::new(),
        };
        reasons.push(format!(
            "There are still some time series items to process from collection '{collection}'. The \
             last TimeSeries etag in that collection is '{}'{newest}, but last committed time series \
             item etag for that collection is '{last_etag}'",
            written.0
        ));
    }
    let (deleted, range) = newest_of(EntryKind::DeletedRange)?;
    if *last_etag < deleted.0 {
        let newest = range.map_or(String::new(), |entry| key_of(&entry));
        reasons.push(format!(
            "There are still some tombstones to process from collection '{collection}'. The last \
             tombstone etag in that collection is '{}'{newest}, but last committed tombstone etag for \
             that collection is '{last_etag}'.",
            deleted.0
        ));
    }
    Ok(())
}

/// The last of some entries, and its etag.
fn newest_in<'t>(
    documents: &'t ReadTransaction,
    selected: Selection<'_>,
) -> Result<(Etag, Option<LogEntry<'t>>), DocumentError> {
    let last = log::last_etag(documents, &[selected])?;
    let before = Etag(last.0.saturating_sub(1));
    Ok((last, log::read(documents, &[selected], before)?.next().transpose()?))
}

/// The key of a counter or a time series in its display form.
fn key_of(entry: &LogEntry<'_>) -> String {
    let id = entry.lower_document_id().unwrap_or_default();
    format!(" (@key: '{id}|{}')", entry.lower_name().unwrap_or_default())
}

/// The collection of that name; `None` for all documents.
fn collection_named(name: &str) -> Option<CollectionName> {
    CollectionName::new(name).ok().filter(|_| name != ALL_DOCUMENTS)
}

/// The document of the last change in a collection; empty if that was a deletion.
fn newest_of(documents: &ReadTransaction, collection: &str, last: u64) -> Result<String, ApiError> {
    let newest = match CollectionName::new(collection) {
        Ok(name) if collection != ALL_DOCUMENTS => {
            documents::newest_first_of_collection(documents, &name)?.next()
        }
        _ => documents::newest_first(documents)?.next(),
    };
    let newest = newest.transpose()?.filter(|row| row.etag().0 == last);
    Ok(newest.map_or(String::new(), |row| {
        let written = date::american(row.last_modified_ticks());
        format!(" (@id: '{}', @last-modified: '{written}')", row.id())
    }))
}
