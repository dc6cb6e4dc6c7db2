//! Ongoing tasks of a database: subscriptions, scheduled backups, ETL tasks and external replication. Other kinds are rejected.

use cluster_state::SubscriptionRecord;
use engine::{
    BackupTask, EngineError, EtlTask, ReplicationTask, SubscriptionKey, node_of_subscription,
};
use http::StatusCode;
use model::{DatabaseRecord, NodeTag};
use serde_json::{Map, Value, json};
use wire::ErrorKind;

use crate::{
    answers::{answer::Answer, counted_list::CountedList},
    api_error::ApiError,
    call::Call,
    handlers::{
        backups, etl, replication,
        subscriptions::{
            for_each, named_by, record_bytes, remove, set_disabled, shown_time, shown_vector,
        },
    },
};

/// The kinds of tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Subscription,
    Backup,
    RavenEtl,
    Replication,
}

const KINDS: [(&str, Kind); 4] = [
    ("Subscription", Kind::Subscription),
    ("Backup", Kind::Backup),
    ("RavenEtl", Kind::RavenEtl),
    ("Replication", Kind::Replication),
];

/// The kind of task that a request is about; unknown ones are rejected.
fn kind_of(call: &Call) -> Result<Kind, ApiError> {
    let query = call.query();
    let kind = query.single_non_empty("type")?;
    for (word, known) in KINDS {
        if kind.eq_ignore_ascii_case(word) {
            return Ok(known);
        }
    }
    let message = format!("Tasks of the type '{kind}' are not supported by this server yet");
    Err(ApiError::new(ErrorKind::NotSupported, message))
}

