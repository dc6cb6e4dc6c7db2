//! The layout of posting lists.
//!
//! ```text
//! value of a term in the tree Terms
//!   0  single           entry varint
//!   1  single weighted  entry varint · frequency u8 · length u8
//!   2  inline           count varint · block, its base is 0
//!   3  large            flags u8 (1: weighted) · list u64 · count u64; the blocks are in the tree Postings
//!
//! tree Postings         list u64 big-endian · base u64 big-endian -> block
//!
//! block                 flags u8 (1: weighted) · chunks
//! chunk                 gap varint · entries - 1 u8 · shape u8 · packed differences · weights
//!   gap                 its first entry, less that of the chunk before it; less the base for the first
//!   shape               bits 0..7: width of a packed difference; bit 7: there is a plane of frequencies
//!   packed differences  each entry less the one before less 1, `width` bits each, low bits first
//!   weights             weighted: frequencies u8 each when bit 7 is set (else all are 1), lengths u8 each
//! ```
//!
//! A block holds the entries from its base to before the next block's. Its base may be lower than its
//! first entry, so that deletions rename nothing. A chunk holds up to 128 entries, and its length follows
//! from its first bytes: a reader that seeks does not unpack what it skips. Neighbours pack to no bits.

use std::cmp::Ordering;

/// Entries in a chunk, at most.
pub(crate) const CHUNK_ENTRIES_MAX: usize = 128;
/// A block is closed when it has as many bytes; with the last chunk it can have more.
pub(crate) const BLOCK_BYTES_TARGET: usize = 1200;
/// A block with fewer bytes is joined with the next one when both fit.
pub(crate) const BLOCK_BYTES_MIN: usize = 300;
/// Entries in a block, at most: what a change of one entry unpacks.
pub(crate) const BLOCK_ENTRIES_MAX: usize = 1024;
/// Lists with more bytes are stored in separate blocks.
pub(crate) const INLINE_BYTES_MAX: usize = 400;

pub(super) const FLAG_WEIGHTED: u8 = 1;
pub(super) const TAG_SINGLE: u8 = 0;
pub(super) const TAG_SINGLE_WEIGHTED: u8 = 1;
pub(super) const TAG_INLINE: u8 = 2;
pub(super) const TAG_LARGE: u8 = 3;

/// The weight of a word in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Weight {
    /// How often the entry has the word, 255 for more.
    pub(crate) frequency: u8,
    /// Words of the entry's field, see [`length_code`].
    pub(crate) length: u8,
}

impl Weight {
    pub(crate) const ONE: Weight = Weight { frequency: 1, length: 1 };
}

/// An entry in a posting list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) entry: u64,
    pub(crate) weight: Weight,
}

/// A length in one byte: exact up to 31, then with an error of up to an eighth.
pub(crate) fn length_code(words: u64) -> u8 {
    match words.cmp(&32) {
        Ordering::Less => words as u8,
        _ => {
            let exponent = 63 - words.leading_zeros() as u64;
            let mantissa = (words >> (exponent - 3)) & 7;
            (32 + (exponent - 5) * 8 + mantissa).min(255) as u8
        }
    }
}

/// The smallest length that has the code.
pub(crate) fn length_of(code: u8) -> u64 {
    if code < 32 {
        return u64::from(code);
    }
    let (exponent, mantissa) = (u64::from(code - 32) / 8 + 5, u64::from(code - 32) % 8);
    (8 + mantissa) << (exponent - 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_exact_when_short_and_near_when_long() {
        for words in 0..32 {
            assert_eq!(length_of(length_code(words)), words);
        }
        for words in (32..1_000_000).step_by(97) {
            let back = length_of(length_code(words));
            assert!(back <= words && words - back <= words / 8, "{words} became {back}");
        }
        assert_eq!(length_code(u64::MAX), 255);
    }
}
