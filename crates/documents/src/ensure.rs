//! The condition that a check requires of stored data.

use crate::error::DocumentError;

/// Returns an error unless the condition holds.
///
/// # Errors
/// [`DocumentError::Corrupt`] with the detail when it does not.
pub(crate) fn ensure(holds: bool, detail: &'static str) -> Result<(), DocumentError> {
    if holds { Ok(()) } else { Err(DocumentError::Corrupt { detail }) }
}
