//! Analyzers and sorters that applications write in C#. None is ever stored: this server does not
//! run C#. Listing and deleting them report exactly that.

use http::StatusCode;
use serde_json::{Map, Value, json};
use wire::ErrorKind;

use crate::{answers::answer::Answer, api_error::ApiError, call::Call, request_json::read_object};

/// A kind of code.
struct Kind {
    /// Its property in request bodies.
    property: &'static str,
    /// The singular of the kind, in words.
    one: &'static str,
    /// What an application can do instead.
    instead: &'static str,
}

const ANALYZER: Kind = Kind {
    property: "Analyzers",
    one: "analyzer",
    instead: "use one of the analyzers that the server has, or compute the terms in the map",
};
const SORTER: Kind = Kind {
    property: "Sorters",
    one: "sorter",
    instead: "index a value that sorts as wanted, and order by it",
};

/// `GET …/analyzers`.
pub(crate) fn analyzers(_: &Call) -> Result<Answer, ApiError> {
    Ok(list(&ANALYZER))
}

/// `PUT …/admin/analyzers`.
pub(crate) fn put_analyzers(call: &Call) -> Result<Answer, ApiError> {
    put(call, &ANALYZER)
}

/// `GET …/sorters`.
pub(crate) fn sorters(_: &Call) -> Result<Answer, ApiError> {
    Ok(list(&SORTER))
}

/// `PUT …/admin/sorters`.
pub(crate) fn put_sorters(call: &Call) -> Result<Answer, ApiError> {
    put(call, &SORTER)
}

/// `DELETE …/admin/analyzers` and `…/admin/sorters`: none exists under any name.
pub(crate) fn delete(call: &Call) -> Result<Answer, ApiError> {
    call.query().single_non_empty("name")?;
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

fn list(kind: &Kind) -> Answer {
    let mut shape = Map::new();
    shape.insert(kind.property.to_owned(), json!([]));
    Answer::shape(StatusCode::OK, &shape)
}

fn put(call: &Call, kind: &Kind) -> Result<Answer, ApiError> {
    let body = read_object(&call.body)?;
    let Some(Value::Array(listed)) = body.get(kind.property) else {
        let property = kind.property;
        let message =
            format!("Request should have a property name '{property}' which is mandatory.");
        return Err(ApiError::argument(message));
    };
    let Some(first) = listed.first() else { return Ok(Answer::empty(StatusCode::CREATED)) };
    let name = first.get("Name").and_then(Value::as_str).unwrap_or_default();
    let message = format!(
        "The {} '{name}' cannot be stored: it is C#, which this server does not run. Instead, {}.",
        kind.one, kind.instead
    );
    Err(ApiError::new(ErrorKind::NotSupported, message))
}
