//! Time series of a dump.

use documents::time_series::{Entry, MomentRange, RollupRight, TimeSeriesChange};
use model::{DocumentId, TimeSeriesName, date, ticks::TICKS_PER_MILLISECOND};
use serde_json::{Map, Value};
use smuggler::{DamagedSegment, decode_segment};

use super::imported_items::text;

/// What stands before the bytes of a segment.
pub(super) struct SegmentHead {
    pub(super) id: DocumentId,
    pub(super) collection: String,
    name: TimeSeriesName,
    baseline_ms: i64,
}

pub(super) fn head_of(element: &Map<String, Value>) -> Result<SegmentHead, String> {
    let head = element.get("@raven-data").and_then(Value::as_object);
    let head = head.ok_or("'@raven-data' is missing.")?;
    let (id, name) = (document_id(head)?, series_name(head)?);
    let collection = collection_of(head);
    Ok(SegmentHead { id, collection, name, baseline_ms: moment(head, "Baseline")? })
}

/// The entries of a segment, as a change.
pub(super) fn entries_of(
    head: SegmentHead,
    bytes: &[u8],
) -> Result<TimeSeriesChange, DamagedSegment> {
    let mut change = change_of(head.id, head.name);
    decode_segment(bytes, |entry| {
        let timestamp_ms = head.baseline_ms.saturating_add(entry.offset_ms);
        change.imported.push(Entry { timestamp_ms, values: entry.values, tag: entry.tag });
    })?;
    Ok(change)
}

/// The collection, and a deletion.
pub(super) fn deletion_of(
    element: &Map<String, Value>,
) -> Result<(String, TimeSeriesChange), String> {
    let mut change = change_of(document_id(element)?, series_name(element)?);
    let range = MomentRange { from: moment(element, "From")?, to: moment(element, "To")? };
    change.deletes.push(range);
    Ok((collection_of(element), change))
}

/// Rollups are imported as they are.
fn change_of(id: DocumentId, name: TimeSeriesName) -> TimeSeriesChange {
    TimeSeriesChange { rollup_right: RollupRight::OfPolicy, ..TimeSeriesChange::new(id, name) }
}

fn document_id(element: &Map<String, Value>) -> Result<DocumentId, String> {
    DocumentId::new(text(element, "DocId")?).map_err(|error| error.to_string())
}

fn series_name(element: &Map<String, Value>) -> Result<TimeSeriesName, String> {
    TimeSeriesName::new(text(element, "Name")?).map_err(|_| "'Name' is too long.".to_owned())
}

fn collection_of(element: &Map<String, Value>) -> String {
    text(element, "Collection").unwrap_or(model::EMPTY_COLLECTION).to_owned()
}

fn moment(element: &Map<String, Value>, name: &str) -> Result<i64, String> {
    let date =
        date::parse(text(element, name)?).ok_or_else(|| format!("'{name}' is not a date."))?;
    Ok(date.utc_ticks() / TICKS_PER_MILLISECOND)
}
