//! The configuration that clients receive from the server.

use engine::ServerConfiguration;
use http::StatusCode;
use serde_json::{Value, json};
use wire::{header_names::REFRESH_CLIENT_CONFIGURATION, read_client_configuration};

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    client_configuration, http::router::Answering,
};

/// `GET /configuration/client`.
pub(crate) fn of_server(call: &Call) -> Result<Answer, ApiError> {
    match call.state.engine.server_client_configuration()? {
        Some(configuration) => Ok(Answer::shape(StatusCode::OK, &configuration.json)),
        None => Ok(Answer::empty(StatusCode::NOT_FOUND)),
    }
}

/// `GET /databases/*/configuration/client`.
pub(crate) fn of_database(call: &Call) -> Result<Answer, ApiError> {
    let record = call.database()?.record();
    let configuration = call.state.engine.client_configuration(&record)?;
    let etag = client_configuration::etag(configuration.as_ref());
    let json = configuration.map_or(Value::Null, |configuration| configuration.json);
    Ok(Answer::shape(StatusCode::OK, &json!({"Etag": etag, "Configuration": json})))
}

/// `PUT /admin/configuration/client`.
pub(crate) fn put_of_server(call: Call) -> Answering {
    Box::pin(async move {
        let section = read_client_configuration(&call.body)?;
        let state = call.state;
        blocking(move || {
            state.engine.configure_server(ServerConfiguration::Clients, &section)?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}

/// `PUT /databases/*/admin/configuration/client`.
pub(crate) fn put_of_database(call: Call) -> Answering {
    Box::pin(async move {
        let section = read_client_configuration(&call.body)?;
        let name = call.database()?.record().name.as_str().to_owned();
        let state = call.state;
        blocking(move || {
            state.engine.configure(&name, &[section])?;
            let answer = Answer::empty(StatusCode::CREATED);
            Ok(answer.with_header(REFRESH_CLIENT_CONFIGURATION, "true"))
        })
        .await
    })
}
