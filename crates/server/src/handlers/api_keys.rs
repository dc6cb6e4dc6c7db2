//! The API keys of clients: making, listing, changing and removing them.
//!
//! An administrator may not grant, change or revoke more than they hold themselves. A key is shown once, in the
//! response of the request that made it.

use http::StatusCode;
use security::{Caller, Clearance, KeyStanding, RegisteredApiKey};
use serde_json::{Map, Value, json};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::granted_access::{GrantedAccess, date_of},
    http::router::Answering,
    request_json::read_object,
};

/// How errors name what is registered here.
const KIND: &str = "API key";
/// What requests may say of a key: what is listed of it, so that it can be sent back with changes.
const PROPERTIES: [&str; 6] =
    ["Id", "Name", "SecurityClearance", "Permissions", "NotAfter", "CreatedAt"];

/// `GET /admin/api-keys`.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    check_enabled(call)?;
    let engine = &call.state.engine;
    let query = call.query();
    let mut keys = engine.registered_api_keys()?;
    if let Some(id) = query.get("id").filter(|text| !text.is_empty()) {
        let id = normal(id);
        keys.retain(|key| key.id == id);
        if keys.is_empty() {
            return Ok(Answer::empty(StatusCode::NOT_FOUND));
        }
    }
    let skip = usize::try_from(query.start()?).unwrap_or(0);
    let take = usize::try_from(query.page_size()?).unwrap_or(0);
    let results: Vec<Value> = keys.iter().skip(skip).take(take).map(shown).collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"TotalResults": keys.len(), "Results": results})))
}

/// A key as administrators and its holder see it: without the hash of its secret.
pub(crate) fn shown(key: &RegisteredApiKey) -> Value {
    let mut shown = json!(key);
    if let Some(properties) = shown.as_object_mut() {
        properties.shift_remove("SecretHash");
    }
    shown
}

/// `POST /admin/api-keys`: makes a key, registers it, and returns it.
pub(crate) fn generate(call: Call) -> Answering {
    Box::pin(async move {
        check_enabled(&call)?;
        let asked = AskedKey::read(&call)?;
        asked.access.check_not_above(&call, ("generate", KIND))?;
        blocking(move || {
            let engine = &call.state.engine;
            let made = engine.generate_api_key();
            let now = model::date::format(engine.clock().now().ticks());
            let key = asked.entry(made.id(), now, made.hash());
            let mut answer = shown(&key);
            change(&call, made.id(), |before, count| match before {
                Some(_) => Err(ApiError::invalid_operation("The new key has the id of another one. Try again.")),
                None if engine::API_KEYS_MAX <= count => Err(ApiError::invalid_operation(format!(
                    "There are {count} API keys, and no more can be registered. Delete those that are not used."
                ))),
                None => Ok(Some(key)),
            })?;
            answer["Key"] = Value::String(made.text().to_string());
            let answer = Answer::shape(StatusCode::CREATED, &answer);
            Ok(answer.with_header("cache-control", "no-store"))
        })
        .await
    })
}

/// `POST /admin/api-keys/edit`: changes the name, what is allowed, and until when.
pub(crate) fn edit(call: Call) -> Answering {
    Box::pin(async move {
        check_enabled(&call)?;
        let asked = AskedKey::read(&call)?;
        asked.access.check_not_above(&call, ("edit", KIND))?;
        let id = asked.id.clone();
        blocking(move || {
            change(&call, &id, |before, _| match before {
                Some(before) => {
                    Ok(Some(asked.entry(&before.id, before.created_at, before.secret_hash)))
                }
                None => {
                    let message = format!("There is no API key '{id}'");
                    Err(ApiError::invalid_operation(message))
                }
            })?;
            Ok(Answer::empty(StatusCode::CREATED))
        })
        .await
    })
}

