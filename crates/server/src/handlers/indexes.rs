//! Indexes: there are none yet, and that is what is answered. Making one is refused by name.

use http::StatusCode;
use serde_json::{Value, json};
use wire::{ErrorKind, ProtocolError};

use crate::{
    answer::Answer,
    call::Call,
    stored_record::{read_object, texts_of},
};

fn missing(name: &str) -> ProtocolError {
    let message = format!("There is no index with '{name}' name.");
    ProtocolError::new(ErrorKind::IndexDoesNotExist, message)
}

fn none(call: &Call) -> Answer {
    let metadata = call.state.debug_metadata();
    Answer::shape(StatusCode::OK, &json!({"@metadata": metadata, "Results": []}))
}

/// `GET /indexes` and `GET /indexes/stats`: all, or one by its name.
pub(crate) fn list(call: &Call) -> Result<Answer, ProtocolError> {
    match call.query().get("name") {
        Some(_) => Ok(Answer::empty(StatusCode::NOT_FOUND)),
        None => Ok(none(call)),
    }
}

/// `GET /indexes/errors`: of all, or of those that are named.
pub(crate) fn errors(call: &Call) -> Result<Answer, ProtocolError> {
    match call.query().get("name") {
        Some(name) => Err(missing(name)),
        None => Ok(none(call)),
    }
}

/// `GET /indexes/performance`.
pub(crate) fn performance(call: &Call) -> Result<Answer, ProtocolError> {
    Ok(none(call))
}

/// `GET /indexes/progress`.
pub(crate) fn progress(_: &Call) -> Result<Answer, ProtocolError> {
    Ok(Answer::shape(StatusCode::OK, &json!({"Results": []})))
}

/// `GET /indexes/status`.
pub(crate) fn status(call: &Call) -> Result<Answer, ProtocolError> {
    let status = if call.database()?.indexes().is_paused() { "Paused" } else { "Running" };
    Ok(Answer::shape(StatusCode::OK, &json!({"Status": status, "Indexes": []})))
}

/// `GET /indexes/staleness` and `RESET /indexes`: of one index.
pub(crate) fn of_one(call: &Call) -> Result<Answer, ProtocolError> {
    Err(missing(call.query().single_non_empty("name")?))
}

/// `GET /indexes/terms`.
pub(crate) fn terms(call: &Call) -> Result<Answer, ProtocolError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    query.single_non_empty("field")?;
    Err(missing(name))
}

/// `DELETE /indexes`, `GET /indexes/source` and `GET /indexes/debug`: a missing one is no error.
pub(crate) fn not_found(call: &Call) -> Result<Answer, ProtocolError> {
    call.query().single_non_empty("name")?;
    Ok(Answer::empty(StatusCode::NOT_FOUND))
}

/// `DELETE /indexes/errors`: of all, or of those that are named.
pub(crate) fn clear_errors(call: &Call) -> Result<Answer, ProtocolError> {
    match call.query().get("name") {
        Some(name) => Err(missing(name)),
        None => Ok(Answer::empty(StatusCode::NO_CONTENT)),
    }
}

/// `POST /indexes/has-changed`: what is not there differs from every definition.
pub(crate) fn has_changed(call: &Call) -> Result<Answer, ProtocolError> {
    read_object(&call.body)?;
    Ok(Answer::shape(StatusCode::OK, &json!({"Changed": true})))
}

/// `POST /indexes/set-lock` and `POST /indexes/set-priority`.
pub(crate) fn configure(call: &Call) -> Result<Answer, ProtocolError> {
    let body = read_object(&call.body)?;
    match texts_of(&body, "IndexNames").first() {
        Some(name) => Err(missing(name)),
        None => {
            let shown = body.get("IndexNames").unwrap_or(&Value::Null);
            Err(ProtocolError::argument(format!("'IndexNames' names no index: {shown}")))
        }
    }
}

/// `POST /admin/indexes/stop`.
pub(crate) fn pause(call: &Call) -> Result<Answer, ProtocolError> {
    set_paused(call, true)
}

/// `POST /admin/indexes/start`.
pub(crate) fn resume(call: &Call) -> Result<Answer, ProtocolError> {
    set_paused(call, false)
}

fn set_paused(call: &Call, paused: bool) -> Result<Answer, ProtocolError> {
    if let Some(name) = call.query().get("name").filter(|name| !name.is_empty()) {
        return Err(missing(name));
    }
    let indexes = call.database()?.indexes();
    if paused { indexes.pause() } else { indexes.resume() }
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}
