//! Replication with one node: no connections, no conflicts.

use http::StatusCode;
use serde_json::json;

use crate::{answers::answer::Answer, api_error::ApiError, call::Call};

/// `GET /replication/conflicts`: all conflicts, or those of one document.
pub(crate) fn conflicts(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let answer = match query.get("docId").filter(|id| !id.is_empty()) {
        Some(id) => json!({"Id": id, "LargestEtag": 0, "Results": []}),
        None => json!({"TotalResults": 0, "Results": []}),
    };
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /replication/conflicts/solver`: no conflict resolution is configured.
pub(crate) fn conflict_solver(_: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::empty(StatusCode::NOT_FOUND))
}

/// `GET /replication/active-connections`.
pub(crate) fn active_connections(_: &Call) -> Result<Answer, ApiError> {
    let answer = json!({"IncomingConnections": [], "OutgoingConnections": []});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /replication/performance`.
pub(crate) fn performance(_: &Call) -> Result<Answer, ApiError> {
    Ok(Answer::shape(StatusCode::OK, &json!({"Incoming": [], "Outgoing": []})))
}
