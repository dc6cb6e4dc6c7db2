//! Backups of databases, and restoring them.

use std::sync::Arc;

use ::security::Requirement;
use engine::{BackupTask, EngineError};
use http::StatusCode;
use model::{DatabaseRecord, TimeSpan, date};
use serde_json::{Map, Value, json};
use wire::{
    BackupConfiguration, BackupEncryption, RestoreConfiguration, RestoreSource, hide_cloud_secrets,
    names_cloud_server,
};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::{ongoing_tasks::responsible_json, operations::show_failure},
    http::router::Answering,
    request_json::read_object,
};

/// `POST /databases/*/admin/backup`: backs the database up once.
pub(crate) fn back_up_once(call: Call) -> Answering {
    Box::pin(async move {
        let sent = read_object(&call.body)?;
        check_server(&call, &sent)?;
        let configuration = BackupConfiguration::read(&sent)?;
        let (state, database) = (call.state.clone(), call.database()?.clone());
        let build = u64::from(state.build().build_version);
        blocking(move || {
            let engine = &state.engine;
            let id = engine.begin_backup(&database, &configuration, build, show_failure)?;
            Ok(begun(id, &state.node_tag()))
        })
        .await
    })
}

/// `POST /admin/restore/points`.
pub(crate) fn restore_points(call: Call) -> Answering {
    Box::pin(async move {
        let kind = call.query().get("type").map(Value::from);
        let sent = read_object(&call.body)?;
        let source = RestoreSource::read(kind.as_ref(), Some(&sent))?;
        let folder = sent.get("FolderPath").and_then(Value::as_str).unwrap_or_default().to_owned();
        if folder.is_empty() && source == RestoreSource::Local {
            return Err(ApiError::argument("'FolderPath' is required."));
        }
        let state = call.state;
        blocking(move || {
            let points = match &source {
                RestoreSource::Local => state.engine.restore_points(&folder)?,
                RestoreSource::S3(bucket) => state.engine.cloud_restore_points(bucket)?,
            };
            let list: Vec<Value> = points.iter().map(|point| point.to_json()).collect();
            Ok(Answer::shape(StatusCode::OK, &json!({"List": list})))
        })
        .await
    })
}

/// `POST /admin/restore/database`.
pub(crate) fn restore(call: Call) -> Answering {
    Box::pin(async move {
        let configuration = RestoreConfiguration::read(&read_object(&call.body)?)?;
        let state = call.state;
        blocking(move || {
            let id = state.engine.begin_restore(configuration, show_failure)?;
            Ok(begun(id, &state.node_tag()))
        })
        .await
    })
}

/// Whether the client may have the server send backups to a server that it names, which may be any in the network.
fn check_server(call: &Call, sent: &Map<String, Value>) -> Result<(), ApiError> {
    match names_cloud_server(sent) {
        true => Ok(call.caller.check(Requirement::Operator, None)?),
        false => Ok(()),
    }
}

/// An operation that runs.
fn begun(id: i64, node_tag: &str) -> Answer {
    Answer::shape(StatusCode::OK, &json!({"OperationId": id, "OperationNodeTag": node_tag}))
}

/// `POST /databases/*/admin/periodic-backup`: defines a scheduled backup.
pub(crate) fn put_task(call: Call) -> Answering {
    Box::pin(async move {
        let sent = read_object(&call.body)?;
        check_server(&call, &sent)?;
        let database = call.database()?.record().name.as_str().to_owned();
        let state = call.state;
        blocking(move || {
            let changed = state.engine.put_backup_task(&database, &sent)?;
            let answer = json!({"RaftCommandIndex": changed.index, "TaskId": changed.id});
            Ok(Answer::shape(StatusCode::OK, &answer))
        })
        .await
    })
}

/// `POST /databases/*/admin/backup/database`: runs a scheduled backup now.
pub(crate) fn run_task(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let task = u64::try_from(query.required_long("taskId")?).unwrap_or(0);
        let is_full = query.bool("isFullBackup")?.unwrap_or(true);
        let operation = query.long("operationId")?;
        let (state, database) = (call.state.clone(), call.database()?.clone());
        let build = u64::from(state.build().build_version);
        blocking(move || {
            let engine = &state.engine;
            let id = engine.begin_backup_run(
                &database,
                task,
                is_full,
                build,
                operation,
                show_failure,
            )?;
            let answer = json!({"ResponsibleNode": state.node_tag(), "OperationId": id});
            Ok(Answer::shape(StatusCode::OK, &answer))
        })
        .await
    })
}

