//! Patches of one document: `PATCH /docs` by a script and `PATCH /json-patch` by operations.

use commands::{Batch, Command, CommandResult, HeldResults, PatchCommand, PatchOutcome};
use documents::ExpectedVersion;

use crate::{
    answers::patch_answer::{Shown, patch_answer},
    api_error::ApiError,
    call::Call,
    http::router::Answering,
    writes::{
        patch_commands::{self, patch_request, patched_id, when_missing},
        submitting::submit,
    },
};

/// `PATCH /docs`.
pub(crate) fn patch(call: Call) -> Answering {
    Box::pin(async move {
        let patch = read(&call)?;
        let shown = if patch.wants_notes { Shown::Debug } else { Shown::Outcome };
        let (outcome, _held) = submit_patch(&call, patch).await?;
        patch_answer(&outcome, shown)
    })
}

/// `PATCH /json-patch`: changes one document by operations (RFC 6902).
pub(crate) fn json_patch(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let id = query.single_non_empty("id")?;
        let body =
            call.state.with_builder(|builder| wire::read_document_body(&call.body, builder))?;
        let patch = PatchCommand {
            expected: ExpectedVersion::parse(call.if_match()),
            wants_document: true,
            ..patch_commands::json_patch(id, call.id_separator()?, &body)?
        };
        let (outcome, _held) = submit_patch(&call, patch).await?;
        patch_answer(&outcome, Shown::Outcome)
    })
}

fn read(call: &Call) -> Result<PatchCommand, ApiError> {
    let query = call.query();
    let id = patched_id(query.single_non_empty("id")?, call.id_separator()?)?;
    let is_test = query.bool("test")?.unwrap_or(false);
    let wants_notes = query.bool("debug")?.unwrap_or(false) || is_test;
    let skips = query.bool("skipPatchIfChangeVectorMismatch")?.unwrap_or(false);
    let body = call.state.with_builder(|builder| wire::read_patch(&call.body, builder))?;
    Ok(PatchCommand {
        expected: ExpectedVersion::parse(call.if_match()),
        skips_other_versions: skips,
        when_missing: when_missing(body.when_missing),
        is_test,
        wants_notes,
        wants_document: true,
        ..PatchCommand::new(id, patch_request(body.patch))
    })
}

/// Runs a patch of one document. Its outcome is charged as long as both versions are held.
pub(crate) async fn submit_patch(
    call: &Call,
    patch: PatchCommand,
) -> Result<(PatchOutcome, HeldResults), ApiError> {
    let batch = Batch::one(Command::Patch(Box::new(patch)));
    let outcome = submit(&call.state, call.database()?, batch).await?;
    match outcome.results.into_iter().next() {
        Some(CommandResult::Patched(patched)) => Ok((*patched, outcome.held)),
        _ => Err(ApiError::invalid_operation("the outcome of the patch is missing")),
    }
}
