//! The bytes of a counter and of its tombstone.
//!
//! ```text
//!  0        0xc1: counter, version 1; 0xc2: tombstone of one, version 1
//!  1        not used, 0
//!  2..4     length of the document's lower-cased id, D
//!  4..6     length of the lower-cased name, L
//!  6..8     length of the name as written, N; 0 when it is the lower-cased one, and in a tombstone
//!  8..10    counter: number of values, V; tombstone: length of the change vector, C
//! 10..12    not used, 0
//! 12..16    number of the document's collection
//! 16..24    etag
//! 24..32    counter: 0; tombstone: etag of the deleted counter
//! 32        kind: 'c' counter, 't' tombstone
//! 33..      D bytes lower-cased id
//!           0xff
//!           L bytes lower-cased name
//!           N bytes name as written
//!           counter: V values of 36 bytes; tombstone: C bytes change vector
//!
//! value      0..4   tag of the node, zero-filled
//!            4..20  id of the database that counted
//!           20..28  value, signed
//!           28..36  etag of its last change in that database
//! ```
//!
//! All numbers are little-endian. From the kind to the end of the lower-cased name is the primary key,
//! one slice of the row. The first byte tells these rows from those of documents and attachments.

use std::ops::Range;

use model::{ChangeVector, ChangeVectorEntry, DatabaseId, Etag, NodeTag};

use super::requests::CounterValue;
use crate::{
    error::{DocumentError, corrupt},
    row_bytes::{RowKind, length_at, u32_at, u64_at},
};

const COUNTER_ROW: RowKind = RowKind {
    ends_early: "the row of a counter ends too early",
    is_no_text: "a counter has a text that is not UTF-8",
};
const COUNTER: u8 = 0xc1;
const TOMBSTONE: u8 = 0xc2;
const KIND_AT: usize = 32;
const OF_COUNTER: u8 = b'c';
const OF_TOMBSTONE: u8 = b't';
/// All keys of counters are at or after this one.
pub(super) const FIRST_COUNTER_KEY: &[u8] = &[OF_COUNTER];
/// All keys of counters are before this one; all keys of tombstones are at or after it.
pub(crate) const FIRST_TOMBSTONE_KEY: &[u8] = &[OF_TOMBSTONE];
const END_OF_ID: u8 = 0xff;
const COLLECTION: Range<usize> = 12..16;
const ETAG: Range<usize> = 16..24;
const DELETED_ETAG: Range<usize> = 24..32;
const VALUE_BYTES: usize = 36;

/// The fields of either row.
#[derive(Clone, Copy)]
pub(super) struct CounterFields<'a> {
    pub(super) lower_id: &'a str,
    pub(super) lower_name: &'a str,
    pub(super) collection_number: u32,
    pub(super) etag: Etag,
}

/// A stored counter, read in place.
#[derive(Clone, Copy)]
pub struct CounterRow<'a> {
    bytes: &'a [u8],
    lower_id: &'a str,
    lower_name: &'a str,
    name: &'a str,
    values: &'a [u8],
}

/// The tombstone of a counter, read in place.
#[derive(Clone, Copy)]
pub struct CounterTombstoneRow<'a> {
    bytes: &'a [u8],
    lower_id: &'a str,
    lower_name: &'a str,
    change_vector: &'a str,
}

/// Replaces `out` with the row of a counter.
pub(super) fn write_counter(
    out: &mut Vec<u8>,
    fields: &CounterFields<'_>,
    name: &str,
    values: &[CounterValue],
) -> Result<(), DocumentError> {
    let name = if name == fields.lower_name { "" } else { name };
    begin(out, COUNTER, fields, (name.len(), values.len()), Etag::ZERO)?;
    out.extend_from_slice(name.as_bytes());
    values.iter().for_each(|value| out.extend_from_slice(&value_bytes(value)));
    Ok(())
}

/// Replaces `out` with the row of a tombstone.
pub(super) fn write_tombstone(
    out: &mut Vec<u8>,
    fields: &CounterFields<'_>,
    deleted: Etag,
    change_vector: &str,
) -> Result<(), DocumentError> {
    begin(out, TOMBSTONE, fields, (0, change_vector.len()), deleted)?;
    out.extend_from_slice(change_vector.as_bytes());
    Ok(())
}

