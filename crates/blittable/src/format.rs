//! The layout of a document's bytes, version 1, and its smallest codecs.
//!
//! Not the reader or the writer of whole documents: those are `view` and `writer`. The invariant
//! kept by all writers: **a value is stored entirely before the block of the object or array that
//! holds it, and values are stored in the order of their entries**. Therefore distances are
//! positive, nothing can refer to itself, and one pass in post-order reads the bytes from front to
//! back.
//!
//! All integers are little-endian. Positions count from the first byte of the document.
//!
//! ```text
//! document   ┌────────────────────────────────────────────────────────────────────────┐
//!            │ header (20) │ values and blocks, children first … root block │ names   │
//!            └────────────────────────────────────────────────────────────────────────┘
//! header      0 u8  magic 0xB1
//!             1 u8  version 1
//!             2 u8  names: bits 0-1 log2 width of a name's end, bits 2-3 log2 width of a name id
//!                          in the permutation, bit 4 some name has bytes that JSON must escape
//!             3 u8  0
//!             4 u32 total bytes of the document
//!             8 u32 position of the root block (an object)
//!            12 u32 position of the names
//!            16 u32 count of names
//!
//! object     │ head u8 │ count varint │ count × entry │ permutation when not ascending │
//!   head      bits 0-1 log2 width of a name id, bits 2-3 log2 width of a distance,
//!             bit 4 ids ascend (entries themselves can be searched),
//!             bits 5-6 log2 width of an entry index in the permutation
//!   entry    │ token u8 │ name id │ distance │   in insertion order, name ids unique
//!   permutation: entry indexes in ascending order of their name ids
//!
//! array      │ head u8 │ count varint │ count × entry │
//!   head      bits 2-3 log2 width of a distance
//!   entry    │ token u8 │ distance │
//!
//! distance    position of the holding block minus position of the value; 0 where the token is all
//!
//! token  0 null   1 false   2 true        no further bytes
//!        3 integer                        zigzag varint, always an i64
//!        4 number                         varint length, the JSON text of the number
//!        5 string  6 string to escape     varint length, UTF-8 bytes
//!        7 packed  8 packed to escape     varint length, varint packed length, LZ4 block
//!        9 array  10 object               a block
//!
//! names      │ count × end of name │ count × name id, sorted by name │ name bytes │
//!             ends count from the start of the name bytes; names are unique, ids are given in the
//!             order of first appearance, sorting compares bytes
//! ```
//!
//! "To escape" says that printing the string as JSON needs escapes; a clean one is copied whole.

use crate::error::Corrupt;

pub(crate) const MAGIC: u8 = 0xB1;
pub(crate) const VERSION: u8 = 1;
pub(crate) const HEADER_BYTES: usize = 20;

/// Compression with LZ4 is tried for strings of at least this many bytes.
pub(crate) const PACK_BYTES_MIN: usize = 128;

pub(crate) const NAMES_NEED_ESCAPE: u8 = 1 << 4;
pub(crate) const IDS_ASCEND: u8 = 1 << 4;

/// LZ4 cannot expand a block by more than this factor; a larger claim is corruption.
pub(crate) const UNPACK_FACTOR_MAX: usize = 256;

/// What an entry refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Token {
    Null = 0,
    False = 1,
    True = 2,
    Integer = 3,
    Number = 4,
    String = 5,
    StringToEscape = 6,
    Packed = 7,
    PackedToEscape = 8,
    Array = 9,
    Object = 10,
}

impl Token {
    #[inline]
    pub(crate) fn from_byte(byte: u8, position: usize) -> Result<Token, Corrupt> {
        Ok(match byte {
            0 => Token::Null,
            1 => Token::False,
            2 => Token::True,
            3 => Token::Integer,
            4 => Token::Number,
            5 => Token::String,
            6 => Token::StringToEscape,
            7 => Token::Packed,
            8 => Token::PackedToEscape,
            9 => Token::Array,
            10 => Token::Object,
            _ => return Err(Corrupt::new("an entry has an unknown token", position)),
        })
    }

    /// Whether the token has bytes elsewhere.
    #[inline]
    pub(crate) fn has_bytes(self) -> bool {
        self as u8 >= Token::Integer as u8
    }
}

