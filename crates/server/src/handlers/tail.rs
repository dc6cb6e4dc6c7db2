//! `/tail`: the document log as it grows.

use std::sync::Arc;

use database::Database;
use documents::DocumentError;
use model::{CollectionName, Etag, lower_case};
use wire::{ErrorKind, QueryString};

use crate::{
    answers::answer::{Answer, EVENT_STREAM_CONTENT_TYPE},
    api_error::ApiError,
    call::Call,
    feeds::tail::{Tail, TailFilter, TailPosition},
};

/// Maximum number of collections that a reader may name.
const COLLECTIONS_MAX: usize = 100;

/// `GET /databases/{db}/tail`
pub(crate) fn tail(call: &Call) -> Result<Answer, ApiError> {
    let (query, database) = (call.query(), call.database()?);
    let filter = filter_of(&query)?;
    let tail = Tail {
        state: Arc::clone(&call.state),
        name: database.record().name.as_str().to_owned(),
        followers: Arc::clone(database.followers()),
        position: position_of(call, &query, database, &filter)?,
        filter,
        goes_on: query.bool("follow")?.unwrap_or(true),
    };
    let (answer, pieces) = Answer::stream();
    tokio::spawn(tail.run(pieces));
    let answer = answer.with_content_type(EVENT_STREAM_CONTENT_TYPE);
    Ok(answer.with_header("cache-control", "no-store"))
}

fn filter_of(query: &QueryString<'_>) -> Result<TailFilter, ApiError> {
    let named = query.all("collection").take(COLLECTIONS_MAX + 1).map(CollectionName::new);
    let collections: Vec<_> = named
        .collect::<Result<_, _>>()
        .map_err(|error| ApiError::from(DocumentError::from(error)))?;
    if COLLECTIONS_MAX < collections.len() {
        let message = format!("A tail may name at most {COLLECTIONS_MAX} collections");
        return Err(ApiError::new(ErrorKind::BadRequest, message));
    }
    Ok(TailFilter {
        collections,
        prefix: lower_case(query.get("prefix").unwrap_or_default()).into_owned(),
        with_documents: query.bool("documents")?.unwrap_or(false),
    })
}

/// The position up to which the reader knows everything: the one in the request, or the current
/// one.
fn position_of(
    call: &Call,
    query: &QueryString<'_>,
    database: &Database,
    filter: &TailFilter,
) -> Result<TailPosition, ApiError> {
    let refused = |error| ApiError::from(error);
    let tx = database.read();
    let newest = documents::progress(&tx).map_err(refused)?.last_etag;
    let Some(text) = call.header("last-event-id").or_else(|| query.get("etag")) else {
        return Ok(TailPosition { after: newest, began: newest });
    };
    let position = parse(text, newest).ok_or_else(|| {
        let message = format!(
            "'{text}' is not a position in the document log, such as 12 or 12-{}",
            database.identity().database_id
        );
        ApiError::new(ErrorKind::BadRequest, message)
    })?;
    let id = text.split('-').nth(1);
    if id.is_some_and(|id| id != database.identity().database_id.to_string())
        || newest < position.known()
    {
        let message = format!("'{text}' is a position in the document log of another database");
        return Err(ApiError::new(ErrorKind::BadRequest, message));
    }
    if position.known() < filter.last_removed(&tx).map_err(refused)? {
        let message = format!(
            "Deletions after '{text}' are forgotten: their tombstones were removed. Read the log \
             from its beginning, which is 0, and drop what it does not have"
        );
        return Err(ApiError::new(ErrorKind::PositionGone, message));
    }
    Ok(position)
}

/// Parses a position: its number, optionally followed by the database and the state that its reader
/// began with. Without a number, the reader begins now.
fn parse(text: &str, newest: Etag) -> Option<TailPosition> {
    let mut parts = text.split('-');
    let after = Etag(parts.next()?.parse().ok()?);
    let began = match parts.nth(1) {
        Some(began) => Etag(began.parse().ok()?),
        None if after == Etag::ZERO => newest,
        None => Etag::ZERO,
    };
    parts.next().is_none().then_some(TailPosition { after, began })
}
