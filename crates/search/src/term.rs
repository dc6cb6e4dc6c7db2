//! Terms: what an entry can be found by, and their keys in the tree of terms.
//!
//! ```text
//! key   field u16 big-endian · kind u8 · bytes, by kind
//!         1 Exists, 2 Null, 3 Many,     no bytes
//!         7 Numeric
//!         4 Text                        the text in UTF-8
//!         5 Long                        8 bytes, big-endian, sign bit flipped
//!         6 Double                      8 bytes, big-endian; negative: all bits flipped, else the sign
//!         8 Point, 9 Center             24 bytes, see place.rs
//!         10 Cell                       level u8 · first number u64 big-endian
//! ```
//!
//! Bytes compare as the values do. A text longer than [`TERM_BYTES_MAX`] is kept as its first bytes and
//! the XXH3-128 of the whole in hexadecimal digits, so it still is text, and still equal only to itself.

use std::{borrow::Cow, ops::Bound};

use xxhash_rust::xxh3::xxh3_128;

use crate::{error::SearchError, ids::FieldId};

/// The longest text that is stored verbatim as a term, in bytes; longer ones are shortened.
pub const TERM_BYTES_MAX: usize = 960;
const HASH_DIGITS: usize = 32;
pub(crate) const KEY_PREFIX_BYTES: usize = 3;

/// The kind of value that a term represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TermKind {
    /// The entry has at least one term in the field.
    Exists = 1,
    /// The entry has null in the field.
    Null = 2,
    /// The entry has several different texts, longs or doubles in the field, or null along with
    /// another value. A sort that walks the terms learns from it which entries it will visit more
    /// than once.
    Many = 3,
    /// A text, or one word of it.
    Text = 4,
    /// A number, cut to an integer.
    Long = 5,
    /// A number.
    Double = 6,
    /// The entry has a number in the field. A sort learns from it which entries have none.
    Numeric = 7,
    /// A place.
    Point = 8,
    /// The middle of a shape.
    Center = 9,
    /// A cell that a shape touches.
    Cell = 10,
    /// A shape. Stored in records only; entries are found by its cells.
    Shape = 11,
}

impl TermKind {
    pub(crate) fn from_byte(byte: u8) -> Result<Self, SearchError> {
        Ok(match byte {
            1 => TermKind::Exists,
            2 => TermKind::Null,
            3 => TermKind::Many,
            4 => TermKind::Text,
            5 => TermKind::Long,
            6 => TermKind::Double,
            7 => TermKind::Numeric,
            8 => TermKind::Point,
            9 => TermKind::Center,
            10 => TermKind::Cell,
            11 => TermKind::Shape,
            _ => return Err(SearchError::corrupt("a term has an unknown kind")),
        })
    }
}

impl TermKind {
    /// Whether entries are listed under terms of the kind.
    pub(crate) fn is_listed(self) -> bool {
        self != TermKind::Shape
    }

    /// Whether terms of the kind represent values that can be searched individually.
    pub(crate) fn is_value(self) -> bool {
        matches!(self, TermKind::Null | TermKind::Text | TermKind::Long | TermKind::Double)
    }
}

/// A value to search for.
#[derive(Clone, Debug, PartialEq)]
pub enum TermValue {
    /// Null.
    Null,
    /// A text as it is in the index: lower-cased, or one word, as the field's analyzer leaves it.
    Text(String),
    /// An integer; numbers in the index are cut to integers to be compared with it.
    Long(i64),
    /// A number, compared exactly.
    Double(f64),
}

impl TermValue {
    /// The kind of term that it is compared with.
    pub fn kind(&self) -> TermKind {
        match self {
            TermValue::Null => TermKind::Null,
            TermValue::Text(_) => TermKind::Text,
            TermValue::Long(_) => TermKind::Long,
            TermValue::Double(_) => TermKind::Double,
        }
    }

    /// The bytes after the kind in the key.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            TermValue::Null => Cow::Borrowed(&[]),
            TermValue::Text(text) => match shortened(text) {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
            TermValue::Long(value) => Cow::Owned(long_bytes(*value).to_vec()),
            TermValue::Double(value) => Cow::Owned(double_bytes(*value).to_vec()),
        }
    }

    pub(crate) fn read(kind: TermKind, bytes: &[u8]) -> Result<Self, SearchError> {
        Ok(match kind {
            TermKind::Null => TermValue::Null,
            TermKind::Text => TermValue::Text(text_of(bytes)?.to_owned()),
            TermKind::Long => TermValue::Long(long_of(bytes)?),
            TermKind::Double => TermValue::Double(double_of(bytes)?),
            TermKind::Exists
            | TermKind::Many
            | TermKind::Numeric
            | TermKind::Point
            | TermKind::Center
            | TermKind::Cell
            | TermKind::Shape => {
                return Err(SearchError::corrupt("a term that is no value is read as one"));
            }
        })
    }
}

