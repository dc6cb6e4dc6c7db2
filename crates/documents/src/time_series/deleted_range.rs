//! The row of a range of a series that was deleted.
//!
//! ```text
//!  0       0xb2: deleted range of a time series, version 1
//!  1       not used, 0
//!  2..4    length of the lower-cased id, D
//!  4..6    length of the lower-cased name, L
//!  6..8    length of the change vector, C
//!  8..12   number of the collection
//! 12..16   not used, 0
//! 16..24   etag
//! 24..32   first moment
//! 32..40   last moment
//! 40..48   when, ticks of UTC, signed
//! 48..     D bytes id · 0xff · L bytes name · C bytes change vector
//! ```
//!
//! Numbers are little-endian. A range that is inside a later one of the same collection
//! is not kept.

use std::ops::Range;

use model::Etag;

use super::{requests::MomentRange, tables::segment_key};
use crate::{
    error::{DocumentError, corrupt},
    row_bytes::{length_at, u32_at, u64_at},
};

const DELETED: u8 = 0xb2;
const ETAG: Range<usize> = 16..24;
const HEADER_BYTES: usize = 48;

/// A deleted range of a series: of the entries in it, only those written later are live.
#[derive(Clone, Copy)]
pub struct DeletedRangeRow<'a> {
    bytes: &'a [u8],
    lower_id: &'a str,
    lower_name: &'a str,
    change_vector: &'a str,
}

/// The fields of a row.
pub(super) struct DeletedRangeFields<'a> {
    /// The key of the series.
    pub(super) series: &'a [u8],
    /// The length of the document's lower-cased id.
    pub(super) id_bytes: usize,
    pub(super) collection_number: u32,
    pub(super) change_vector: &'a str,
    pub(super) etag: Etag,
    pub(super) range: MomentRange,
    pub(super) now_ticks: i64,
}

/// Makes a row.
pub(super) fn write(fields: &DeletedRangeFields<'_>) -> Result<Vec<u8>, DocumentError> {
    let length = |bytes: usize| {
        u16::try_from(bytes).map_err(|_| corrupt("a part of a deleted range's row is too long"))
    };
    let name_bytes = fields.series.len() - fields.id_bytes - 1;
    let mut row = Vec::with_capacity(HEADER_BYTES + fields.series.len() + 64);
    row.extend_from_slice(&[DELETED, 0]);
    row.extend_from_slice(&length(fields.id_bytes)?.to_le_bytes());
    row.extend_from_slice(&length(name_bytes)?.to_le_bytes());
    row.extend_from_slice(&length(fields.change_vector.len())?.to_le_bytes());
    row.extend_from_slice(&fields.collection_number.to_le_bytes());
    row.extend_from_slice(&[0; 4]);
    row.extend_from_slice(&fields.etag.0.to_le_bytes());
    row.extend_from_slice(&fields.range.from.to_le_bytes());
    row.extend_from_slice(&fields.range.to.to_le_bytes());
    row.extend_from_slice(&fields.now_ticks.to_le_bytes());
    row.extend_from_slice(fields.series);
    row.extend_from_slice(fields.change_vector.as_bytes());
    Ok(row)
}

/// Reads a row.
pub(crate) fn read(bytes: &[u8]) -> Result<DeletedRangeRow<'_>, DocumentError> {
    if bytes.len() < HEADER_BYTES || bytes[0] != DELETED {
        return Err(corrupt("a row is no deleted range of a time series"));
    }
    let (id, name) = (length_at(bytes, 2), length_at(bytes, 4));
    let rest = &bytes[HEADER_BYTES..];
    if rest.len() != id + 1 + name + length_at(bytes, 6) || rest[id] != 0xff {
        return Err(corrupt("the row of a deleted range has another length"));
    }
    let text = |range: Range<usize>| {
        std::str::from_utf8(&rest[range])
            .map_err(|_| corrupt("a deleted range has a text that is not UTF-8"))
    };
    Ok(DeletedRangeRow {
        bytes,
        lower_id: text(0..id)?,
        lower_name: text(id + 1..id + 1 + name)?,
        change_vector: text(id + 1 + name..rest.len())?,
    })
}

/// The primary key; empty for an invalid row.
pub(super) fn primary_key_of(row: &[u8]) -> Vec<u8> {
    if row.len() < HEADER_BYTES {
        return Vec::new();
    }
    let length = length_at(row, 2) + 1 + length_at(row, 4);
    let Some(series) = row.get(HEADER_BYTES..HEADER_BYTES + length) else { return Vec::new() };
    let mut key = segment_key(series, u64_at(row, 24).cast_signed());
    key.extend_from_slice(&etag_of(row).to_be_bytes());
    key
}

/// The etag; 0 for an invalid row.
pub(super) fn etag_of(row: &[u8]) -> u64 {
    u64_at(row, ETAG.start)
}

/// The number of the collection; 0 for an invalid row.
pub(crate) fn collection_number_of(row: &[u8]) -> u32 {
    u32_at(row, 8)
}

impl<'a> DeletedRangeRow<'a> {
    /// The lower-cased id of the document.
    pub fn lower_document_id(&self) -> &'a str {
        self.lower_id
    }

    /// The lower-cased name of the series.
    pub fn lower_name(&self) -> &'a str {
        self.lower_name
    }

    /// The number of the document's collection.
    pub fn collection_number(&self) -> u32 {
        collection_number_of(self.bytes)
    }

    /// The version of the deletion.
    pub fn change_vector(&self) -> &'a str {
        self.change_vector
    }

    /// The position in the log.
    pub fn etag(&self) -> Etag {
        Etag(etag_of(self.bytes))
    }

    /// The deleted moments, both ends included.
    pub fn range(&self) -> MomentRange {
        MomentRange {
            from: u64_at(self.bytes, 24).cast_signed(),
            to: u64_at(self.bytes, 32).cast_signed(),
        }
    }

    /// When it was deleted, in ticks of UTC.
    pub fn deleted_at_ticks(&self) -> i64 {
        u64_at(self.bytes, 40).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_damage_is_an_error() {
        let series = super::super::tables::series_key_of("u/1", "hr");
        let range = MomentRange { from: 5, to: 9 };
        let fields = DeletedRangeFields {
            series: &series,
            id_bytes: 3,
            collection_number: 2,
            change_vector: "cv",
            etag: Etag(7),
            range,
            now_ticks: -1,
        };
        let bytes = write(&fields).unwrap();
        let mut golden = vec![0xb2, 0, 3, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        golden.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend_from_slice(&[9, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend_from_slice(&[0xff; 8]);
        golden.extend_from_slice(b"u/1\xffhrcv");
        assert_eq!(bytes, golden);
        let row = read(&bytes).unwrap();
        assert_eq!((row.lower_document_id(), row.lower_name()), ("u/1", "hr"));
        assert_eq!((row.range(), row.etag(), row.deleted_at_ticks()), (range, Etag(7), -1));
        assert_eq!(primary_key_of(&bytes), b"u/1\xffhr\xff\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x07");
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err());
            let _ = primary_key_of(&bytes[..length]);
        }
    }
}
