//! Prints the record of a database, and parses requests that configure one.
//!
//! A record is the JSON that a client sent. `engine` changes it.

use database::WrittenRecord;
use http::StatusCode;
use model::{DatabaseRecord, date};
use serde_json::{Map, Value, json};
use wire::{
    ClientConfiguration, ErrorKind, RecordBody, SectionKind, StoredSection,
    database_shapes::{TopologyFacts, database_record},
};

use crate::{answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call};

/// The whole record as the protocol shows it.
pub(crate) fn record_json(record: &DatabaseRecord, node_tag: &str) -> Value {
    let mut stored = body_of(record);
    if let Some(configuration) = ClientConfiguration::of_record(record) {
        stored.insert(SectionKind::Client.property().to_owned(), configuration.json);
    }
    let name = record.name.as_str();
    database_record(&stored, name, record.disabled, &topology_facts(record, node_tag), record.etag)
}

/// What the server knows about the nodes of a database.
pub(crate) fn topology_facts(record: &DatabaseRecord, node_tag: &str) -> TopologyFacts {
    let text = |id: model::DatabaseId| String::from_utf8_lossy(&id.text()).into_owned();
    let is_ordered = RecordBody::of_record(record).has_node_order(&[node_tag]);
    TopologyFacts {
        node_tag: node_tag.to_owned(),
        stamp_index: record.topology_index,
        nodes_modified_at: date::format(record.created_ticks),
        topology_id: text(record.topology_id),
        cluster_transaction_id: text(record.cluster_transaction_id),
        priority_order: if is_ordered { vec![node_tag.to_owned()] } else { Vec::new() },
    }
}

/// What the client stored.
pub(crate) fn body_of(record: &DatabaseRecord) -> Map<String, Value> {
    serde_json::from_slice(record.configuration.json()).unwrap_or_default()
}

/// A section as it is stored; without a body if there is none.
pub(crate) fn section_answer(call: &Call, kind: SectionKind) -> Result<Answer, ApiError> {
    let body = RecordBody::of_record(&call.database()?.record());
    Ok(match body.section(kind) {
        Some(stored) => Answer::shape(StatusCode::OK, stored),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// Replaces a section of the record of the database that is called.
pub(crate) async fn configure(call: Call, section: StoredSection) -> Result<Answer, ApiError> {
    let name = call.database()?.record().name.as_str().to_owned();
    let state = call.state;
    blocking(move || Ok(written_answer(&state.engine.configure(&name, &[section])?))).await
}

/// The answer to a request that configured a database.
pub(crate) fn written_answer(written: &WrittenRecord) -> Answer {
    Answer::shape(StatusCode::OK, &json!({"RaftCommandIndex": written.index}))
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
