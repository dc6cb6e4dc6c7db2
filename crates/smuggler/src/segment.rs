//! Segments of time series as dumps contain them, found out from what RavenDB 5.4 and 7.1 write and accept.
//!
//! ```text
//!  0..4    milliseconds from the baseline to the last entry
//!  4..8    milliseconds between the last two entries
//!  8..10   entries, with deleted ones
//! 10..12   length of the tags, T
//! 12       index of the last entry's tag; 255 for none
//! 13       values of each entry, V; 14: 1, the version; 15: 0
//! 16..     V summaries of 48 bytes: first, last, largest, smallest, sum: f64 · count u32 ·
//!          leading and trailing zeroes of the last window · 2 not used
//! then     T bytes tags: each its length (7 bits a byte, the lowest first), UTF-8, number and positions of escapes · the length of each
//!          such row · number of tags
//!          bits u32 · compressed bytes u16, C · bytes when decompressed u16, U · an LZ4 block of C bytes · that many
//!          bits, the highest of each byte first, which follow the U bytes · 4 not used
//! ```
//!
//! C and U are 0 until a segment is nearly full. An entry is: a bit that is set if it was deleted · the time · each value · the tag.
//!
//! - time: of the first entry 31 bits, milliseconds from the baseline; of others the difference of differences D, which
//!   is never 0 in the longer codes, so that positive ones are less by 1 there: `0` for 0; `10` and 7 bits of D + 64;
//!   `110` and 9 of D + 256; `1110` and 12 of D + 2048; `1111` and 32 of D + 2^31;
//! - value, combined with the one before by exclusive or (Pelkonen and others, "Gorilla", VLDB 2015): `0` for the
//!   same; `11` and the bits of the present window, which at first is all 64; `10`, 5 bits leading zeroes, 6 bits
//!   length - 1, and the bits of that window;
//! - tag: `0` for the one before, at first none; `10` for none; `11` and 7 bits index.
//!
//! Entries with fewer values than others have NaN for those that are missing, and deleted ones have 0; the value before
//! the next one is then still the last that was there. All numbers are little-endian.

use std::{borrow::Cow, fmt};

const HEADER_BYTES: usize = 16;
const SUMMARY_BYTES: usize = 48;
const NO_TAG: u8 = 255;
const VERSION: u8 = 1;
/// An index of a tag has 7 bits.
const TAGS_MAX: usize = 127;
/// The most bytes of a tag and its escapes, so that the length of its row is one byte.
const TAG_BYTES_MAX: usize = 252;
/// The most values of an entry.
const VALUES_MAX: usize = 32;
/// A segment that RavenDB accepts has at most this many bytes.
pub const SEGMENT_BYTES_MAX: usize = 2048;
/// The most bits of an entry, besides its values: deletion, time and tag.
const ENTRY_BITS_MAX: usize = 1 + 36 + 9;
/// The most bits of a value.
const VALUE_BITS_MAX: usize = 13 + 64;
/// The last millisecond that a segment reaches, counted from its baseline.
pub const OFFSET_MS_MAX: i64 = (1 << 31) - 1;

/// Codes of differences of differences: the bits of the prefix, its length, the bits of the number.
const TIME_CODES: [(u64, u32, u32); 4] =
    [(0b10, 2, 7), (0b110, 3, 9), (0b1110, 4, 12), (0b1111, 4, 32)];

/// An entry of a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentEntry<'a> {
    /// Milliseconds from the baseline.
    pub offset_ms: i64,
    /// Its values, without missing ones at the end.
    pub values: &'a [f64],
    /// Its tag.
    pub tag: Option<&'a str>,
}

/// Bytes that are not a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedSegment(&'static str);

impl fmt::Display for DamagedSegment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "A segment of a time series is damaged: {}.", self.0)
    }
}

impl std::error::Error for DamagedSegment {}

/// How values are combined with those before.
#[derive(Clone, Copy, Default)]
struct Column {
    /// The last value that was not missing.
    bits: u64,
    leading: u32,
    trailing: u32,
}