fn begin(
    out: &mut Vec<u8>,
    version: u8,
    fields: &CounterFields<'_>,
    lengths: (usize, usize),
    deleted: Etag,
) -> Result<(), DocumentError> {
    let CounterFields { lower_id, lower_name, collection_number, etag } = *fields;
    out.clear();
    out.extend_from_slice(&[version, 0]);
    for length in [lower_id.len(), lower_name.len(), lengths.0, lengths.1] {
        let length = u16::try_from(length);
        let length = length.map_err(|_| corrupt("a part of a counter is longer than 64 KB"))?;
        out.extend_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&collection_number.to_le_bytes());
    out.extend_from_slice(&etag.0.to_le_bytes());
    out.extend_from_slice(&deleted.0.to_le_bytes());
    let kind = if version == COUNTER { OF_COUNTER } else { OF_TOMBSTONE };
    push_key(out, kind, lower_id, lower_name);
    Ok(())
}

fn value_bytes(value: &CounterValue) -> [u8; VALUE_BYTES] {
    let mut bytes = [0; VALUE_BYTES];
    let tag = value.node_tag.as_str().as_bytes();
    bytes[..tag.len()].copy_from_slice(tag);
    bytes[4..20].copy_from_slice(&value.database_id.0);
    bytes[20..28].copy_from_slice(&value.value.to_le_bytes());
    bytes[28..].copy_from_slice(&value.etag.0.to_le_bytes());
    bytes
}

/// Sets the etag and one database's value in a counter's row. `position` is that of the database
/// among the values.
pub(super) fn set_value(row: &mut [u8], position: usize, value: &CounterValue) {
    row[ETAG].copy_from_slice(&value.etag.0.to_le_bytes());
    let behind = row.len() - values_in(row) * VALUE_BYTES;
    let at = behind + position * VALUE_BYTES;
    row[at..at + VALUE_BYTES].copy_from_slice(&value_bytes(value));
}

/// Sets the collection and the etag in a row.
pub(super) fn set_place(row: &mut [u8], collection_number: u32, etag: Etag) {
    row[COLLECTION].copy_from_slice(&collection_number.to_le_bytes());
    row[ETAG].copy_from_slice(&etag.0.to_le_bytes());
}

fn values_in(row: &[u8]) -> usize {
    length_at(row, 8)
}

/// The smallest key after all counters of the document that this key belongs to.
pub(super) fn behind_counters_of(key: &[u8]) -> Vec<u8> {
    // No name starts with this byte: it is in no UTF-8 text.
    [&[OF_COUNTER], parts_of_key(key).0, &[END_OF_ID, END_OF_ID]].concat()
}

/// The primary key of a counter.
pub(super) fn counter_key(lower_id: &str, lower_name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + lower_id.len() + lower_name.len());
    push_key(&mut key, OF_COUNTER, lower_id, lower_name);
    key
}

/// The primary key of the tombstone of a counter.
pub(super) fn tombstone_key(lower_id: &str, lower_name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + lower_id.len() + lower_name.len());
    push_key(&mut key, OF_TOMBSTONE, lower_id, lower_name);
    key
}

fn push_key(out: &mut Vec<u8>, kind: u8, lower_id: &str, lower_name: &str) {
    out.push(kind);
    out.extend_from_slice(lower_id.as_bytes());
    out.push(END_OF_ID);
    out.extend_from_slice(lower_name.as_bytes());
}

/// Whether a primary key is that of a counter, not a tombstone.
pub(super) fn is_counter_key(key: &[u8]) -> bool {
    key.first() == Some(&OF_COUNTER)
}

/// The parts of a primary key: the lower-cased id and the lower-cased name.
pub(super) fn parts_of_key(key: &[u8]) -> (&[u8], &[u8]) {
    let key = key.get(1..).unwrap_or_default();
    let end = key.iter().position(|byte| *byte == END_OF_ID).unwrap_or(key.len());
    (&key[..end], key.get(end + 1..).unwrap_or_default())
}

/// Whether the bytes are the row of a counter or of a tombstone, according to the first byte.
pub(crate) fn is_row(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(COUNTER | TOMBSTONE)))
}

/// Whether the row is that of a tombstone.
pub(crate) fn is_tombstone(bytes: &[u8]) -> bool {
    bytes.first() == Some(&TOMBSTONE)
}

