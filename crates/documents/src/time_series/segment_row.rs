//! The row of a segment.
//!
//! ```text
//!  0       0xb1: segment of a time series, version 1
//!  1       positions, 1 to 32: the most values of an entry
//!  2..4    length of the lower-cased id, D
//!  4..6    length of the lower-cased name, L
//!  6..8    length of the name as written, N; 0 when it is the lower-cased one
//!  8..10   length of the change vector, C
//! 10..12   moments: entries, but those of the same moment are one
//! 12..16   number of the collection
//! 16..24   etag
//! 24..32   last moment
//! 32..     a summary for each position: count u64 · first · last · smallest · largest · sum
//! then     D bytes id · 0xff · L bytes name · 0xff · first moment, big-endian       the primary key
//!          N bytes name as written · C bytes change vector · segment, see `timeseries`
//! ```
//!
//! Numbers are little-endian, where nothing else is said; moments are milliseconds since the year 1.

use std::ops::Range;

use model::Etag;
use timeseries::{Entries, Summary, VALUES_MAX};

use super::{read::add_up, requests::MomentRange};
use crate::{
    error::{DocumentError, corrupt},
    row_bytes::{RowKind, length_at, u32_at, u64_at},
};

const SEGMENT_ROW: RowKind = RowKind {
    ends_early: "the row of a segment ends too early",
    is_no_text: "a segment has a text that is not UTF-8",
};
const SEGMENT: u8 = 0xb1;
const ETAG: Range<usize> = 16..24;
const HEADER_BYTES: usize = 32;
const SUMMARY_BYTES: usize = 48;
/// Two separators and the first moment.
const KEY_EXTRA_BYTES: usize = 10;

/// A segment, as stored in a page.
#[derive(Clone, Copy)]
pub struct SegmentRow<'a> {
    bytes: &'a [u8],
    key: &'a [u8],
    lower_id: &'a str,
    lower_name: &'a str,
    name: &'a str,
    change_vector: &'a str,
    segment: &'a [u8],
}

/// The fields of a row, except its entries.
pub(super) struct SegmentFields<'a> {
    /// The key of the series.
    pub(super) series: &'a [u8],
    pub(super) lower_id: &'a str,
    pub(super) name: &'a str,
    pub(super) lower_name: &'a str,
    pub(super) collection_number: u32,
    pub(super) change_vector: &'a str,
    pub(super) etag: Etag,
}

/// Makes the row of a segment of the entries in the range.
pub(super) fn write(
    fields: &SegmentFields<'_>,
    entries: &Entries,
    range: Range<usize>,
    segment: &[u8],
) -> Result<Vec<u8>, DocumentError> {
    let length = |text: &str| {
        u16::try_from(text.len()).map_err(|_| corrupt("a part of a segment's row is too long"))
    };
    let name = if fields.name == fields.lower_name { "" } else { fields.name };
    let summaries = entries.summaries(range.clone());
    let timestamps = &entries.timestamps()[range];
    let moments = 1 + timestamps.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let mut row = Vec::with_capacity(256 + summaries.len() * SUMMARY_BYTES + segment.len());
    row.extend_from_slice(&[SEGMENT, summaries.len() as u8]);
    row.extend_from_slice(&length(fields.lower_id)?.to_le_bytes());
    row.extend_from_slice(&length(fields.lower_name)?.to_le_bytes());
    row.extend_from_slice(&length(name)?.to_le_bytes());
    row.extend_from_slice(&length(fields.change_vector)?.to_le_bytes());
    row.extend_from_slice(&(moments as u16).to_le_bytes());
    row.extend_from_slice(&fields.collection_number.to_le_bytes());
    row.extend_from_slice(&fields.etag.0.to_le_bytes());
    row.extend_from_slice(&timestamps[timestamps.len() - 1].to_le_bytes());
    for summary in &summaries {
        let Summary { count, first, last, min, max, sum } = summary;
        row.extend_from_slice(&count.to_le_bytes());
        for value in [first, last, min, max, sum] {
            row.extend_from_slice(&value.to_le_bytes());
        }
    }
    row.extend_from_slice(&super::tables::segment_key(fields.series, timestamps[0]));
    row.extend_from_slice(name.as_bytes());
    row.extend_from_slice(fields.change_vector.as_bytes());
    row.extend_from_slice(segment);
    Ok(row)
}