/// The text as a term: itself, or its beginning and a hash.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= TERM_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let kept = text.floor_char_boundary(TERM_BYTES_MAX);
    Cow::Owned(format!("{}{:0HASH_DIGITS$x}", &text[..kept], xxh3_128(text.as_bytes())))
}

/// The beginning of the text that a term was made of, and whether that is not all of it.
pub(crate) fn beginning_of(term: &[u8]) -> (&[u8], bool) {
    match term.len() <= TERM_BYTES_MAX {
        true => (term, false),
        false => (&term[..term.len() - HASH_DIGITS], true),
    }
}

pub(crate) fn long_bytes(value: i64) -> [u8; 8] {
    (value as u64 ^ (1 << 63)).to_be_bytes()
}

pub(crate) fn long_of(bytes: &[u8]) -> Result<i64, SearchError> {
    Ok((u64::from_be_bytes(eight(bytes)?) ^ (1 << 63)) as i64)
}

/// Negative zero is zero; every NaN is one and above all numbers.
pub(crate) fn double_bytes(value: f64) -> [u8; 8] {
    let value = if value.is_nan() { f64::NAN.abs() } else { value + 0.0 };
    let bits = value.to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | (1 << 63) };
    ordered.to_be_bytes()
}

pub(crate) fn double_of(bytes: &[u8]) -> Result<f64, SearchError> {
    let ordered = u64::from_be_bytes(eight(bytes)?);
    let bits = if ordered >> 63 == 1 { ordered ^ (1 << 63) } else { !ordered };
    Ok(f64::from_bits(bits))
}

pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, SearchError> {
    std::str::from_utf8(bytes).map_err(|_| SearchError::corrupt("a term of text is not UTF-8"))
}

fn eight(bytes: &[u8]) -> Result<[u8; 8], SearchError> {
    bytes.try_into().map_err(|_| SearchError::corrupt("a number's term has not eight bytes"))
}

/// Field and kind, as keys begin.
pub(crate) fn key_prefix(field: FieldId, kind: TermKind) -> [u8; KEY_PREFIX_BYTES] {
    let [high, low] = field.0.to_be_bytes();
    [high, low, kind as u8]
}

/// The key of a term.
pub(crate) fn key(field: FieldId, kind: TermKind, bytes: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_PREFIX_BYTES + bytes.len());
    key.extend_from_slice(&key_prefix(field, kind));
    key.extend_from_slice(bytes);
    key
}

/// Field, kind and bytes of a key.
pub(crate) fn parse_key(key: &[u8]) -> Result<(FieldId, TermKind, &[u8]), SearchError> {
    let Some(([high, low, kind], bytes)) = key.split_first_chunk::<KEY_PREFIX_BYTES>() else {
        return Err(SearchError::corrupt("a term's key is too short"));
    };
    Ok((FieldId(u16::from_be_bytes([*high, *low])), TermKind::from_byte(*kind)?, bytes))
}

/// A range of term bytes with its bounds, borrowed.
pub(crate) fn as_slices(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(bytes) => Bound::Included(bytes),
        Bound::Excluded(bytes) => Bound::Excluded(bytes),
        Bound::Unbounded => Bound::Unbounded,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_of_numbers_compare_as_the_numbers_do(a in any::<f64>(), b in any::<f64>(), c in any::<i64>(), d in any::<i64>()) {
            prop_assert_eq!(long_bytes(c).cmp(&long_bytes(d)), c.cmp(&d));
            prop_assert_eq!(double_bytes(a).cmp(&double_bytes(b)), (a + 0.0).total_cmp(&(b + 0.0)));
            prop_assert_eq!(long_of(&long_bytes(c)).unwrap(), c);
            prop_assert_eq!(double_of(&double_bytes(a)).unwrap(), a + 0.0);
        }

        #[test]
        fn a_long_text_is_shortened_to_text_that_fits_in_a_key(text in "\\PC{0,700}") {
            let term = shortened(&text);
            prop_assert!(term.len() <= storage::KEY_BYTES_MAX - KEY_PREFIX_BYTES);
            prop_assert_eq!(term.len() <= TERM_BYTES_MAX, text.len() <= TERM_BYTES_MAX);
        }
    }

    #[test]
    fn nan_is_above_all_numbers_and_negative_zero_is_zero() {
        assert!(double_bytes(f64::NAN) > double_bytes(f64::INFINITY));
        assert_eq!(double_bytes(f64::NAN), double_bytes(-f64::NAN));
        assert_eq!(double_bytes(-0.0), double_bytes(0.0));
    }

    #[test]
    fn texts_that_differ_only_past_the_limit_stay_different() {
        let long = "é".repeat(600);
        assert_ne!(shortened(&format!("{long}a")), shortened(&format!("{long}b")));
        assert_eq!(shortened(&long).len(), TERM_BYTES_MAX + HASH_DIGITS);
    }
}
