//! The parts of responses that all kinds of queries share.

use documents::{DocumentError, DocumentRow};
use model::date;
use query::{QueryResult, ResultFacts};
use storage::ReadTransaction;

use crate::{
    answers::{json_text::write_row_to, long_answer::Sink},
    api_error::ApiError,
};

/// Stands for no time: collections are never indexed.
const NO_TIME: &str = "0001-01-01T00:00:00.0000000";
const NO_TIME_UTC: &str = "0001-01-01T00:00:00.0000000Z";

pub(crate) fn write_texts(texts: &[impl AsRef<str>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        blittable::write_json_string(text.as_ref(), out);
    }
    out.push(b']');
}

/// Writes what follows the results of a page: the end of their array, the included documents, and
/// the state of the index. `false` when `sink` requests to stop.
pub(crate) async fn write_page_tail<'t>(
    includes: impl Iterator<Item = Result<DocumentRow<'t>, DocumentError>>,
    facts: &ResultFacts,
    node_tag: &str,
    out: &mut Vec<u8>,
    sink: Sink<'_>,
) -> Result<bool, ApiError> {
    out.extend_from_slice(b"],\"Includes\":{");
    for (index, row) in includes.enumerate() {
        let row = row?;
        if index > 0 {
            out.push(b',');
        }
        blittable::write_json_string(row.id(), out);
        out.push(b':');
        if !write_row_to(sink, &row, false, out).await? {
            return Ok(false);
        }
    }
    let (timestamp, last_query, is_stale) = match &facts.index {
        None => (NO_TIME.to_owned(), NO_TIME.to_owned(), false),
        Some(index) => (
            time_or_none(index.timestamp_ticks),
            time_or_none(index.last_query_ticks),
            index.is_stale,
        ),
    };
    let tail = format!(
        "}},\"IndexTimestamp\":\"{timestamp}\",\"LastQueryTime\":\"{last_query}\",\
         \"IsStale\":{is_stale},\"ResultEtag\":{},\"NodeTag\":\"{node_tag}\"}}",
        facts.result_etag
    );
    out.extend_from_slice(tail.as_bytes());
    Ok(true)
}

/// Writes which fields of the rows are results of time series, as the last property of the object that
/// `out` ends with.
pub(crate) fn write_series_fields(names: &[&str], out: &mut Vec<u8>) {
    out.pop();
    out.extend_from_slice(b",\"TimeSeriesFields\":");
    write_texts(names, out);
    out.push(b'}');
}

pub(crate) fn time_or_none(ticks: i64) -> String {
    if ticks == 0 { NO_TIME.to_owned() } else { date::format(ticks) }
}

pub(crate) fn write_stream_head(result: &QueryResult<'_, ReadTransaction>, out: &mut Vec<u8>) {
    out.push(b'{');
    write_stream_statistics(result, out);
    out.extend_from_slice(b",\"Results\":[");
}

pub(crate) fn write_stream_statistics(
    result: &QueryResult<'_, ReadTransaction>,
    out: &mut Vec<u8>,
) {
    let index = result.facts().index;
    let is_stale = index.is_some_and(|index| index.is_stale);
    let etag =
        format!("\"ResultEtag\":{},\"IsStale\":{is_stale},\"IndexName\":", result.result_etag());
    out.extend_from_slice(etag.as_bytes());
    blittable::write_json_string(result.index_name(), out);
    let timestamp =
        index.map_or(NO_TIME_UTC.to_owned(), |index| time_or_none(index.timestamp_ticks));
    let total =
        format!(",\"TotalResults\":{},\"IndexTimestamp\":\"{timestamp}\"", result.total_results());
    out.extend_from_slice(total.as_bytes());
}
