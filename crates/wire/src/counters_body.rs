//! Operations on counters: the body of `/counters`, and the commands of batches and bulk inserts.
//!
//! The two are read differently, as in the protocol: a command must be complete, while a request for counters
//! has defaults for what is missing.

use blittable::{Array, Builder, Corrupt, Object, Value};

use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::json_body::read_document_body;

/// The protocol's name for the operation type.
const OPERATION_TYPE: &str = "Raven.Client.Documents.Operations.Counters.CounterOperationType";

/// A request for counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountersBody {
    /// Whether the answer shows the value of each database separately.
    pub shows_values: bool,
    /// In order of execution and of the answers.
    pub documents: Vec<DocumentCounters>,
}

/// Operations on the counters of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentCounters {
    /// The document.
    pub document_id: String,
    /// The operations, in order.
    pub operations: Vec<CounterOperation>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterOperation {
    /// What it does.
    pub kind: CounterOperationKind,
    /// The counter; empty if the request has none.
    pub name: String,
    /// The amount to add.
    pub delta: i64,
}

/// The type of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterOperationKind {
    /// No effect.
    Nothing,
    /// Set it to the delta. Has an effect only in commands of ETL tasks.
    Put,
    /// Add the delta, which may be negative.
    Increment,
    /// Delete the counter.
    Delete,
    /// Return the value.
    Get,
}

impl CounterOperationKind {
    fn named(name: &str) -> Option<Self> {
        match name {
            "None" => Some(Self::Nothing),
            "Put" => Some(Self::Put),
            "Increment" => Some(Self::Increment),
            "Delete" => Some(Self::Delete),
            "Get" => Some(Self::Get),
            _ => None,
        }
    }
}

/// Reads the body of `/counters`.
///
/// # Errors
/// Malformed JSON, and values of the wrong type.
pub fn read_counters(body: &[u8], builder: &mut Builder) -> Result<CountersBody, ProtocolError> {
    let body = read_document_body(body, builder)?;
    let root = body.as_view().root();
    let shows_values = match root.get("ReplyWithAllNodesValues").map_err(damaged)? {
        None | Some(Value::Null) => false,
        Some(Value::Bool(shows)) => shows,
        Some(other) => return Err(not_convertible(&other, "System.Boolean")),
    };
    let mut documents = Vec::new();
    for document in array(&root, "Documents")?.iter().flat_map(Array::iter) {
        let Value::Object(document) = document.map_err(damaged)? else {
            return Err(not_operations("Documents"));
        };
        let document_id = match document.get("DocumentId").map_err(damaged)? {
            None | Some(Value::Null) => {
                return Err(ProtocolError::argument("Document ID can't be null"));
            }
            Some(id) => text_of(&id)?,
        };
        let mut operations = Vec::new();
        for operation in array(&document, "Operations")?.iter().flat_map(Array::iter) {
            let Value::Object(operation) = operation.map_err(damaged)? else {
                return Err(not_operations("Operations"));
            };
            operations.push(read_leniently(&operation)?);
        }
        documents.push(DocumentCounters { document_id, operations });
    }
    Ok(CountersBody { shows_values, documents })
}

fn read_leniently(operation: &Object<'_>) -> Result<CounterOperation, ProtocolError> {
    let kind = match operation.get("Type").map_err(damaged)? {
        None | Some(Value::Null) => CounterOperationKind::Nothing,
        Some(kind) => {
            let known = CounterOperationKind::named(&text_of(&kind)?);
            known.ok_or_else(|| not_convertible(&kind, OPERATION_TYPE))?
        }
    };
    let name =
        operation.get("CounterName").map_err(damaged)?.map(|name| text_of(&name)).transpose()?;
    let delta =
        operation.get("Delta").map_err(damaged)?.map(|delta| integer_of(&delta)).transpose()?;
    Ok(CounterOperation { kind, name: name.unwrap_or_default(), delta: delta.unwrap_or(0) })
}

