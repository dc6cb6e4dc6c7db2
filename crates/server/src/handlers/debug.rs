//! Diagnostics of the server.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};
use wire::guid_text;

use crate::{answers::answer::Answer, api_error::ApiError, call::Call, routes::ROUTES};

/// `GET /debug/server-id`.
pub(crate) fn server_id(call: &Call) -> Result<Answer, ApiError> {
    let id = guid_text(call.state.engine.server_id());
    let answer = json!({"@metadata": call.state.debug_metadata(), "ServerId": id});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /debug/routes`: the routes of this server, with those for diagnostics listed separately.
pub(crate) fn routes(_: &Call) -> Result<Answer, ApiError> {
    let mut methods = BTreeMap::<&str, Vec<&str>>::new();
    for route in ROUTES {
        methods.entry(route.path).or_default().push(route.method);
    }
    let (debug, production): (Vec<_>, Vec<_>) =
        methods.into_iter().partition(|(path, _)| path.contains("/debug/"));
    let shown = |routes: Vec<(&str, Vec<&str>)>| -> Vec<Value> {
        let one = |(path, methods): (&str, Vec<&str>)| json!({"Path": path, "Methods": methods.join(", ")});
        routes.into_iter().map(one).collect()
    };
    let answer = json!({"Debug": shown(debug), "Production": shown(production)});
    Ok(Answer::shape(StatusCode::OK, &answer))
}
