//! Defining, changing, pausing and deleting indexes.

use std::sync::Arc;

use database::DatabaseLease;
use engine::{IndexSetting, check_index_name, complete_definition, would_change};
use http::StatusCode;
use model::{IndexDefinition, IndexLockMode, IndexPriority, IndexState, NamedEnum as _};
use serde_json::{Value, json};
use wire::{ErrorKind, RecordBody, index_definition_json, read_index_definition};

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    handlers::indexes::{missing, named},
    http::router::Answering,
    request_json::{read_object, texts_of},
    server_state::ServerState,
};

/// Maximum number of indexes in one request.
const DEFINITIONS_MAX: usize = 256;

/// Where a definition came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Administrator,
    Anybody,
}

/// `PUT /admin/indexes`.
pub(crate) fn put(call: Call) -> Answering {
    Box::pin(put_from(call, Source::Administrator))
}

/// `PUT /indexes`: JavaScript only, which runs under a budget.
pub(crate) fn put_javascript(call: Call) -> Answering {
    Box::pin(put_from(call, Source::Anybody))
}

async fn put_from(call: Call, source: Source) -> Result<Answer, ApiError> {
    let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
    // Determining what a definition is takes time in proportion to its text, too.
    blocking(move || {
        let definitions = definitions_of(&call, source)?;
        let mut results = Vec::new();
        for definition in definitions {
            let name = definition.name.clone();
            let index = state.engine.define_index(&database, &definition)?;
            results.push(json!({"Index": name, "RaftCommandIndex": index}));
        }
        Ok(Answer::shape(StatusCode::CREATED, &json!({"Results": results})))
    })
    .await
}

fn definitions_of(call: &Call, source: Source) -> Result<Vec<IndexDefinition>, ApiError> {
    let mut body = read_object(&call.body)?;
    let Some(Value::Array(listed)) = body.remove("Indexes") else {
        let message = "Request should have a property name 'Indexes' which is mandatory.";
        return Err(ApiError::argument(message));
    };
    if DEFINITIONS_MAX < listed.len() {
        let message = format!("One request defines at most {DEFINITIONS_MAX} indexes");
        return Err(ApiError::argument(message));
    }
    listed.into_iter().map(|definition| definition_of(definition, source)).collect()
}

/// Creates or changes indexes, for an administrator who sends these definitions. Blocks.
pub(crate) fn define_all(
    state: &ServerState,
    database: &DatabaseLease,
    definitions: Vec<Value>,
) -> Result<(), ApiError> {
    for definition in definitions {
        let definition = definition_of(definition, Source::Administrator)?;
        state.engine.define_index(database, &definition)?;
    }
    Ok(())
}

/// Rejects invalid settings of an index.
pub(crate) fn check_configuration(definition: &IndexDefinition) -> Result<(), ApiError> {
    for (name, value) in &definition.configuration {
        let Some(value) = value else { continue };
        if let Err(expected) = settings::check_of_index(name, value) {
            let message = format!("Could not set '{name}' configuration setting value.");
            return Err(ApiError::invalid_operation(message).caused_by(expected));
        }
    }
    Ok(())
}

/// Parses a definition, and determines its kind.
fn definition_of(json: Value, source: Source) -> Result<IndexDefinition, ApiError> {
    let mut definition = read_index_definition(json)?;
    definition.name = definition.name.trim().to_owned();
    check_index_name(&definition.name)?;
    let Some(map) = definition.maps.first() else {
        return Err(ApiError::argument("Index must have a 'Maps' fields"));
    };
    let is_javascript = indexing::is_javascript(map);
    check_configuration(&definition)?;
    let definition = complete_definition(definition);
    if source == Source::Anybody && !is_javascript {
        let message = format!(
            "Index {} is a C# index but was sent through a non-admin endpoint using REST api, this \
             is not allowed.",
            definition.name
        );
        return Err(ApiError::new(ErrorKind::UnauthorizedAccess, message));
    }
    Ok(definition)
}

/// `DELETE /indexes`. Deleting an index that will replace another one reverts the change of the
/// definition.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
        blocking(move || match state.engine.delete_index(&database, &name)? {
            true => Ok(Answer::empty(StatusCode::NO_CONTENT)),
            false => Ok(Answer::empty(StatusCode::NOT_FOUND)),
        })
        .await
    })
}

/// `POST /indexes/replace`: lets an index replace its predecessor, whether it has caught up or not.
pub(crate) fn replace(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let database = call.database()?.clone();
        blocking(move || {
            let indexes = database.indexes();
            if indexes.replace_now(&name)? {
                return Ok(Answer::empty(StatusCode::NO_CONTENT));
            }
            let message = match indexes.get(&name) {
                Some(_) => format!("Could not find side-by-side index for '{name}'."),
                None => {
                    let prefix = indexing::REPLACEMENT_PREFIX;
                    format!("Could not find '{name}' and '{prefix}{name}' indexes.")
                }
            };
            Err(ApiError::new(ErrorKind::IndexDoesNotExist, message))
        })
        .await
    })
}

