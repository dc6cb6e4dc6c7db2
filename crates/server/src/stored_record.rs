//! What the server reads in the record of a database, and how it changes one.
//!
//! A record is the JSON that a client sent. Invariant: a change keeps every property that it does not
//! mean.

use cluster_state::{DatabaseRecord, RecordDraft};
use database::{Decision, WrittenRecord};

use engine::EngineError;
use model::date;
use serde_json::{Map, Value, json};
use wire::{
    CLIENT_CONFIGURATION_PROPERTY, ErrorKind,
    database_shapes::{LockMode, NODE_TAG, TopologyFacts, database_record},
};

use crate::{api_error::ApiError, client_configuration, server_state::ServerState};

/// The whole record as the protocol shows it.
pub(crate) fn record_json(record: &DatabaseRecord) -> Value {
    let mut stored = body_of(record);
    if let Some(configuration) = client_configuration::of_record(record) {
        stored.insert(CLIENT_CONFIGURATION_PROPERTY.to_owned(), configuration.json);
    }
    let name = record.name.as_str();
    database_record(&stored, name, record.disabled, &topology_facts(record), record.etag)
}

/// What the server knows about the nodes of a database.
pub(crate) fn topology_facts(record: &DatabaseRecord) -> TopologyFacts {
    let text = |id: model::DatabaseId| String::from_utf8_lossy(&id.text()).into_owned();
    let is_ordered =
        Value::Object(body_of(record))["Topology"]["PriorityOrder"] == json!([NODE_TAG]);
    TopologyFacts {
        stamp_index: record.topology_index,
        nodes_modified_at: date::format(record.created_ticks),
        topology_id: text(record.topology_id),
        cluster_transaction_id: text(record.cluster_transaction_id),
        priority_order: if is_ordered { vec![NODE_TAG.to_owned()] } else { Vec::new() },
    }
}

/// Whether and how a database is kept from being deleted.
pub(crate) fn lock_mode(record: &DatabaseRecord) -> LockMode {
    let body = body_of(record);
    body.get("LockMode").and_then(Value::as_str).and_then(LockMode::named).unwrap_or_default()
}

/// What the client stored.
pub(crate) fn body_of(record: &DatabaseRecord) -> Map<String, Value> {
    serde_json::from_slice(&record.body).unwrap_or_default()
}

/// Changes the body of a record, and has the open database follow it. `None` when there is no such database.
/// `change` is called again with a newer body if another change came first. Blocks.
pub(crate) fn change_body(
    state: &ServerState,
    name: &str,
    mut change: impl FnMut(&mut Map<String, Value>),
) -> Result<Option<WrittenRecord>, ApiError> {
    match state.change_record_body(name, |body| change(body.properties_mut())) {
        Ok(written) => Ok(Some(written)),
        Err(EngineError::DatabaseMissing { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// As [`change_body`], for the whole record.
pub(crate) fn change_record(
    state: &ServerState,
    name: &str,
    mut change: impl FnMut(&DatabaseRecord, &mut RecordDraft),
) -> Result<Option<WrittenRecord>, ApiError> {
    let written = state.registry.change_record(name, |record, draft| {
        change(record, draft);
        Decision::Replace
    });
    written.map_err(ApiError::from)
}

/// Reads a body that must be an object.
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

/// The texts of an array property; none when it is missing or null.
///
/// # Errors
/// When it is no array, or has elements that are no texts: what a client wants to name must not be taken for
/// nothing.
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

/// The object that a property is, unless it is missing or null.
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