/// The database and the scheduled backup that a request of the server names.
fn named_task(call: &Call) -> Result<(Arc<DatabaseRecord>, BackupTask), ApiError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    call.check_database(name)?;
    let id = query.required_long("taskId")?;
    let missing = || EngineError::DatabaseMissing { name: name.to_owned() };
    let record = call.state.engine.record(name).ok_or_else(missing)?;
    let tasks = call.state.engine.backup_tasks(&record);
    let task = tasks.into_iter().find(|task| i64::try_from(task.definition.id) == Ok(id));
    let task = task.ok_or_else(|| {
        ApiError::invalid_operation(format!("Periodic backup task ID: {id} doesn't exist"))
    })?;
    Ok((record, task))
}

/// `GET /periodic-backup`: the definition of a scheduled backup.
pub(crate) fn task(call: &Call) -> Result<Answer, ApiError> {
    let (record, task) = named_task(call)?;
    // It may have a key.
    call.caller.check(Requirement::DatabaseAdmin, Some(record.name.as_str()))?;
    let mut shown = task.stored;
    hide_cloud_secrets(&mut shown);
    Ok(Answer::shape(StatusCode::OK, &shown))
}

/// `GET /periodic-backup/status`: how the last run of a scheduled backup went.
pub(crate) fn status(call: &Call) -> Result<Answer, ApiError> {
    let (record, task) = named_task(call)?;
    let state = call.state.engine.backup_task_state(&record, &task)?;
    Ok(Answer::shape(StatusCode::OK, &json!({"Status": state.status})))
}

/// `GET /databases/*/admin/periodic-backup/config`, `GET /admin/configuration/server-wide`: what scheduled backups may
/// do on this server.
pub(crate) fn limits(call: &Call) -> Result<Answer, ApiError> {
    let root = call.state.engine.backup_root().display().to_string();
    let answer = json!({
        "LocalRootPath": root, "AllowedAwsRegions": null, "AllowedDestinations": ["Local", "AmazonS3"]
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// The words of the destinations of a backup.
pub(crate) fn destinations_of(configuration: &BackupConfiguration) -> Vec<&'static str> {
    let local = configuration.folder.iter().map(|_| "Local");
    local.chain(configuration.bucket.iter().map(|_| "AmazonS3")).collect()
}

/// A scheduled backup among the ongoing tasks of its database.
pub(crate) fn task_json(
    call: &Call,
    record: &DatabaseRecord,
    task: &BackupTask,
) -> Result<Value, ApiError> {
    let state = call.state.engine.backup_task_state(record, task)?;
    let definition = &task.definition;
    let now = call.state.engine.clock().now().ticks();
    let last = |name: &str| state.status.as_ref().map(|status| status[name].clone());
    let next = state.next.map(|next| {
        let left = TimeSpan { ticks: next.ticks.saturating_sub(now).max(0) };
        json!({
            "TimeSpan": left.to_string(), "DateTime": date::format(next.ticks),
            "IsFull": next.is_full, "OriginalBackupTime": null
        })
    });
    let ongoing = state.running.map(|running| {
        json!({
            "StartTime": date::format(running.began_ticks), "IsFull": running.is_full,
            "RunningBackupTaskId": running.operation
        })
    });
    let error = match &task.obstacle {
        Some(reason) => Some(json!(reason)),
        None => last("Error").map(|error| error["Exception"].clone()),
    };
    Ok(json!({
        "TaskId": definition.id,
        "TaskType": "Backup",
        "ResponsibleNode": responsible_json(call, record.topology.responsible()),
        "TaskState": if definition.is_disabled { "Disabled" } else { "Enabled" },
        "TaskConnectionStatus": if state.running.is_some() { "Active" } else { "NotActive" },
        "TaskName": definition.name,
        "MentorNode": definition.mentor_node,
        "PinToMentorNode": definition.is_pinned,
        "Error": error,
        "BackupType": definition.configuration.kind.word(),
        "BackupDestinations": destinations_of(&definition.configuration),
        "LastFullBackup": last("LastFullBackup"),
        "LastIncrementalBackup": last("LastIncrementalBackup"),
        "OnGoingBackup": ongoing,
        "NextBackup": next,
        "RetentionPolicy": task.stored.get("RetentionPolicy"),
        "IsEncrypted": definition.configuration.encryption != BackupEncryption::None,
        "LastExecutingNodeTag": last("NodeTag"),
    }))
}