/// Width of a fixed-size field: 1, 2 or 4 bytes, stored as its base-2 logarithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Width(u8);

impl Width {
    /// The narrowest width that holds `largest`.
    #[inline]
    pub(crate) fn for_largest(largest: u32) -> Width {
        match largest {
            0..=0xFF => Width(0),
            0x100..=0xFFFF => Width(1),
            _ => Width(2),
        }
    }

    #[inline]
    pub(crate) fn from_bits(bits: u8, position: usize) -> Result<Width, Corrupt> {
        match bits & 3 {
            3 => Err(Corrupt::new("a field width is not 1, 2 or 4", position)),
            width => Ok(Width(width)),
        }
    }

    #[inline]
    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    #[inline]
    pub(crate) fn bytes(self) -> usize {
        1 << self.0
    }

    #[inline]
    pub(crate) fn write(self, out: &mut Vec<u8>, value: u32) {
        let bytes = value.to_le_bytes();
        match self.0 {
            0 => out.push(bytes[0]),
            1 => out.extend_from_slice(&bytes[..2]),
            _ => out.extend_from_slice(&bytes),
        }
    }

    /// The field at `at`; `None` when it is not within `bytes`.
    #[inline]
    pub(crate) fn read(self, bytes: &[u8], at: usize) -> Option<u32> {
        Some(match self.0 {
            0 => u32::from(*bytes.get(at)?),
            1 => {
                let field = bytes.get(at..at.checked_add(2)?)?;
                u32::from(u16::from_le_bytes([field[0], field[1]]))
            }
            _ => {
                let field = bytes.get(at..at.checked_add(4)?)?;
                u32::from_le_bytes([field[0], field[1], field[2], field[3]])
            }
        })
    }
}

/// Appends `value` in groups of seven bits, lowest first.
#[inline]
pub(crate) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a varint at `position`; returns the value and the position after it.
#[inline]
pub(crate) fn read_varint(bytes: &[u8], position: usize) -> Result<(u64, usize), Corrupt> {
    match bytes.get(position) {
        Some(&byte) if byte < 0x80 => Ok((u64::from(byte), position + 1)),
        _ => read_long_varint(bytes, position),
    }
}

fn read_long_varint(bytes: &[u8], position: usize) -> Result<(u64, usize), Corrupt> {
    let mut value = 0u64;
    let rest = bytes.get(position..).unwrap_or_default();
    for (index, &byte) in rest.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * index as u32);
        if byte < 0x80 {
            return Ok((value, position + index + 1));
        }
    }
    Err(Corrupt::new("a variable-length integer does not end", position))
}

/// Reads a varint that counts bytes or items, which never exceed 32 bits in a document.
#[inline]
pub(crate) fn read_length(bytes: &[u8], position: usize) -> Result<(usize, usize), Corrupt> {
    let (value, next) = read_varint(bytes, position)?;
    match u32::try_from(value) {
        Ok(length) => Ok((length as usize, next)),
        Err(_) => Err(Corrupt::new("a length exceeds 32 bits", position)),
    }
}

/// Maps small negative and positive integers to small unsigned ones.
#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
#[inline]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_unfinished_ones_are_corrupt() {
        for value in [0, 1, 127, 128, 300, 0xFFFF_FFFF, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            write_varint(&mut out, value);
            assert_eq!(read_varint(&out, 0).unwrap(), (value, out.len()));
            assert!(read_varint(&out[..out.len() - 1], 0).is_err());
        }
        assert!(read_varint(&[0xFF; 20], 0).is_err());
        assert!(read_varint(&[1], 9).is_err());
    }

    #[test]
    fn zigzag_keeps_every_sign() {
        for value in [0, -1, 1, i64::MIN, i64::MAX, -300] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn widths_are_as_narrow_as_the_largest_value_allows() {
        for (largest, bytes) in [(0, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4)] {
            let width = Width::for_largest(largest);
            assert_eq!(width.bytes(), bytes);
            let mut out = Vec::new();
            width.write(&mut out, largest);
            assert_eq!(width.read(&out, 0), Some(largest));
            assert_eq!(width.read(&out, 1), None);
            assert_eq!(width.read(&out, usize::MAX), None);
        }
    }
}
