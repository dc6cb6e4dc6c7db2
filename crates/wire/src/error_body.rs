//! An error sent to a client, and its JSON body.
//!
//! The four properties `Url`, `Type`, `Message` and `Error` are always present, because clients throw if one
//! is missing. `Error` begins with the type and the message, because applications match on it.

use std::error::Error;
use std::fmt;

use blittable::write_json_string;

use crate::error_kind::ErrorKind;

/// An error in the protocol's shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProtocolError {
    /// Its row in the table of errors.
    pub kind: ErrorKind,
    /// The short message.
    pub message: String,
    /// The cause, as text; shown in `Error` only.
    pub cause: Option<String>,
    /// Properties that only some errors have.
    pub fields: ErrorFields,
}

/// Properties that only some errors have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ErrorFields {
    /// No additional properties.
    #[default]
    None,
    /// For a concurrency error; boxed because errors are returned by value everywhere.
    Concurrency(Box<ConcurrencyFields>),
    /// For a concurrency error of a cluster-wide transaction: its violations, without change vectors.
    Violations(Vec<ConcurrencyViolation>),
    /// `FailImmediately`: the client must not try another node.
    FailImmediately,
    /// For a document in conflict: its id, and the largest etag of its versions.
    Conflict(String, u64),
}

/// The properties of a concurrency error.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConcurrencyFields {
    /// The document.
    pub id: Option<String>,
    /// The change vector expected by the client; empty if it expected no document.
    pub expected: Option<String>,
    /// The stored change vector.
    pub actual: Option<String>,
}

/// A value whose version is not the one expected by a cluster-wide transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConcurrencyViolation {
    /// Whether it is the atomic guard of a document.
    pub is_document: bool,
    /// Its key.
    pub key: String,
    /// The expected version.
    pub expected: i64,
    /// The current version; -1 if there is no value.
    pub actual: i64,
}

impl ProtocolError {
    /// An error of this kind with this message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ProtocolError {
        ProtocolError { kind, message: message.into(), cause: None, fields: ErrorFields::None }
    }

    /// Adds a cause.
    pub fn caused_by(mut self, cause: impl Into<String>) -> ProtocolError {
        self.cause = Some(cause.into());
        self
    }

    /// A concurrency error with its three properties.
    pub fn concurrency(message: impl Into<String>, fields: ConcurrencyFields) -> ProtocolError {
        let mut error = ProtocolError::new(ErrorKind::Concurrency, message);
        error.fields = ErrorFields::Concurrency(Box::new(fields));
        error
    }

    /// Shorthand for the most common kind: an invalid parameter.
    pub fn argument(message: impl Into<String>) -> ProtocolError {
        ProtocolError::new(ErrorKind::Argument, message)
    }

    /// Shorthand for an invalid operation.
    pub fn invalid_operation(message: impl Into<String>) -> ProtocolError {
        ProtocolError::new(ErrorKind::InvalidOperation, message)
    }

    /// Advice for errors that beginners meet. It is added to `Error` only, because clients compare messages.
    fn advice(&self) -> Option<&'static str> {
        match (self.kind, &self.fields) {
            (ErrorKind::DatabaseDoesNotExist, _) => Some(
                "Check the name in the DocumentStore: GET /databases?namesOnly=true lists the databases. \
                 CreateDatabaseOperation (PUT /admin/databases) creates one.",
            ),
            (ErrorKind::DatabaseDisabled, _) => Some(
                "A disabled database is enabled by POST /admin/databases/enable; one that is locked is \
                 available again when the work on it is done.",
            ),
            (ErrorKind::RouteNotFound, _) => Some(
                "Check method and path: what belongs to a database is at /databases/{name}/... A route of \
                 RavenDB that Corvus does not have is named in its docs/compatibility.md.",
            ),
            (ErrorKind::IndexDoesNotExist, _) => Some(
                "GET /databases/{name}/indexes?namesOnly=true lists the indexes of the database.",
            ),
            (ErrorKind::RequestTooLarge, _) => Some(
                "Send less at once: commands of any kind, also deletions, in several batches; many documents \
                 in a bulk insert, which may have any number of them.",
            ),
            (ErrorKind::Concurrency, ErrorFields::Concurrency(fields)) if fields.id.is_some() => {
                Some(
                    "Another session has written the document since it was loaded: load it in a new session, \
                 change it again and save.",
                )
            }
            _ => None,
        }
    }

    /// The text of the property `Error`: type, message, cause, and advice.
    pub fn full_text(&self) -> String {
        let mut text = format!("{}: {}", self.kind.type_name(), self.message);
        if let Some(cause) = &self.cause {
            text.push_str("\n ---> ");
            text.push_str(cause);
        }
        if let Some(advice) = self.advice() {
            text.push_str("\nWhat to do: ");
            text.push_str(advice);
        }
        text
    }

    /// Appends the JSON body. `url` is the path and query of the request as sent by the client.
    pub fn write_body(&self, url: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"Url\":");
        write_json_string(url, out);
        out.extend_from_slice(b",\"Type\":");
        write_json_string(self.kind.type_name(), out);
        out.extend_from_slice(b",\"Message\":");
        write_json_string(&self.message, out);
        out.extend_from_slice(b",\"Error\":");
        write_json_string(&self.full_text(), out);
        match &self.fields {
            ErrorFields::None => {}
            ErrorFields::FailImmediately => out.extend_from_slice(b",\"FailImmediately\":true"),
            ErrorFields::Concurrency(fields) => fields.write(out),
            ErrorFields::Conflict(id, largest_etag) => {
                out.extend_from_slice(b",\"DocId\":");
                write_json_string(id, out);
                out.extend_from_slice(format!(",\"LargestEtag\":{largest_etag}").as_bytes());
            }
            ErrorFields::Violations(violations) => write_violations(violations, out),
        }
        out.push(b'}');
    }
}

