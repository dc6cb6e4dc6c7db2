//! Diagnostics of queries: `/queries?debug=…` explains which index runs one and why others do not,
//! and shows its entries; `/debug/queries` lists the running ones, and stops them.

use database::DatabaseLease;
use engine::{NeededSource, QueryFacts, QuerySnapshot, answering_index, needed_source};
use http::StatusCode;
use indexing::{AutoChoice, AutoIndexDefinition, Index, IndexKind};
use model::{IndexState, TimeSpan, date};
use query::{IndexSnapshot, Paging, QueryError, ResultKind, ScanCounts, ShownEntry};
use rql::{Query, SourceKind};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use wire::ErrorKind;

use crate::{
    answers::{answer::Answer, answer_memory::counting_memory},
    api_error::ApiError,
    call::Call,
    handlers::{queries::Prepared, query_pages::time_or_none},
    index_choice::catch_up,
};

/// The response when no index would be chosen.
const NO_INDEX: &str = "Failure/None";

/// The query as parsed.
pub(crate) fn text(prepared: &Prepared) -> Result<Answer, ApiError> {
    let text = prepared.bound.query.to_string();
    Ok(Answer::shape(StatusCode::OK, &json!({"ServerSideQuery": text})))
}

/// The automatic index that would be chosen, and why each other one over the same documents would
/// not.
pub(crate) fn explain(call: &Call, prepared: &Prepared) -> Result<Answer, ApiError> {
    let database = call.database()?;
    if matches!(prepared.bound.query.source.kind, SourceKind::Index(_)) {
        let message = "Explain can only work on dynamic indexes".to_owned();
        return Err(ApiError::invalid_operation(message));
    }
    let wanted = wanted_index(prepared)?;
    let others: Vec<_> = database
        .indexes()
        .all()
        .into_iter()
        .filter_map(|index| match index.kind().as_ref() {
            IndexKind::Auto(definition) if definition.is_over_the_same_documents_as(&wanted) => {
                Some((Arc::clone(&index), definition.clone()))
            }
            IndexKind::Auto(_) | IndexKind::Static(_) => None,
        })
        .collect();
    let answering = match database.indexes().choose_auto(&wanted) {
        AutoChoice::Answers(index) => Some(index),
        AutoChoice::Wanted { .. } => None,
    };
    let nearest = || others.iter().max_by_key(|(_, definition)| definition.width());
    let name = match (&answering, nearest()) {
        (Some(index), _) | (None, Some((index, _))) => index.name().to_owned(),
        (None, None) => NO_INDEX.to_owned(),
    };
    let is_answering = |index: &Index| {
        answering.as_ref().is_some_and(|answering| answering.name() == index.name())
    };
    let results: Vec<_> = others
        .iter()
        .filter(|(index, _)| !is_answering(index))
        .map(|(index, definition)| {
            let reason = why_not(index, definition, &wanted);
            json!({"Index": index.name(), "Reason": reason})
        })
        .collect();
    let mut shape = json!({"IndexName": name, "Results": results});
    if let Some(index) = &answering
        && let Some(execution) = execution_of(call, prepared, database, index)?
    {
        shape["Execution"] = execution;
    }
    Ok(Answer::shape(StatusCode::OK, &shape))
}

/// The cost of the query on its index; nothing if it requests no rows.
fn execution_of(
    call: &Call,
    prepared: &Prepared,
    database: &DatabaseLease,
    index: &Index,
) -> Result<Option<Value>, ApiError> {
    if query::result_kind(&prepared.bound.query) != ResultKind::Rows || index.failure().is_some() {
        return Ok(None);
    }
    let clock = call.state.engine.clock();
    let began = clock.monotonic();
    let tx = index.read();
    let (values, seed, stop) = (database.values(), prepared.bound.seed, Arc::default());
    let snapshot = IndexSnapshot { index, tx: &tx, values: Some(&values), seed, stop };
    let counts = query::count_scanned(
        &database.read(),
        &snapshot,
        &prepared.bound.query,
        prepared.bound.parameters(),
        prepared.bound.paging,
    );
    let ScanCounts { scanned, matched, returned } = counts?;
    let micros = clock.monotonic().saturating_sub(began).as_micros() as u64;
    Ok(Some(json!({
        "Index": index.name(), "EntriesScanned": scanned, "EntriesMatched": matched,
        "EntriesReturned": returned, "DurationInMicroseconds": micros
    })))
}

fn why_not(
    index: &Index,
    definition: &AutoIndexDefinition,
    wanted: &AutoIndexDefinition,
) -> String {
    if index.state() != IndexState::Normal {
        return format!(
            "Cannot do dynamic queries on disabled index or index with errors (index name = {})",
            index.name()
        );
    }
    let missing = definition.describe_missing(wanted);
    missing.unwrap_or_else(|| "Wasn't the widest index matching this query".to_owned())
}

/// The automatic index that a query needs; one without fields if it needs none.
fn wanted_index(prepared: &Prepared) -> Result<AutoIndexDefinition, ApiError> {
    let (query, parameters) = (&prepared.bound.query, prepared.bound.parameters());
    Ok(match needed_source(query, parameters, Paging::default(), None)? {
        NeededSource::Documents(_) => AutoIndexDefinition::new(collection_of(query), []),
        NeededSource::Index(wanted) => wanted,
    })
}

