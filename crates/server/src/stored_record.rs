//! Reads and changes the record of a database.
//!
//! A record is the JSON that a client sent. Invariant: a change preserves every other property.

use cluster_state::RecordDraft;
use database::{Decision, WrittenRecord};

use model::{DatabaseRecord, date};
use serde_json::{Map, Value, json};
use wire::{
    CLIENT_CONFIGURATION_PROPERTY, ErrorKind,
    database_shapes::{LockMode, TopologyFacts, database_record},
};

use crate::{api_error::ApiError, client_configuration, server_state::ServerState};

/// The whole record as the protocol shows it.
pub(crate) fn record_json(record: &DatabaseRecord, node_tag: &str) -> Value {
    let mut stored = body_of(record);
    if let Some(configuration) = client_configuration::of_record(record) {
        stored.insert(CLIENT_CONFIGURATION_PROPERTY.to_owned(), configuration.json);
    }
    let name = record.name.as_str();
    database_record(&stored, name, record.disabled, &topology_facts(record, node_tag), record.etag)
}

/// What the server knows about the nodes of a database.
pub(crate) fn topology_facts(record: &DatabaseRecord, node_tag: &str) -> TopologyFacts {
    let text = |id: model::DatabaseId| String::from_utf8_lossy(&id.text()).into_owned();
    let is_ordered =
        Value::Object(body_of(record))["Topology"]["PriorityOrder"] == json!([node_tag]);
    TopologyFacts {
        node_tag: node_tag.to_owned(),
        stamp_index: record.topology_index,
        nodes_modified_at: date::format(record.created_ticks),
        topology_id: text(record.topology_id),
        cluster_transaction_id: text(record.cluster_transaction_id),
        priority_order: if is_ordered { vec![node_tag.to_owned()] } else { Vec::new() },
    }
}

/// The lock mode of a database.
pub(crate) fn lock_mode(record: &DatabaseRecord) -> LockMode {
    let body = body_of(record);
    body.get("LockMode").and_then(Value::as_str).and_then(LockMode::named).unwrap_or_default()
}

/// What the client stored.
pub(crate) fn body_of(record: &DatabaseRecord) -> Map<String, Value> {
    serde_json::from_slice(record.configuration.json()).unwrap_or_default()
}

/// Changes the body of a record, and has the open database follow it. `change` is called again with a newer
/// body if another change came first. Blocks.
///
/// # Errors
/// Those of `change`; there is no such database; the record cannot be written.
pub(crate) fn change_body(
    state: &ServerState,
    name: &str,
    mut change: impl FnMut(&mut Map<String, Value>) -> Result<(), ApiError>,
) -> Result<WrittenRecord, ApiError> {
    state.engine.decide_record_body(name, |_, body| {
        change(body.properties_mut())?;
        Ok(Decision::Replace)
    })
}

/// Sets a property in the body of a record, like [`change_body`].
pub(crate) fn set_in_body(
    state: &ServerState,
    name: &str,
    property: &str,
    value: &Value,
) -> Result<WrittenRecord, ApiError> {
    change_body(state, name, |body| {
        body.insert(property.to_owned(), value.clone());
        Ok(())
    })
}

/// Like [`change_body`], for the whole record.
pub(crate) fn change_record(
    state: &ServerState,
    name: &str,
    mut change: impl FnMut(&DatabaseRecord, &mut RecordDraft),
) -> Result<WrittenRecord, ApiError> {
    state.engine.decide_record(name, |record, draft| {
        change(record, draft);
        Ok(Decision::Replace)
    })
}

/// Parses a body that must be an object.
pub(crate) fn read_object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        let (kind, message) = if error.is_eof() {
            let message = "Stream ended without reaching end of json content".to_owned();
            (ErrorKind::EndOfStream, message)
        } else if error.is_data() {
            (ErrorKind::InvalidStartOfObject, format!("Expected start of object: {error}"))
        } else {
            (ErrorKind::InvalidData, format!("The body is not JSON: {error}"))
        };
        ApiError::new(kind, message)
    })
}

/// The strings of an array property; none if it is missing or null.
///
/// # Errors
///
/// When it is not an array, or has elements that are not strings: names in a request must not be
/// ignored.
pub(crate) fn texts_of(body: &Map<String, Value>, property: &str) -> Result<Vec<String>, ApiError> {
    let elements = match body.get(property) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(elements)) => elements,
        Some(other) => return Err(not_convertible(property, other, "an array of texts")),
    };
    let text = |element: &Value| match element {
        Value::String(text) => Ok(text.clone()),
        other => Err(not_convertible(property, other, "a text")),
    };
    elements.iter().map(text).collect()
}

/// The object in a property, unless it is missing or null.
///
/// # Errors
/// When it is anything else.
pub(crate) fn object_of<'b>(
    body: &'b Map<String, Value>,
    property: &str,
) -> Result<Option<&'b Map<String, Value>>, ApiError> {
    match body.get(property) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(other) => Err(not_convertible(property, other, "an object")),
    }
}

fn not_convertible(property: &str, value: &Value, kind: &str) -> ApiError {
    let message = format!("Could not convert '{value}' in '{property}' to {kind}");
    ApiError::new(ErrorKind::Format, message)
}
