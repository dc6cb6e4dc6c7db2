//! Properties of JSON objects that clients send. Names are read in any case, since clients differ in that.
//!
//! Errors name the type of what was sent and never its value, which may be a secret.

use serde_json::{Map, Value};

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// A property, whatever the case of its name; `None` if it is missing or null.
pub(crate) fn property<'s>(sent: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    let found = sent.get(name).or_else(|| {
        let mut any = sent.iter();
        any.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    });
    found.filter(|value| !value.is_null())
}

/// The same properties with the names that are `known` written as there: clients may send them in any case, and a
/// property must not be stored under two names. Of two, the one that is written so counts.
pub(crate) fn with_names_as_written(
    sent: &Map<String, Value>,
    known: &[&'static str],
) -> Map<String, Value> {
    let mut named = Map::new();
    for (name, value) in sent {
        let written = known.iter().find(|known| known.eq_ignore_ascii_case(name));
        match written {
            Some(written) if written != name => {
                named.entry(*written).or_insert_with(|| value.clone());
            }
            _ => drop(named.insert(name.clone(), value.clone())),
        }
    }
    named
}

/// An object; `None` if it is missing or null.
///
/// # Errors
/// It is anything else.
pub(crate) fn object<'s>(
    sent: &'s Map<String, Value>,
    name: &str,
) -> Result<Option<&'s Map<String, Value>>, ProtocolError> {
    match property(sent, name) {
        None => Ok(None),
        Some(Value::Object(found)) => Ok(Some(found)),
        Some(other) => Err(unfit(name, other, "an object")),
    }
}

/// A text; `None` if it is missing, null or blank.
///
/// # Errors
/// It is anything else.
pub(crate) fn text(sent: &Map<String, Value>, name: &str) -> Result<Option<String>, ProtocolError> {
    match property(sent, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
        Some(other) => Err(unfit(name, other, "a text")),
    }
}

/// A flag; false if it is missing or null.
///
/// # Errors
/// It is anything else.
pub(crate) fn flag(sent: &Map<String, Value>, name: &str) -> Result<bool, ProtocolError> {
    match property(sent, name) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(unfit(name, other, "true or false")),
    }
}

/// Names the type of what was sent, and not its value, which may be a secret.
pub(crate) fn unfit(name: &str, value: &Value, wanted: &str) -> ProtocolError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    ProtocolError::new(ErrorKind::InvalidData, format!("'{name}' must be {wanted}, not {found}"))
}

/// A list of texts; empty if it is missing or null.
///
/// # Errors
/// It is anything else.
pub(crate) fn texts(sent: &Map<String, Value>, name: &str) -> Result<Vec<String>, ProtocolError> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(unfit(name, other, "a list of texts")),
    };
    match property(sent, name) {
        None => Ok(Vec::new()),
        Some(Value::Array(found)) => found.iter().map(text).collect(),
        Some(other) => Err(unfit(name, other, "a list of texts")),
    }
}