/// Reads the entries of a segment that were not deleted, in their order.
///
/// # Errors
/// The bytes are not a segment. Some entries may have been passed to `take`.
pub fn decode_segment(
    bytes: &[u8],
    mut take: impl FnMut(SegmentEntry<'_>),
) -> Result<(), DamagedSegment> {
    let short = DamagedSegment("it ends too early");
    let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(short)?;
    let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let (count, tags_bytes) = (u16_at(8), usize::from(u16_at(10)));
    let values = usize::from(header[13]);
    if header[14] != VERSION {
        return Err(DamagedSegment("its version is not known"));
    }
    if values == 0 || VALUES_MAX < values {
        return Err(DamagedSegment("it has no values or too many"));
    }
    let rest = bytes.get(HEADER_BYTES + values * SUMMARY_BYTES..).ok_or(short)?;
    let (tags, rest) = rest.split_at_checked(tags_bytes).ok_or(short)?;
    let tags = tags_of(tags)?;
    let (sizes, body) = rest.split_at_checked(8).ok_or(short)?;
    let bits = u32::from_le_bytes([sizes[0], sizes[1], sizes[2], sizes[3]]) as usize;
    let u16_of = |at: usize| usize::from(u16::from_le_bytes([sizes[at], sizes[at + 1]]));
    let (compressed, tail) = body.split_at_checked(u16_of(4)).ok_or(short)?;
    if tail.len() * 8 < bits {
        return Err(short);
    }
    let body = decompressed(compressed, u16_of(6), tail)?;
    let end = (body.len() - tail.len()) * 8 + bits;
    let mut reader = BitReader { bytes: &body, at: 0, end };
    let mut columns = vec![Column::default(); values];
    let mut current = vec![0.0; values];
    let (mut offset, mut difference, mut tag) = (0_i64, 0_i64, None);
    for entry in 0..count {
        let is_deleted = reader.read(1)? == 1;
        if entry == 0 {
            offset = reader.read(31)? as i64;
        } else {
            difference += reader.time()?;
            offset += difference;
        }
        for (column, value) in columns.iter_mut().zip(&mut current) {
            *value = reader.value(column, is_deleted)?;
        }
        if reader.read(1)? == 1 {
            tag = match reader.read(1)? {
                0 => None,
                _ => Some(reader.read(7)? as usize),
            };
        }
        if is_deleted {
            continue;
        }
        let present = current.iter().rposition(|value| !value.is_nan()).map_or(0, |last| last + 1);
        let tag = match tag {
            Some(index) => Some(*tags.get(index).ok_or(DamagedSegment("it lacks a tag"))?),
            None => None,
        };
        take(SegmentEntry { offset_ms: offset, values: &current[..present], tag });
    }
    Ok(())
}

/// What a block decompresses to, and the tail behind it.
fn decompressed<'b>(
    block: &[u8],
    bytes: usize,
    tail: &'b [u8],
) -> Result<Cow<'b, [u8]>, DamagedSegment> {
    if block.is_empty() && bytes == 0 {
        return Ok(Cow::Borrowed(tail));
    }
    let mut body = lz4_flex::block::decompress(block, bytes)
        .ok()
        .filter(|body| body.len() == bytes)
        .ok_or(DamagedSegment("it cannot be decompressed"))?;
    body.extend_from_slice(tail);
    Ok(Cow::Owned(body))
}

/// The texts of the tags, by index.
fn tags_of(bytes: &[u8]) -> Result<Vec<&str>, DamagedSegment> {
    let damaged = DamagedSegment("its tags cannot be read");
    let (count, rest) = bytes.split_last().ok_or(damaged)?;
    let rows_bytes = rest.len().checked_sub(usize::from(*count)).ok_or(damaged)?;
    let (mut rows, lengths) = rest.split_at(rows_bytes);
    let mut tags = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (row, behind) = rows.split_at_checked(usize::from(*length)).ok_or(damaged)?;
        rows = behind;
        let (text_bytes, text) = match row {
            [low @ 0..0x80, text @ ..] => (usize::from(*low), text),
            [low, high @ 0..2, text @ ..] => {
                (usize::from(low & 0x7f) | usize::from(*high) << 7, text)
            }
            _ => return Err(damaged),
        };
        let text = text.get(..text_bytes).ok_or(damaged)?;
        tags.push(std::str::from_utf8(text).map_err(|_| damaged)?);
    }
    Ok(tags)
}

