//! `POST /indexes/test`: builds a definition over a few documents, in memory, and queries it.
//!
//! The size of the response is limited to [`ANSWER_BYTES_MAX`], since all of it is in memory, too.

use std::{rc::Rc, sync::Arc, time::Duration};

use database::DatabaseLease;
use engine::{Engine, NEW_INDEX_WAIT, QuerySnapshot, check_index_answers, complete_definition};
use indexing::{
    MapContext, MapError, Trial, TrialFailure, TrialIndex, TrialRefusal, TrialSource,
    try_definition,
};
use model::{IndexDefinition, NamedEnum};
use query::{Paging, ResultKind};
use rql::{Query, SourceKind};
use serde_json::{Map, Value};
use storage::WorkingMemory;
use tokio::time::Instant;
use wire::{ErrorKind, QueryRequest, read_index_definition};

use crate::{
    answers::{
        answer::Answer,
        answer_memory::counting_memory,
        json_text::{JsonArray, JsonObject, write_elements},
    },
    api_error::{ApiError, no_room},
    blocking::blocking,
    call::Call,
    handlers::{
        index_changes::check_configuration, index_trials::COMPILED_FORMS, queries::Prepared,
        query_debug::entry_shape,
    },
    http::router::Answering,
    index_choice::catch_up,
    request_json::read_object,
    server_state::ServerState,
};

/// Default number of documents of each collection, and its maximum.
const DOCUMENTS_DEFAULT: usize = 100;
const DOCUMENTS_MAX: usize = 10_000;
/// Maximum size of the rows in a response.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Size of the rest of a response.
const ANSWER_HEAD_BYTES: usize = 1 << 10;
/// How often a request that waits for the index checks whether there is enough memory for it.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The name of the index in queries; without a query, all entries are selected.
const NAME: &str = "<TestIndexName>";

/// `POST /indexes/test`: `IndexDefinition`, `Query`, `QueryParameters`, `MaxDocumentsToProcess` for each
/// collection, `WaitForNonStaleResultsTimeoutInSec`.
pub(crate) fn test(call: Call) -> Answering {
    Box::pin(async move {
        let began = call.state.engine.clock().monotonic();
        let body = read_object(&call.body)?;
        let documents_max = documents_max(&body)?;
        let wait = wait_of(&body)?;
        let mut request =
            call.state.with_builder(|builder| wire::read_query(&call.body, builder))?;
        if request.text.trim().is_empty() {
            request.text = format!("from index '{NAME}'");
        }
        let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
        let places = &call.state.rooms.counting;
        let place = places.take(database.record().name.lower_cased()).await?;
        let definition = blocking(move || definition_of(&body)).await?;
        let prepared = prepare(&call, request, &definition.name, began)?;
        let compiling = Arc::clone(&state);
        let (indexes, budget) = (database.clone(), Arc::clone(&state.engine.memory().answers));
        let (definition, index) = blocking(move || {
            let _room = compiling.engine.room_to_compile(&definition, 1)?;
            let index = indexes.indexes().begin_trial(&definition, documents_max, &budget);
            Ok((definition, index?))
        })
        .await?;
        let is_indexed = is_indexed_within(&state.engine, &database, &index, wait).await?;
        check_index_answers(index.index()).map_err(|error| {
            index.refusal_behind_failure().map_or_else(|| error.into(), too_large)
        })?;
        blocking(move || {
            let _place = place;
            let memory = counting_memory(&state);
            let _room = state.engine.room_to_compile(&definition, COMPILED_FORMS)?;
            let trial = tried(&state, &database, &definition, documents_max, &memory)?;
            let tested = Tested { definition, index, is_indexed, trial };
            answer(&state, &database, &prepared, &tested, &memory)
        })
        .await
    })
}

