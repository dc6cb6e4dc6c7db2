//! The row of a version in conflict.
//!
//! ```text
//!  0       0xd1: version in conflict, version 1
//!  1       1 if the version is a deletion, else 0
//!  2..4    length of the lower-cased id, L
//!  4..6    length of the id as written, I
//!  6..8    length of the change vector, C
//!  8..12   document flags
//! 12..16   number of the collection
//! 16..24   etag
//! 24..32   last modified, ticks of UTC, signed
//! 32..     L bytes lower-cased id · I bytes id · C bytes change vector · the document, if it is one
//! ```
//!
//! Numbers are little-endian.

use std::borrow::Cow;

use blittable::Document;
use model::{DocumentFlags, Etag};
use storage::{FixedIndexSchema, IndexTree, TableSchema, TreeName};

use crate::{
    error::{DocumentError, corrupt},
    row::RowFields,
    row_bytes::{RowKind, length_at, u32_at, u64_at},
};

const CONFLICT: u8 = 0xd1;
const HEADER_BYTES: usize = 32;
const ROW: RowKind = RowKind {
    ends_early: "the row of a version in conflict ends inside its texts",
    is_no_text: "a version in conflict has a text that is not UTF-8",
};
const LOG: &str = "ConflictsLog";
/// In no UTF-8 text.
const SEPARATOR: u8 = 0xff;

/// The table of versions in conflict: by lower-cased id and etag.
pub(crate) static CONFLICTS: TableSchema = TableSchema {
    name: "Conflicts",
    primary: |row| Cow::Owned(primary_key_of(row)),
    fixed: &[FixedIndexSchema { tree: IndexTree::One(LOG), key: etag_of }],
    indexes: &[],
};

/// The log of versions in conflict.
pub(crate) fn log() -> TreeName {
    TreeName::from(LOG)
}

/// One of several versions of a document that do not know each other, read in place.
pub struct ConflictRow<'a> {
    bytes: &'a [u8],
    lower_id: &'a str,
    id: &'a str,
    change_vector: &'a str,
    body: Option<Document<'a>>,
}

/// Replaces `out` with a row. `body` is `None` for a deletion.
pub(super) fn write(
    out: &mut Vec<u8>,
    fields: &RowFields<'_>,
    body: Option<&[u8]>,
) -> Result<(), DocumentError> {
    out.clear();
    out.extend_from_slice(&[CONFLICT, u8::from(body.is_none())]);
    for text in [fields.lower_id, fields.id, fields.change_vector] {
        let length = u16::try_from(text.len());
        let length = length.map_err(|_| corrupt("an id or change vector of more than 64 KB"))?;
        out.extend_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(&fields.flags.bits().to_le_bytes());
    out.extend_from_slice(&fields.collection_number.to_le_bytes());
    out.extend_from_slice(&fields.etag.0.to_le_bytes());
    out.extend_from_slice(&fields.last_modified_ticks.to_le_bytes());
    for text in [fields.lower_id, fields.id, fields.change_vector] {
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(body.unwrap_or_default());
    Ok(())
}

/// Reads a row.
pub(crate) fn read(bytes: &[u8]) -> Result<ConflictRow<'_>, DocumentError> {
    if bytes.len() < HEADER_BYTES || bytes[0] != CONFLICT {
        return Err(corrupt("a row is no version in conflict"));
    }
    let mut rest = &bytes[HEADER_BYTES..];
    let lower_id = ROW.take_text(&mut rest, length_at(bytes, 2))?;
    let id = ROW.take_text(&mut rest, length_at(bytes, 4))?;
    let change_vector = ROW.take_text(&mut rest, length_at(bytes, 6))?;
    let body = if bytes[1] == 0 { Some(Document::new(rest)?) } else { None };
    Ok(ConflictRow { bytes, lower_id, id, change_vector, body })
}

fn etag_of(row: &[u8]) -> u64 {
    u64_at(row, 16)
}

/// Empty for an invalid row, which is an error when it is read.
fn primary_key_of(row: &[u8]) -> Vec<u8> {
    let length = row.get(2..4).map_or(0, |_| length_at(row, 2));
    let Some(lower_id) = row.get(HEADER_BYTES..HEADER_BYTES + length) else { return Vec::new() };
    let mut key = prefix_of(lower_id);
    key.extend_from_slice(&etag_of(row).to_be_bytes());
    key
}

/// What the keys of all versions of an id begin with.
pub(super) fn prefix_of(lower_id: &[u8]) -> Vec<u8> {
    let mut key = lower_id.to_vec();
    key.push(SEPARATOR);
    key
}

impl<'a> ConflictRow<'a> {
    /// The id in the spelling of this version.
    pub fn id(&self) -> &'a str {
        self.id
    }

    /// The id lower-cased.
    pub fn lower_id(&self) -> &'a str {
        self.lower_id
    }

    /// The version.
    pub fn change_vector(&self) -> &'a str {
        self.change_vector
    }

    /// Its place in the log.
    pub fn etag(&self) -> Etag {
        Etag(etag_of(self.bytes))
    }

    /// When it was written, in ticks of UTC.
    pub fn last_modified_ticks(&self) -> i64 {
        u64_at(self.bytes, 24).cast_signed()
    }

    /// Its flags.
    pub fn flags(&self) -> DocumentFlags {
        DocumentFlags::from_bits(u32_at(self.bytes, 8))
    }

    /// The number of its collection.
    pub fn collection_number(&self) -> u32 {
        u32_at(self.bytes, 12)
    }

    /// The document without what it lists; `None` if this version is a deletion.
    pub fn body(&self) -> Option<&Document<'a>> {
        self.body.as_ref()
    }

    /// The primary key of the row.
    pub(super) fn primary_key(&self) -> Vec<u8> {
        primary_key_of(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    fn fields() -> RowFields<'static> {
        RowFields {
            lower_id: "users/1",
            id: "Users/1",
            change_vector: "A:5-AAAAAAAAAAAAAAAAAAAAAA",
            flags: DocumentFlags::FROM_REPLICATION,
            collection_number: 3,
            etag: Etag(258),
            last_modified_ticks: 77,
        }
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let body = parse_document(b"{\"N\":1}", &ParseLimits::default()).unwrap();
        let mut row = Vec::new();
        for body in [Some(body.as_bytes()), None] {
            write(&mut row, &fields(), body).unwrap();
            let read = read(&row).unwrap();
            assert_eq!((read.id(), read.lower_id()), ("Users/1", "users/1"));
            assert_eq!(read.change_vector(), "A:5-AAAAAAAAAAAAAAAAAAAAAA");
            assert_eq!((read.etag(), read.collection_number()), (Etag(258), 3));
            assert_eq!(read.last_modified_ticks(), 77);
            assert_eq!(read.flags(), DocumentFlags::FROM_REPLICATION);
            assert_eq!(read.body().is_some(), body.is_some());
            assert_eq!(read.primary_key(), b"users/1\xff\0\0\0\0\0\0\x01\x02");
        }
    }

    #[test]
    fn a_damaged_row_is_an_error() {
        let mut row = Vec::new();
        write(&mut row, &fields(), None).unwrap();
        for length in 0..row.len() {
            assert!(read(&row[..length]).is_err(), "{length}");
        }
        row[0] = 0;
        assert!(read(&row).is_err());
        assert!(primary_key_of(&row[..3]).is_empty());
    }
}
