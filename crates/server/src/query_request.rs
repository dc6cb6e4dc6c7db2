//! The parameters of a query request besides the query text: its format, how rows are returned, how
//! long it waits.

use std::{sync::Arc, time::Duration};

use crate::api_error::ApiError;

use engine::{NEW_INDEX_WAIT, WakeQuery};
use query::{ProjectionBehavior, RowOptions};
use rql::{Query, SourceKind};
use tokio::sync::Notify;
use wire::{ErrorKind, QueryRequest};

/// The query in a form, by which a browser requests a file: `ExportOptions=` and the escaped query.
/// Other bodies are JSON, which begins with a brace.
pub(crate) fn exported_by_form(body: &[u8], is_csv: bool) -> Option<Vec<u8>> {
    let is_form = is_csv && !body.trim_ascii_start().starts_with(b"{");
    let form = std::str::from_utf8(body).ok().filter(|_| is_form)?;
    let query = form.split('&').find_map(|field| field.strip_prefix("ExportOptions="))?;
    Some(wire::percent_decode(query).into_owned().into_bytes())
}

/// How the request wants rows to be returned.
pub(crate) fn row_options(request: &QueryRequest) -> Result<RowOptions, ApiError> {
    let projection = match &request.projection_behavior {
        None => ProjectionBehavior::default(),
        Some(name) => ProjectionBehavior::parse(name).ok_or_else(|| {
            let message = format!(
                "Could not convert Sparrow.Json.LazyStringValue ('{name}') to \
                 Raven.Client.Documents.Queries.ProjectionBehavior"
            );
            ApiError::new(ErrorKind::Format, message)
        })?,
    };
    Ok(RowOptions { projection, repeats_documents: request.skip_duplicate_checking })
}

/// Notifies a query that it is to stop: a call before it waits is remembered.
pub(crate) fn stop_signal() -> (Arc<Notify>, WakeQuery) {
    let stopped = Arc::new(Notify::new());
    let notified = Arc::clone(&stopped);
    (stopped, Arc::new(move || notified.notify_one()))
}

/// How long the request wants to wait for the index.
pub(crate) fn wait_of(request: &QueryRequest) -> Result<Option<Duration>, ApiError> {
    if !request.wait_for_non_stale_results {
        return Ok(None);
    }
    let Some(text) = &request.wait_timeout else { return Ok(Some(NEW_INDEX_WAIT)) };
    let span: model::TimeSpan = text
        .parse()
        .map_err(|_| ApiError::argument(format!("'{text}' is not a time span such as 00:00:15")))?;
    Ok(Some(span.to_duration()))
}

/// The collection whose documents are all requested.
pub(crate) fn whole_collection(query: &Query) -> Option<String> {
    if query.condition.is_some() {
        return None;
    }
    match &query.source.kind {
        SourceKind::Collection(name) => Some(name.to_string()),
        SourceKind::AllDocuments => Some("@all_docs".to_owned()),
        SourceKind::Index(_) | SourceKind::Graph(_) => None,
    }
}
