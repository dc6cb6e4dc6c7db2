//! The studio's configuration of the server and of databases, mainly the kind of environment.

use http::StatusCode;
use serde_json::Value;
use wire::{STUDIO_CONFIGURATION_PROPERTY, StudioOf, read_studio_configuration};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    http::router::Answering,
    stored_record::{body_of, read_object, set_in_body},
};

/// The name under which the catalog stores the server's own configuration.
const SERVER_CONFIGURATION: &str = "Configuration/Studio";

/// `GET /configuration/studio`.
pub(crate) fn of_server(call: &Call) -> Result<Answer, ApiError> {
    let stored = call.state.engine.server_value(SERVER_CONFIGURATION)?;
    Ok(match stored {
        Some(value) => Answer::json(value.bytes),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// `GET /databases/*/configuration/studio`.
pub(crate) fn of_database(call: &Call) -> Result<Answer, ApiError> {
    let body = body_of(&call.database()?.record());
    Ok(match body.get(STUDIO_CONFIGURATION_PROPERTY).filter(|stored| !stored.is_null()) {
        Some(stored) => Answer::shape(StatusCode::OK, stored),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// `PUT /admin/configuration/studio`.
pub(crate) fn put_of_server(call: Call) -> Answering {
    Box::pin(async move {
        let configuration = read_studio_configuration(&read_object(&call.body)?, StudioOf::Server)?;
        let bytes = configuration.to_string().into_bytes();
        let state = call.state;
        blocking(move || {
            let put = state.engine.put_server_value(SERVER_CONFIGURATION, &bytes);
            put?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}

/// `PUT /databases/*/admin/configuration/studio`.
pub(crate) fn put_of_database(call: Call) -> Answering {
    Box::pin(async move {
        let configuration: Value =
            read_studio_configuration(&read_object(&call.body)?, StudioOf::Database)?;
        let name = call.database()?.record().name.as_str().to_owned();
        let state = call.state;
        blocking(move || {
            set_in_body(&state, &name, STUDIO_CONFIGURATION_PROPERTY, &configuration)?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}
