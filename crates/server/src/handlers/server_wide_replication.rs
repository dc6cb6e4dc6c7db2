//! Tasks of external replication that every database of the server has.

use std::sync::Arc;

use engine::ChangedServerWideTask;
use http::StatusCode;
use serde_json::{Value, json};
use wire::ServerWideReplication;

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    http::router::Answering, request_json::read_object,
};

fn changed_answer(status: StatusCode, changed: &ChangedServerWideTask) -> Answer {
    Answer::shape(status, &json!({"Name": changed.name, "RaftCommandIndex": changed.index}))
}

/// `PUT /admin/configuration/server-wide/external-replication`.
pub(crate) fn put(call: Call) -> Answering {
    Box::pin(async move {
        let sent = read_object(&call.body)?;
        let state = Arc::clone(&call.state);
        blocking(move || {
            let changed = state.engine.put_server_wide_replication(&sent)?;
            Ok(changed_answer(StatusCode::CREATED, &changed))
        })
        .await
    })
}

/// The definitions, or that of one name.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = query.get("name").filter(|name| !name.is_empty());
    let is_wanted =
        |task: &ServerWideReplication| name.is_none_or(|name| task.name.eq_ignore_ascii_case(name));
    let tasks = call.state.engine.server_wide_replications()?.into_iter().filter(is_wanted);
    let shown: Vec<Value> = tasks.map(|task| Value::Object(task.stored().clone())).collect();
    Ok(Answer::shape(StatusCode::OK, &json!({ "Results": shown })))
}

/// One of them among the ongoing tasks of the server.
pub(crate) fn task_json(task: &ServerWideReplication) -> Value {
    let stored = task.stored();
    let is_disabled = stored.get("Disabled").and_then(Value::as_bool).unwrap_or(false);
    json!({
        "TaskId": task.id,
        "TaskType": "Replication",
        "ResponsibleNode": null,
        "TaskState": if is_disabled { "Disabled" } else { "Enabled" },
        "TaskConnectionStatus": "None",
        "TaskName": task.name,
        "MentorNode": stored.get("MentorNode"),
        "PinToMentorNode": stored.get("PinToMentorNode"),
        "Error": null,
        "ExcludedDatabases": stored.get("ExcludedDatabases"),
        "DestinationUrl": null,
        "TopologyDiscoveryUrls": stored.get("TopologyDiscoveryUrls"),
        "DestinationDatabase": null,
        "ConnectionStringName": null,
        "DelayReplicationFor": stored.get("DelayReplicationFor"),
    })
}

/// Enables the task that a request names in all databases, or disables it.
pub(crate) fn set_state(call: Call, is_disabled: bool) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let state = Arc::clone(&call.state);
        blocking(move || {
            let changed = state.engine.set_server_wide_replication_state(&name, is_disabled)?;
            Ok(changed_answer(StatusCode::OK, &changed))
        })
        .await
    })
}

/// Deletes the task that a request names from all databases.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let state = Arc::clone(&call.state);
        blocking(move || {
            let changed = state.engine.delete_server_wide_replication(&name)?;
            Ok(changed_answer(StatusCode::OK, &changed))
        })
        .await
    })
}
