//! The configuration that clients receive from the server.

use http::StatusCode;
use serde_json::{Value, json};
use wire::{
    CLIENT_CONFIGURATION_PROPERTY, header_names::REFRESH_CLIENT_CONFIGURATION,
    read_client_configuration,
};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    client_configuration::{self, SERVER_CONFIGURATION},
    http::router::Answering,
    stored_record::{body_of, change_record},
};

/// `GET /configuration/client`.
pub(crate) fn of_server(call: &Call) -> Result<Answer, ApiError> {
    match client_configuration::of_server(&call.state.engine)? {
        Some(configuration) => Ok(Answer::shape(StatusCode::OK, &configuration.json)),
        None => Ok(Answer::empty(StatusCode::NOT_FOUND)),
    }
}

/// `GET /databases/*/configuration/client`.
pub(crate) fn of_database(call: &Call) -> Result<Answer, ApiError> {
    let record = call.database()?.record();
    let configuration = client_configuration::effective(&call.state, &record)?;
    let etag = client_configuration::etag(configuration.as_ref());
    let json = configuration.map_or(Value::Null, |configuration| configuration.json);
    Ok(Answer::shape(StatusCode::OK, &json!({"Etag": etag, "Configuration": json})))
}

/// `PUT /admin/configuration/client`.
pub(crate) fn put_of_server(call: Call) -> Answering {
    Box::pin(async move {
        let stored = read_client_configuration(&call.body)?;
        let bytes = Value::Object(stored).to_string().into_bytes();
        let state = call.state;
        blocking(move || {
            let index = state.engine.put_server_value(SERVER_CONFIGURATION, &bytes)?;
            state.client_configuration_changed(index);
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}

/// `PUT /databases/*/admin/configuration/client`.
pub(crate) fn put_of_database(call: Call) -> Answering {
    Box::pin(async move {
        let stored = read_client_configuration(&call.body)?;
        let name = call.database()?.record().name.as_str().to_owned();
        let state = call.state;
        blocking(move || {
            let written = change_record(&state, &name, |record, draft| {
                let mut body = body_of(record);
                body.insert(CLIENT_CONFIGURATION_PROPERTY.to_owned(), stored.clone().into());
                draft.body = Value::Object(body).to_string().into_bytes();
                draft.changes_client = true;
            })?;
            state.client_configuration_changed(written.index);
            let answer = Answer::empty(StatusCode::CREATED);
            Ok(answer.with_header(REFRESH_CLIENT_CONFIGURATION, "true"))
        })
        .await
    })
}