/// `DELETE /admin/api-keys`.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        check_enabled(&call)?;
        let id = normal(call.query().single_non_empty("id")?);
        let is_own =
            matches!(&call.caller, Caller::Keyed(KeyStanding::Registered(key)) if key.id == id);
        if is_own {
            let message =
                format!("Cannot delete {id} because it is the API key that the request uses");
            return Err(ApiError::invalid_operation(message));
        }
        blocking(move || {
            change(&call, &id, |_, _| Ok(None))?;
            Ok(Answer::empty(StatusCode::NO_CONTENT))
        })
        .await
    })
}

fn check_enabled(call: &Call) -> Result<(), ApiError> {
    match call.state.engine.settings().security.api_keys {
        Some(_) => Ok(()),
        None => Err(ApiError::invalid_operation(
            "This server accepts no API keys. Set Security.ApiKeys.Enabled=true.",
        )),
    }
}

/// What an administrator wants a key to be.
struct AskedKey {
    /// Which one, where the request is about one that exists.
    id: String,
    access: GrantedAccess,
    not_after: Option<String>,
}

impl AskedKey {
    fn read(call: &Call) -> Result<AskedKey, ApiError> {
        let sent: Map<String, Value> = read_object(&call.body)?;
        // A key that is less limited than its administrator believes would be worse than none.
        let is_unknown = |name: &&String| !PROPERTIES.contains(&name.as_str());
        if let Some(unknown) = sent.keys().find(is_unknown) {
            return Err(ApiError::argument(format!("'{unknown}' is no property of an {KIND}")));
        }
        let access = GrantedAccess::read(&sent, KIND)?;
        if access.clearance == Clearance::ClusterNode {
            let message =
                "Nodes of a cluster identify themselves by certificates, and not by API keys";
            return Err(ApiError::argument(message));
        }
        let not_after = match sent.get("NotAfter") {
            None | Some(Value::Null) => None,
            Some(text) => Some(date_of(text)?),
        };
        if not_after.is_some_and(|end| end < call.state.engine.clock().now().ticks()) {
            return Err(ApiError::argument("NotAfter is in the past"));
        }
        let id = normal(sent.get("Id").and_then(Value::as_str).unwrap_or_default());
        Ok(AskedKey { id, access, not_after: not_after.map(model::date::format) })
    }

    fn entry(&self, id: &str, created_at: String, secret_hash: String) -> RegisteredApiKey {
        let GrantedAccess { name, clearance, permissions } = self.access.clone();
        RegisteredApiKey {
            id: id.to_owned(),
            name,
            security_clearance: clearance,
            permissions,
            not_after: self.not_after.clone(),
            created_at,
            secret_hash,
        }
    }
}

/// Changes what a key is registered as. An operator must not change or remove an administrator of the cluster, and
/// nobody one that the configuration names.
fn change(
    call: &Call,
    id: &str,
    decide: impl FnOnce(Option<RegisteredApiKey>, usize) -> Result<Option<RegisteredApiKey>, ApiError>,
) -> Result<(), ApiError> {
    let own = call.caller.grant()?;
    if call.state.engine.is_configured_api_key(id) {
        return Err(ApiError::invalid_operation(format!(
            "The API key {id} is in Security.ApiKeys.Admin. Change the settings of the server."
        )));
    }
    let (by, clearance) = (own.name, own.clearance);
    call.state.engine.change_api_key(id, |before, count| {
        let is_above = before.as_ref().is_some_and(|key| key.security_clearance.is_cluster_admin());
        if is_above && !clearance.is_cluster_admin() {
            return Err(ApiError::invalid_operation(format!(
                "The API key {id} is that of a cluster administrator, and the client itself has a lower clearance: {}",
                clearance.name()
            )));
        }
        let after = decide(before, count)?;
        let now = after.as_ref().map_or("none", |key| key.security_clearance.name());
        tracing::info!(id, by, clearance = now, "an API key was registered or removed");
        Ok(after)
    })
}

/// An id as it is stored.
fn normal(id: &str) -> String {
    id.trim().to_ascii_lowercase()
}
