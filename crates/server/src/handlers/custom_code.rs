//! Analyzers and sorters that applications write in C#. None is ever kept: this server does not run C#.
//! Who asks for the list, or deletes one, gets the truth.

use http::StatusCode;
use serde_json::{Map, Value, json};
use wire::ErrorKind;

use crate::{answer::Answer, api_error::ApiError, call::Call, stored_record::read_object};

/// A kind of code.
struct Kind {
    /// Its property in bodies.
    property: &'static str,
    /// One of it, in words.
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

/// `DELETE …/admin/analyzers` and `…/admin/sorters`: there is none of any name.
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
    let Some(Value::Array(given)) = body.get(kind.property) else {
        let property = kind.property;
        let message =
            format!("Request should have a property name '{property}' which is mandatory.");
        return Err(ApiError::argument(message));
    };
    let Some(first) = given.first() else { return Ok(Answer::empty(StatusCode::CREATED)) };
    let name = first.get("Name").and_then(Value::as_str).unwrap_or_default();
    let message = format!(
        "The {} '{name}' cannot be kept: it is C#, which this server does not run. Instead, {}.",
        kind.one, kind.instead
    );
    Err(ApiError::new(ErrorKind::NotSupported, message))
}
