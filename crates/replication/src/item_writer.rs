//! One change as bytes.
//!
//! ```text
//! kind u8, then
//! 1 document    id, change vector, collection: texts; last modified, ticks, i64; flags u32; the body as it is stored:
//!               a sequence
//! 2 tombstone   the same without a body
//! ```
//!
//! Rows are written as they are read, so that nothing is copied in between.

use documents::{DocumentError, DocumentRow, TombstoneRow};
use model::DocumentFlags;

use crate::format::Payload;

pub(crate) const DOCUMENT: u8 = 1;
pub(crate) const TOMBSTONE: u8 = 2;

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
