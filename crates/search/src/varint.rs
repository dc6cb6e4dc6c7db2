//! Integers of variable length: seven bits a byte, the low ones first, at most ten bytes.

use crate::error::SearchError;

/// Appends `value`.
pub(crate) fn write(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends a signed integer, small magnitudes short.
pub(crate) fn write_signed(bytes: &mut Vec<u8>, value: i64) {
    write(bytes, ((value << 1) ^ (value >> 63)) as u64);
}

/// Reads forward through bytes that may be damaged; never past their end.
#[derive(Clone, Copy)]
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
}

// Built only when needed: creating and dropping an unused error costs more than the read itself.
#[cold]
fn cut_short() -> SearchError {
    SearchError::corrupt("a record ends before its content")
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn byte(&mut self) -> Result<u8, SearchError> {
        let Some((&first, rest)) = self.bytes.split_first() else { return Err(cut_short()) };
        self.bytes = rest;
        Ok(first)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], SearchError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else {
            return Err(cut_short());
        };
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], SearchError> {
        let Some((taken, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(cut_short());
        };
        self.bytes = rest;
        Ok(*taken)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, SearchError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, SearchError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(SearchError::corrupt("an integer is longer than 64 bits"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, SearchError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A varint that counts bytes or items which are all present.
    pub(crate) fn length(&mut self) -> Result<usize, SearchError> {
        usize::try_from(self.varint()?).map_err(|_| cut_short())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn integers_come_back(values in prop::collection::vec(any::<u64>(), 0..20), shift in 0u32..64) {
            let mut bytes = Vec::new();
            for value in &values {
                write(&mut bytes, value >> shift);
                write_signed(&mut bytes, (*value as i64) >> shift);
            }
            let mut reader = ByteReader::new(&bytes);
            for value in &values {
                prop_assert_eq!(reader.varint().unwrap(), value >> shift);
                prop_assert_eq!(reader.signed().unwrap(), (*value as i64) >> shift);
            }
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn damaged_integers_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..30)) {
            let mut reader = ByteReader::new(&bytes);
            while !reader.is_empty() && reader.varint().is_ok() {}
            let mut reader = ByteReader::new(&bytes);
            let _length = reader.length().and_then(|length| reader.take(length).map(<[u8]>::len));
        }
    }
}