/// Reads the row of a counter.
pub(crate) fn read(bytes: &[u8]) -> Result<CounterRow<'_>, DocumentError> {
    let (lower_id, lower_name, mut rest) = read_key(bytes, COUNTER, OF_COUNTER)?;
    let name = COUNTER_ROW.take_text(&mut rest, length_at(bytes, 6))?;
    if rest.len() != values_in(bytes) * VALUE_BYTES {
        return Err(corrupt("the row of a counter has another length than its values"));
    }
    let name = if name.is_empty() { lower_name } else { name };
    let row = CounterRow { bytes, lower_id, lower_name, name, values: rest };
    for value in row.values() {
        value?;
    }
    Ok(row)
}

/// Reads the row of a tombstone.
pub(crate) fn read_tombstone(bytes: &[u8]) -> Result<CounterTombstoneRow<'_>, DocumentError> {
    let (lower_id, lower_name, mut rest) = read_key(bytes, TOMBSTONE, OF_TOMBSTONE)?;
    let change_vector = COUNTER_ROW.take_text(&mut rest, length_at(bytes, 8))?;
    Ok(CounterTombstoneRow { bytes, lower_id, lower_name, change_vector })
}

fn read_key(bytes: &[u8], version: u8, kind: u8) -> Result<(&str, &str, &[u8]), DocumentError> {
    if bytes.len() <= KIND_AT || bytes[0] != version || bytes[KIND_AT] != kind {
        return Err(corrupt("a row is not of the kind of counter that it should be"));
    }
    let mut rest = &bytes[KIND_AT + 1..];
    let lower_id = COUNTER_ROW.take_text(&mut rest, length_at(bytes, 2))?;
    if COUNTER_ROW.take(&mut rest, 1)? != [END_OF_ID] {
        return Err(corrupt("the document of a counter does not end"));
    }
    let lower_name = COUNTER_ROW.take_text(&mut rest, length_at(bytes, 4))?;
    Ok((lower_id, lower_name, rest))
}

/// The primary key of a row; empty for an invalid row.
pub(super) fn primary_key_of(row: &[u8]) -> &[u8] {
    if row.len() <= KIND_AT {
        return &[];
    }
    let length = 2 + length_at(row, 2) + length_at(row, 4);
    row.get(KIND_AT..KIND_AT + length).unwrap_or_default()
}

/// The etag of either row; 0 for an invalid row.
pub(super) fn etag_of(row: &[u8]) -> u64 {
    u64_at(row, ETAG.start)
}

/// The number of the collection of either row; 0 for an invalid row.
pub(crate) fn collection_number_of(row: &[u8]) -> u32 {
    u32_at(row, COLLECTION.start)
}

fn read_value(bytes: &[u8; VALUE_BYTES]) -> Result<CounterValue, DocumentError> {
    let tag = std::str::from_utf8(&bytes[..4]).ok().map(|tag| tag.trim_end_matches('\0'));
    let node_tag: Option<NodeTag> = tag.and_then(|tag| tag.parse().ok());
    let mut database_id = [0; 16];
    database_id.copy_from_slice(&bytes[4..20]);
    Ok(CounterValue {
        node_tag: node_tag.ok_or(corrupt("a counter has an impossible node tag"))?,
        database_id: DatabaseId(database_id),
        value: u64_at(bytes, 20).cast_signed(),
        etag: Etag(u64_at(bytes, 28)),
    })
}

