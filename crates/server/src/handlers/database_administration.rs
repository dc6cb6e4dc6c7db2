//! Administration of an existing database: its settings, its lock, its nodes, its
//! compression.

use http::StatusCode;
use model::{DatabaseLockMode, NamedEnum as _};
use serde_json::{Value, json};
use wire::{ErrorKind, database_shapes::database_put_result, read_settings_section};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    http::router::Answering,
    request_json::{read_object, texts_of},
    stored_record::{nodes_of, topology_facts},
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

/// `PUT /admin/databases/node`: adds a node to a database.
pub(crate) fn add_node(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let name = query.single_non_empty("name")?.to_owned();
        let node = query.get("node").filter(|node| !node.is_empty()).map(str::to_owned);
        drop(query);
        if call.state.engine.record(&name).is_none() {
            let message =
                "Database Record not found when trying to add a node to the database topology";
            return Err(ApiError::new(ErrorKind::DatabaseDoesNotExist, message));
        }
        let address = call.state.address_in_passing(&call.headers).into_owned();
        let state = call.state;
        blocking(move || {
            let added = state.engine.add_database_node(&name, node.as_deref())?;
            let record = added.record;
            let urls: Vec<String> =
                nodes_of(&state, &record, &address).into_iter().map(|node| node.url).collect();
            let facts = topology_facts(&record);
            let result = database_put_result(record.name.as_str(), added.index, &facts, &urls);
            Ok(Answer::shape(StatusCode::OK, &result))
        })
        .await
    })
}

/// `POST /admin/databases/dynamic-node-distribution`: whether nodes that stay away are replaced.
pub(crate) fn set_dynamic_nodes(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let name = query.single_non_empty("name")?.to_owned();
        let is_enabled = query.bool("enabled")?.ok_or_else(|| {
            ApiError::argument("Query string enabled is mandatory, but wasn't specified.")
        })?;
        drop(query);
        let state = call.state;
        blocking(move || {
            let written = state.engine.set_dynamic_nodes(&name, is_enabled)?;
            let name = written.record.name.as_str();
            let answer = json!({"Name": name, "RaftCommandIndex": written.index});
            Ok(Answer::shape(StatusCode::OK, &answer))
        })
        .await
    })
}

/// `POST /admin/databases/promote`.
pub(crate) fn promote(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let name = query.single_non_empty("name")?.to_owned();
        let node = query.required("node")?.to_owned();
        drop(query);
        let state = call.state;
        blocking(move || {
            let promoted = state.engine.promote_node(&name, &node)?;
            let name = promoted.record.name.as_str();
            let answer = json!({"Name": name, "RaftCommandIndex": promoted.index});
            Ok(Answer::shape(StatusCode::OK, &answer))
        })
        .await
    })
}