/// Waits until the index has caught up; `false` if that takes longer.
///
/// # Errors
///
/// When there is not enough memory for the index, or the database is being closed.
async fn is_indexed_within(
    engine: &Engine,
    database: &DatabaseLease,
    index: &TrialIndex,
    wait: Duration,
) -> Result<bool, ApiError> {
    let ends = Instant::now() + wait;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        let step = left.min(MEMORY_CHECK_INTERVAL);
        let is_indexed = catch_up(engine, database, index.index(), step).await?;
        if let Some(refusal) = index.refused().filter(|_| !is_indexed) {
            return Err(too_large(refusal));
        }
        if is_indexed || left.is_zero() {
            return Ok(is_indexed);
        }
    }
}

fn too_large(refusal: TrialRefusal) -> ApiError {
    match refusal {
        TrialRefusal::TooLarge(bytes_max) => ApiError::invalid_operation(format!(
            "The index needs more than {bytes_max} bytes for these documents. Try the definition on fewer \
             documents, or smaller ones."
        )),
        TrialRefusal::Exhausted(exhausted) => no_room("Trials of indexes", exhausted),
    }
}

/// The result of a test.
struct Tested {
    definition: IndexDefinition,
    index: TrialIndex,
    /// Whether the index has caught up.
    is_indexed: bool,
    trial: Trial,
}

fn definition_of(body: &Map<String, Value>) -> Result<IndexDefinition, ApiError> {
    let Some(definition) = body.get("IndexDefinition").filter(|value| !value.is_null()) else {
        let message = "Index must have an IndexDefinition field";
        return Err(ApiError::new(ErrorKind::BadRequest, message));
    };
    let mut definition = complete_definition(read_index_definition(definition.clone())?);
    if definition.maps.is_empty() {
        return Err(ApiError::argument("Index must have a 'Maps' fields"));
    }
    check_configuration(&definition)?;
    definition.name = definition.name.trim().to_owned();
    if definition.name.is_empty() {
        NAME.clone_into(&mut definition.name);
    }
    Ok(definition)
}

fn documents_max(body: &Map<String, Value>) -> Result<usize, ApiError> {
    let value = match body.get("MaxDocumentsToProcess") {
        None | Some(Value::Null) => return Ok(DOCUMENTS_DEFAULT),
        Some(value) => value.as_u64().and_then(|value| usize::try_from(value).ok()),
    };
    value.filter(|value| (1..=DOCUMENTS_MAX).contains(value)).ok_or_else(|| {
        let message = format!(
            "Number of documents to process cannot be bigger than {DOCUMENTS_MAX} or less than 1."
        );
        ApiError::new(ErrorKind::BadRequest, message)
    })
}

/// How long the index may take; never longer than the default wait of a query.
fn wait_of(body: &Map<String, Value>) -> Result<Duration, ApiError> {
    match body.get("WaitForNonStaleResultsTimeoutInSec") {
        None | Some(Value::Null) => Ok(NEW_INDEX_WAIT),
        Some(value) => match value.as_u64() {
            Some(seconds) => Ok(Duration::from_secs(seconds).min(NEW_INDEX_WAIT)),
            None => {
                let message = format!(
                    "Could not convert '{value}' in 'WaitForNonStaleResultsTimeoutInSec' to a number \
                     of seconds"
                );
                Err(ApiError::new(ErrorKind::Format, message))
            }
        },
    }
}

/// The query, on the index under test whatever index it names.
fn prepare(
    call: &Call,
    request: QueryRequest,
    index_name: &str,
    began: Duration,
) -> Result<Prepared, ApiError> {
    let mut prepared = Prepared::page_of(call, request, began)?;
    prepared.bound.query.source.kind = SourceKind::Index(index_name.into());
    if query::result_kind(&prepared.bound.query) != ResultKind::Rows {
        let message = "Facets and suggestions are not supported by this type of query.";
        return Err(ApiError::new(ErrorKind::NotSupported, message));
    }
    if !prepared.bound.query.include.is_empty() {
        let message = "Includes are not supported by this type of query.";
        return Err(ApiError::new(ErrorKind::NotSupported, message));
    }
    Ok(prepared)
}

