//! Tasks of all databases, of every kind that this server has: backups and external replication.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    handlers::{server_wide_backups, server_wide_replication},
    http::router::Answering,
};

/// The kinds of tasks that all databases may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Backup,
    Replication,
}

fn kind_of(call: &Call) -> Result<Kind, ApiError> {
    let query = call.query();
    let kind = query.single_non_empty("type")?;
    match () {
        () if kind.eq_ignore_ascii_case("Backup") => Ok(Kind::Backup),
        () if kind.eq_ignore_ascii_case("Replication") => Ok(Kind::Replication),
        () => Err(ApiError::argument(format!("{kind} is unknown task type."))),
    }
}

/// `GET /admin/configuration/server-wide/tasks`.
pub(crate) fn definitions(call: &Call) -> Result<Answer, ApiError> {
    match kind_of(call)? {
        Kind::Backup => server_wide_backups::list(call),
        Kind::Replication => server_wide_replication::list(call),
    }
}

/// `GET /admin/server-wide/tasks`.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let tasks = call.state.engine.server_wide_backups();
    let replications = call.state.engine.server_wide_replications()?;
    let replications = replications.iter().map(server_wide_replication::task_json);
    let tasks = tasks.iter().map(server_wide_backups::task_json);
    let tasks: Vec<Value> = tasks.chain(replications).collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"Tasks": tasks})))
}

/// `POST /admin/configuration/server-wide/state`.
pub(crate) fn set_state(call: Call) -> Answering {
    let read = || {
        let kind = kind_of(&call)?;
        let disable = call.query().bool("disable")?.ok_or_else(|| {
            ApiError::argument("Query string disable is mandatory, but wasn't specified.")
        })?;
        Ok((kind, disable))
    };
    match read() {
        Ok((Kind::Backup, is_disabled)) => server_wide_backups::set_state(call, is_disabled),
        Ok((Kind::Replication, is_disabled)) => {
            server_wide_replication::set_state(call, is_disabled)
        }
        Err(error) => failed(error),
    }
}

/// `DELETE /admin/configuration/server-wide/task`.
pub(crate) fn delete(call: Call) -> Answering {
    match kind_of(&call) {
        Ok(Kind::Backup) => server_wide_backups::delete(call),
        Ok(Kind::Replication) => server_wide_replication::delete(call),
        Err(error) => failed(error),
    }
}

fn failed(error: ApiError) -> Answering {
    Box::pin(async move { Err(error) })
}
