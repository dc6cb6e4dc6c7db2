//! The studio's configuration of the server and of databases, mainly the kind of environment.

use engine::ServerConfiguration;
use http::StatusCode;
use wire::{SectionKind, StudioOf, read_studio_configuration};

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    handlers::sections, http::router::Answering, request_json::read_object,
};

/// `GET /configuration/studio`.
pub(crate) fn of_server(call: &Call) -> Result<Answer, ApiError> {
    let stored = call.state.engine.server_configuration(ServerConfiguration::Studio)?;
    Ok(match stored {
        Some(value) => Answer::json(value.bytes),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// `GET /databases/*/configuration/studio`.
pub(crate) fn of_database(call: &Call) -> Result<Answer, ApiError> {
    sections::show(call, SectionKind::Studio)
}

/// `PUT /admin/configuration/studio`.
pub(crate) fn put_of_server(call: Call) -> Answering {
    Box::pin(async move {
        let section = read_studio_configuration(&read_object(&call.body)?, StudioOf::Server)?;
        let state = call.state;
        blocking(move || {
            state.engine.configure_server(ServerConfiguration::Studio, &section)?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}

/// `PUT /databases/*/admin/configuration/studio`.
pub(crate) fn put_of_database(call: Call) -> Answering {
    Box::pin(async move {
        let section = read_studio_configuration(&read_object(&call.body)?, StudioOf::Database)?;
        let name = call.database()?.record().name.as_str().to_owned();
        let state = call.state;
        blocking(move || {
            state.engine.configure(&name, &[section])?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}
