//! One change as bytes.
//!
//! ```text
//! kind u8, then
//! 1 document    id, change vector, collection: texts; last modified, ticks, i64; flags u32; the body as it is stored:
//!               a sequence
//! 2 tombstone   the same without a body
//! 3 revision    as a document; then its attachments: count u32, of each name and type, texts, and hash 32
//! 4 attachment  lower-cased id, name, type, change vector: texts; hash 32; generation u32
//! 5 deleted attachment   lower-cased id, lower-cased name, change vector: texts; when, ticks, i64; generation u32
//! 6 counter     lower-cased id, name, collection: texts; values: count u32, of each the tag, a text, id 16, value i64,
//!               etag u64
//! 7 deleted counter      lower-cased id, lower-cased name, collection, change vector: texts
//! 8 segment     lower-cased id, name, collection, change vector: texts; the segment as it is stored: a sequence
//! 9 deleted range        lower-cased id, lower-cased name, collection, change vector: texts; first and last moment, and
//!                        when, ticks: i64
//! ```
//!
//! Versions of a document in conflict are written as documents and tombstones.
//!
//! Rows are written as they are read, so that nothing is copied in between.

use documents::{
    AttachmentRow, AttachmentTombstoneRow, ConflictRow, CounterRow, CounterTombstoneRow,
    DocumentError, DocumentRow, RevisionRow, TombstoneRow,
    time_series::{DeletedRangeRow, SegmentRow},
};
use model::DocumentFlags;

use crate::format::Payload;

pub(crate) const DOCUMENT: u8 = 1;
pub(crate) const TOMBSTONE: u8 = 2;
pub(crate) const REVISION: u8 = 3;
pub(crate) const ATTACHMENT: u8 = 4;
pub(crate) const DELETED_ATTACHMENT: u8 = 5;
pub(crate) const COUNTER: u8 = 6;
pub(crate) const DELETED_COUNTER: u8 = 7;
pub(crate) const SEGMENT: u8 = 8;
pub(crate) const DELETED_RANGE: u8 = 9;

pub(crate) fn put_document(
    payload: &mut Payload,
    row: &DocumentRow<'_>,
    collection: &str,
) -> Result<(), DocumentError> {
    payload.byte(DOCUMENT);
    let fields = VersionFields {
        id: row.id(),
        change_vector: row.change_vector(),
        collection,
        last_modified_ticks: row.last_modified_ticks(),
        flags: row.flags(),
    };
    fields.put(payload);
    payload.sequence(row.body()?.as_bytes());
    Ok(())
}

pub(crate) fn put_tombstone(payload: &mut Payload, row: &TombstoneRow<'_>, collection: &str) {
    payload.byte(TOMBSTONE);
    let fields = VersionFields {
        id: row.id(),
        change_vector: row.change_vector(),
        collection,
        last_modified_ticks: row.last_modified_ticks(),
        flags: row.flags(),
    };
    fields.put(payload);
}

pub(crate) fn put_conflict(payload: &mut Payload, row: &ConflictRow<'_>, collection: &str) {
    let fields = VersionFields {
        id: row.id(),
        change_vector: row.change_vector(),
        collection,
        last_modified_ticks: row.last_modified_ticks(),
        flags: row.flags(),
    };
    payload.byte(if row.body().is_some() { DOCUMENT } else { TOMBSTONE });
    fields.put(payload);
    if let Some(body) = row.body() {
        payload.sequence(body.as_bytes());
    }
}

pub(crate) fn put_revision(
    payload: &mut Payload,
    row: &RevisionRow<'_>,
    attachments: &[AttachmentRow<'_>],
    collection: &str,
) -> Result<(), DocumentError> {
    payload.byte(REVISION);
    let fields = VersionFields {
        id: row.id(),
        change_vector: row.change_vector(),
        collection,
        last_modified_ticks: row.last_modified_ticks(),
        flags: row.flags(),
    };
    fields.put(payload);
    payload.sequence(row.body()?.as_bytes());
    payload.short(u32::try_from(attachments.len()).unwrap_or(u32::MAX));
    for attachment in attachments {
        payload.text(attachment.name());
        payload.text(attachment.content_type());
        payload.raw(&attachment.hash().0);
    }
    Ok(())
}

pub(crate) fn put_attachment(payload: &mut Payload, row: &AttachmentRow<'_>, lower_id: &str) {
    payload.byte(ATTACHMENT);
    payload.text(lower_id);
    payload.text(row.name());
    payload.text(row.content_type());
    payload.text(row.change_vector());
    payload.raw(&row.hash().0);
    payload.short(row.generation());
}

pub(crate) fn put_deleted_attachment(payload: &mut Payload, row: &AttachmentTombstoneRow<'_>) {
    payload.byte(DELETED_ATTACHMENT);
    payload.text(row.lower_document_id());
    payload.text(row.lower_name());
    payload.text(row.change_vector());
    payload.signed(row.deleted_at_ticks());
    payload.short(row.generation());
}

pub(crate) fn put_counter(
    payload: &mut Payload,
    row: &CounterRow<'_>,
    collection: &str,
) -> Result<(), DocumentError> {
    payload.byte(COUNTER);
    payload.text(row.lower_document_id());
    payload.text(row.name());
    payload.text(collection);
    let values = row.values().collect::<Result<Vec<_>, _>>()?;
    payload.short(u32::try_from(values.len()).unwrap_or(u32::MAX));
    for value in values {
        payload.text(value.node_tag.as_str());
        payload.raw(&value.database_id.0);
        payload.signed(value.value);
        payload.number(value.etag.0);
    }
    Ok(())
}

pub(crate) fn put_deleted_counter(
    payload: &mut Payload,
    row: &CounterTombstoneRow<'_>,
    collection: &str,
) {
    payload.byte(DELETED_COUNTER);
    payload.text(row.lower_document_id());
    payload.text(row.lower_name());
    payload.text(collection);
    payload.text(row.change_vector());
}

pub(crate) fn put_segment(payload: &mut Payload, row: &SegmentRow<'_>, collection: &str) {
    payload.byte(SEGMENT);
    payload.text(row.lower_document_id());
    payload.text(row.name());
    payload.text(collection);
    payload.text(row.change_vector());
    payload.sequence(row.encoded());
}

pub(crate) fn put_deleted_range(
    payload: &mut Payload,
    row: &DeletedRangeRow<'_>,
    collection: &str,
) {
    payload.byte(DELETED_RANGE);
    payload.text(row.lower_document_id());
    payload.text(row.lower_name());
    payload.text(collection);
    payload.text(row.change_vector());
    payload.signed(row.range().from);
    payload.signed(row.range().to);
    payload.signed(row.deleted_at_ticks());
}

struct VersionFields<'f> {
    id: &'f str,
    change_vector: &'f str,
    collection: &'f str,
    last_modified_ticks: i64,
    flags: DocumentFlags,
}

impl VersionFields<'_> {
    fn put(&self, payload: &mut Payload) {
        payload.text(self.id);
        payload.text(self.change_vector);
        payload.text(self.collection);
        payload.signed(self.last_modified_ticks);
        payload.short(self.flags.bits());
    }
}