struct BitReader<'b> {
    bytes: &'b [u8],
    at: usize,
    end: usize,
}

impl BitReader<'_> {
    fn read(&mut self, count: u32) -> Result<u64, DamagedSegment> {
        if self.end < self.at + count as usize {
            return Err(DamagedSegment("it ends too early"));
        }
        let mut read = 0;
        let mut left = count;
        while 0 < left {
            let (byte, bit) = (u64::from(self.bytes[self.at / 8]), (self.at % 8) as u32);
            let here = left.min(8 - bit);
            let part = byte >> (8 - bit - here) & ((1 << here) - 1);
            read = read << here | part;
            self.at += here as usize;
            left -= here;
        }
        Ok(read)
    }

    fn time(&mut self) -> Result<i64, DamagedSegment> {
        let mut ones = 0;
        while ones < 4 && self.read(1)? == 1 {
            ones += 1;
        }
        match ones {
            0 => Ok(0),
            ones => {
                let (_, _, bits) = TIME_CODES[ones - 1];
                let change = self.read(bits)? as i64 - (1 << (bits - 1));
                Ok(if change < 0 { change } else { change + 1 })
            }
        }
    }

    fn value(&mut self, column: &mut Column, is_deleted: bool) -> Result<f64, DamagedSegment> {
        if self.read(1)? == 1 {
            if self.read(1)? == 0 {
                column.leading = self.read(5)? as u32;
                let length = self.read(6)? as u32 + 1;
                let trailing = 64_u32.checked_sub(column.leading + length);
                column.trailing = trailing.ok_or(DamagedSegment("a value has too many bits"))?;
            }
            let length = 64 - column.leading - column.trailing;
            let value = f64::from_bits(column.bits ^ self.read(length)? << column.trailing);
            if !is_deleted && !value.is_nan() {
                column.bits = value.to_bits();
            }
            return Ok(value);
        }
        Ok(f64::from_bits(column.bits))
    }
}

/// A segment that is being written.
pub struct SegmentEncoder {
    values: usize,
    columns: Vec<Column>,
    summaries: Vec<ColumnSummary>,
    tags: Vec<String>,
    tags_bytes: usize,
    tag: Option<usize>,
    count: u16,
    offset_ms: i64,
    difference: i64,
    bits: Vec<u8>,
    bits_count: usize,
}

#[derive(Clone, Copy)]
struct ColumnSummary {
    first: f64,
    last: f64,
    largest: f64,
    smallest: f64,
    sum: f64,
    count: u32,
}