/// The output of the maps and the reduce, independent of the query.
fn tried(
    state: &ServerState,
    database: &DatabaseLease,
    definition: &IndexDefinition,
    documents_max: usize,
    memory: &WorkingMemory,
) -> Result<Trial, ApiError> {
    let (documents, values) = (database.read(), database.values());
    let context = MapContext { documents: &documents, values: Some(&values) };
    let (source, on_failure) = (TrialSource::Oldest(documents_max), TrialFailure::LeavesOut);
    let trial =
        try_definition(definition, state.engine.scripts(), context, source, on_failure, memory);
    trial.map_err(|error| match error {
        MapError::Index(error) => ApiError::from(error),
        MapError::Document { message } => ApiError::invalid_operation(message),
    })
}

fn answer(
    state: &ServerState,
    database: &DatabaseLease,
    prepared: &Prepared,
    tested: &Tested,
    memory: &Rc<WorkingMemory>,
) -> Result<Answer, ApiError> {
    let Tested { definition, index, is_indexed, trial } = tested;
    let index = index.index();
    let snapshot = QuerySnapshot::take(database, Some(Arc::clone(index)), None)?;
    let entries = entries_of(prepared, &snapshot, memory)?;
    let Some(rows) = prepared.rows_of(state, &snapshot, ANSWER_BYTES_MAX, memory)? else {
        let message = format!("The results of the query exceed {ANSWER_BYTES_MAX} bytes");
        return Err(ApiError::invalid_operation(message));
    };
    let reduced = trial.reduced.as_deref().unwrap_or_default();
    let of_trial = trial.mapped.iter().chain(reduced).map(|row| row.len() + 1).sum::<usize>();
    // The rows are in memory already, and all of it again in the response.
    let bytes = 2 * rows.len() + entries.len() + of_trial;
    let counted = memory.take(bytes as u64);
    counted.map_err(|exhausted| no_room("Trials of indexes", exhausted))?;
    let mut out = Vec::with_capacity(bytes - rows.len() + ANSWER_HEAD_BYTES);
    let mut shape = JsonObject::begin(&mut out);
    shape.name("IndexEntries").extend_from_slice(&entries);
    write_elements([&rows], shape.name("QueryResults"));
    write_elements(&trial.mapped, shape.name("MapResults"));
    write_elements(reduced, shape.name("ReduceResults"));
    shape.flag("HasDynamicFields", index.has_created_fields());
    shape.flag("IsStale", index.skips_items() || !is_indexed);
    shape.optional_text("IndexType", definition.index_type.map(NamedEnum::name));
    shape.end();
    Ok(Answer::json(out))
}

/// The terms of the entries that the query selects, ignoring its page, as a JSON array.
fn entries_of(
    prepared: &Prepared,
    snapshot: &QuerySnapshot,
    memory: &WorkingMemory,
) -> Result<Vec<u8>, ApiError> {
    let Some(entries) = prepared.bound.entries(snapshot) else { return Ok(b"[]".to_vec()) };
    let query = Query { limit: None, offset: None, ..prepared.bound.query.clone() };
    let (documents, parameters) = (snapshot.documents(), prepared.bound.parameters());
    let page = Paging::default();
    let shown = query::entries_of_index(documents, &entries, &query, parameters, page, memory);
    let mut out = Vec::new();
    let mut array = JsonArray::begin(&mut out);
    for entry in shown?.entries {
        let out = array.element();
        let begin = out.len();
        out.extend_from_slice(entry_shape(entry).to_string().as_bytes());
        let counted = memory.take((out.len() - begin) as u64);
        counted.map_err(|exhausted| no_room("Trials of indexes", exhausted))?;
        if ANSWER_BYTES_MAX < out.len() {
            let message = format!("The entries of the index exceed {ANSWER_BYTES_MAX} bytes");
            return Err(ApiError::invalid_operation(message));
        }
    }
    array.end();
    Ok(out)
}
