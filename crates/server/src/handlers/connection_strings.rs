//! Connection strings: where the tasks of a database send what they read.

use http::StatusCode;
use serde_json::{Map, Value, json};
use wire::{ConnectionString, ConnectionStringKind};

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    http::router::Answering, request_json::read_object,
};

/// `GET /databases/*/admin/connection-strings`: all of them, or the one that the request names.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = query.get("connectionStringName").filter(|name| !name.is_empty());
    let named =
        name.map(|name| Ok::<_, ApiError>((kind_of(query.get("type"))?, name))).transpose()?;
    let record = call.database()?.record();
    let mut answer = Map::new();
    for kind in ConnectionStringKind::ALL {
        let mut strings = call.state.engine.connection_strings(&record, kind);
        if let Some((wanted, name)) = named {
            strings.retain(|known, _| kind == wanted && known == name);
        }
        answer.insert(kind.section().to_owned(), Value::Object(strings));
    }
    Ok(Answer::shape(StatusCode::OK, &answer))
}

fn kind_of(word: Option<&str>) -> Result<ConnectionStringKind, ApiError> {
    Ok(ConnectionStringKind::named(word.unwrap_or("None"))?)
}

/// `PUT /databases/*/admin/connection-strings`.
pub(crate) fn put(call: Call) -> Answering {
    Box::pin(async move {
        let string = ConnectionString::read(&read_object(&call.body)?)?;
        let database = call.database()?.record().name.as_str().to_owned();
        let state = call.state;
        blocking(move || {
            let written = state.engine.put_connection_string(&database, &string)?;
            state.engine.follow_etl();
            state.engine.follow_replication();
            Ok(Answer::shape(StatusCode::OK, &json!({"RaftCommandIndex": written.index})))
        })
        .await
    })
}

/// `DELETE /databases/*/admin/connection-strings`.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let (name, kind) = {
            let query = call.query();
            let name = query.single_non_empty("connectionString")?.to_owned();
            (name, kind_of(Some(query.single_non_empty("type")?))?)
        };
        let database = call.database()?.record().name.as_str().to_owned();
        let state = call.state;
        blocking(move || {
            let written = state.engine.remove_connection_string(&database, kind, &name)?;
            Ok(Answer::shape(StatusCode::OK, &json!({"RaftCommandIndex": written.index})))
        })
        .await
    })
}

/// `POST /admin/test-connection`: whether a server answers, and knows a database. Only HTTP is tried: this server
/// connects by nothing else.
pub(crate) fn test(call: Call) -> Answering {
    Box::pin(async move {
        let (url, database) = {
            let query = call.query();
            let database = query.get("database").filter(|name| !name.is_empty());
            (query.single_non_empty("url")?.to_owned(), database.map(str::to_owned))
        };
        let state = call.state;
        blocking(move || {
            let tried = state.engine.try_connection(&url, database.as_deref())?;
            let error = tried.err().map(|reason| {
                format!("An exception was thrown while trying to connect to '{url}': {reason}")
            });
            Ok(Answer::shape(
                StatusCode::OK,
                &json!({
                    "Success": error.is_none(), "HTTPSuccess": error.is_none(), "TcpServerUrl": null,
                    "Error": error, "Log": []
                }),
            ))
        })
        .await
    })
}
