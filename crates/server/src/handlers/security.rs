//! Keys.

use crate::{answers::answer::Answer, api_error::ApiError, call::Call};

/// Length of a key, in bytes.
const KEY_BYTES: usize = 32;

/// `GET /secrets/generate` and `GET /admin/secrets/generate`: a new key, in base64. It is not
/// stored.
pub(crate) fn generate(call: &Call) -> Result<Answer, ApiError> {
    let mut key = [0; KEY_BYTES];
    call.state.engine.platform().entropy.fill(&mut key);
    let text = model::base64_text(&key);
    Ok(Answer::json(text.into_bytes()).with_content_type("application/base64"))
}