/// The kind of a request that may be about subscriptions alone.
fn subscription_kind(call: &Call) -> Result<Kind, ApiError> {
    let kind = kind_of(call)?;
    if kind == Kind::Subscription {
        return Ok(kind);
    }
    let message =
        "This route is for subscriptions alone: use /admin/tasks for tasks of other types";
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
    let node = node_of_subscription(&call.database()?.record(), record);
    let status = match () {
        () if node != Some(call.state.engine.node_tag()) => "NotOnThisNode",
        () if has_workers => "Active",
        () => "NotActive",
    };
    let task = json!({
        "TaskId": record.id,
        "TaskType": "Subscription",
        "ResponsibleNode": responsible_json(call, node),
        "TaskState": if settings.is_disabled { "Disabled" } else { "Enabled" },
        "TaskConnectionStatus": status,
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

/// The node that runs a task, as clients read it.
pub(crate) fn responsible_json(call: &Call, node: Option<NodeTag>) -> Value {
    let state = &call.state;
    let url = match node {
        Some(node) if node == state.engine.node_tag() => {
            Some(state.address_in_passing(&call.headers).into_owned())
        }
        Some(node) => state
            .engine
            .cluster_topology()
            .ok()
            .and_then(|cluster| cluster.url_of(node).map(str::to_owned)),
        None => None,
    };
    let tag = node.map(|node| node.to_string());
    json!({"NodeTag": tag, "NodeUrl": url, "ResponsibleNode": null})
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
    let record = call.database()?.record();
    for task in call.state.engine.backup_tasks(&record) {
        let json = backups::task_json(call, &record, &task)?.to_string();
        tasks.add(json.len(), |out| {
            out.extend_from_slice(json.as_bytes());
            Ok(())
        })?;
    }
    for task in call.state.engine.etl_tasks(&record) {
        let json = Value::Object(etl::task_json(call, &record, &task)).to_string();
        tasks.add(json.len(), |out| {
            out.extend_from_slice(json.as_bytes());
            Ok(())
        })?;
    }
    for task in call.state.engine.replication_tasks(&record) {
        let json = Value::Object(replication::task_json(call, &record, &task)).to_string();
        tasks.add(json.len(), |out| {
            out.extend_from_slice(json.as_bytes());
            Ok(())
        })?;
    }
    let tail = format!("],\"SubscriptionsCount\":{count},\"PullReplications\":[]}}");
    Ok(tasks.end(tail.as_bytes()))
}

/// `GET /task`.
pub(crate) fn get(call: &Call) -> Result<Answer, ApiError> {
    let kind = kind_of(call)?;
    if kind == Kind::RavenEtl {
        let record = call.database()?.record();
        return Ok(match named_etl(call, &record)? {
            Some(task) => Answer::shape(StatusCode::OK, &etl::details_json(call, &record, &task)),
            None => Answer::empty(StatusCode::NOT_FOUND),
        });
    }
    if kind == Kind::Replication {
        let record = call.database()?.record();
        return Ok(match named_replication(call, &record)? {
            Some(task) => {
                Answer::shape(StatusCode::OK, &replication::task_json(call, &record, &task))
            }
            None => Answer::empty(StatusCode::NOT_FOUND),
        });
    }
    if kind == Kind::Backup {
        let record = call.database()?.record();
        return Ok(match named_backup(call, &record)? {
            Some(task) => Answer::shape(StatusCode::OK, &backups::task_json(call, &record, &task)?),
            None => Answer::empty(StatusCode::NOT_FOUND),
        });
    }
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

/// `POST /admin/tasks/state`.
pub(crate) fn set_state(call: &Call) -> Result<Answer, ApiError> {
    set_state_of(call, kind_of(call)?)
}

/// `POST /subscription-tasks/state`: the same for subscriptions alone, for clients that do not administer the database.
pub(crate) fn set_subscription_state(call: &Call) -> Result<Answer, ApiError> {
    set_state_of(call, subscription_kind(call)?)
}

fn set_state_of(call: &Call, kind: Kind) -> Result<Answer, ApiError> {
    let query = call.query();
    let is_disabled = query.bool("disable")?.ok_or_else(|| {
        ApiError::argument("Query string disable is mandatory, but wasn't specified.")
    })?;
    let key = query.long("key")?.unwrap_or(0);
    if kind == Kind::Backup {
        let database = call.database()?.record();
        let id = u64::try_from(key).unwrap_or(0);
        let engine = &call.state.engine;
        let changed = engine.set_backup_task_state(database.name.as_str(), id, is_disabled)?;
        return Ok(changed_answer(key, changed.index));
    }
    if kind == Kind::RavenEtl {
        let database = call.database()?.record();
        if !is_disabled {
            etl::check_enabling(call)?;
        }
        let id = match query.long("key")? {
            Some(key) => u64::try_from(key).unwrap_or(0),
            None => named_etl(call, &database)?.map_or(0, |task| task.definition.id),
        };
        let engine = &call.state.engine;
        let changed = engine.set_etl_task_state(database.name.as_str(), id, is_disabled)?;
        let id = i64::try_from(id).unwrap_or(0);
        return Ok(changed_answer(id, changed.index));
    }
    if kind == Kind::Replication {
        let database = call.database()?.record();
        if !is_disabled {
            etl::check_enabling(call)?;
        }
        let id = match query.long("key")? {
            Some(key) => u64::try_from(key).unwrap_or(0),
            None => named_replication(call, &database)?.map_or(0, |task| task.definition.id),
        };
        let engine = &call.state.engine;
        let changed = engine.set_replication_task_state(database.name.as_str(), id, is_disabled)?;
        let id = i64::try_from(id).unwrap_or(0);
        return Ok(changed_answer(id, changed.index));
    }
    let Some(record) = named(call)? else {
        let name = query.get("taskName").unwrap_or_default();
        let database = call.database()?.record();
        let message = format!("Cannot find subscription {name} @ {}", database.name.as_str());
        return Err(ApiError::new(ErrorKind::StateChangeRefused, message));
    };
    let changed = set_disabled(call, &record, is_disabled)?;
    Ok(changed_answer(key, changed.index))
}

/// `DELETE /admin/tasks`.
pub(crate) fn delete(call: &Call) -> Result<Answer, ApiError> {
    delete_of(call, kind_of(call)?)
}

/// `DELETE /subscription-tasks`: the same for subscriptions alone.
pub(crate) fn delete_subscription(call: &Call) -> Result<Answer, ApiError> {
    delete_of(call, subscription_kind(call)?)
}

fn delete_of(call: &Call, kind: Kind) -> Result<Answer, ApiError> {
    let query = call.query();
    let id = query.long("id")?.unwrap_or(0);
    if kind == Kind::Backup {
        let database = call.database()?.record();
        let task = u64::try_from(id).unwrap_or(0);
        let changed = call.state.engine.delete_backup_task(database.name.as_str(), task)?;
        return Ok(changed_answer(id, changed.index));
    }
    if kind == Kind::RavenEtl {
        let database = call.database()?.record();
        let task = u64::try_from(id).unwrap_or(0);
        let changed = call.state.engine.delete_etl_task(database.name.as_str(), task)?;
        return Ok(changed_answer(id, changed.index));
    }
    if kind == Kind::Replication {
        let database = call.database()?.record();
        let task = u64::try_from(id).unwrap_or(0);
        let changed = call.state.engine.delete_replication_task(database.name.as_str(), task)?;
        return Ok(changed_answer(id, changed.index));
    }
    let record = named_by(call, query.get("taskName"), u64::try_from(id).ok())?;
    remove(call, &record.name)?;
    let index = call.state.engine.cluster_state().last_index()?;
    Ok(changed_answer(id, index))
}

fn changed_answer(task: i64, index: u64) -> Answer {
    Answer::shape(StatusCode::OK, &json!({"TaskId": task, "RaftCommandIndex": index}))
}

/// The scheduled backup that a request names, by its number or its name.
fn named_backup(call: &Call, record: &DatabaseRecord) -> Result<Option<BackupTask>, ApiError> {
    let query = call.query();
    let (id, name) = (query.long("key")?, query.get("taskName").filter(|name| !name.is_empty()));
    let is_named = |task: &BackupTask| match id {
        Some(id) => i64::try_from(task.definition.id) == Ok(id),
        None => name.is_some_and(|name| {
            let known = task.definition.name.as_deref();
            known.is_some_and(|known| known.eq_ignore_ascii_case(name))
        }),
    };
    Ok(call.state.engine.backup_tasks(record).into_iter().find(is_named))
}

/// The ETL task that a request names, by its number or its name.
fn named_etl(call: &Call, record: &DatabaseRecord) -> Result<Option<EtlTask>, ApiError> {
    let query = call.query();
    let (id, name) = (query.long("key")?, query.get("taskName").filter(|name| !name.is_empty()));
    let is_named = |task: &EtlTask| match id {
        Some(id) => i64::try_from(task.definition.id) == Ok(id),
        None => name.is_some_and(|name| task.definition.name.eq_ignore_ascii_case(name)),
    };
    Ok(call.state.engine.etl_tasks(record).into_iter().find(is_named))
}

/// The task of external replication that a request names, by its number or its name.
fn named_replication(
    call: &Call,
    record: &DatabaseRecord,
) -> Result<Option<ReplicationTask>, ApiError> {
    let query = call.query();
    let (id, name) = (query.long("key")?, query.get("taskName").filter(|name| !name.is_empty()));
    let is_named = |task: &ReplicationTask| match id {
        Some(id) => i64::try_from(task.definition.id) == Ok(id),
        None => name.is_some_and(|name| task.definition.name.eq_ignore_ascii_case(name)),
    };
    Ok(call.state.engine.replication_tasks(record).into_iter().find(is_named))
}
