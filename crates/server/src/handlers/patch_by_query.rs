//! `PATCH /queries`: changes the documents that a query selects by its `update` clause.

use std::sync::Arc;

use commands::{PatchCommand, PatchRequest};
use engine::BulkWork;
use wire::QueryRequest;

use crate::{
    answers::patch_answer::{Shown, patch_answer},
    api_error::ApiError,
    call::Call,
    handlers::{
        bulk_operations::{begin, options_of},
        patch::submit_patch,
    },
    http::router::Answering,
    writes::patch_commands::patched_id,
};

/// `PATCH /queries`.
pub(crate) fn patch(call: Call) -> Answering {
    Box::pin(async move {
        let options = options_of(&call)?;
        let Update { query, request, script } = read(&call)?;
        begin(&call, options, query, request, BulkWork::Patch(script)).await
    })
}

/// `PATCH /queries/test`: the effect of the `update` clause on one document, selected or not.
pub(crate) fn test(call: Call) -> Answering {
    Box::pin(async move {
        let id = patched_id(call.query().single_non_empty("id")?, call.id_separator()?)?;
        let Update { script, .. } = read(&call)?;
        let patch = PatchCommand {
            is_test: true,
            wants_notes: true,
            wants_document: true,
            ..PatchCommand::new(id, script)
        };
        let (outcome, _held) = submit_patch(&call, patch).await?;
        patch_answer(&outcome, Shown::TriedQuery)
    })
}

/// A query that changes documents.
struct Update {
    /// Selects the documents.
    query: rql::Query,
    request: QueryRequest,
    /// Changes each of them.
    script: Arc<PatchRequest>,
}

fn read(call: &Call) -> Result<Update, ApiError> {
    let ignores_steps_max = call.query().bool("ignoreMaxStepsForScript")?.unwrap_or(false);
    let request =
        call.state.with_builder(|builder| wire::read_update_query(&call.body, builder))?;
    let mut query = query::parse_update(&request.text)?;
    let parameters = request.parameters.as_ref().map(|values| values.as_view().root());
    let text = query::take_update(&mut query, parameters, call.state.engine.scripts())?;
    let values = request.parameters.clone();
    let script = Arc::new(PatchRequest { text, values, ignores_steps_max });
    Ok(Update { query, request, script })
}
