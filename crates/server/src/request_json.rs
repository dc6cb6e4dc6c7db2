//! Parses the JSON objects of small requests.

use serde_json::{Map, Value};
use wire::ErrorKind;

use crate::api_error::ApiError;

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
