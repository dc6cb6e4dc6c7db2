//! Ongoing tasks of a database: subscriptions, scheduled backups, ETL tasks, external replication, hubs and sinks. Other kinds
//! are rejected.

use cluster_state::SubscriptionRecord;
use engine::{
    BackupTask, EngineError, EtlTask, HubTask, ReplicationTask, SinkTask, SubscriptionKey,
    node_of_subscription,
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
        backups, etl, pull_replication, replication,
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
    Hub,
    Sink,
}

const KINDS: [(&str, Kind); 6] = [
    ("Subscription", Kind::Subscription),
    ("Backup", Kind::Backup),
    ("RavenEtl", Kind::RavenEtl),
    ("Replication", Kind::Replication),
    ("PullReplicationAsHub", Kind::Hub),
    ("PullReplicationAsSink", Kind::Sink),
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
    let sinks = call.state.engine.sinks(&record);
    let sinks =
        sinks.iter().map(|task| Value::Object(pull_replication::sink_json(call, &record, task)));
    for task in sinks.chain(pull_replication::connected_json(call, &record)) {
        let json = task.to_string();
        tasks.add(json.len(), |out| {
            out.extend_from_slice(json.as_bytes());
            Ok(())
        })?;
    }
    let hubs = Value::Array(pull_replication::definitions_json(call, &record));
    let tail = format!("],\"SubscriptionsCount\":{count},\"PullReplications\":{hubs}}}");
    Ok(tasks.end(tail.as_bytes()))
}

