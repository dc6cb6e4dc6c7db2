//! `POST /admin/compact`: compacts a database while the server runs.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    handlers::operations::show_failure,
    http::router::Answering,
    request_json::{read_object, texts_of},
};

/// `POST /admin/compact`.
pub(crate) fn compact(call: Call) -> Answering {
    Box::pin(async move {
        let body = read_object(&call.body)?;
        let refused = |message: String| Err(ApiError::invalid_operation(message));
        let Some(name) = body.get("DatabaseName").and_then(Value::as_str) else {
            return refused("DatabaseName is a required field when compacting a database.".into());
        };
        let with_documents = body.get("Documents").and_then(Value::as_bool).unwrap_or(false);
        let indexes = texts_of(&body, "Indexes")?;
        if !with_documents && indexes.is_empty() {
            return refused(
                "Documents is false in compact settings and no indexes were supplied. Nothing to \
                 compact."
                    .into(),
            );
        }
        let engine = &call.state.engine;
        let id = engine.begin_compaction(name, with_documents, indexes, show_failure)?;
        Ok(Answer::shape(
            StatusCode::OK,
            &json!({"OperationId": id, "OperationNodeTag": call.state.node_tag()}),
        ))
    })
}
