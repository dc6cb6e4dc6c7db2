//! Keys of encrypted databases.

use std::sync::Arc;

use http::StatusCode;
use security::SecretKey;
use serde_json::json;

use crate::{
    answers::answer::Answer, api_error::ApiError, blocking::blocking, call::Call,
    handlers::operations::show_failure, http::router::Answering,
};

/// `GET /secrets/generate` and `GET /admin/secrets/generate`: a new key, in base64. It is not
/// stored.
pub(crate) fn generate(call: &Call) -> Result<Answer, ApiError> {
    let key = call.state.engine.generate_encryption_key();
    let text = model::base64_text(&key.0[..]);
    Ok(Answer::json(text.into_bytes()).with_content_type("application/base64"))
}

/// `GET /admin/secrets`: the names that keys are stored under.
pub(crate) fn names(call: &Call) -> Result<Answer, ApiError> {
    let names = call.state.engine.encryption_key_names()?;
    Ok(Answer::shape(StatusCode::OK, &json!({ "Keys": names })))
}

/// `POST /admin/secrets`: stores the key in the body for a database.
pub(crate) fn put(call: Call) -> Answering {
    store(call)
}

/// `POST /admin/secrets/distribute`: the same on the nodes that the request names, of which there is one.
pub(crate) fn distribute(call: Call) -> Answering {
    store(call)
}

/// `POST /admin/secrets/rotate`: replaces the key of an encrypted database by the one in the body, or by a new one.
pub(crate) fn rotate(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let next = match call.body.iter().all(u8::is_ascii_whitespace) {
            true => None,
            false => Some(key_of(&call)?),
        };
        let state = Arc::clone(&call.state);
        let id = state.engine.begin_key_rotation(&name, next, show_failure)?;
        let answer = json!({"OperationId": id, "OperationNodeTag": call.state.node_tag()});
        Ok(Answer::shape(StatusCode::OK, &answer))
    })
}

/// The key in the body of a request.
fn key_of(call: &Call) -> Result<SecretKey, ApiError> {
    let key = SecretKey::read(&mut call.body.to_vec());
    Ok(key.ok_or(engine::EngineError::EncryptionKey(engine::KeyError::Invalid))?)
}

fn store(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let name = query.single_non_empty("name")?.to_owned();
        let overwrites = query.bool("overwrite")?.unwrap_or(false);
        let own = call.state.node_tag();
        if let Some(other) = query.all("node").find(|node| *node != own) {
            let message =
                format!("A key cannot be sent to node '{other}': this server is node '{own}'");
            return Err(ApiError::invalid_operation(message));
        }
        let key = key_of(&call)?;
        let state = call.state;
        blocking(move || {
            state.engine.store_encryption_key(&name, &key, overwrites)?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}
