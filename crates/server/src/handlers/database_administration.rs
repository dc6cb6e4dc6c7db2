//! Administration of an existing database: its settings, its lock, the order of its nodes, its
//! compression. The cluster has one node, so requests that add or promote nodes end there.

use engine::check_settings;
use http::StatusCode;
use serde_json::{Value, json};
use wire::{ErrorKind, database_shapes::LockMode};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    http::router::Answering,
    stored_record::{body_of, change_record, read_object, set_in_body, texts_of},
};

fn missing(name: &str) -> ApiError {
    let message = format!("Database '{name}' does not exist.");
    ApiError::new(ErrorKind::DatabaseDoesNotExist, message)
}

/// `PUT /databases/*/admin/configuration/settings`: replaces the settings of the record. They take
/// effect when the database is next opened.
pub(crate) fn put_settings(call: Call) -> Answering {
    Box::pin(async move {
        let settings = Value::Object(read_object(&call.body)?);
        let name = call.database()?.record().name.as_str().to_owned();
        let named = wire::read_record_settings(Some(&settings))?;
        check_settings(call.state.engine.settings(), &name, &named)?;
        let state = call.state;
        blocking(move || {
            let record = state.engine.record(&name).ok_or_else(|| missing(&name))?;
            state.engine.check_named_directories(&record.name, &named)?;
            set_in_body(&state, &name, "Settings", &settings)?;
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
            if let Some(name) = names.iter().find(|name| state.engine.record(name).is_none()) {
                return Err(missing(name));
            }
            for name in &names {
                set_in_body(&state, name, "LockMode", &mode.name().into())?;
            }
            Ok(Answer::empty(StatusCode::NO_CONTENT))
        })
        .await
    })
}

fn lock_mode_of(mode: Option<&Value>) -> Result<LockMode, ApiError> {
    let named = match mode {
        None | Some(Value::Null) => Some(LockMode::Unlock),
        Some(Value::String(name)) => LockMode::named(name),
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
        let state = call.state;
        if state.engine.record(&name).is_none() {
            return Err(missing(&name));
        }
        if texts_of(&body, "MembersOrder")? != [state.node_tag()] {
            let message = "The reordered list doesn't correspond to the existing nodes of the \
                           database group.";
            return Err(ApiError::argument(message));
        }
        let is_fixed = body.get("Fixed").and_then(Value::as_bool).unwrap_or(false);
        let order = if is_fixed { json!([state.node_tag()]) } else { json!([]) };
        blocking(move || {
            change_record(&state, &name, |record, draft| {
                draft.changes_topology = true;
                let mut body = body_of(record);
                body.insert("Topology".to_owned(), json!({"PriorityOrder": order}));
                draft.body = Value::Object(body).to_string().into_bytes();
            })?;
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
            let promoted = change_record(&state, &name, |_, _| ())?;
            let name = promoted.record.name.as_str();
            let answer = json!({"Name": name, "RaftCommandIndex": promoted.index});
            Ok(Answer::shape(StatusCode::OK, &answer))
        })
        .await
    })
}
