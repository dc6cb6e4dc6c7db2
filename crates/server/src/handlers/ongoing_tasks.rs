//! Ongoing tasks of a database. Subscriptions are the only kind so far; the others are rejected.

use cluster_state::SubscriptionRecord;
use engine::{EngineError, SubscriptionKey};
use http::StatusCode;
use serde_json::{Map, Value, json};
use wire::ErrorKind;

use crate::{
    answers::{answer::Answer, counted_list::CountedList},
    api_error::ApiError,
    call::Call,
    handlers::subscriptions::{
        for_each, named_by, record_bytes, remove, set_disabled, shown_time, shown_vector,
    },
};

/// Rejects a request about an unknown kind of task.
fn require_subscription(call: &Call) -> Result<(), ApiError> {
    let query = call.query();
    let kind = query.single_non_empty("type")?;
    if kind.eq_ignore_ascii_case("Subscription") {
        return Ok(());
    }
    let message = format!("Tasks of the type '{kind}' are not supported by this server yet");
    Err(ApiError::new(ErrorKind::NotSupported, message))
}

fn named(call: &Call) -> Result<Option<SubscriptionRecord>, ApiError> {
    let query = call.query();
    let id = query.long("key")?.and_then(|id| u64::try_from(id).ok());
    let named = named_by(call, query.get("taskName").filter(|name| !name.is_empty()), id);
    match named {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.kind == ErrorKind::SubscriptionDoesNotExist => Ok(None),
        Err(error) => Err(error),
    }
}

/// The common properties of every kind of task.
fn task_json(call: &Call, record: &SubscriptionRecord) -> Result<Map<String, Value>, ApiError> {
    let subscription = call.database()?.subscriptions().get(record.id);
    let has_workers = subscription.is_some_and(|found| !found.connections().is_empty());
    let settings = &record.settings;
    let node = json!({
        "NodeTag": call.state.node_tag(),
        "NodeUrl": call.state.address_in_passing(&call.headers),
        "ResponsibleNode": null,
    });
    let task = json!({
        "TaskId": record.id,
        "TaskType": "Subscription",
        "ResponsibleNode": node,
        "TaskState": if settings.is_disabled { "Disabled" } else { "Enabled" },
        "TaskConnectionStatus": if has_workers { "Active" } else { "NotActive" },
        "TaskName": record.name,
        "MentorNode": settings.mentor_node,
        "PinToMentorNode": settings.is_pinned,
        "Error": null,
        "Query": settings.query,
    });
    match task {
        Value::Object(task) => Ok(task),
        _ => Ok(Map::new()),
    }
}

/// `GET /tasks`.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let metadata = json!(call.state.debug_metadata());
    let head = format!("{{\"@metadata\":{metadata},\"OngoingTasksList\":[");
    let mut tasks = CountedList::begin(&call.state, head.as_bytes());
    let mut count = 0;
    for_each(call, |record| {
        let mut task = task_json(call, record)?;
        task.insert("SubscriptionName".to_owned(), Value::Null);
        task.insert("SubscriptionId".to_owned(), 0.into());
        count += 1;
        tasks.add(record_bytes(record), |out| {
            out.extend_from_slice(Value::Object(task).to_string().as_bytes());
            Ok(())
        })?;
        Ok(true)
    })?;
    let tail = format!("],\"SubscriptionsCount\":{count},\"PullReplications\":[]}}");
    Ok(tasks.end(tail.as_bytes()))
}

/// `GET /task`.
pub(crate) fn get(call: &Call) -> Result<Answer, ApiError> {
    require_subscription(call)?;
    let Some(record) = named(call)? else {
        let name = call.query().get("taskName").unwrap_or_default().to_owned();
        return Err(EngineError::SubscriptionMissing { key: SubscriptionKey::Name(name) }.into());
    };
    let mut task = task_json(call, &record)?;
    let mut put = |name: &str, value: Value| drop(task.insert(name.to_owned(), value));
    put("SubscriptionName", record.name.clone().into());
    put("SubscriptionId", record.id.into());
    put("ChangeVectorForNextBatchStartingPoint", shown_vector(&record));
    put("LastBatchAckTime", shown_time(record.last_acknowledged_ticks));
    put("Disabled", record.settings.is_disabled.into());
    put("LastClientConnectionTime", shown_time(record.last_connected_ticks));
    Ok(Answer::shape(StatusCode::OK, &task))
}

/// `POST /admin/tasks/state`, and the same for subscriptions alone.
pub(crate) fn set_state(call: &Call) -> Result<Answer, ApiError> {
    require_subscription(call)?;
    let query = call.query();
    let is_disabled = query.bool("disable")?.ok_or_else(|| {
        ApiError::argument("Query string disable is mandatory, but wasn't specified.")
    })?;
    let key = query.long("key")?.unwrap_or(0);
    let Some(record) = named(call)? else {
        let name = query.get("taskName").unwrap_or_default();
        let database = call.database()?.record();
        let message = format!("Cannot find subscription {name} @ {}", database.name.as_str());
        return Err(ApiError::new(ErrorKind::StateChangeRefused, message));
    };
    let changed = set_disabled(call, &record, is_disabled)?;
    let answer = json!({"TaskId": key, "RaftCommandIndex": changed.index});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `DELETE /admin/tasks`.
pub(crate) fn delete(call: &Call) -> Result<Answer, ApiError> {
    require_subscription(call)?;
    let query = call.query();
    let id = query.long("id")?.unwrap_or(0);
    let record = named_by(call, query.get("taskName"), u64::try_from(id).ok())?;
    remove(call, &record.name)?;
    let index = call.state.engine.cluster_state().last_index()?;
    let answer = json!({"TaskId": id, "RaftCommandIndex": index});
    Ok(Answer::shape(StatusCode::OK, &answer))
}
