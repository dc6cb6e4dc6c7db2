//! Attachments, counters and time series of a document, as commands.

use std::io::Write as _;

use blittable::write_json_string;
use documents::{
    AttachmentRow, DocumentError,
    time_series::{
        DeletedRangeRow, MOMENT_MAX, MomentRange, SeriesReader, TimeSeriesEntry, YEAR_1970_MS,
    },
};
use model::{AttachmentName, CounterName, DocumentId, TimeSeriesName, date, ticks};
use storage::Transaction;

use crate::{command_list::CommandList, document::TransformError, outgoing::Outgoing};

/// Larger attachments are not sent: a request is in memory as a whole.
const ATTACHMENT_BYTES_MAX: u64 = 64 << 20;

/// A document at the source, and its id at the destination.
#[derive(Clone, Copy)]
pub(crate) struct Ids<'i> {
    pub(crate) source: &'i DocumentId,
    pub(crate) destination: &'i str,
}

/// Puts all attachments of a document.
pub(crate) fn put_attachments(
    tx: &impl Transaction,
    ids: Ids<'_>,
    list: &mut Outgoing<'_>,
) -> Result<(), TransformError> {
    for row in documents::attachments_of(tx, ids.source)? {
        let row = row?;
        put_row(tx, ids, row.name(), &row, list)?;
    }
    Ok(())
}

/// Puts an attachment under a name; nothing if there is none.
pub(crate) fn put_attachment(
    tx: &impl Transaction,
    ids: Ids<'_>,
    (name, new_name): (&str, &str),
    list: &mut Outgoing<'_>,
) -> Result<(), TransformError> {
    let Ok(name) = AttachmentName::new(name) else { return Ok(()) };
    match documents::attachment(tx, ids.source, &name)? {
        Some(row) => put_row(tx, ids, new_name, &row, list),
        None => Ok(()),
    }
}

fn put_row(
    tx: &impl Transaction,
    ids: Ids<'_>,
    name: &str,
    row: &AttachmentRow<'_>,
    list: &mut Outgoing<'_>,
) -> Result<(), TransformError> {
    if ATTACHMENT_BYTES_MAX < row.content_bytes() {
        return Err(TransformError::Problem(format!(
            "the attachment '{}' has {} bytes; attachments of more than {ATTACHMENT_BYTES_MAX} bytes are not sent",
            row.name(),
            row.content_bytes()
        )));
    }
    let missing = DocumentError::Corrupt { detail: "the content of an attachment is missing" };
    let content = documents::content(tx, &row.hash())?.ok_or(missing)?;
    let length = usize::try_from(content.bytes()).unwrap_or(usize::MAX);
    list.reserve(0, length)?;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        list.check_wanted()?;
        bytes.extend_from_slice(content.read_at(tx, bytes.len() as u64)?);
    }
    list.put_attachment(ids.destination, name, row.content_type(), bytes);
    Ok(())
}

/// Sets all counters of a document to the values that they have.
pub(crate) fn put_counters(
    tx: &impl Transaction,
    ids: Ids<'_>,
    list: &mut Outgoing<'_>,
) -> Result<(), TransformError> {
    let mut values = Vec::new();
    for row in documents::counters_of(tx, ids.source)? {
        let row = row?;
        values.push((row.name(), row.total()));
    }
    set_counters(ids.destination, &values, list);
    list.reserve(0, 0)
}

/// Sets one counter of a document; nothing if there is none.
pub(crate) fn put_counter(
    tx: &impl Transaction,
    ids: Ids<'_>,
    name: &str,
    list: &mut Outgoing<'_>,
) -> Result<(), TransformError> {
    let Ok(name) = CounterName::new(name) else { return Ok(()) };
    if let Some(row) = documents::counter(tx, ids.source, &name)? {
        set_counters(ids.destination, &[(row.name(), row.total())], list);
    }
    Ok(())
}

/// Sets counters; nothing if there are none.
pub(crate) fn set_counters(id: &str, values: &[(&str, i64)], list: &mut CommandList) {
    if values.is_empty() {
        return;
    }
    let json = begin_counters(id, list);
    for (at, (name, total)) in values.iter().enumerate() {
        if at != 0 {
            json.push(b',');
        }
        json.extend_from_slice(b"{\"Type\":\"Put\",\"CounterName\":");
        write_json_string(name, json);
        print(json, format_args!(",\"Delta\":{total}}}"));
    }
    json.extend_from_slice(b"]},\"FromEtl\":true}");
}