/// `GET /indexes/history`: the previous definitions of an index, newest first.
pub(crate) fn history(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let name = query.single_non_empty("name")?;
    let body = RecordBody::read(call.database()?.record().configuration.json());
    Ok(match body.index_history(name) {
        Some(history) => Answer::shape(StatusCode::OK, &json!({"Index": name, "History": history})),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// `RESET /indexes`: empties an index and rebuilds it.
pub(crate) fn reset(call: Call) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        let database = call.database()?.clone();
        blocking(move || {
            let reset = database.indexes().reset(&name).ok_or_else(|| missing(&name))?;
            let index = reset?;
            Ok(Answer::shape(
                StatusCode::OK,
                &json!({"Index": index_definition_json(&index.shown_definition())}),
            ))
        })
        .await
    })
}

/// `DELETE /indexes/errors`: of all indexes, or of those named.
pub(crate) fn clear_errors(call: Call) -> Answering {
    Box::pin(async move {
        let query = call.query();
        let names: Vec<_> = query.all("name").filter(|name| !name.is_empty()).collect();
        let indexes = match names.as_slice() {
            [] => call.database()?.indexes().all(),
            names => names.iter().map(|name| named(&call, name)).collect::<Result<_, _>>()?,
        };
        blocking(move || {
            for index in indexes {
                index.clear_errors()?;
            }
            Ok(Answer::empty(StatusCode::NO_CONTENT))
        })
        .await
    })
}

/// `POST /indexes/has-changed`: whether the definition would change anything.
pub(crate) fn has_changed(call: &Call) -> Result<Answer, ApiError> {
    let body = Value::Object(read_object(&call.body)?);
    let definition = read_index_definition(body)?;
    let changed = would_change(call.database()?, definition)?;
    Ok(Answer::shape(StatusCode::OK, &json!({"Changed": changed})))
}

/// `POST /indexes/set-lock`.
pub(crate) fn set_lock(call: Call) -> Answering {
    configure(call, "Mode", |text| IndexLockMode::named(text).map(IndexSetting::LockMode))
}

/// `POST /indexes/set-priority`.
pub(crate) fn set_priority(call: Call) -> Answering {
    configure(call, "Priority", |text| IndexPriority::named(text).map(IndexSetting::Priority))
}

fn configure(
    call: Call,
    property: &'static str,
    read: fn(&str) -> Option<IndexSetting>,
) -> Answering {
    Box::pin(async move {
        let body = read_object(&call.body)?;
        let names = texts_of(&body, "IndexNames")?;
        if names.is_empty() {
            let shown = body.get("IndexNames").unwrap_or(&Value::Null);
            let message = format!("'IndexNames' names no index: {shown}");
            return Err(ApiError::argument(message));
        }
        let setting = body.get(property).and_then(Value::as_str).and_then(read);
        let setting = setting.ok_or_else(|| {
            let shown = body.get(property).unwrap_or(&Value::Null);
            ApiError::argument(format!("'{property}' has no known value: {shown}"))
        })?;
        set(&call, names, setting).await
    })
}

async fn set(call: &Call, names: Vec<String>, setting: IndexSetting) -> Result<Answer, ApiError> {
    for name in &names {
        named(call, name)?;
    }
    let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
    blocking(move || {
        state.engine.change_index_settings(&database, &names, setting)?;
        Ok(Answer::empty(StatusCode::NO_CONTENT))
    })
    .await
}

/// `POST /admin/indexes/enable`.
pub(crate) fn enable(call: Call) -> Answering {
    set_state(call, IndexState::Normal)
}

/// `POST /admin/indexes/disable`.
pub(crate) fn disable(call: Call) -> Answering {
    set_state(call, IndexState::Disabled)
}

fn set_state(call: Call, state: IndexState) -> Answering {
    Box::pin(async move {
        let name = call.query().single_non_empty("name")?.to_owned();
        set(&call, vec![name], IndexSetting::State(state)).await
    })
}

/// `POST /admin/indexes/stop`: pauses all indexes, or one, until the server stops.
pub(crate) fn pause(call: &Call) -> Result<Answer, ApiError> {
    set_paused(call, true)
}

/// `POST /admin/indexes/start`.
pub(crate) fn resume(call: &Call) -> Result<Answer, ApiError> {
    set_paused(call, false)
}

fn set_paused(call: &Call, paused: bool) -> Result<Answer, ApiError> {
    let query = call.query();
    match query.get("name").filter(|name| !name.is_empty()) {
        Some(name) => {
            let index = named(call, name)?;
            if paused { index.pause() } else { index.resume() }
        }
        None => {
            let indexes = call.database()?.indexes();
            if paused { indexes.pause() } else { indexes.resume() }
        }
    }
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}
