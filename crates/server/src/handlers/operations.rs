//! Long operations of a database.

use database::Operation;
use http::StatusCode;
use model::date;
use serde_json::{Value, json};
use wire::{ProtocolError, database_shapes::NODE_TAG, operation_state::operation_state};

use crate::{answer::Answer, call::Call};

/// `GET /operations/next-operation-id`.
pub(crate) fn next_id(call: &Call) -> Result<Answer, ProtocolError> {
    let id = call.database()?.operations().next_id();
    Ok(Answer::shape(StatusCode::OK, &json!({"Id": id, "NodeTag": NODE_TAG})))
}

/// `GET /operations/state`.
pub(crate) fn state(call: &Call) -> Result<Answer, ProtocolError> {
    let id = call.query().required_long("id")?;
    match call.database()?.operations().get(id) {
        Some(operation) => Ok(Answer::shape(StatusCode::OK, &state_json(&operation))),
        None => Ok(Answer::empty(StatusCode::NOT_FOUND)),
    }
}

/// `GET /operations/state` of the server, which has no operations of its own.
pub(crate) fn server_state(call: &Call) -> Result<Answer, ProtocolError> {
    call.query().required_long("id")?;
    Ok(Answer::empty(StatusCode::NOT_FOUND))
}

/// `POST /operations/kill`.
pub(crate) fn kill(call: &Call) -> Result<Answer, ProtocolError> {
    let id = call.query().required_long("id")?;
    if call.database()?.operations().kill(id) {
        return Ok(Answer::empty(StatusCode::NO_CONTENT));
    }
    Err(ProtocolError::argument(format!("Operation {id} was not registered")))
}

/// `GET /operations`.
pub(crate) fn list(call: &Call) -> Result<Answer, ProtocolError> {
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

fn state_json(operation: &Operation) -> Value {
    let state = operation.state();
    operation_state(&state.status, Some(&state.progress))
}
