//! Unpacks a string a part at a time, so that it is never in memory as a whole.
//!
//! A packed string is one LZ4 block: sequences of literals and of matches, which repeat bytes from at most 65,535
//! bytes before. Only these are kept; the library can only unpack a block as a whole.
//!
//! Source of the format: the "LZ4 Block Format Description" of the LZ4 project (lz4_Block_format.md).

use crate::error::Corrupt;

/// How far back a match may lie.
const WINDOW_BYTES: usize = 0xffff;
/// A match has at least this many bytes.
const MATCH_BYTES_MIN: usize = 4;
/// A length in a token with all bits set is continued in the bytes that follow.
const CONTINUED: usize = 15;

/// The parts of one string.
pub(crate) struct Unpacker<'a> {
    packed: &'a [u8],
    /// The next byte of `packed`.
    at: usize,
    /// What is left to unpack, in bytes of text.
    left: usize,
    /// For errors: where the string lies in its document.
    position: usize,
    /// The last part, after up to [`WINDOW_BYTES`] before it.
    unpacked: Vec<u8>,
    /// Literals of the current sequence that are still to be copied.
    literals: usize,
    /// The length of the match after them, as in the token; `None` once it has begun.
    announced: Option<usize>,
    /// Bytes of the match that are still to be copied, from so far before.
    matched: usize,
    offset: usize,
}

impl<'a> Unpacker<'a> {
    /// For a block that unpacks to `length` bytes.
    pub(crate) fn new(packed: &'a [u8], length: usize, position: usize) -> Unpacker<'a> {
        let (at, literals, announced, matched, offset) = (0, 0, None, 0, 0);
        let (left, unpacked) = (length, Vec::new());
        Unpacker { packed, at, left, position, unpacked, literals, announced, matched, offset }
    }

    /// The next bytes, at most `bytes_max`; an empty part when there are none left.
    ///
    /// # Errors
    /// When the block is damaged, or unpacks to another length than was said.
    pub(crate) fn next_part(&mut self, bytes_max: usize) -> Result<&[u8], Corrupt> {
        self.unpacked.drain(..self.unpacked.len().saturating_sub(WINDOW_BYTES));
        let start = self.unpacked.len();
        let wanted = bytes_max.min(self.left);
        self.unpacked.reserve_exact(wanted);
        let goal = start + wanted;
        while self.unpacked.len() < goal {
            if !self.step(goal) {
                return Err(Corrupt::new("a packed string cannot be unpacked", self.position));
            }
        }
        self.left -= wanted;
        if self.left == 0 && !self.is_at_end() {
            return Err(Corrupt::new("a packed string is longer than it says", self.position));
        }
        Ok(&self.unpacked[start..])
    }

    /// Whether the block ends here, as it must: in literals, be they none.
    fn is_at_end(&mut self) -> bool {
        let is_between = self.literals == 0 && self.matched == 0;
        if is_between && self.announced.is_none() && self.begin_sequence().is_none() {
            return false;
        }
        is_between && self.literals == 0 && self.at == self.packed.len()
    }

    /// Copies something, up to `goal` bytes in all, or reads on; `false` when the block is damaged.
    fn step(&mut self, goal: usize) -> bool {
        let room = goal - self.unpacked.len();
        if 0 < self.literals {
            let taken = self.literals.min(room);
            let Some(bytes) = self.packed.get(self.at..self.at + taken) else { return false };
            self.unpacked.extend_from_slice(bytes);
            self.at += taken;
            self.literals -= taken;
        } else if 0 < self.matched {
            let start = self.unpacked.len() - self.offset;
            // A match may overlap itself: what it repeats grows with it.
            let taken = self.matched.min(room).min(self.offset);
            self.unpacked.extend_from_within(start..start + taken);
            self.matched -= taken;
        } else if let Some(announced) = self.announced.take() {
            return self.begin_match(announced).is_some();
        } else {
            return self.begin_sequence().is_some();
        }
        true
    }

    fn begin_sequence(&mut self) -> Option<()> {
        let token = usize::from(self.byte()?);
        self.literals = self.length(token >> 4)?;
        self.announced = Some(token & CONTINUED);
        Some(())
    }

    fn begin_match(&mut self, announced: usize) -> Option<()> {
        let offset = [self.byte()?, self.byte()?];
        self.offset = usize::from(u16::from_le_bytes(offset));
        self.matched = self.length(announced)?.checked_add(MATCH_BYTES_MIN)?;
        (0 < self.offset && self.offset <= self.unpacked.len()).then_some(())
    }

    fn length(&mut self, mut length: usize) -> Option<usize> {
        if length == CONTINUED {
            loop {
                let more = self.byte()?;
                length = length.checked_add(usize::from(more))?;
                if more != u8::MAX {
                    break;
                }
            }
        }
        Some(length)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.packed.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use lz4_flex::block::{compress, decompress};

    use super::*;

    /// A generator of numbers (xorshift), the same in every run.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    fn in_parts(packed: &[u8], length: usize, part: usize) -> Result<Vec<u8>, Corrupt> {
        let mut unpacker = Unpacker::new(packed, length, 0);
        let mut text = Vec::new();
        loop {
            let next = unpacker.next_part(part)?;
            assert!(next.len() <= part);
            if next.is_empty() {
                return Ok(text);
            }
            text.extend_from_slice(next);
            assert!(unpacker.unpacked.capacity() <= 2 * (WINDOW_BYTES + part), "it keeps little");
        }
    }

    /// Text that repeats itself from near and from far.
    fn text(numbers: &mut Numbers) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..=numbers.below(40) {
            let length = 1 + numbers.below(4000) as usize;
            match numbers.below(3) {
                0 => text.extend((0..length).map(|_| numbers.below(256) as u8)),
                1 => text.resize(text.len() + length, numbers.below(256) as u8),
                _ if text.is_empty() => {}
                _ => {
                    let start = numbers.below(text.len() as u64) as usize;
                    let end = text.len().min(start + length);
                    text.extend_from_within(start..end);
                }
            }
        }
        text
    }

    #[test]
    fn parts_of_any_length_are_what_the_library_unpacks() {
        let mut numbers = Numbers(88_172_645_463_325_252);
        for _ in 0..200 {
            let text = text(&mut numbers);
            let packed = compress(&text);
            for part in [1 + numbers.below(50) as usize, 1000, 1 << 15, 1 << 20] {
                assert_eq!(in_parts(&packed, text.len(), part).unwrap(), text);
            }
        }
    }

    #[test]
    fn damage_is_an_error_or_what_the_library_unpacks() {
        let mut numbers = Numbers(7);
        for _ in 0..2000 {
            let text = text(&mut numbers);
            let mut packed = compress(&text);
            let at = numbers.below(packed.len() as u64) as usize;
            match numbers.below(2) {
                0 => packed[at] ^= 1 << numbers.below(8),
                _ => packed.truncate(at),
            }
            if let Ok(found) = in_parts(&packed, text.len(), 1 << 15) {
                assert_eq!(decompress(&packed, text.len()).unwrap(), found);
            }
        }
    }

    #[test]
    fn another_length_is_an_error() {
        let text = b"abcabcabcabcabcabcabcabcabcabcabcabc".repeat(9);
        let packed = compress(&text);
        for length in [text.len() - 1, text.len() + 1] {
            assert!(in_parts(&packed, length, 100).is_err(), "{length}");
        }
    }
}
