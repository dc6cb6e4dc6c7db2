//! Administration of all revisions of a database: the configuration, enforcing it, reverting
//! documents to a point in time.

use engine::RevisionTask;
use http::StatusCode;
use model::{CollectionName, date, ticks::TICKS_PER_SECOND};
use serde_json::{Map, Value, json};
use wire::{ErrorKind, RecordBody, SectionKind};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    handlers::{operations::show_failure, sections},
    http::router::Answering,
    request_json::{read_object, texts_of},
};

/// `GET /revisions/config`.
pub(crate) fn configuration(call: &Call) -> Result<Answer, ApiError> {
    sections::show(call, SectionKind::Revisions)
}

/// `POST /admin/revisions/config`: replaces the whole configuration.
pub(crate) fn configure(call: Call) -> Answering {
    Box::pin(async move {
        let section = wire::read_revisions_configuration(&read_object(&call.body)?)?;
        sections::replace(call, section).await
    })
}

/// `GET /revisions/conflicts/config`.
pub(crate) fn of_conflicts(call: &Call) -> Result<Answer, ApiError> {
    let body = RecordBody::of_record(&call.database()?.record());
    let stored = body.section(SectionKind::ConflictRevisions);
    let shown = stored.cloned().unwrap_or_else(wire::default_conflict_revisions);
    Ok(Answer::shape(StatusCode::OK, &shown))
}

/// `POST /admin/revisions/conflicts/config`.
pub(crate) fn configure_conflicts(call: Call) -> Answering {
    Box::pin(async move {
        let section = wire::read_conflict_revisions(&read_object(&call.body)?)?;
        sections::replace(call, section).await
    })
}

/// `POST /admin/revisions/config/enforce`.
pub(crate) fn enforce(call: &Call) -> Result<Answer, ApiError> {
    let body = read_object(&call.body)?;
    let with_forced = flag(&body, "IncludeForceCreated")?;
    begin(call, &body, RevisionTask::Enforce { with_forced })
}

/// `POST /revisions/revert`.
pub(crate) fn revert(call: &Call) -> Result<Answer, ApiError> {
    let body = read_object(&call.body)?;
    let text = body.get("Time").and_then(Value::as_str).unwrap_or("");
    let Some(time) = date::parse(text) else {
        let message = format!("Could not convert '{text}' to System.DateTime");
        return Err(ApiError::new(ErrorKind::Format, message));
    };
    let window = match body.get("WindowInSec") {
        None | Some(Value::Null) => 0,
        Some(window) => window.as_i64().ok_or_else(|| {
            let message = format!("Could not convert '{window}' to System.Int64");
            ApiError::new(ErrorKind::Format, message)
        })?,
    };
    let to = time.utc_ticks();
    let oldest = to.saturating_sub(window.max(0).saturating_mul(TICKS_PER_SECOND));
    begin(call, &body, RevisionTask::Revert { to, oldest })
}

fn begin(call: &Call, body: &Map<String, Value>, task: RevisionTask) -> Result<Answer, ApiError> {
    let collections = texts_of(body, "Collections")?.into_iter().map(CollectionName::new);
    let collections: Result<Vec<_>, _> = collections.collect();
    let collections = collections.map_err(|error| ApiError::argument(error.to_string()))?;
    let (engine, database) = (&call.state.engine, call.database()?);
    let id = engine.begin_revision_operation(database, task, collections, show_failure)?;
    Ok(Answer::shape(
        StatusCode::OK,
        &json!({"OperationId": id, "OperationNodeTag": call.state.node_tag()}),
    ))
}

pub(crate) fn flag(body: &Map<String, Value>, name: &str) -> Result<bool, ApiError> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| {
            let message = format!("Could not convert '{value}' to System.Boolean");
            ApiError::new(ErrorKind::Format, message)
        }),
    }
}