/// Reads a row; its segment is not decoded.
pub(crate) fn read(bytes: &[u8]) -> Result<SegmentRow<'_>, DocumentError> {
    if bytes.len() < HEADER_BYTES || bytes[0] != SEGMENT {
        return Err(corrupt("a row is no segment of a time series"));
    }
    let positions = usize::from(bytes[1]);
    if !(1..=VALUES_MAX).contains(&positions) {
        return Err(corrupt("a segment has no values or too many"));
    }
    let mut rest = &bytes[HEADER_BYTES..];
    SEGMENT_ROW.take(&mut rest, positions * SUMMARY_BYTES)?;
    let (id, name) = (length_at(bytes, 2), length_at(bytes, 4));
    let key = SEGMENT_ROW.take(&mut rest, id + name + KEY_EXTRA_BYTES)?;
    let (lower_id, lower_name) =
        (SEGMENT_ROW.text(&key[..id])?, SEGMENT_ROW.text(&key[id + 1..id + 1 + name])?);
    let written = SEGMENT_ROW.take_text(&mut rest, length_at(bytes, 6))?;
    let change_vector = SEGMENT_ROW.take_text(&mut rest, length_at(bytes, 8))?;
    let name = if written.is_empty() { lower_name } else { written };
    let row = SegmentRow { bytes, key, lower_id, lower_name, name, change_vector, segment: rest };
    if key[id] != 0xff || row.start_ms() < 0 || row.end_ms() < row.start_ms() || row.moments() == 0
    {
        return Err(corrupt("a segment has impossible moments"));
    }
    Ok(row)
}

/// Sets the collection and the etag in a row.
pub(super) fn set_place(row: &mut [u8], collection_number: u32, etag: Etag) {
    row[12..16].copy_from_slice(&collection_number.to_le_bytes());
    row[ETAG].copy_from_slice(&etag.0.to_le_bytes());
}

/// The primary key; empty for an invalid row.
pub(super) fn primary_key_of(row: &[u8]) -> &[u8] {
    if row.len() < HEADER_BYTES {
        return &[];
    }
    let start = HEADER_BYTES + usize::from(row[1]) * SUMMARY_BYTES;
    let length = length_at(row, 2) + length_at(row, 4) + KEY_EXTRA_BYTES;
    row.get(start..start + length).unwrap_or_default()
}

/// The etag; 0 for an invalid row.
pub(super) fn etag_of(row: &[u8]) -> u64 {
    u64_at(row, ETAG.start)
}

/// The number of the collection; 0 for an invalid row.
pub(super) fn collection_number_of(row: &[u8]) -> u32 {
    u32_at(row, 12)
}

impl<'a> SegmentRow<'a> {
    /// The lower-cased id of the document.
    pub fn lower_document_id(&self) -> &'a str {
        self.lower_id
    }

    /// The name of the series, as its first entry was written.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The name lower-cased.
    pub fn lower_name(&self) -> &'a str {
        self.lower_name
    }

    /// The number of the document's collection.
    pub fn collection_number(&self) -> u32 {
        collection_number_of(self.bytes)
    }

    /// The version of the segment, not of its document.
    pub fn change_vector(&self) -> &'a str {
        self.change_vector
    }

    /// The position in the log.
    pub fn etag(&self) -> Etag {
        Etag(etag_of(self.bytes))
    }

    /// The moment of the first entry.
    pub fn start_ms(&self) -> i64 {
        let bytes = self.key.last_chunk().copied().unwrap_or_default();
        i64::from_be_bytes(bytes)
    }

    /// The moment of the last entry.
    pub fn end_ms(&self) -> i64 {
        self.number_at(24).cast_signed()
    }

    /// How many entries a reader sees: entries of the same moment, which only incremental series
    /// have, are merged.
    pub fn moments(&self) -> u64 {
        length_at(self.bytes, 10) as u64
    }

    /// Whether all entries are in a range.
    pub fn is_inside(&self, range: &MomentRange) -> bool {
        range.from <= self.start_ms() && self.end_ms() <= range.to
    }

    /// The most values of an entry.
    pub fn positions(&self) -> usize {
        usize::from(self.bytes[1])
    }

    /// The summaries of the values, by position; `None` where several entries are merged, so that
    /// the summaries must be recomputed.
    pub fn summaries(&self) -> Option<impl ExactSizeIterator<Item = Summary> + use<'a>> {
        let row = *self;
        // Every entry has a value at the first position.
        let is_plain = row.number_at(HEADER_BYTES) == row.moments();
        is_plain.then(|| (0..row.positions()).map(move |position| row.summary_at(position)))
    }

    fn summary_at(&self, position: usize) -> Summary {
        let at = HEADER_BYTES + position * SUMMARY_BYTES;
        let value = |index: usize| f64::from_bits(self.number_at(at + index * 8));
        Summary {
            count: self.number_at(at),
            first: value(1),
            last: value(2),
            min: value(3),
            max: value(4),
            sum: value(5),
        }
    }

    /// Adds all entries to others, as they are stored: one for each moment and node.
    ///
    /// # Errors
    /// A damaged segment.
    pub fn decode(&self, into: &mut Entries) -> Result<(), DocumentError> {
        timeseries::decode(self.segment, into)?;
        Ok(())
    }

    pub(super) fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The entries as they are stored; [`decode_segment`](super::decode_segment) reads them.
    pub fn encoded(&self) -> &'a [u8] {
        self.segment
    }

    /// Adds all entries to others, as a reader sees them: those of the same moment, which only
    /// incremental series have, are merged.
    ///
    /// # Errors
    /// A damaged segment.
    pub fn decode_seen(&self, into: &mut Entries) -> Result<(), DocumentError> {
        let mut stored = Entries::default();
        self.decode(&mut stored)?;
        add_up(&stored, into);
        Ok(())
    }

    /// Bytes of the row.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn segment_bytes(&self) -> usize {
        self.segment.len()
    }

    pub(super) fn primary_key(&self) -> &'a [u8] {
        self.key
    }

    /// Positions are inside a header or summary whose length was checked.
    fn number_at(&self, at: usize) -> u64 {
        u64_at(self.bytes, at)
    }
}