/// Deletes a counter.
pub(crate) fn delete_counter(id: &str, name: &str, list: &mut CommandList) {
    let json = begin_counters(id, list);
    json.extend_from_slice(b"{\"Type\":\"Delete\",\"CounterName\":");
    write_json_string(name, json);
    json.extend_from_slice(b"}]},\"FromEtl\":true}");
}

fn begin_counters<'l>(id: &str, list: &'l mut CommandList) -> &'l mut Vec<u8> {
    let json = list.begin("Counters", id);
    json.extend_from_slice(b",\"Counters\":{\"DocumentId\":");
    write_json_string(id, json);
    json.extend_from_slice(b",\"Operations\":[");
    json
}

/// A range in milliseconds since 1970, whose missing ends are open, in those of documents.
pub(crate) fn range_of(from: Option<f64>, to: Option<f64>) -> MomentRange {
    // The conversion saturates.
    let moment = |millis: f64| (millis as i64).saturating_add(YEAR_1970_MS);
    MomentRange { from: from.map_or(0, moment), to: to.map_or(MOMENT_MAX, moment) }
}

/// Appends the entries of a series in a range. What policies made of others is left out: the destination has its own.
pub(crate) fn put_series(
    tx: &impl Transaction,
    ids: Ids<'_>,
    name: &str,
    range: MomentRange,
    list: &mut Outgoing<'_>,
) -> Result<(), TransformError> {
    let name = TimeSeriesName::new(name).map_err(DocumentError::from)?;
    if name.is_rollup() {
        return Ok(());
    }
    if name.is_incremental() {
        return Err(TransformError::Problem(format!(
            "the time series '{}' is incremental; those are not sent by ETL tasks yet",
            name.as_str()
        )));
    }
    let mut reader = SeriesReader::new(tx, ids.source, &name, range)?;
    // A command for each segment keeps commands small.
    while let Some(segment) = reader.next_segment()? {
        reader.open(&segment)?;
        let Some(first) = reader.next_entry_of_segment() else { continue };
        let json = list.begin("TimeSeries", ids.destination);
        json.extend_from_slice(b",\"TimeSeries\":{\"Name\":");
        write_json_string(segment.name(), json);
        json.extend_from_slice(b",\"Appends\":[");
        write_entry(&first, json);
        while let Some(entry) = reader.next_entry_of_segment() {
            json.push(b',');
            write_entry(&entry, json);
        }
        json.extend_from_slice(b"]},\"FromEtl\":true}");
        list.reserve(0, 0)?;
    }
    Ok(())
}

fn write_entry(entry: &TimeSeriesEntry<'_>, json: &mut Vec<u8>) {
    let moment = moment_text(entry.timestamp_ms);
    print(json, format_args!("{{\"Timestamp\":\"{moment}\",\"Values\":["));
    for (at, value) in entry.values.iter().enumerate() {
        if at != 0 {
            json.push(b',');
        }
        write_double(*value, json);
    }
    json.push(b']');
    if let Some(tag) = entry.tag {
        json.extend_from_slice(b",\"Tag\":");
        write_json_string(tag, json);
    }
    json.push(b'}');
}

/// One that is not finite is the text as which it is read, too.
fn write_double(value: f64, json: &mut Vec<u8>) {
    match value {
        f64::INFINITY => json.extend_from_slice(b"\"Infinity\""),
        f64::NEG_INFINITY => json.extend_from_slice(b"\"-Infinity\""),
        value if value.is_nan() => json.extend_from_slice(b"\"NaN\""),
        value => print(json, format_args!("{value:?}")),
    }
}

/// Deletes a range of a series.
pub(crate) fn delete_range(id: &str, row: &DeletedRangeRow<'_>, list: &mut CommandList) {
    let json = list.begin("TimeSeries", id);
    json.extend_from_slice(b",\"TimeSeries\":{\"Name\":");
    write_json_string(row.lower_name(), json);
    let MomentRange { from, to } = row.range();
    let (from, to) = (moment_text(from), moment_text(to));
    print(
        json,
        format_args!(",\"Deletes\":[{{\"From\":\"{from}\",\"To\":\"{to}\"}}]}},\"FromEtl\":true}}"),
    );
}

/// A moment in milliseconds since the year 1.
fn moment_text(moment: i64) -> String {
    date::format(moment.saturating_mul(ticks::TICKS_PER_MILLISECOND))
}

fn print(json: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    drop(json.write_fmt(text));
}
