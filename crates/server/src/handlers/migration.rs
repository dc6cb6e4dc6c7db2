//! Migrating databases from running servers.

use engine::RemoteServer;
use http::StatusCode;
use serde_json::{Value, json};
use wire::{InvalidNodeAddress, MigrationConfiguration, NodeAddress};

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    handlers::operations::show_failure, http::router::Answering, request_json::read_object,
};

/// `POST /databases/*/admin/smuggler/migrate/ravendb`.
pub(crate) fn migrate(call: Call) -> Answering {
    Box::pin(async move {
        let configuration = MigrationConfiguration::read(&read_object(&call.body)?)?;
        let database = call.database()?.clone();
        let state = call.state;
        blocking(move || {
            let id = state.engine.begin_migration(&database, configuration, show_failure)?;
            let answer = json!({"OperationId": id, "OperationNodeTag": state.node_tag()});
            Ok(Answer::shape(StatusCode::OK, &answer))
        })
        .await
    })
}

/// `GET /admin/remote-server/build/version`: what a server to migrate from is, and has.
pub(crate) fn remote_server(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let url = query.get("serverUrl").filter(|url| !url.trim().is_empty());
        let url = url.ok_or_else(|| {
            ApiError::argument("Query string value 'serverUrl' must have a non empty value")
        })?;
        let server: NodeAddress = url.parse().map_err(|invalid: InvalidNodeAddress| {
            ApiError::argument(format!("'serverUrl': {invalid}"))
        })?;
        let state = call.state;
        blocking(move || {
            let remote = state.engine.remote_server(&server)?;
            Ok(Answer::shape(StatusCode::OK, &shown(&remote)))
        })
        .await
    })
}

fn shown(remote: &RemoteServer) -> Value {
    let RemoteServer { build, databases } = remote;
    let version = build["ProductVersion"].as_str().unwrap_or_default();
    let major = version.split('.').next().filter(|major| !major.is_empty());
    json!({
        "BuildVersion": build["BuildVersion"], "ProductVersion": build["ProductVersion"],
        "MajorVersion": major.map_or("Unknown".to_owned(), |major| format!("V{major}")),
        "FullVersion": build["FullVersion"], "DatabaseNames": databases, "FileSystemNames": [],
        "Authorized": databases.is_some(), "IsLegacyOAuthToken": false
    })
}
