//! The encoding of commands and of stored state: fixed-width little-endian integers; text and bytes are
//! preceded by their length, a `u32`.

use std::fmt;

/// Appends fields to a buffer.
#[derive(Debug, Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    /// Appends one byte.
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// One byte, 0 or 1.
    pub fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Eight bytes, little-endian.
    pub fn i64(&mut self, number: i64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Bytes of a fixed length, without a prefix.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Bytes preceded by their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("commands are limited far below 4 GB"));
        self.raw(bytes);
    }

    /// UTF-8 preceded by its length.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// A flag, then the value if there is one.
    pub fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// The number of items, then each of them.
    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.u32(u32::try_from(items.len()).expect("commands are limited far below 4 GB"));
        items.iter().for_each(|item| write(self, item));
    }

    /// Bytes written so far.
    pub fn bytes_written(&self) -> usize {
        self.0.len()
    }

    /// The bytes encoded so far.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// The bytes are malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// Reads fields in the order in which they were written.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'b>(&'b [u8]);

impl<'b> Decoder<'b> {
    /// Reads from the start of these bytes.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.fixed()?;
        Ok(byte)
    }

    /// One byte that is 0 or 1.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag is neither 0 nor 1")),
        }
    }

    /// Reads 4 bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.fixed().map(u32::from_le_bytes)
    }

    /// Reads 8 bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.fixed().map(u64::from_le_bytes)
    }

    /// Reads 8 bytes, little-endian.
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.fixed().map(i64::from_le_bytes)
    }

    /// As many bytes as the array has.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Malformed("the bytes end early"))?;
        self.0 = rest;
        Ok(*field)
    }

    /// Bytes preceded by their length.
    pub fn bytes(&mut self) -> Result<&'b [u8], Malformed> {
        let length = self.u32()? as usize;
        let (field, rest) =
            self.0.split_at_checked(length).ok_or(Malformed("the bytes end early"))?;
        self.0 = rest;
        Ok(field)
    }

    /// UTF-8 preceded by its length.
    pub fn text(&mut self) -> Result<&'b str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("a text is not UTF-8"))
    }

    /// A value preceded by a flag that says whether it is present.
    pub fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    /// Items preceded by their number.
    pub fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        // No capacity is reserved: a damaged number could ask for any amount.
        (0..self.u32()?).map(|_| read(self)).collect()
    }

    /// Reads all remaining bytes.
    pub fn rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }

    /// Fails if bytes are left over.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("bytes are left over")) }
    }
}
