//! Time series as a dump has them. A stored segment may become several, since those of RavenDB are short.

use blittable::write_json_string;
use documents::{
    DocumentError, collection_numbered,
    time_series::{DeletedRangeRow, Entries, MomentRange, SegmentRow},
};
use model::{DocumentId, date, ticks::TICKS_PER_MILLISECOND};
use serde_json::json;
use smuggler::{DumpWriter, SegmentEncoder, SegmentEntry, fitting_tag};
use storage::ReadTransaction;

use crate::error::EngineError;

/// What was written of a stored segment.
pub(super) struct Exported {
    /// How many segments.
    pub(super) segments: u64,
    /// How many tags were cut, because they are too long for a dump.
    pub(super) cut_tags: u64,
}

/// Appends the segments.
pub(super) fn write_segment(
    tx: &ReadTransaction,
    row: &SegmentRow<'_>,
    writer: &mut DumpWriter,
    out: &mut Vec<u8>,
) -> Result<Exported, EngineError> {
    let mut entries = Entries::default();
    row.decode(&mut entries)?;
    let values = entries.iter().map(|entry| entry.values.len()).max().unwrap_or(1).max(1);
    let id = written_id(tx, row.lower_document_id())?;
    let collection = collection_numbered(tx, row.collection_number())?.name.to_string();
    let (mut encoder, mut baseline_ms, mut count) = (SegmentEncoder::new(values), 0, 0);
    let mut write = |encoder: SegmentEncoder, baseline_ms: i64| {
        let segment = encoder.finish();
        let baseline = date::format(baseline_ms.saturating_mul(TICKS_PER_MILLISECOND));
        writer.begin_element(out);
        let head = json!({
            "DocId": id, "Name": row.name(), "ChangeVector": row.change_vector(),
            "Collection": collection, "Baseline": baseline
        });
        out.extend_from_slice(
            format!("{{\"@raven-data\":{head},\"@raven-blob-size\":{}}}", segment.len()).as_bytes(),
        );
        out.extend_from_slice(&segment);
        count += 1;
    };
    for entry in entries.iter() {
        let of = |baseline_ms: i64| SegmentEntry {
            offset_ms: entry.timestamp_ms - baseline_ms,
            values: entry.values,
            tag: entry.tag,
        };
        if !encoder.is_empty() && !encoder.fits(&of(baseline_ms)) {
            write(std::mem::replace(&mut encoder, SegmentEncoder::new(values)), baseline_ms);
        }
        if encoder.is_empty() {
            baseline_ms = entry.timestamp_ms;
        }
        encoder.add(&of(baseline_ms));
    }
    if !encoder.is_empty() {
        write(encoder, baseline_ms);
    }
    let is_cut = |tag: &&str| fitting_tag(tag).len() < tag.len();
    let cut_tags = entries.iter().filter_map(|entry| entry.tag).filter(is_cut).count() as u64;
    Ok(Exported { segments: count, cut_tags })
}

/// Appends a deleted range.
pub(super) fn write_deleted_range(
    tx: &ReadTransaction,
    row: &DeletedRangeRow<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    const FIRST: &str = "0001-01-01T00:00:00.0000000Z";
    const LAST: &str = "9999-12-31T23:59:59.9999999Z";
    let MomentRange { from, to } = row.range();
    let moment = |moment: i64| date::format(moment.saturating_mul(TICKS_PER_MILLISECOND));
    let from = if from == MomentRange::ALL.from { FIRST.to_owned() } else { moment(from) };
    let to = if to == MomentRange::ALL.to { LAST.to_owned() } else { moment(to) };
    let collection = collection_numbered(tx, row.collection_number())?.name.to_string();
    out.extend_from_slice(b"{\"DocId\":");
    write_json_string(&written_id(tx, row.lower_document_id())?, out);
    out.extend_from_slice(b",\"Name\":");
    write_json_string(row.lower_name(), out);
    let rest = json!({
        "Collection": collection, "ChangeVector": row.change_vector(), "From": from, "To": to
    });
    let rest = rest.to_string();
    out.push(b',');
    out.extend_from_slice(rest.trim_start_matches('{').as_bytes());
    Ok(())
}

/// The id of a document as it is written; in lower case if the document is gone.
fn written_id(tx: &ReadTransaction, lower_id: &str) -> Result<String, EngineError> {
    let id = DocumentId::new(lower_id).map_err(DocumentError::from)?;
    let document = documents::get(tx, &id)?;
    Ok(document.map_or_else(|| lower_id.to_owned(), |document| document.id().to_owned()))
}
