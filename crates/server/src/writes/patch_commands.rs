//! Commands that patch documents: by a script, each of several by one script, or by operations (RFC 6902).

use std::sync::Arc;

use blittable::BlittableBuf;
use commands::{Command, CommandResult, PatchCommand, PatchRequest, WhenMissing};
use documents::{DocumentError, ExpectedVersion};
use model::{DocumentId, IdSeparator};
use wire::{MissingDocument, PatchBody, PatchTarget};

use crate::{
    answers::patch_answer::{PatchedBy, write_batch_result},
    api_error::ApiError,
    writes::answered::{Answered, CommandAnswer, Executed, foreign_result},
};

/// What is printed of a command besides its result.
pub(crate) enum PatchAnswer {
    One {
        /// The id as in the request.
        id: String,
        by: PatchedBy,
        returns_document: bool,
    },
    /// Nothing is printed of the results.
    Each,
}

/// The command as the engine executes it.
pub(crate) fn answered(
    command: wire::PatchCommand,
    separator: IdSeparator,
) -> Result<Answered<PatchAnswer>, ApiError> {
    match command {
        wire::PatchCommand::Script { id, change_vector, patch, when_missing, return_document } => {
            let id = id.unwrap_or_default();
            let command = PatchCommand {
                when_missing: self::when_missing(when_missing),
                ..PatchCommand::new(patched_id(&id, separator)?, patch_request(patch))
            };
            let answer =
                PatchAnswer::One { id, by: PatchedBy::Script, returns_document: return_document };
            Ok(one(command, change_vector, answer))
        }
        wire::PatchCommand::Operations { id, change_vector, operations, return_document } => {
            let (id, by) = (id.unwrap_or_default(), PatchedBy::Operations);
            let command = json_patch(&id, separator, &operations)?;
            let answer = PatchAnswer::One { id, by, returns_document: return_document };
            Ok(one(command, change_vector, answer))
        }
        wire::PatchCommand::Each { targets, patch, when_missing } => {
            let executed = Executed::Several(each(targets, patch, when_missing, separator)?);
            Ok(Answered { executed, answer: PatchAnswer::Each })
        }
    }
}

/// A patch of one document, which expects this version.
fn one(
    command: PatchCommand,
    change_vector: Option<String>,
    answer: PatchAnswer,
) -> Answered<PatchAnswer> {
    let command = PatchCommand {
        expected: ExpectedVersion::parse(change_vector.as_deref()),
        wants_document: matches!(answer, PatchAnswer::One { returns_document: true, .. }),
        ..command
    };
    Answered::one(Command::Patch(Box::new(command)), answer)
}

fn each(
    targets: Vec<PatchTarget>,
    patch: PatchBody,
    when_missing: MissingDocument,
    separator: IdSeparator,
) -> Result<Vec<Command>, ApiError> {
    let script = patch_request(patch);
    let when_missing = self::when_missing(when_missing);
    let command = |PatchTarget { id, change_vector }| {
        Ok(Command::Patch(Box::new(PatchCommand {
            expected: ExpectedVersion::parse(change_vector.as_deref()),
            when_missing: when_missing.clone(),
            ..PatchCommand::new(patched_id(&id, separator)?, Arc::clone(&script))
        })))
    };
    targets.into_iter().map(command).collect()
}

/// The script of a body.
pub(crate) fn patch_request(body: PatchBody) -> Arc<PatchRequest> {
    PatchRequest::new(body.script, body.values)
}

/// The script for a document that does not exist.
pub(crate) fn when_missing(body: MissingDocument) -> WhenMissing {
    match (body.create, body.patch) {
        (Some(document), _) => WhenMissing::Create(Arc::new(document)),
        (None, Some(script)) => WhenMissing::Run(patch_request(script)),
        (None, None) => WhenMissing::LeaveOut,
    }
}

/// The id of a document to be changed, which must be complete.
pub(crate) fn patched_id(id: &str, separator: IdSeparator) -> Result<DocumentId, ApiError> {
    let ends = [separator.character(), IdSeparator::IDENTITY_SUFFIX];
    if id.is_empty() || id.ends_with(ends) {
        let message = format!("The ID argument has invalid value: '{id}' (Parameter 'id')");
        return Err(ApiError::argument(message));
    }
    Ok(DocumentId::new(id)?)
}

/// A patch by operations (RFC 6902), which requires the document to exist.
pub(crate) fn json_patch(
    id: &str,
    separator: IdSeparator,
    body: &BlittableBuf,
) -> Result<PatchCommand, ApiError> {
    let id = patched_id(id, separator)?;
    let script = PatchRequest::json_patch(&id, body);
    let script = script.map_err(|error| ApiError::from(DocumentError::from(error)))?;
    // The same script rejects a missing document.
    let when_missing = WhenMissing::Run(Arc::clone(&script));
    Ok(PatchCommand { when_missing, ..PatchCommand::new(id, script) })
}

impl CommandAnswer for PatchAnswer {
    fn write(&self, result: Option<&CommandResult>, body: &mut Vec<u8>) -> Result<(), ApiError> {
        match (self, result) {
            (PatchAnswer::Each, _) => body.extend_from_slice(b"{\"Type\":\"BatchPATCH\"}"),
            (
                PatchAnswer::One { id, by, returns_document },
                Some(CommandResult::Patched(outcome)),
            ) => write_batch_result(outcome, id, *by, *returns_document, body)?,
            (PatchAnswer::One { .. }, result) => return Err(foreign_result(result)),
        }
        Ok(())
    }
}