#[cfg(test)]
mod tests {
    use timeseries::Entry;

    use super::*;

    fn row(name: &str) -> Vec<u8> {
        let mut entries = Entries::default();
        entries.push(Entry { timestamp_ms: 5, values: &[1.0], tag: None });
        entries.push(Entry { timestamp_ms: 6, values: &[2.0, 3.0], tag: Some("t") });
        let mut segment = Vec::new();
        timeseries::encode(&entries, 0..2, &mut segment);
        let lower = name.to_lowercase();
        let series = super::super::tables::series_key_of("u/1", &lower);
        let fields = SegmentFields {
            series: &series,
            lower_id: "u/1",
            name,
            lower_name: &lower,
            collection_number: 3,
            change_vector: "cv",
            etag: Etag(7),
        };
        write(&fields, &entries, 0..2, &segment).unwrap()
    }

    #[test]
    fn a_row_lies_as_it_is_drawn() {
        let row = row("HR");
        let mut golden = vec![0xb1, 2, 3, 0, 2, 0, 2, 0, 2, 0, 2, 0, 3, 0, 0, 0];
        golden.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
        for (count, values) in [(2_u64, [1.0_f64, 2.0, 1.0, 2.0, 3.0]), (1, [3.0; 5])] {
            golden.extend_from_slice(&count.to_le_bytes());
            values.iter().for_each(|value| golden.extend_from_slice(&value.to_le_bytes()));
        }
        golden.extend_from_slice(b"u/1\xffhr\xff\0\0\0\0\0\0\0\x05HRcv");
        assert_eq!(row[..golden.len()], golden);
        assert_eq!(primary_key_of(&row), b"u/1\xffhr\xff\0\0\0\0\0\0\0\x05");
    }

    #[test]
    fn what_is_written_is_read() {
        for name in ["HR", "hr", ""] {
            let bytes = row(name);
            let row = read(&bytes).unwrap();
            assert_eq!((row.lower_document_id(), row.name()), ("u/1", name));
            assert_eq!((row.start_ms(), row.end_ms(), row.moments()), (5, 6, 2));
            assert_eq!((row.etag(), row.collection_number()), (Etag(7), 3));
            assert_eq!(row.change_vector(), "cv");
            let summaries: Vec<Summary> = row.summaries().unwrap().collect();
            let first = Summary { count: 2, first: 1.0, last: 2.0, min: 1.0, max: 2.0, sum: 3.0 };
            assert_eq!(summaries, [first, Summary::of(3.0)]);
            let mut entries = Entries::default();
            row.decode(&mut entries).unwrap();
            assert_eq!(entries.timestamps(), [5, 6]);
        }
    }

    #[test]
    fn damaged_rows_are_errors_and_never_panics() {
        let row = row("HR");
        for length in 0..row.len() {
            let cut = &row[..length];
            let is_read = read(cut).and_then(|row| row.decode(&mut Entries::default()));
            assert!(is_read.is_err(), "cut to {length}");
            let _ = (primary_key_of(cut), etag_of(cut), collection_number_of(cut));
        }
        for position in 0..row.len() {
            let mut damaged = row.clone();
            damaged[position] ^= 0xff;
            if let Ok(row) = read(&damaged) {
                let _ = (row.decode(&mut Entries::default()), row.summaries().map(Iterator::count));
            }
            let _ = primary_key_of(&damaged);
        }
    }
}