/// `GET /task`.
pub(crate) fn get(call: &Call) -> Result<Answer, ApiError> {
    let record = call.database()?.record();
    let found = match kind_of(call)? {
        Kind::Subscription => return get_subscription(call),
        Kind::Hub => {
            let message = "Getting task info for PullReplicationAsHub is not supported";
            return Err(ApiError::new(ErrorKind::BadRequest, message));
        }
        Kind::RavenEtl => {
            named_etl(call, &record)?.map(|task| etl::details_json(call, &record, &task))
        }
        Kind::Replication => {
            let task = named_replication(call, &record)?;
            task.map(|task| Value::Object(replication::task_json(call, &record, &task)))
        }
        Kind::Sink => {
            let task = named_sink(call, &record)?;
            task.map(|task| Value::Object(pull_replication::sink_json(call, &record, &task)))
        }
        Kind::Backup => named_backup(call, &record)?
            .map(|task| backups::task_json(call, &record, &task))
            .transpose()?,
    };
    Ok(match found {
        Some(task) => Answer::shape(StatusCode::OK, &task),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

fn get_subscription(call: &Call) -> Result<Answer, ApiError> {
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
    let record = call.database()?.record();
    let (engine, name) = (&call.state.engine, record.name.as_str());
    let key = query.long("key")?;
    let id = |named: Option<u64>| match key {
        Some(key) => u64::try_from(key).unwrap_or(0),
        None => named.unwrap_or(0),
    };
    if !is_disabled && matches!(kind, Kind::RavenEtl | Kind::Replication | Kind::Sink) {
        etl::check_enabling(call)?;
    }
    let (id, index) = match kind {
        Kind::Subscription => return set_subscription_state_of(call, is_disabled),
        Kind::Backup => {
            (id(None), engine.set_backup_task_state(name, id(None), is_disabled)?.index)
        }
        Kind::RavenEtl => {
            let id = id(named_etl(call, &record)?.map(|task| task.definition.id));
            (id, engine.set_etl_task_state(name, id, is_disabled)?.index)
        }
        Kind::Replication => {
            let id = id(named_replication(call, &record)?.map(|task| task.definition.id));
            (id, engine.set_replication_task_state(name, id, is_disabled)?.index)
        }
        Kind::Hub => {
            let id = id(named_hub(call, &record)?.map(|task| task.definition.id));
            (id, engine.set_hub_state(name, id, is_disabled)?.index)
        }
        Kind::Sink => {
            let id = id(named_sink(call, &record)?.map(|task| task.definition.id));
            (id, engine.set_sink_state(name, id, is_disabled)?.index)
        }
    };
    Ok(changed_answer(i64::try_from(id).unwrap_or(0), index))
}

fn set_subscription_state_of(call: &Call, is_disabled: bool) -> Result<Answer, ApiError> {
    let query = call.query();
    let Some(record) = named(call)? else {
        let name = query.get("taskName").unwrap_or_default();
        let database = call.database()?.record();
        let message = format!("Cannot find subscription {name} @ {}", database.name.as_str());
        return Err(ApiError::new(ErrorKind::StateChangeRefused, message));
    };
    let changed = set_disabled(call, &record, is_disabled)?;
    Ok(changed_answer(query.long("key")?.unwrap_or(0), changed.index))
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
    let task = u64::try_from(id).unwrap_or(0);
    let record = call.database()?.record();
    let (engine, name) = (&call.state.engine, record.name.as_str());
    let index = match kind {
        Kind::Subscription => {
            let record = named_by(call, query.get("taskName"), u64::try_from(id).ok())?;
            remove(call, &record.name)?;
            engine.cluster_state().last_index()?
        }
        Kind::Backup => engine.delete_backup_task(name, task)?.index,
        Kind::RavenEtl => engine.delete_etl_task(name, task)?.index,
        Kind::Replication => engine.delete_replication_task(name, task)?.index,
        Kind::Hub => engine.delete_hub(name, task)?.index,
        Kind::Sink => engine.delete_sink(name, task)?.index,
    };
    Ok(changed_answer(id, index))
}

fn changed_answer(task: i64, index: u64) -> Answer {
    Answer::shape(StatusCode::OK, &json!({"TaskId": task, "RaftCommandIndex": index}))
}

/// Whether a request means the task of this number and name, which it names by either.
fn is_named(call: &Call, number: u64, known: Option<&str>) -> Result<bool, ApiError> {
    let query = call.query();
    Ok(match query.long("key")? {
        Some(id) => i64::try_from(number) == Ok(id),
        None => {
            let name = query.get("taskName").filter(|name| !name.is_empty());
            name.zip(known).is_some_and(|(name, known)| known.eq_ignore_ascii_case(name))
        }
    })
}

/// The first task that a request names.
fn first_named<T>(
    call: &Call,
    tasks: Vec<T>,
    names: impl Fn(&T) -> (u64, Option<&str>),
) -> Result<Option<T>, ApiError> {
    for task in tasks {
        let (number, name) = names(&task);
        if is_named(call, number, name)? {
            return Ok(Some(task));
        }
    }
    Ok(None)
}

/// The scheduled backup that a request names, by its number or its name.
fn named_backup(call: &Call, record: &DatabaseRecord) -> Result<Option<BackupTask>, ApiError> {
    first_named(call, call.state.engine.backup_tasks(record), |task| {
        (task.definition.id, task.definition.name.as_deref())
    })
}

/// The same of ETL tasks.
fn named_etl(call: &Call, record: &DatabaseRecord) -> Result<Option<EtlTask>, ApiError> {
    first_named(call, call.state.engine.etl_tasks(record), |task| {
        (task.definition.id, Some(&task.definition.name))
    })
}

/// The same of tasks of external replication.
fn named_replication(
    call: &Call,
    record: &DatabaseRecord,
) -> Result<Option<ReplicationTask>, ApiError> {
    first_named(call, call.state.engine.replication_tasks(record), |task| {
        (task.definition.id, Some(&task.definition.name))
    })
}

/// The same of hubs.
fn named_hub(call: &Call, record: &DatabaseRecord) -> Result<Option<HubTask>, ApiError> {
    first_named(call, call.state.engine.hubs(record), |task| {
        (task.definition.id, Some(&task.definition.name))
    })
}

/// The same of sinks.
fn named_sink(call: &Call, record: &DatabaseRecord) -> Result<Option<SinkTask>, ApiError> {
    first_named(call, call.state.engine.sinks(record), |task| {
        (task.definition.id, Some(&task.definition.name))
    })
}