impl SegmentEncoder {
    /// A segment without entries, which have at most so many values: 1 to 32.
    pub fn new(values: usize) -> SegmentEncoder {
        let none = ColumnSummary {
            first: 0.0,
            last: 0.0,
            largest: 0.0,
            smallest: 0.0,
            sum: 0.0,
            count: 0,
        };
        SegmentEncoder {
            values,
            columns: vec![Column::default(); values],
            summaries: vec![none; values],
            tags: Vec::new(),
            tags_bytes: 0,
            tag: None,
            count: 0,
            offset_ms: 0,
            difference: 0,
            bits: Vec::new(),
            bits_count: 0,
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether another entry fits: it is not before the last one, and the segment stays as short as RavenDB accepts.
    /// Into an empty segment every entry fits that begins at its baseline.
    pub fn fits(&self, entry: &SegmentEntry<'_>) -> bool {
        if self.is_empty() {
            return true;
        }
        let is_new = |tag: &str| !self.tags.iter().any(|known| known == tag);
        let tag_bytes = entry.tag.filter(|tag| is_new(tag)).map_or(0, |tag| 5 + 2 * tag.len());
        let bits = self.bits_count + ENTRY_BITS_MAX + self.values * VALUE_BITS_MAX;
        let bytes = HEADER_BYTES
            + self.values * SUMMARY_BYTES
            + self.tags_bytes
            + tag_bytes
            + 16
            + bits.div_ceil(8);
        entry.values.len() <= self.values
            && bytes <= SEGMENT_BYTES_MAX
            && (tag_bytes == 0 || self.tags.len() < TAGS_MAX)
            && (self.offset_ms..=OFFSET_MS_MAX).contains(&entry.offset_ms)
            && self.count < u16::MAX
    }

    /// Adds an entry that fits, with as much of its tag as [`fitting_tag`] says.
    pub fn add(&mut self, entry: &SegmentEntry<'_>) {
        self.write(0, 1);
        if self.is_empty() {
            self.write(entry.offset_ms.cast_unsigned(), 31);
        } else {
            let difference = entry.offset_ms - self.offset_ms;
            self.write_time(difference - self.difference);
            self.difference = difference;
        }
        self.offset_ms = entry.offset_ms;
        for position in 0..self.values {
            let value = entry.values.get(position).copied();
            self.write_value(position, value.unwrap_or(f64::NAN));
            if let Some(value) = value {
                self.summaries[position].add(value);
            }
        }
        self.write_tag(entry.tag);
        self.count += 1;
    }

    /// The bytes of the segment.
    pub fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SEGMENT_BYTES_MAX);
        let tags = self.tags_row();
        let tag = self.tag.map_or(NO_TAG, |tag| tag as u8);
        let difference = if self.count < 2 { 0 } else { self.difference };
        out.extend_from_slice(&(self.offset_ms as u32).to_le_bytes());
        out.extend_from_slice(&(difference as u32).to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&(tags.len() as u16).to_le_bytes());
        out.extend_from_slice(&[tag, self.values as u8, VERSION, 0]);
        for (summary, column) in self.summaries.iter().zip(&self.columns) {
            let ColumnSummary { first, last, largest, smallest, sum, count } = summary;
            for value in [first, last, largest, smallest, sum] {
                out.extend_from_slice(&value.to_le_bytes());
            }
            out.extend_from_slice(&count.to_le_bytes());
            out.extend_from_slice(&[column.leading as u8, column.trailing as u8, 0, 0]);
        }
        out.extend_from_slice(&tags);
        out.extend_from_slice(&(self.bits_count as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.bits);
        out.extend_from_slice(&[0; 4]);
        out
    }

    fn tags_row(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(self.tags_bytes + 1);
        let mut lengths = Vec::with_capacity(self.tags.len());
        for tag in &self.tags {
            let begin = row.len();
            match tag.len() as u8 {
                length @ 0..0x80 => row.push(length),
                length => row.extend_from_slice(&[length, length >> 7]),
            }
            row.extend_from_slice(tag.as_bytes());
            write_escapes(tag, &mut row);
            lengths.push((row.len() - begin) as u8);
        }
        row.extend_from_slice(&lengths);
        row.push(self.tags.len() as u8);
        row
    }

    fn write(&mut self, bits: u64, count: u32) {
        for position in (0..count).rev() {
            if self.bits_count.is_multiple_of(8) {
                self.bits.push(0);
            }
            let bit = (bits >> position & 1) as u8;
            if let Some(last) = self.bits.last_mut() {
                *last |= bit << (7 - self.bits_count % 8);
            }
            self.bits_count += 1;
        }
    }

    fn write_time(&mut self, change: i64) {
        if change == 0 {
            return self.write(0, 1);
        }
        let number = |bits: u32| change - i64::from(0 < change) + (1 << (bits - 1));
        let fits = |bits: u32| (0..1_i64 << bits).contains(&number(bits));
        let code = TIME_CODES.iter().find(|(_, _, bits)| fits(*bits));
        let (prefix, prefix_bits, bits) = *code.unwrap_or(&TIME_CODES[3]);
        self.write(prefix, prefix_bits);
        self.write(number(bits).cast_unsigned(), bits);
    }

    fn write_value(&mut self, position: usize, value: f64) {
        let column = self.columns[position];
        let changed = value.to_bits() ^ column.bits;
        if !value.is_nan() {
            self.columns[position].bits = value.to_bits();
        }
        if changed == 0 {
            return self.write(0, 1);
        }
        let leading = changed.leading_zeros().min(31);
        let trailing = changed.trailing_zeros();
        let (own, present) = (64 - leading - trailing, 64 - column.leading - column.trailing);
        let is_inside = column.leading <= leading && column.trailing <= trailing;
        self.write(1, 1);
        if is_inside && present <= own + 11 {
            self.write(1, 1);
            return self.write(changed >> column.trailing, present);
        }
        self.write(0, 1);
        self.write(u64::from(leading), 5);
        self.write(u64::from(own - 1), 6);
        self.write(changed >> trailing, own);
        self.columns[position].leading = leading;
        self.columns[position].trailing = trailing;
    }

    fn write_tag(&mut self, tag: Option<&str>) {
        let index = tag.map(|tag| {
            let tag = fitting_tag(tag);
            self.tags.iter().position(|known| known == tag).unwrap_or_else(|| {
                self.tags.push(tag.to_owned());
                self.tags_bytes += tag.len() + 5 + escapes_in(tag);
                self.tags.len() - 1
            })
        });
        if index == self.tag {
            return self.write(0, 1);
        }
        self.tag = index;
        match index {
            None => self.write(0b10, 2),
            Some(index) => {
                self.write(0b11, 2);
                self.write(index as u64, 7);
            }
        }
    }
}

impl ColumnSummary {
    fn add(&mut self, value: f64) {
        if self.count == 0 {
            *self = Self {
                first: value,
                last: value,
                largest: value,
                smallest: value,
                sum: 0.0,
                count: 0,
            };
        }
        self.last = value;
        self.largest = self.largest.max(value);
        self.smallest = self.smallest.min(value);
        self.sum += value;
        self.count += 1;
    }
}

/// As much of a tag as a segment takes: 252 bytes, less if JSON escapes some of them.
pub fn fitting_tag(tag: &str) -> &str {
    let mut fitting = &tag[..tag.floor_char_boundary(TAG_BYTES_MAX)];
    while TAG_BYTES_MAX < fitting.len() + escapes_in(fitting) {
        fitting = &fitting[..fitting.floor_char_boundary(fitting.len() - 1)];
    }
    fitting
}

/// Whether JSON must escape a byte.
fn is_escaped(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || (8..=13).contains(&byte) && byte != 11
}

fn escapes_in(tag: &str) -> usize {
    tag.bytes().filter(|byte| is_escaped(*byte)).count()
}

/// The number of bytes that JSON escapes, and for each how many others are before it.
fn write_escapes(tag: &str, row: &mut Vec<u8>) {
    row.push(escapes_in(tag) as u8);
    let mut before = 0;
    for byte in tag.bytes() {
        if is_escaped(byte) {
            row.push(before);
            before = 0;
        } else {
            before += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let hex: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let digit = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
        hex.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }

    type Read = (i64, Vec<f64>, Option<String>);

    fn decoded(bytes: &[u8]) -> Result<Vec<Read>, DamagedSegment> {
        let mut read = Vec::new();
        decode_segment(bytes, |entry| {
            read.push((entry.offset_ms, entry.values.to_vec(), entry.tag.map(str::to_owned)));
        })?;
        Ok(read)
    }

    /// A segment that RavenDB wrote, with two values, two tags, and an entry with one value.
    const OF_RAVENDB: &str = "80ee3600 20b12e00 0b000d00 ff020100 00000000 00004e40 00000000 0000f43f 00000000
        00205040 00000000 0000f43f 00000000 007e8340 0b000000 01050000 00000000 00000000 00000000 00002240 00000000
        00002240 00000000 00000000 00000000 00804640 0a000000 00060000 03772f30 0003772f 31000505 02720500 00000000
        00000000 00d01380 00000000 001807c0 00752fd1 a6000000 0000cffc 00000000 00003025 0ab00000 000006ff e0000000
        00000180 34000000 000132d8 00000000 003024fa f8000000 00025dd8 00000000 00300640 00000000 19000000 00000c09
        b0000000 0006c000 00000003 00640000 00000190 00000000 00c092ef fe000000 0000957f 80000000 000600c0 40000000
        00308000 0000000c 0be00b71 afe0f3fe 90800000 000040e6 ff680000 00000080";

    #[test]
    fn a_segment_of_ravendb_is_read() {
        let read = decoded(&bytes(OF_RAVENDB)).unwrap();
        let mut expected: Vec<Read> = (0..10)
            .map(|i| {
                (i * 60_000, vec![60.0 + i as f64 * 0.5, i as f64], Some(format!("w/{}", i % 2)))
            })
            .collect();
        expected.push((3_600_000, vec![1.25], None));
        assert_eq!(read, expected);
    }

    #[test]
    fn long_tags_and_missing_values_are_written_as_ravendb_does() {
        let tag = "x".repeat(200);
        let mut encoder = SegmentEncoder::new(2);
        let entries = [(0, &[1.0, 2.0][..]), (1000, &[1.0]), (2000, &[1.0]), (3000, &[1.0, 2.0])];
        for (offset_ms, values) in entries {
            encoder.add(&SegmentEntry { offset_ms, values, tag: Some(&tag) });
        }
        let segment = encoder.finish();
        let tags = &segment[HEADER_BYTES + 2 * SUMMARY_BYTES..];
        assert_eq!(&tags[..3], [0xc8, 1, b'x']);
        assert_eq!(&tags[202..205], [0, 203, 1]);
        let read = decoded(&segment).unwrap();
        let expected = entries.map(|(offset, values)| (offset, values.to_vec(), Some(tag.clone())));
        assert_eq!(read, expected);
    }

    /// The values 0, 0.5, … 9.5, a minute each, from which RavenDB deleted the sixth to the eighth.
    const WITH_DELETED: &str = "20651100 60ea0000 14000100 ff010100 00000000 00000000 00000000 00002340 00000000 00002340 00000000
        00000000 00000000 00805540 11000000 0a060000 009f0400 00000000 00000000 001f0001 d4bf9ff0 00000000
        00000977 40000000 00001a00 00000000 01078fff 00000000 0002e000 00000000 000b8000 00000000 002e0000
        00000000 00300200 00000000 009d5c00 00000000 09b66000 00000000 68000000 0000132d e0000000 00006400
        00000000 0d800000 00000190 00000000 00255ff0 00000000 00304000 00000001 86000000 00000c10 00000000 00";
    /// 0 and 1 in turn, 300 times, a minute each: most of it is compressed.
    const COMPRESSED: &str = "20be1101 60ea0000 2c010100 ff010100 00000000 00000000 00000000 0000f03f 00000000 0000f03f 00000000
        00000000 00000000 00c06240 2c010000 00000000 006c1300 004900ae 07b00000 00001f00 01d4bf9f f80b0052
        00000cff c0090022 67fe0800 32033ff0 09003219 ff800900 22cffc08 0032067f e0090022 33ff0800 1f014500
        ffffffff ffffff4f 50000000 0000033f f0000000 00000019 ff800000 00000000 cffc0000 00000000 067fe000
        00000000 0033ff00 00000000 00019ff8 00000000 00000cff c0000000 00000067 fe000000 00000003 3ff00000
        00000000 19ff8000 00000000 00cffc00 00000000 00067fe0 00000000 000033ff 00000000 0000019f f8000000
        0000000c ffc00000 00000000 67fe0000 00000000 033ff000 00000000 0019ff80 00000000 0000cffc 00000000
        0000067f e0000000 00000033 ff000000 00000001 9ff80000 00000000 0cffc000 00000000 0067fe00 00000000
        00033ff0 00000000 000019ff 80000000 000000cf fc000000 00000006 7fe00000 00000000 33ff0000 00000000
        019ff800 00000000 000cffc0 00000000 000067fe 00000000 0000033f f0000000 00000019 ff800000 00000000
        cffc0000 00000000 067fe000 00000000 0033ff00 00000000 00019ff8 00000000 00000cff c0000000 00000067
        fe000000 00000003 3ff00000 00000000 19ff8000 00000000 00cffc00 00000000 00067fe0 00000000 000033ff
        00000000 0000019f f8000000 0000000c ffc00000 00000000 67fe0000 00000000 033ff000 00000000 0019ff80
        00000000 0000cffc 00000000 0000067f e0000000 00000033 ff000000 00000001 9ff80000 00000000 0cffc000
        00000000 0067fe00 00000000 00033ff0 00000000 000019ff 80000000 000000cf fc000000 00000006 7fe00000
        00000000 33ff0000 00000000 019ff800 00000000 000cffc0 00000000 000067fe 00000000 0000033f f0000000
        00000019 ff800000 00000000 cffc0000 00000000 067fe000 00000000 0033ff00 00000000 00019ff8 00000000
        00000cff c0000000 00000067 fe000000 00000000";
    /// The value 5 at times whose differences change by each of `CHANGES`, up and down again.
    const UNEVEN: &str = "a3ed4d00 400d0300 1a000100 ff010100 00000000 00001440 00000000 00001440 00000000 00001440 00000000
        00001440 00000000 00406040 1a000000 00000000 006d0200 00000000 00000000 00d00500 00000000 000f8003
        0d3f1401 3f14113e 17e10117 f1980350 065f8dfe 180237fc 73800e90 01cdfe3b ff870008 efff1eff fff0003e
        00002000 7bffffbf f8f80018 69f1efff cf2c00";
    const CHANGES: [i64; 12] = [1, 2, 63, 64, 65, 255, 256, 257, 2047, 2048, 2049, 100_000];

    #[test]
    fn deleted_entries_are_left_out() {
        let read = decoded(&bytes(WITH_DELETED)).unwrap();
        let left = (0..20).filter(|number| !(5..8).contains(number));
        let expected: Vec<Read> =
            left.map(|number| (number * 60_000, vec![number as f64 * 0.5], None)).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn times_are_read_and_written_as_ravendb_does() {
        let (mut difference, mut offset_ms) = (200_000, 200_000);
        let mut expected: Vec<Read> = vec![(0, vec![5.0], None), (offset_ms, vec![5.0], None)];
        for change in CHANGES.into_iter().flat_map(|change| [change, -change]) {
            difference += change;
            offset_ms += difference;
            expected.push((offset_ms, vec![5.0], None));
        }
        let segment = bytes(UNEVEN);
        assert_eq!(decoded(&segment).unwrap(), expected);
        let mut encoder = SegmentEncoder::new(1);
        for (offset_ms, values, _) in &expected {
            encoder.add(&SegmentEntry { offset_ms: *offset_ms, values, tag: None });
        }
        assert_eq!(decoded(&encoder.finish()).unwrap(), expected);
    }

    #[test]
    fn a_compressed_segment_is_read() {
        let read = decoded(&bytes(COMPRESSED)).unwrap();
        let expected: Vec<Read> =
            (0..300).map(|number| (number * 60_000, vec![(number % 2) as f64], None)).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn damaged_segments_are_errors_and_never_panics() {
        let segment = bytes(OF_RAVENDB);
        for length in 0..segment.len() - 5 {
            assert!(decoded(&segment[..length]).is_err(), "{length}");
        }
        for position in 0..segment.len() {
            for bit in 0..8 {
                let mut damaged = segment.clone();
                damaged[position] ^= 1 << bit;
                drop(decoded(&damaged));
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            entries in prop::collection::vec(
                (0..5_000_000_i64, prop::collection::vec(any::<f64>().prop_filter("a number", |v| !v.is_nan()), 1..4), prop::option::of("[a-c\"\n]{0,3}")),
                1..60,
            )
        ) {
            let mut offset = 0;
            let mut encoder = SegmentEncoder::new(3);
            let mut written = Vec::new();
            for (position, (step, values, tag)) in entries.iter().enumerate() {
                offset += if position == 0 { 0 } else { *step };
                let entry = SegmentEntry { offset_ms: offset, values, tag: tag.as_deref() };
                if !encoder.fits(&entry) {
                    break;
                }
                encoder.add(&entry);
                written.push((offset, values.clone(), tag.clone()));
            }
            let segment = encoder.finish();
            prop_assert!(segment.len() <= SEGMENT_BYTES_MAX);
            prop_assert_eq!(decoded(&segment).unwrap(), written);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(decoded(&bytes));
        }
    }
}
