//! Patch requests as commands.

use documents::DocumentError;
use std::sync::Arc;

use blittable::BlittableBuf;
use commands::{PatchCommand, PatchRequest, WhenMissing};
use model::{DocumentId, IdSeparator};
use wire::{MissingDocument, PatchBody};

use crate::api_error::ApiError;

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