fn collection_of(query: &Query) -> String {
    match &query.source.kind {
        SourceKind::Collection(name) => name.to_string(),
        _ => "@all_docs".to_owned(),
    }
}

/// The terms of the entries that a query selects.
pub(crate) async fn entries(call: &Call, prepared: &Prepared) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let index = existing_index(database, prepared)?;
    index.note_query();
    if let Some(wait_max) = prepared.wait {
        catch_up(&call.state.engine, database, &index, wait_max).await?;
    }
    let index = answering_index(database, index)?;
    let snapshot = QuerySnapshot::take(database, Some(Arc::clone(&index)), None)?;
    let Some(entries) = prepared.bound.entries(&snapshot) else {
        return Err(ApiError::invalid_operation("the entries of the index are missing"));
    };
    let shown = query::entries_of_index(
        snapshot.documents(),
        &entries,
        &prepared.bound.query,
        prepared.bound.parameters(),
        prepared.bound.paging,
        &counting_memory(&call.state),
    )?;
    let rows: Vec<Value> = shown.entries.into_iter().map(entry_shape).collect();
    let (facts, etag) = (shown.facts.index, shown.facts.result_etag);
    let elapsed = call.state.engine.clock().monotonic().saturating_sub(prepared.began);
    let shape = json!({
        "TotalResults": shown.facts.total_results, "SkippedResults": 0,
        "DurationInMs": elapsed.as_millis() as u64, "IndexName": index.name(), "Results": rows,
        "Includes": {},
        "IndexTimestamp": time_or_none(facts.map_or(0, |facts| facts.timestamp_ticks)),
        "LastQueryTime": time_or_none(facts.map_or(0, |facts| facts.last_query_ticks)),
        "IsStale": facts.is_some_and(|facts| facts.is_stale),
        "ResultEtag": etag, "NodeTag": call.state.node_tag()
    });
    Ok(Answer::shape(StatusCode::OK, &shape))
}

/// Every value is a string, or an array of strings.
pub(crate) fn entry_shape(entry: ShownEntry) -> Value {
    let mut shape = Map::new();
    for (field, mut terms) in entry.fields {
        let value = match terms.len() {
            1 => Value::String(terms.remove(0)),
            _ => terms.into(),
        };
        shape.insert(field, value);
    }
    let (field, name) = entry.name;
    shape.insert(field.to_owned(), name.into());
    Value::Object(shape)
}

/// `GET /debug/queries/running`: the running queries by index.
pub(crate) fn running(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?.record().name.as_str().to_owned();
    let now = call.state.engine.clock().monotonic();
    let mut shape = Map::new();
    shape.insert("@metadata".to_owned(), json!(call.state.debug_metadata()));
    for (id, facts) in call.state.engine.running_queries().of(&database) {
        let elapsed = now.saturating_sub(facts.began);
        let one = json!({
            "DurationInMs": elapsed.as_millis() as u64,
            "Duration": TimeSpan::of(elapsed).to_string(),
            "IndexName": facts.index_name, "QueryId": id,
            "StartTime": date::format(facts.began_ticks),
            "QueryInfo": query_info(&facts), "IsStreaming": facts.is_streaming
        });
        let of_index = shape.entry(&facts.index_name).or_insert_with(|| json!([]));
        if let Some(listed) = of_index.as_array_mut() {
            listed.push(one);
        }
    }
    Ok(Answer::shape(StatusCode::OK, &shape))
}

fn query_info(facts: &QueryFacts) -> Value {
    let wait = facts.wait.map(|wait| TimeSpan::of(wait).to_string());
    json!({
        "PageSize": facts.page_size.unwrap_or(i64::from(i32::MAX)), "Query": facts.text,
        "SkipDuplicateChecking": facts.skips_duplicate_checking, "Start": facts.start,
        "WaitForNonStaleResults": wait.is_some(), "WaitForNonStaleResultsTimeout": wait
    })
}

/// `POST /debug/queries/kill`.
pub(crate) fn kill(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let (index_name, id) = (query.required("indexName")?, query.required_long("id")?);
    let database = call.database()?.record().name.as_str().to_owned();
    let id = u64::try_from(id).unwrap_or(0);
    let is_stopped = call.state.engine.running_queries().stop(&database, index_name, id);
    let status = if is_stopped { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND };
    Ok(Answer::empty(status))
}

/// The index that would run the query; none is created for the purpose.
fn existing_index(database: &DatabaseLease, prepared: &Prepared) -> Result<Arc<Index>, ApiError> {
    if let SourceKind::Index(name) = &prepared.bound.query.source.kind {
        return database
            .indexes()
            .get(name)
            .ok_or_else(|| ApiError::from(QueryError::MissingIndex { name: name.to_owned() }));
    }
    let (query, parameters) = (&prepared.bound.query, prepared.bound.parameters());
    let wanted = match needed_source(query, parameters, Paging::default(), None)? {
        NeededSource::Index(wanted) => wanted,
        NeededSource::Documents(_) => {
            let message = "Collection query is handled directly by documents storage so index \
                           entries aren't created underneath";
            return Err(ApiError::new(ErrorKind::NotSupported, message));
        }
    };
    match database.indexes().choose_auto(&wanted) {
        AutoChoice::Answers(index) => Ok(index),
        AutoChoice::Wanted { .. } => {
            let message = "No Auto Index matching the given query was found.";
            Err(ApiError::new(ErrorKind::IndexDoesNotExist, message))
        }
    }
}
