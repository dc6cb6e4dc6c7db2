//! Diagnostics of the server.

use http::StatusCode;
use serde_json::json;
use wire::{ProtocolError, guid_text};

use crate::{answer::Answer, call::Call};

/// `GET /debug/server-id`.
pub(crate) fn server_id(call: &Call) -> Result<Answer, ProtocolError> {
    let id = guid_text(call.state.catalog.server_id());
    let answer = json!({"@metadata": call.state.debug_metadata(), "ServerId": id});
    Ok(Answer::shape(StatusCode::OK, &answer))
}
