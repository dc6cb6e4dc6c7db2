//! Starts an operation on all documents that a query selects; the requests differ in what it does
//! with them.

use std::sync::Arc;

use engine::{BulkOptions, BulkSelection, BulkWork};
use http::StatusCode;
use query::Paging;
use rql::Query;
use serde_json::json;
use wire::QueryRequest;

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    handlers::operations::show_failure,
};

/// The options in the query string of a request.
pub(crate) fn options_of(call: &Call) -> Result<BulkOptions, ApiError> {
    let query = call.query();
    Ok(BulkOptions {
        rate: rate(call)?,
        allows_stale: query.bool("allowStale")?.unwrap_or(false),
        stale_wait: query.time_span("staleTimeout")?,
        wants_details: query.bool("details")?.unwrap_or(false),
    })
}

fn rate(call: &Call) -> Result<Option<u32>, ApiError> {
    let Some(rate) = call.query().int("maxOpsPerSec")? else { return Ok(None) };
    match u32::try_from(rate) {
        Ok(rate) if 0 < rate => Ok(Some(rate)),
        _ => Err(ApiError::invalid_operation("MaxOpsPerSecond must be greater than 0")),
    }
}

/// Starts the operation; `query` is that of the request, without the changes to the documents. A long
/// query takes its time to be planned.
pub(crate) async fn begin(
    call: &Call,
    options: BulkOptions,
    query: Query,
    request: QueryRequest,
    work: BulkWork,
) -> Result<Answer, ApiError> {
    let selection = BulkSelection {
        query,
        text: request.text,
        parameters: request.parameters,
        paging: Paging { start: request.start, page_size: request.page_size },
    };
    let (engine, database) = (Arc::clone(&call.state.engine), call.database()?.clone());
    let id = blocking(move || {
        let begun = engine.begin_bulk_operation(&database, selection, options, work, show_failure);
        begun.map_err(ApiError::from)
    })
    .await?;
    Ok(Answer::shape(
        StatusCode::OK,
        &json!({"OperationId": id, "OperationNodeTag": call.state.node_tag()}),
    ))
}
