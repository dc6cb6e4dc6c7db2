//! What a check demands of what is stored.

use crate::error::DocumentError;

/// Succeeds when it holds.
///
/// # Errors
/// [`DocumentError::Corrupt`] with the detail when it does not.
pub(crate) fn demand(holds: bool, detail: &'static str) -> Result<(), DocumentError> {
    if holds { Ok(()) } else { Err(DocumentError::Corrupt { detail }) }
}
