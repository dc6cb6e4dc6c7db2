//! Operations on revisions that a client selects: removing them, and reverting documents to them.

use commands::{Batch, Command, CommandResult};
use documents::RevisionsToRemove;
use http::StatusCode;
use model::{DocumentId, Etag, date};
use serde_json::{Map, Value, json};
use wire::ErrorKind;

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    handlers::revision_changes::flag,
    http::router::Answering,
    request_json::{object_of, read_object, texts_of},
    writes::submitting::submit,
};

/// `DELETE /admin/revisions`: removes revisions of some documents: all, those of a time range, or
/// those with certain change vectors; those that clients created explicitly only on request.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let body = read_object(&call.body)?;
        let mut removed = 0;
        for (id, what) in chosen(&call, &body)? {
            loop {
                let id = id.clone();
                let batch = Batch::one(Command::RemoveRevisions { id, what });
                let outcome = submit(&call.state, call.database()?, batch).await?;
                let Some(CommandResult::RemovedRevisions(step)) = outcome.results.first() else {
                    break;
                };
                removed += step.removed;
                if !step.has_more {
                    break;
                }
            }
        }
        Ok(Answer::shape(StatusCode::OK, &json!({"TotalDeletes": removed})))
    })
}

/// Which revisions of which document to remove.
fn chosen(
    call: &Call,
    body: &Map<String, Value>,
) -> Result<Vec<(DocumentId, RevisionsToRemove)>, ApiError> {
    let ids = ids_in(body)?;
    let with_forced = flag(body, "RemoveForceCreatedRevisions")?;
    let from = moment(body, &["From", "After"])?;
    let to = moment(body, &["To", "Before"])?;
    let change_vectors = texts_of(body, "RevisionsChangeVectors")?;
    if let (Some(from), Some(to)) = (from, to)
        && to <= from
    {
        return Err(ApiError::argument("'To' must be greater than 'From'."));
    }
    if change_vectors.is_empty() {
        let what = match (from, to) {
            (None, None) => RevisionsToRemove::All { with_forced },
            (from, to) => RevisionsToRemove::Between {
                from: from.unwrap_or(i64::MIN),
                to: to.unwrap_or(i64::MAX),
                with_forced,
            },
        };
        return Ok(ids.into_iter().map(|id| (id, what)).collect());
    }
    if from.is_some() || to.is_some() {
        let message =
            "A request that names revisions by their change vectors cannot have a time range";
        return Err(ApiError::argument(message));
    }
    let mut chosen = Vec::new();
    for change_vector in &change_vectors {
        if let Some((id, etag)) = named(call, &ids, change_vector)? {
            chosen.push((id, RevisionsToRemove::One(etag)));
        }
    }
    Ok(chosen)
}

fn ids_in(body: &Map<String, Value>) -> Result<Vec<DocumentId>, ApiError> {
    let ids = texts_of(body, "DocumentIds")?.into_iter().map(DocumentId::new);
    let ids = ids.collect::<Result<Vec<_>, _>>();
    let ids = ids.map_err(|error| ApiError::argument(error.to_string()))?;
    if ids.is_empty() {
        let message = "request 'DocumentIds' cannot be null or empty. (Parameter 'DocumentIds')";
        return Err(ApiError::new(ErrorKind::ArgumentNull, message));
    }
    Ok(ids)
}

/// The timestamp in one of these properties, in ticks of UTC.
fn moment(body: &Map<String, Value>, names: &[&str]) -> Result<Option<i64>, ApiError> {
    let said = names.iter().find_map(|name| body.get(*name).filter(|value| !value.is_null()));
    let Some(said) = said else { return Ok(None) };
    match said.as_str().and_then(date::parse) {
        Some(date) => Ok(Some(date.utc_ticks())),
        None => {
            let message = format!("Could not convert '{said}' to System.DateTime");
            Err(ApiError::new(ErrorKind::Format, message))
        }
    }
}

/// The revision with a change vector, which must belong to one of these documents; `None` when
/// there is none.
fn named(
    call: &Call,
    ids: &[DocumentId],
    change_vector: &str,
) -> Result<Option<(DocumentId, Etag)>, ApiError> {
    let tx = call.database()?.read();
    let Some(found) = documents::revision_by_change_vector(&tx, change_vector)? else {
        return Ok(None);
    };
    match ids.iter().find(|id| id.lower_cased() == found.lower_id()) {
        Some(id) => Ok(Some((id.clone(), found.etag()))),
        None => {
            let asked = ids.first().map_or("", DocumentId::as_str);
            Err(foreign(change_vector, asked, found.id()))
        }
    }
}

fn foreign(change_vector: &str, asked: &str, owner: &str) -> ApiError {
    ApiError::invalid_operation(format!(
        "Revision with the cv \"{change_vector}\" doesn't belong to the doc \"{asked}\" but to the doc \
         \"{owner}\""
    ))
}

/// `POST /revisions/revert/docs`: reverts each document to one of its revisions, all of them or
/// none.
pub(crate) fn revert(call: Call) -> Answering {
    Box::pin(async move {
        let body = read_object(&call.body)?;
        let chosen = object_of(&body, "IdToChangeVector")?;
        let commands: Result<Vec<_>, _> = chosen
            .into_iter()
            .flatten()
            .map(|(id, version)| restoring(&call, id, version))
            .collect();
        let commands = commands?;
        if !commands.is_empty() {
            submit(&call.state, call.database()?, Batch { commands }).await?;
        }
        Ok(Answer::empty(StatusCode::OK))
    })
}

fn restoring(call: &Call, id: &str, version: &Value) -> Result<Command, ApiError> {
    let change_vector = version.as_str().filter(|text| !text.is_empty());
    let change_vector =
        change_vector.ok_or_else(|| ApiError::argument("Change Vector is null or empty"))?;
    let id = DocumentId::new(id)?;
    if named(call, std::slice::from_ref(&id), change_vector)?.is_none() {
        return Err(ApiError::invalid_operation(format!(
            "Revision with the cv \"{change_vector}\" doesn't exist (id: '{id}')"
        )));
    }
    Ok(Command::RestoreRevision { id, change_vector: change_vector.to_owned() })
}
