//! The parts of a segment as bytes: numbers of variable length, fields of bits.

use std::fmt;

/// Bytes that are no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// What is wrong with them.
    pub detail: &'static str,
}

impl fmt::Display for Damaged {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a segment of a time series is damaged: {}", self.detail)
    }
}

impl std::error::Error for Damaged {}

pub(crate) const fn damaged(detail: &'static str) -> Damaged {
    Damaged { detail }
}

/// Takes `count` bytes from the front.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Damaged> {
    let parts = bytes.split_at_checked(count);
    let (taken, rest) = parts.ok_or(damaged("it ends too early"))?;
    *bytes = rest;
    Ok(taken)
}

pub(crate) fn take_byte(bytes: &mut &[u8]) -> Result<u8, Damaged> {
    Ok(take(bytes, 1)?[0])
}

pub(crate) fn take_u16(bytes: &mut &[u8]) -> Result<u16, Damaged> {
    let taken = take(bytes, 2)?;
    Ok(u16::from_le_bytes([taken[0], taken[1]]))
}

pub(crate) fn take_u64(bytes: &mut &[u8]) -> Result<u64, Damaged> {
    let first = bytes.first_chunk().copied().ok_or(damaged("it ends too early"))?;
    *bytes = &bytes[size_of::<u64>()..];
    Ok(u64::from_le_bytes(first))
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow. Small negative numbers
/// are short, too.
pub(crate) fn put_signed(number: i64, out: &mut Vec<u8>) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(crate) fn take_signed(bytes: &mut &[u8]) -> Result<i64, Damaged> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(bytes)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
        }
    }
    Err(damaged("a number is too long"))
}

/// Bytes that fields of bits fill, the lowest bits first.
pub(crate) fn bytes_of_bits(bits: usize) -> usize {
    bits.div_ceil(8)
}

/// Writes consecutive bit fields.
pub(crate) struct BitWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Bits that do not fill a word yet; those above `count` are 0.
    waiting: u64,
    count: u32,
}

impl<'o> BitWriter<'o> {
    pub(crate) fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, waiting: 0, count: 0 }
    }

    /// Writes the lowest `width` bits, at most 64.
    pub(crate) fn put(&mut self, bits: u64, width: u32) {
        if width == 0 {
            return;
        }
        let bits = bits & (u64::MAX >> (64 - width));
        self.waiting |= bits << self.count;
        self.count += width;
        if self.count >= 64 {
            self.out.extend_from_slice(&self.waiting.to_le_bytes());
            self.count -= 64;
            let written = width - self.count;
            self.waiting = if written == 64 { 0 } else { bits >> written };
        }
    }

    /// Fills the last byte with zeros.
    pub(crate) fn finish(self) {
        let bytes = bytes_of_bits(self.count as usize);
        self.out.extend_from_slice(&self.waiting.to_le_bytes()[..bytes]);
    }
}

/// Reads consecutive bit fields.
pub(crate) struct BitReader<'a> {
    rest: &'a [u8],
    waiting: u128,
    count: u32,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, waiting: 0, count: 0 }
    }

    /// The next field of `width` bits, at most 64. Past the end all bits are 0.
    #[inline]
    pub(crate) fn take(&mut self, width: u32) -> u64 {
        if width == 0 {
            return 0;
        }
        if self.count < width {
            self.refill();
        }
        let field = self.waiting as u64 & (u64::MAX >> (64 - width));
        self.waiting >>= width;
        self.count -= width;
        field
    }

    #[inline]
    fn refill(&mut self) {
        let word = match self.rest.first_chunk() {
            Some(word) => {
                self.rest = &self.rest[size_of::<u64>()..];
                u64::from_le_bytes(*word)
            }
            None => {
                let mut word = [0; size_of::<u64>()];
                word[..self.rest.len()].copy_from_slice(self.rest);
                self.rest = &[];
                u64::from_le_bytes(word)
            }
        };
        self.waiting |= u128::from(word) << self.count;
        self.count += 64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fields_of_bits_come_back(
            fields in proptest::collection::vec((any::<u64>(), 0_u32..=64), 0..50)
        ) {
            let mut bytes = Vec::new();
            let mut writer = BitWriter::new(&mut bytes);
            fields.iter().for_each(|(bits, width)| writer.put(*bits, *width));
            writer.finish();
            let bits: u32 = fields.iter().map(|(_, width)| width).sum();
            prop_assert_eq!(bytes.len(), bytes_of_bits(bits as usize));
            let mut reader = BitReader::new(&bytes);
            for (bits, width) in fields {
                let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
                prop_assert_eq!(reader.take(width), bits & mask);
            }
        }

        #[test]
        fn signed_numbers_come_back(number: i64) {
            let mut bytes = Vec::new();
            put_signed(number, &mut bytes);
            prop_assert_eq!(take_signed(&mut bytes.as_slice()), Ok(number));
            prop_assert!(take_signed(&mut &bytes[..bytes.len() - 1]).is_err());
        }
    }
}
