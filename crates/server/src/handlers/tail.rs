//! `/tail`: the document log as it grows.

use std::sync::Arc;

use database::Database;
use documents::DocumentError;
use model::{CollectionName, Etag, lower_case};
use wire::{ErrorKind, ProtocolError, QueryString};

use crate::{
    answer::{Answer, EVENT_STREAM_CONTENT_TYPE},
    call::Call,
    error_mapping::document_error,
    tail::{Tail, TailFilter},
};

/// How many collections a reader may name.
const COLLECTIONS_MAX: usize = 100;

/// `GET /databases/{db}/tail`
pub(crate) fn tail(call: &Call) -> Result<Answer, ProtocolError> {
    let (query, database) = (call.query(), call.database()?);
    let tail = Tail {
        state: Arc::clone(&call.state),
        name: database.record().name.as_str().to_owned(),
        followers: Arc::clone(database.followers()),
        filter: filter_of(&query)?,
        after: position_of(call, &query, database)?,
        goes_on: query.bool("follow")?.unwrap_or(true),
    };
    let (answer, pieces) = Answer::stream();
    tokio::spawn(tail.run(pieces));
    let answer = answer.with_content_type(EVENT_STREAM_CONTENT_TYPE);
    Ok(answer.with_header("cache-control", "no-store"))
}

fn filter_of(query: &QueryString<'_>) -> Result<TailFilter, ProtocolError> {
    let named = query.all("collection").take(COLLECTIONS_MAX + 1).map(CollectionName::new);
    let collections: Vec<_> = named
        .collect::<Result<_, _>>()
        .map_err(|error| document_error(&DocumentError::from(error)))?;
    if COLLECTIONS_MAX < collections.len() {
        let message = format!("A tail is of at most {COLLECTIONS_MAX} collections");
        return Err(ProtocolError::new(ErrorKind::BadRequest, message));
    }
    Ok(TailFilter {
        collections,
        prefix: lower_case(query.get("prefix").unwrap_or_default()).into_owned(),
        with_documents: query.bool("documents")?.unwrap_or(false),
    })
}

/// Up to where the reader knows everything: as it says, or else up to now.
fn position_of(
    call: &Call,
    query: &QueryString<'_>,
    database: &Database,
) -> Result<Etag, ProtocolError> {
    let newest = documents::progress(&database.read());
    let newest = newest.map_err(|error| document_error(&error))?.last_etag;
    let Some(text) = call.header("last-event-id").or_else(|| query.get("etag")) else {
        return Ok(newest);
    };
    let (number, id) = match text.split_once('-') {
        Some((number, id)) => (number, Some(id)),
        None => (text, None),
    };
    let number: u64 = number.parse().map_err(|_| {
        let message = format!(
            "'{text}' is no position in the document log, such as 12 or 12-{}",
            database.identity().database_id
        );
        ProtocolError::new(ErrorKind::BadRequest, message)
    })?;
    if id.is_some_and(|id| id != database.identity().database_id.to_string()) || newest.0 < number {
        let message = format!("'{text}' is a position in the document log of another database");
        return Err(ProtocolError::new(ErrorKind::BadRequest, message));
    }
    Ok(Etag(number))
}
