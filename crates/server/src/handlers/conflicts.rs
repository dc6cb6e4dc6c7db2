//! Conflicts: which there are, and how they are resolved.

use std::sync::Arc;

use documents::ConflictRow;
use http::StatusCode;
use model::{DocumentId, date};
use serde_json::{Map, Value, json};
use wire::{RecordBody, SectionKind};

use crate::{
    answers::{
        answer::Answer,
        json_text::{JsonArray, JsonObject},
    },
    api_error::ApiError,
    blocking::blocking,
    call::Call,
    http::router::Answering,
    request_json::read_object,
};

/// Documents in conflict that one answer lists.
const LISTED_MAX: usize = 1024;

/// `GET /replication/conflicts`: the documents in conflict, or the versions of one.
pub(crate) fn list(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let tx = call.database()?.read();
    if let Some(id) = query.get("docId").filter(|id| !id.is_empty()) {
        let versions = documents::conflicts_of(&tx, &DocumentId::new(id)?)?;
        return versions_of(id, &versions);
    }
    let start = usize::try_from(query.start()?).unwrap_or(0);
    let take = usize::try_from(query.page_size()?).unwrap_or(usize::MAX).min(LISTED_MAX);
    let found = documents::conflicted_documents(&tx, start, take)?;
    let (total, _) = documents::count_conflicts(&tx)?;
    let found: Vec<Value> = found
        .iter()
        .map(|document| {
            json!({
                "Id": document.id, "LastModified": date::format(document.last_modified_ticks),
                "ConflictsPerDocument": document.versions
            })
        })
        .collect();
    Ok(Answer::shape(StatusCode::OK, &json!({"TotalResults": total, "Results": found})))
}

fn versions_of(id: &str, versions: &[ConflictRow<'_>]) -> Result<Answer, ApiError> {
    let mut body = Vec::new();
    let mut answer = JsonObject::begin(&mut body);
    answer.text("Id", id);
    answer.number("LargestEtag", versions.last().map_or(0, |version| version.etag().0));
    let mut results = JsonArray::begin(answer.name("Results"));
    for version in versions {
        let mut entry = JsonObject::begin(results.element());
        entry.text("ChangeVector", version.change_vector());
        let document = entry.name("Doc");
        match version.body() {
            Some(body) => {
                let json = body.to_json().map_err(documents::DocumentError::from)?;
                document.extend_from_slice(&json);
            }
            None => document.extend_from_slice(b"null"),
        }
        entry.text("LastModified", &date::format(version.last_modified_ticks()));
        entry.end();
    }
    results.end();
    answer.end();
    Ok(Answer::json(body))
}

/// `GET /replication/conflicts/solver`; without a body if nothing is configured.
pub(crate) fn solver(call: &Call) -> Result<Answer, ApiError> {
    let body = RecordBody::of_record(&call.database()?.record());
    Ok(match body.section(SectionKind::ConflictSolver) {
        Some(stored) => Answer::shape(StatusCode::OK, stored),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// `POST /admin/replication/conflicts/solver`.
pub(crate) fn configure(call: Call) -> Answering {
    Box::pin(async move {
        let sent = read_object(&call.body)?;
        let name = call.query().required("name")?.to_owned();
        let state = Arc::clone(&call.state);
        blocking(move || {
            let written = state.engine.configure_conflicts(&name, &sent)?;
            let body = RecordBody::of_record(&written.record);
            let configured = body.section(SectionKind::ConflictSolver);
            let answer = json!({
                "RaftCommandIndex": written.index, "Key": name, "ConflictSolverConfig": configured
            });
            state.engine.resolve_conflicts();
            Ok(Answer::shape(StatusCode::CREATED, &answer))
        })
        .await
    })
}

/// `GET /studio-tasks/suggest-conflict-resolution`: a document in which properties that differ have all their values.
pub(crate) fn suggest(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let id = DocumentId::new(query.single_non_empty("docId")?)?;
    let tx = call.database()?.read();
    let mut documents: Vec<Map<String, Value>> = Vec::new();
    for version in documents::conflicts_of(&tx, &id)? {
        let Some(body) = version.body() else { continue };
        let json = body.to_json().map_err(documents::DocumentError::from)?;
        if let Ok(Value::Object(document)) = serde_json::from_slice(&json) {
            documents.push(document);
        }
    }
    let mut merged = merged(&documents);
    let metadata = merged.remove("@metadata").unwrap_or_else(|| json!({}));
    let answer = json!({"Document": merged, "Metadata": metadata});
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// All properties of the documents; those that differ between lists of markers, objects property by property.
fn merged(documents: &[Map<String, Value>]) -> Map<String, Value> {
    let mut merged = Map::new();
    for name in documents.iter().flat_map(Map::keys) {
        if merged.contains_key(name) {
            continue;
        }
        let mut values: Vec<&Value> = Vec::new();
        for value in documents.iter().filter_map(|document| document.get(name)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let objects: Vec<Map<String, Value>> =
            values.iter().filter_map(|value| value.as_object().cloned()).collect();
        let value = match values.as_slice() {
            [only] => (*only).clone(),
            _ if objects.len() == values.len() => Value::Object(self::merged(&objects)),
            _ => {
                let mut list = vec![json!(">>>> conflict start")];
                list.extend(values.into_iter().cloned());
                list.push(json!("<<<< conflict end"));
                Value::Array(list)
            }
        };
        merged.insert(name.clone(), value);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_has_all_values_of_properties_that_differ() {
        let documents =
            [json!({"A": 1, "B": {"C": 1}, "D": 4}), json!({"A": 2, "B": {"C": 1, "E": 2}})];
        let documents: Vec<_> =
            documents.iter().map(|document| document.as_object().unwrap().clone()).collect();
        assert_eq!(
            Value::Object(merged(&documents)),
            json!({
                "A": [">>>> conflict start", 1, 2, "<<<< conflict end"], "B": {"C": 1, "E": 2}, "D": 4
            })
        );
    }
}