/// Reads the `Counters` property of a command.
///
/// # Errors
/// Missing properties, and values of the wrong type.
pub(crate) fn read_command_counters(
    counters: &Object<'_>,
) -> Result<DocumentCounters, ProtocolError> {
    let missing = |part: &str| invalid(format!("Missing '{part}' property on 'Counters'"));
    let document_id = match counters.get("DocumentId").map_err(damaged)? {
        None | Some(Value::Null) => return Err(missing("DocumentId")),
        Some(id) => text_of(&id)?,
    };
    let Some(found) = array(counters, "Operations")? else { return Err(missing("Operations")) };
    let mut operations = Vec::with_capacity(found.len());
    for operation in found.iter() {
        let Value::Object(operation) = operation.map_err(damaged)? else {
            return Err(not_operations("Operations"));
        };
        operations.push(read_strictly(&operation)?);
    }
    Ok(DocumentCounters { document_id, operations })
}

fn read_strictly(operation: &Object<'_>) -> Result<CounterOperation, ProtocolError> {
    let name = match operation.get("CounterName").map_err(damaged)? {
        None | Some(Value::Null) => return Err(invalid("Missing 'CounterName' property".into())),
        Some(name) => text_of(&name)?,
    };
    let Some(Value::String(kind)) = operation.get("Type").map_err(damaged)? else {
        return Err(invalid(format!("Missing 'Type' property in Counter '{name}'")));
    };
    let kind = kind.as_cow().map_err(damaged)?;
    let known = CounterOperationKind::named(&kind);
    let unknown = || ProtocolError::argument(format!("Requested value '{kind}' was not found."));
    let known = known.ok_or_else(unknown)?;
    let delta = match operation.get("Delta").map_err(damaged)? {
        Some(delta) => integer_of(&delta)?,
        None if known == CounterOperationKind::Increment => {
            return Err(invalid(format!(
                "Missing 'Delta' property in Counter '{name}' of Type {kind} "
            )));
        }
        None => 0,
    };
    Ok(CounterOperation { kind: known, name, delta })
}

fn array<'a>(object: &Object<'a>, name: &str) -> Result<Option<Array<'a>>, ProtocolError> {
    match object.get(name).map_err(damaged)? {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(array)) => Ok(Some(array)),
        Some(other) => Err(not_convertible(&other, "Sparrow.Json.BlittableJsonReaderArray")),
    }
}

/// A string as is, null as an empty string, anything else as its JSON.
fn text_of(value: &Value<'_>) -> Result<String, ProtocolError> {
    match value {
        Value::String(text) => Ok(text.as_cow().map_err(damaged)?.into_owned()),
        Value::Null => Ok(String::new()),
        other => {
            let mut json = Vec::new();
            blittable::write_json(other, &mut json).map_err(damaged)?;
            Ok(String::from_utf8_lossy(&json).into_owned())
        }
    }
}

/// A number without its fraction, clamped to the range of its type; also a number in a string.
fn integer_of(value: &Value<'_>) -> Result<i64, ProtocolError> {
    let integer = match value {
        Value::Null | Value::Bool(false) => Some(0),
        Value::Bool(true) => Some(1),
        Value::String(text) => text.as_cow().map_err(damaged)?.trim().parse().ok(),
        // The cast saturates.
        number => number.as_i64().or_else(|| number.as_f64().map(|number| number.trunc() as i64)),
    };
    integer.ok_or_else(|| not_convertible(value, "System.Int64"))
}

fn not_convertible(value: &Value<'_>, wanted: &str) -> ProtocolError {
    let of = match value {
        Value::String(_) => "Sparrow.Json.LazyStringValue",
        Value::Integer(_) => "System.Int64",
        Value::Number(_) => "Sparrow.Json.LazyNumberValue",
        Value::Bool(_) => "System.Boolean",
        Value::Array(_) => "Sparrow.Json.BlittableJsonReaderArray",
        Value::Object(_) | Value::Null => "Sparrow.Json.BlittableJsonReaderObject",
    };
    let text = text_of(value).unwrap_or_default();
    let message = format!("Could not convert {of} ('{text}') to {wanted}");
    ProtocolError::new(ErrorKind::Format, message)
}

fn not_operations(property: &str) -> ProtocolError {
    invalid(format!("'{property}' should contain items of type BlittableJsonReaderObject only"))
}

fn invalid(message: String) -> ProtocolError {
    ProtocolError::new(ErrorKind::InvalidData, message)
}

