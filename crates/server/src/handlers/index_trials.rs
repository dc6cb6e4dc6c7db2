//! Trying a definition on some documents, without an index.

use std::sync::Arc;

use engine::complete_definition;
use http::StatusCode;
use indexing::{
    MapContext, MapError, TRIAL_ITEMS, Trial, TrialFailure, TrialSource, try_definition,
};
use model::{DocumentId, NamedEnum};
use serde_json::{Value, json};
use wire::{ErrorKind, read_index_definition};

use crate::{
    answers::{
        answer::Answer,
        answer_memory::counting_memory,
        json_text::{JsonObject, write_texts},
    },
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    http::router::Answering,
    request_json::read_object,
};

/// Maximum number of documents in one request.
const IDS_MAX: usize = 1_000;

/// How many compiled forms of a definition a trial has at a time.
pub(crate) const COMPILED_FORMS: u64 = 2;

/// `POST /indexes/try`: the output of the maps and the reduce of a definition for a few documents.
pub(crate) fn try_out(call: Call) -> Answering {
    Box::pin(async move {
        let mut body = read_object(&call.body)?;
        let Some(definition) = body.remove("Definition").filter(|value| !value.is_null()) else {
            let message = "Request should have a property name 'Definition' which is mandatory.";
            return Err(ApiError::argument(message));
        };
        let definition = read_index_definition(definition)?;
        if definition.maps.is_empty() {
            return Err(ApiError::argument("Index must have a 'Maps' fields"));
        }
        let ids = ids_of(body.get("Ids"))?;
        let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
        let places = &call.state.rooms.counting;
        let place = places.take(database.record().name.lower_cased()).await?;
        blocking(move || {
            let _place = place;
            let (documents, values) = (database.read(), database.values());
            let context = MapContext { documents: &documents, values: Some(&values) };
            let source = match ids.as_slice() {
                [] => TrialSource::Oldest(TRIAL_ITEMS),
                ids => TrialSource::Documents(ids),
            };
            let _room = state.engine.room_to_compile(&definition, COMPILED_FORMS)?;
            let memory = counting_memory(&state);
            let ends = TrialFailure::Ends;
            let trial =
                try_definition(&definition, state.engine.scripts(), context, source, ends, &memory);
            trial.map(|trial| answer(&trial)).map_err(|error| match error {
                MapError::Index(error) => ApiError::from(error),
                MapError::Document { message } => ApiError::invalid_operation(message),
            })
        })
        .await
    })
}

fn ids_of(value: Option<&Value>) -> Result<Vec<DocumentId>, ApiError> {
    let listed = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(listed)) if listed.len() <= IDS_MAX => listed,
        Some(Value::Array(_)) => {
            let message = format!("A definition is tried on at most {IDS_MAX} documents");
            return Err(ApiError::argument(message));
        }
        Some(_) => {
            let message = "'Ids' is not an array of ids";
            return Err(ApiError::new(ErrorKind::InvalidData, message));
        }
    };
    let read = |id: &Value| {
        let id = id.as_str().unwrap_or_default();
        Ok(DocumentId::new(id)?)
    };
    listed.iter().map(read).collect()
}

/// Results are strings that contain JSON.
fn answer(trial: &Trial) -> Answer {
    let mut out = Vec::new();
    let mut shape = JsonObject::begin(&mut out);
    let text = |result: &Vec<u8>| String::from_utf8_lossy(result).into_owned();
    write_texts(trial.mapped.iter().map(text), shape.name("MapResults"));
    if let Some(reduced) = &trial.reduced {
        write_texts(reduced.iter().map(text), shape.name("ReduceResults"));
    }
    shape.end();
    Answer::json(out)
}

/// `POST /studio/index-type`: the kind of index that a definition describes.
pub(crate) fn kind(call: &Call) -> Result<Answer, ApiError> {
    let definition =
        complete_definition(read_index_definition(Value::Object(read_object(&call.body)?))?);
    let shape = json!({
        "IndexType": definition.index_type.map(NamedEnum::name),
        "IndexSourceType": definition.source_type.map(NamedEnum::name)
    });
    Ok(Answer::shape(StatusCode::OK, &shape))
}

/// `POST /studio/index-fields`: the fields that a map produces.
pub(crate) fn fields(call: &Call) -> Result<Answer, ApiError> {
    let body = read_object(&call.body)?;
    let Some(map) = body.get("Map").and_then(Value::as_str) else {
        let message = "Request should have a property name 'Map' which is mandatory.";
        return Err(ApiError::argument(message));
    };
    let sources = body.get("AdditionalSources").cloned().unwrap_or(Value::Null);
    let definition = json!({"Name": "fields", "Maps": [map], "AdditionalSources": sources});
    let definition = read_index_definition(definition)?;
    let _room = call.state.engine.room_to_compile(&definition, 1)?;
    let fields = indexing::fields_of(&definition, call.state.engine.scripts())?;
    Ok(Answer::shape(StatusCode::OK, &json!({"Results": fields})))
}