impl<'a> CounterRow<'a> {
    /// The lower-cased id of its document.
    pub fn lower_document_id(&self) -> &'a str {
        self.lower_id
    }

    /// The name in the spelling of its first write.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The name lower-cased.
    pub fn lower_name(&self) -> &'a str {
        self.lower_name
    }

    /// The position of its last change in the log.
    pub fn etag(&self) -> Etag {
        Etag(etag_of(self.bytes))
    }

    /// The number of its document's collection.
    pub fn collection_number(&self) -> u32 {
        collection_number_of(self.bytes)
    }

    /// Bytes of the row.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The version: the last value counted by each database.
    pub fn change_vector(&self) -> ChangeVector {
        // Reading the row has validated its values.
        self.values().flatten().fold(ChangeVector::empty(), |vector, value| {
            let CounterValue { node_tag, database_id, etag, .. } = value;
            vector.with(ChangeVectorEntry { tag: node_tag, etag, database_id })
        })
    }

    /// What each database has counted.
    pub fn values(&self) -> impl Iterator<Item = Result<CounterValue, DocumentError>> + use<'a> {
        self.values.as_chunks::<VALUE_BYTES>().0.iter().map(read_value)
    }

    /// The sum of its values, saturating at the limits of the type.
    pub fn total(&self) -> i64 {
        let (values, _) = self.values.as_chunks::<VALUE_BYTES>();
        let sum: i128 =
            values.iter().map(|value| i128::from(u64_at(value, 20).cast_signed())).sum();
        i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
    }

    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> CounterTombstoneRow<'a> {
    /// The lower-cased id of its document.
    pub fn lower_document_id(&self) -> &'a str {
        self.lower_id
    }

    /// The name lower-cased.
    pub fn lower_name(&self) -> &'a str {
        self.lower_name
    }

    /// The position of the deletion in the log.
    pub fn etag(&self) -> Etag {
        Etag(etag_of(self.bytes))
    }

    /// The etag of the deleted counter.
    pub fn deleted_etag(&self) -> Etag {
        Etag(u64_at(self.bytes, DELETED_ETAG.start))
    }

    /// The version of the deletion, which covers the versions that it contains.
    pub fn change_vector(&self) -> &'a str {
        self.change_vector
    }

    /// The number of the document's collection.
    pub fn collection_number(&self) -> u32 {
        collection_number_of(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<'a>(lower_id: &'a str, lower_name: &'a str) -> CounterFields<'a> {
        CounterFields { lower_id, lower_name, collection_number: 3, etag: Etag(7) }
    }

    fn value(value: i64, etag: u64) -> CounterValue {
        let database_id = DatabaseId(*b"0123456789abcdef");
        CounterValue { node_tag: NodeTag::A, database_id, value, etag: Etag(etag) }
    }

    #[test]
    fn the_bytes_lie_where_the_drawing_says() {
        let mut row = Vec::new();
        write_counter(&mut row, &fields("u/1", "é"), "É", &[value(-2, 258)]).unwrap();
        let mut golden = vec![0xc1, 0, 3, 0, 2, 0, 2, 0, 1, 0, 0, 0, 3, 0, 0, 0];
        golden.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend_from_slice("cu/1".as_bytes());
        golden.push(0xff);
        golden.extend_from_slice("éÉA\0\0\x000123456789abcdef".as_bytes());
        golden.extend_from_slice(&(-2_i64).to_le_bytes());
        golden.extend_from_slice(&[2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(row, golden);
        assert_eq!(primary_key_of(&row), counter_key("u/1", "é"));
        assert_eq!(parts_of_key(primary_key_of(&row)), (&b"u/1"[..], "é".as_bytes()));
        write_tombstone(&mut row, &fields("u/1", "n"), Etag(5), "cv").unwrap();
        let mut golden = vec![0xc2, 0, 3, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        golden.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        golden.extend_from_slice(b"tu/1\xffncv");
        assert_eq!(row, golden);
        assert_eq!(primary_key_of(&row), tombstone_key("u/1", "n"));
    }

    #[test]
    fn a_counter_is_the_sum_of_its_values() {
        let mut row = Vec::new();
        write_counter(&mut row, &fields("u/1", "n"), "N", &[value(5, 1), value(-7, 2)]).unwrap();
        set_value(&mut row, 1, &value(-6, 9));
        let read_back = read(&row).unwrap();
        assert_eq!((read_back.name(), read_back.lower_name()), ("N", "n"));
        assert_eq!((read_back.total(), read_back.etag()), (-1, Etag(9)));
        let values: Vec<_> = read_back.values().map(Result::unwrap).collect();
        assert_eq!(values, [value(5, 1), value(-6, 9)]);
        write_counter(&mut row, &fields("u/1", "n"), "n", &[value(i64::MAX, 1), value(1, 2)])
            .unwrap();
        assert_eq!(read(&row).unwrap().total(), i64::MAX);
    }

    #[test]
    fn damaged_rows_are_errors_and_never_panics() {
        let (mut counter, mut tombstone) = (Vec::new(), Vec::new());
        write_counter(&mut counter, &fields("u/1", "n"), "N", &[value(5, 1)]).unwrap();
        write_tombstone(&mut tombstone, &fields("u/1", "n"), Etag(5), "cv").unwrap();
        for bytes in [&counter, &tombstone] {
            for length in 0..bytes.len() {
                let cut = &bytes[..length];
                assert!(read(cut).is_err() && read_tombstone(cut).is_err(), "cut to {length}");
                let _ = (primary_key_of(cut), etag_of(cut), collection_number_of(cut));
            }
            for position in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[position] ^= 0xff;
                let _ = (read(&damaged).map(|row| row.total()), primary_key_of(&damaged));
                let _ = read_tombstone(&damaged).map(|row| row.deleted_etag());
            }
        }
    }
}