fn damaged(error: Corrupt) -> ProtocolError {
    ProtocolError::new(ErrorKind::Internal, error.to_string())
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    fn requested(json: &str) -> Result<String, ProtocolError> {
        let body = read_counters(json.as_bytes(), &mut Builder::new(ParseLimits::default()))?;
        let mut shown = String::new();
        for DocumentCounters { document_id, operations } in body.documents {
            let operations = operations
                .iter()
                .map(|operation| {
                    format!("{:?} {} {}", operation.kind, operation.name, operation.delta)
                })
                .collect::<Vec<_>>();
            shown.push_str(&format!("{document_id}: {}", operations.join(", ")));
        }
        Ok(format!("{shown} {}", body.shows_values))
    }

    #[test]
    fn a_request_fills_in_what_is_missing() {
        let one = |operation: &str| {
            format!(r#"{{"Documents":[{{"DocumentId":"u/1","Operations":[{operation}]}}]}}"#)
        };
        let table = [
            (r#"{"ReplyWithAllNodesValues":true}"#.to_owned(), " true"),
            (one(""), "u/1:  false"),
            (one(r#"{"CounterName":"a"}"#), "u/1: Nothing a 0 false"),
            (one(r#"{"Type":"Put","CounterName":"a"}"#), "u/1: Put a 0 false"),
            (one(r#"{"Type":"Increment"}"#), "u/1: Increment  0 false"),
            (
                one(r#"{"Type":"Increment","CounterName":"a","Delta":"3"}"#),
                "u/1: Increment a 3 false",
            ),
            (
                one(r#"{"Type":"Increment","CounterName":"a","Delta":-1.7}"#),
                "u/1: Increment a -1 false",
            ),
            (
                one(r#"{"Type":"Increment","CounterName":"a","Delta":9223372036854775808}"#),
                "u/1: Increment a 9223372036854775807 false",
            ),
            (one(r#"{"Type":"Get","CounterName":null}"#), "u/1: Get  0 false"),
        ];
        for (json, expected) in table {
            assert_eq!(requested(&json).unwrap(), expected, "{json}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_the_protocols_words() {
        let table = [
            ("[]", "Expected start of object, but got StartArray"),
            (
                r#"{"Documents":5}"#,
                "Could not convert System.Int64 ('5') to Sparrow.Json.BlittableJsonReaderArray",
            ),
            (r#"{"Documents":[{}]}"#, "Document ID can't be null"),
            (
                r#"{"Documents":[{"DocumentId":"a","Operations":[{"Type":"increment"}]}]}"#,
                "Could not convert Sparrow.Json.LazyStringValue ('increment') to \
                 Raven.Client.Documents.Operations.Counters.CounterOperationType",
            ),
            (
                r#"{"Documents":[{"DocumentId":"a","Operations":[{"Delta":"q"}]}]}"#,
                "Could not convert Sparrow.Json.LazyStringValue ('q') to System.Int64",
            ),
        ];
        for (json, message) in table {
            assert_eq!(requested(json).unwrap_err().message, message, "{json}");
        }
    }

    #[test]
    fn a_command_must_say_everything() {
        let table = [
            ("{}", "Missing 'DocumentId' property on 'Counters'"),
            (r#"{"DocumentId":"a"}"#, "Missing 'Operations' property on 'Counters'"),
            (r#"{"DocumentId":"a","Operations":[{}]}"#, "Missing 'CounterName' property"),
            (
                r#"{"DocumentId":"a","Operations":[{"CounterName":"n"}]}"#,
                "Missing 'Type' property in Counter 'n'",
            ),
            (
                r#"{"DocumentId":"a","Operations":[{"CounterName":"n","Type":"increment"}]}"#,
                "Requested value 'increment' was not found.",
            ),
            (
                r#"{"DocumentId":"a","Operations":[{"CounterName":"n","Type":"Increment"}]}"#,
                "Missing 'Delta' property in Counter 'n' of Type Increment ",
            ),
        ];
        for (json, message) in table {
            let counters = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
            let error = read_command_counters(&counters.as_view().root()).unwrap_err();
            assert_eq!(error.message, message, "{json}");
        }
    }
}