fn write_violations(violations: &[ConcurrencyViolation], out: &mut Vec<u8>) {
    ConcurrencyFields::default().write(out);
    out.extend_from_slice(b",\"ConcurrencyViolations\":[");
    for (position, violation) in violations.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        let kind = if violation.is_document { "Document" } else { "CompareExchange" };
        out.extend_from_slice(format!("{{\"Type\":\"{kind}\",\"Id\":").as_bytes());
        write_json_string(&violation.key, out);
        let ConcurrencyViolation { expected, actual, .. } = violation;
        let numbers = format!(",\"Expected\":{expected},\"Actual\":{actual}}}");
        out.extend_from_slice(numbers.as_bytes());
    }
    out.push(b']');
}

impl ConcurrencyFields {
    fn write(&self, out: &mut Vec<u8>) {
        let named = [
            (&b",\"Id\":"[..], &self.id),
            (&b",\"ExpectedChangeVector\":"[..], &self.expected),
            (&b",\"ActualChangeVector\":"[..], &self.actual),
        ];
        for (name, value) in named {
            out.extend_from_slice(name);
            match value {
                Some(text) => write_json_string(text, out),
                None => out.extend_from_slice(b"null"),
            }
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.type_name(), self.message)
    }
}

impl Error for ProtocolError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(error: &ProtocolError) -> serde_json::Value {
        let mut out = Vec::new();
        error.write_body("/databases/x/docs?id=\"1\"", &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn the_body_has_the_four_properties_and_error_starts_with_type_and_message() {
        let error = ProtocolError::argument("bad \"name\"").caused_by("System.Foo: why");
        assert_eq!(
            body(&error),
            serde_json::json!({
                "Url": "/databases/x/docs?id=\"1\"",
                "Type": "System.ArgumentException",
                "Message": "bad \"name\"",
                "Error": "System.ArgumentException: bad \"name\"\n ---> System.Foo: why",
            })
        );
    }

    #[test]
    fn what_to_do_is_in_the_long_text_only() {
        let fields = ConcurrencyFields { id: Some("a/1".to_owned()), expected: None, actual: None };
        let of_document = ProtocolError::concurrency("no", fields);
        for (error, part) in [
            (ProtocolError::new(ErrorKind::DatabaseDoesNotExist, "no"), "PUT /admin/databases"),
            (ProtocolError::new(ErrorKind::RouteNotFound, "no"), "docs/compatibility.md"),
            (of_document, "load it in a new session"),
        ] {
            let body = body(&error);
            assert_eq!(body["Message"], "no");
            let text = body["Error"].as_str().unwrap();
            let start = format!("{}: no\nWhat to do: ", error.kind.type_name());
            assert!(text.starts_with(&start) && text.contains(part), "{text}");
        }
        let of_record = ProtocolError::concurrency("no", ConcurrencyFields::default());
        assert!(!body(&of_record)["Error"].as_str().unwrap().contains("What to do"));
    }

    #[test]
    fn a_concurrency_error_always_shows_its_three_properties() {
        let fields = ConcurrencyFields { id: None, expected: Some(String::new()), actual: None };
        let body = body(&ProtocolError::concurrency("no", fields));
        assert_eq!(body["Id"], serde_json::Value::Null);
        assert_eq!(body["ExpectedChangeVector"], "");
        assert!(body.as_object().unwrap().contains_key("ActualChangeVector"));
    }

    #[test]
    fn a_timeout_asks_the_client_not_to_try_another_node() {
        let mut error = ProtocolError::new(ErrorKind::Timeout, "late");
        error.fields = ErrorFields::FailImmediately;
        assert_eq!(body(&error)["FailImmediately"], true);
    }
}
