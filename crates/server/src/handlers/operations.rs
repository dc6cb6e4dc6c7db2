//! Long operations of a database.

use std::sync::Arc;

use database::{DatabaseLease, Operation, Operations};
use engine::EngineError;
use http::StatusCode;
use model::date;
use serde_json::{Value, json};
use wire::operation_state::{OperationFailure, OperationStatus, operation_state};

use crate::{answers::answer::Answer, api_error::ApiError, call::Call, server_state::ServerState};

/// The type of the task of an operation that could not start.
const NOT_STARTED: &str = "NotSupported";

/// `GET /operations/next-operation-id`.
pub(crate) fn next_id(call: &Call) -> Result<Answer, ApiError> {
    let id = call.database()?.operations().next_id();
    Ok(Answer::shape(StatusCode::OK, &json!({"Id": id, "NodeTag": call.state.node_tag()})))
}

/// `GET /operations/state`.
pub(crate) fn state(call: &Call) -> Result<Answer, ApiError> {
    let id = call.query().required_long("id")?;
    Ok(state_answer(call.database()?.operations().get(id)))
}

/// `GET /operations/state` of the server.
pub(crate) fn server_state(call: &Call) -> Result<Answer, ApiError> {
    let id = call.query().required_long("id")?;
    Ok(state_answer(call.state.engine.operations().get(id)))
}

/// `GET /admin/operations/next-operation-id`.
pub(crate) fn next_server_id(call: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::shape(StatusCode::OK, &json!({"Id": call.state.engine.operations().next_id()})))
}

fn state_answer(operation: Option<Arc<Operation>>) -> Answer {
    match operation {
        Some(operation) => Answer::shape(StatusCode::OK, &state_json(&operation)),
        None => Answer::empty(StatusCode::NOT_FOUND),
    }
}

/// The status of an operation that failed with this error.
pub(crate) fn failed(error: &ApiError) -> OperationStatus {
    OperationStatus::Faulted(OperationFailure {
        type_name: error.kind.type_name().to_owned(),
        message: error.message.clone(),
        error: error.full_text(),
        status_code: error.kind.status(),
    })
}

/// Like [`failed`], for an operation of the engine.
pub(crate) fn show_failure(error: EngineError) -> OperationStatus {
    failed(&ApiError::from(error))
}

/// Registers an operation that could not start as failed, unless its id is taken.
pub(crate) fn fault_unstarted(
    state: &ServerState,
    database: &DatabaseLease,
    id: i64,
    description: &str,
    error: &ApiError,
) {
    if database.operations().get(id).is_some() {
        return;
    }
    let now = state.engine.clock().now();
    // At the maximum number of operations, a client that waits for this one will not find it.
    if let Ok(operation) = database.operations().begin(id, description, NOT_STARTED, now) {
        operation.finish(failed(error), now);
    }
}

/// The error when there are too many operations.
pub(crate) fn too_many_operations() -> ApiError {
    ApiError::from(EngineError::TooManyOperations)
}

/// `POST /operations/kill`.
pub(crate) fn kill(call: &Call) -> Result<Answer, ApiError> {
    kill_one(call.database()?.operations(), call.query().required_long("id")?)
}

/// `POST /admin/operations/kill`.
pub(crate) fn kill_of_server(call: &Call) -> Result<Answer, ApiError> {
    kill_one(call.state.engine.operations(), call.query().required_long("id")?)
}

fn kill_one(operations: &Operations, id: i64) -> Result<Answer, ApiError> {
    if operations.kill(id) {
        return Ok(Answer::empty(StatusCode::NO_CONTENT));
    }
    Err(ApiError::argument(format!("Operation {id} was not registered")))
}

/// `GET /operations`.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let wanted = call.query().long("id")?;
    let operations = call.database()?.operations().all();
    let results: Vec<Value> = operations
        .iter()
        .filter(|(id, _)| wanted.is_none_or(|wanted| wanted == *id))
        .map(|(id, operation)| listed(*id, operation))
        .collect();
    if wanted.is_some() && results.is_empty() {
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    }
    Ok(Answer::shape(StatusCode::OK, &json!({"Results": results})))
}

fn listed(id: i64, operation: &Operation) -> Value {
    let details = operation.query.as_ref().map(|query| {
        json!({
            "$type": "Raven.Client.Documents.Operations.BulkOperationResult+OperationDetails, Raven.Client",
            "Query": query
        })
    });
    let ended = operation.state().ended.map(|ended| date::format(ended.ticks()));
    json!({
        "Id": id,
        "Description": {
            "Description": operation.description, "TaskType": operation.task_type,
            "StartTime": date::format(operation.started.ticks()), "EndTime": ended,
            "DetailedDescription": details
        },
        "Killable": true,
        "State": state_json(operation)
    })
}

/// The progress of an operation in the protocol's form.
pub(crate) fn state_json(operation: &Operation) -> Value {
    let state = operation.state();
    operation_state(&state.status, Some(&state.progress))
}
