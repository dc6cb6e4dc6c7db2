//! Repairs of an index: opening a faulty one again, merging segments.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;
use wire::operation_state::OperationStatus;

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::{
        indexes::{missing, named},
        operations::too_many_operations,
    },
    http::router::Answering,
};

/// `POST /index/open-faulty-index`: tries again to open an index that could not be opened.
pub(crate) fn open_faulty(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let database = call.database()?.clone();
        blocking(move || {
            let indexes = database.indexes();
            if indexes.reopen_faulty(&name)?.is_none() {
                let index = indexes.get(&name).ok_or_else(|| missing(&name))?;
                let message = format!("Cannot open non faulty index named: {}", index.name());
                return Err(ApiError::invalid_operation(message));
            }
            match indexes.faulty_named(&name) {
                Some(still) => Err(still.error.into()),
                None => Ok(Answer::empty(StatusCode::NO_CONTENT)),
            }
        })
        .await
    })
}

/// `POST /admin/indexes/optimize`. An index has no segments to merge: every batch keeps its terms
/// merged. So the operation ends immediately, and says so.
pub(crate) fn optimize(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let index = named(call, query.single_non_empty("name")?)?;
    let (database, now) = (call.database()?, call.state.engine.clock().now());
    let id = database.operations().next_id();
    let description = format!("Optimizing index: {}", index.name());
    let operation = database
        .operations()
        .begin(id, description, "LuceneOptimizeIndex", now)
        .map_err(|_| too_many_operations())?;
    let message = format!("Index {} has no segments to merge.", index.name());
    let status = OperationStatus::IndexOptimized { index: index.name().to_owned(), message };
    Arc::clone(&operation).finish(status, now);
    Ok(Answer::shape(
        StatusCode::OK,
        &json!({"OperationId": id, "OperationNodeTag": call.state.node_tag()}),
    ))
}
