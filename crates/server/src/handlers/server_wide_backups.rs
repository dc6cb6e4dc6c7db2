//! Scheduled backups of all databases.

use engine::{ChangedServerWideBackup, ServerWideBackupTask};
use http::StatusCode;
use serde_json::{Value, json};
use wire::{BackupEncryption, ServerWideBackup, hide_cloud_secrets};

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    handlers::backups::destinations_of, http::router::Answering, request_json::read_object,
};

/// `PUT /admin/configuration/server-wide/backup`.
pub(crate) fn put(call: Call) -> Answering {
    Box::pin(async move {
        let sent = read_object(&call.body)?;
        let state = call.state;
        blocking(move || {
            let changed = state.engine.put_server_wide_backup(&sent)?;
            Ok(changed_answer(StatusCode::CREATED, &changed))
        })
        .await
    })
}

/// `GET /admin/configuration/server-wide/backup`.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = query.get("name").filter(|name| !name.is_empty());
    let is_wanted =
        |task: &&ServerWideBackupTask| name.is_none_or(|name| task.name.eq_ignore_ascii_case(name));
    let tasks = call.state.engine.server_wide_backups();
    let shown = tasks.iter().filter(is_wanted);
    let shown: Vec<_> = shown
        .map(|task| {
            let mut shown = ServerWideBackup::shown(&task.stored);
            hide_cloud_secrets(&mut shown);
            shown
        })
        .collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"Results": shown})))
}

/// `DELETE /admin/configuration/server-wide/backup`, and the same by the route for all kinds of tasks.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let state = call.state;
        blocking(move || {
            let changed = state.engine.delete_server_wide_backup(&name)?;
            Ok(changed_answer(StatusCode::OK, &changed))
        })
        .await
    })
}

/// Enables one, or disables it.
pub(crate) fn set_state(call: Call, is_disabled: bool) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let state = call.state;
        blocking(move || {
            let changed = state.engine.set_server_wide_backup_state(&name, is_disabled)?;
            Ok(changed_answer(StatusCode::OK, &changed))
        })
        .await
    })
}

/// One in the list of tasks of all kinds.
pub(crate) fn task_json(task: &ServerWideBackupTask) -> Value {
    let definition = &task.definition.definition;
    json!({
        "TaskId": task.id,
        "TaskType": "Backup",
        "ResponsibleNode": null,
        "TaskState": if definition.is_disabled { "Disabled" } else { "Enabled" },
        "TaskConnectionStatus": "None",
        "TaskName": task.name,
        "MentorNode": definition.mentor_node,
        "PinToMentorNode": definition.is_pinned,
        "Error": null,
        "ExcludedDatabases": task.definition.excluded,
        "BackupType": definition.configuration.kind.word(),
        "BackupDestinations": destinations_of(&definition.configuration),
        "RetentionPolicy": task.stored.get("RetentionPolicy"),
        "IsEncrypted": definition.configuration.encryption != BackupEncryption::None,
    })
}

fn changed_answer(status: StatusCode, changed: &ChangedServerWideBackup) -> Answer {
    Answer::shape(status, &json!({"Name": changed.name, "RaftCommandIndex": changed.index}))
}
