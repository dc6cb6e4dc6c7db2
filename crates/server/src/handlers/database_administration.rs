//! Administration of an existing database: its settings, its lock, the order of its nodes, its
//! compression. The cluster has one node, so requests that add or promote nodes end there.

use http::StatusCode;
use model::{DatabaseLockMode, NamedEnum as _};
use serde_json::{Value, json};
use wire::{ErrorKind, read_settings_section};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    http::router::Answering,
    request_json::{read_object, texts_of},
};

/// `PUT /databases/*/admin/configuration/settings`: replaces the settings of the record. They take
/// effect when the database is next opened.
pub(crate) fn put_settings(call: Call) -> Answering {
    Box::pin(async move {
        let settings = read_settings_section(read_object(&call.body)?);
        let name = call.database()?.record().name.as_str().to_owned();
        let state = call.state;
        blocking(move || {
            state.engine.configure(&name, &[settings])?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}

/// `POST /admin/databases/set-lock`.
pub(crate) fn set_lock(call: Call) -> Answering {
    Box::pin(async move {
        let body = read_object(&call.body)?;
        let names = texts_of(&body, "DatabaseNames")?;
        if names.is_empty() {
            let message = "Value cannot be null. (Parameter 'DatabaseNames')";
            return Err(ApiError::new(ErrorKind::ArgumentNull, message));
        }
        let mode = lock_mode_of(body.get("Mode"))?;
        let state = call.state;
        blocking(move || {
            state.engine.set_lock_mode(&names, mode)?;
            Ok(Answer::empty(StatusCode::NO_CONTENT))
        })
        .await
    })
}

fn lock_mode_of(mode: Option<&Value>) -> Result<DatabaseLockMode, ApiError> {
    let named = match mode {
        None | Some(Value::Null) => Some(DatabaseLockMode::Unlock),
        Some(Value::String(name)) => DatabaseLockMode::named(name),
        Some(_) => None,
    };
    named.ok_or_else(|| {
        let mode = mode.unwrap_or(&Value::Null);
        let message = format!("{mode} is not a lock mode of a database");
        ApiError::new(ErrorKind::Format, message)
    })
}

/// `POST /admin/databases/reorder`.
pub(crate) fn reorder(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let body = read_object(&call.body)?;
        let nodes = texts_of(&body, "MembersOrder")?;
        let is_fixed = body.get("Fixed").and_then(Value::as_bool).unwrap_or(false);
        let state = call.state;
        blocking(move || {
            state.engine.reorder_nodes(&name, &nodes, is_fixed)?;
            Ok(Answer::empty(StatusCode::NO_CONTENT))
        })
        .await
    })
}

/// `PUT /admin/databases/node`: there is no other node to add.
pub(crate) fn add_node(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    if call.state.engine.record(name).is_none() {
        let message =
            "Database Record not found when trying to add a node to the database topology";
        return Err(ApiError::new(ErrorKind::DatabaseDoesNotExist, message));
    }
    let message = match query.get("node").filter(|node| !node.is_empty()) {
        None => format!("Database {name} already exists on all the nodes of the cluster"),
        Some(node) if node == call.state.node_tag() => {
            format!("Can't add node {node} to {name} topology because it is already part of it")
        }
        Some(node) => format!(
            "Can't add node {node} to database '{name}' topology, because node {node} (which is in \
             the new topology) is not part of the cluster"
        ),
    };
    Err(ApiError::invalid_operation(message))
}

/// `POST /admin/databases/promote`: the only node is a member already.
pub(crate) fn promote(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let name = query.single_non_empty("name")?.to_owned();
        query.required("node")?;
        drop(query);
        let state = call.state;
        blocking(move || {
            let promoted = state.engine.promote_node(&name)?;
            let name = promoted.record.name.as_str();
            let answer = json!({"Name": name, "RaftCommandIndex": promoted.index});
            Ok(Answer::shape(StatusCode::OK, &answer))
        })
        .await
    })
}
