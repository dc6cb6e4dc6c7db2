//! The parts of responses that all kinds of queries share.

use std::time::Duration;

use documents::{DocumentError, DocumentRow};
use model::date;
use query::{QueryResult, ResultFacts};
use storage::ReadTransaction;

use crate::{
    answers::{
        json_text::{JsonObject, write_row_to, write_texts},
        long_answer::Sink,
        query_timings::milliseconds,
    },
    api_error::ApiError,
};

/// Stands for no time: collections are never indexed.
const NO_TIME: &str = "0001-01-01T00:00:00.0000000";
const NO_TIME_UTC: &str = "0001-01-01T00:00:00.0000000Z";

/// What precedes the results of a page.
pub(crate) struct PageHead<'r> {
    pub(crate) facts: &'r ResultFacts,
    /// How long the query took so far.
    pub(crate) elapsed: Duration,
    /// `None` for a query that returns no rows.
    pub(crate) rows: Option<RowsHead<'r>>,
}

/// What only a page of rows has in its head.
pub(crate) struct RowsHead<'r> {
    pub(crate) capped_max_results: Option<i64>,
    pub(crate) scanned_results: u64,
    pub(crate) skipped_results: u64,
    pub(crate) included_paths: Option<Vec<&'r str>>,
}

impl PageHead<'_> {
    /// Begins a page. It is left open within the array of its results.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut page = JsonObject::begin(out);
        page.number("TotalResults", self.facts.total_results);
        page.number("LongTotalResults", self.facts.total_results);
        if let Some(rows) = &self.rows {
            if let Some(capped) = rows.capped_max_results {
                page.number("CappedMaxResults", capped);
            }
            page.number("ScannedResults", rows.scanned_results);
            page.number("SkippedResults", rows.skipped_results);
        }
        page.number("DurationInMs", milliseconds(Duration::ZERO, self.elapsed));
        if let Some(rows) = &self.rows {
            match &rows.included_paths {
                None => page.optional_text("IncludedPaths", None),
                Some(paths) => write_texts(paths, page.name("IncludedPaths")),
            }
        }
        page.text("IndexName", &self.facts.index_name);
        page.name("Results").push(b'[');
    }
}

/// The page whose results end here.
pub(crate) fn after_results(out: &mut Vec<u8>) -> JsonObject<'_> {
    out.push(b']');
    JsonObject::resume(out)
}

/// Adds the included documents and the state of the index to a page. `false` when `sink` requests
/// to stop.
pub(crate) async fn write_page_tail<'t>(
    includes: impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>>,
    facts: &ResultFacts,
    node_tag: &str,
    page: &mut JsonObject<'_>,
    sink: Sink<'_>,
) -> Result<bool, ApiError> {
    let mut included = JsonObject::begin(page.name("Includes"));
    for row in includes {
        let row = row?;
        if !write_row_to(sink, &row, false, included.key(row.id())).await? {
            return Ok(false);
        }
    }
    included.end();
    let (timestamp, last_query, is_stale) = match &facts.index {
        None => (NO_TIME.to_owned(), NO_TIME.to_owned(), false),
        Some(index) => (
            time_or_none(index.timestamp_ticks),
            time_or_none(index.last_query_ticks),
            index.is_stale,
        ),
    };
    page.text("IndexTimestamp", &timestamp);
    page.text("LastQueryTime", &last_query);
    page.flag("IsStale", is_stale);
    page.number("ResultEtag", facts.result_etag);
    page.text("NodeTag", node_tag);
    Ok(true)
}

pub(crate) fn time_or_none(ticks: i64) -> String {
    if ticks == 0 { NO_TIME.to_owned() } else { date::format(ticks) }
}

pub(crate) fn write_stream_head(result: &QueryResult<'_, ReadTransaction>, out: &mut Vec<u8>) {
    let mut stream = JsonObject::begin(out);
    write_stream_statistics(result, &mut stream);
    stream.name("Results").push(b'[');
}

pub(crate) fn write_stream_statistics(
    result: &QueryResult<'_, ReadTransaction>,
    object: &mut JsonObject<'_>,
) {
    let index = result.facts().index;
    let is_stale = index.is_some_and(|index| index.is_stale);
    object.number("ResultEtag", result.result_etag());
    object.flag("IsStale", is_stale);
    object.text("IndexName", result.index_name());
    object.number("TotalResults", result.total_results());
    let timestamp =
        index.map_or(NO_TIME_UTC.to_owned(), |index| time_or_none(index.timestamp_ticks));
    object.text("IndexTimestamp", &timestamp);
}
