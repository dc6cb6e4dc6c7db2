//! The bytes of messages.
//!
//! ```text
//!  0..4    "CRVR"
//!  4       version, 2
//!  5       kind: requests 1 greeting, 2 batch; answers 65 welcome, 66 accepted, 68 refused
//!  6       1 if the payload is compressed (Zstandard), else 0
//!  7       not used, 0
//!  8..12   bytes of the payload before compression
//! 12..20   XXH3-64 of the payload before compression
//! 20..     the payload
//! ```
//!
//! All numbers are little-endian. In a payload, a text or a sequence of bytes is its length, 32 bits, and its bytes; a
//! flag is one byte, 0 or 1; what may be absent is a flag and, if that is 1, the value.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// The longest payload.
pub const MESSAGE_BYTES_MAX: usize = 128 << 20;
/// The longest name or address that is kept for operators.
pub(crate) const NAME_BYTES_MAX: usize = 2048;

const MAGIC: &[u8; 4] = b"CRVR";
const VERSION: u8 = 2;
const HEADER_BYTES: usize = 20;
/// Shorter payloads are not compressed.
const COMPRESSED_BYTES_MIN: usize = 256;
/// Fast: most of what is sent goes over local networks.
const COMPRESSION_LEVEL: i32 = 1;

/// The bytes are not a message that this server understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidMessage {
    /// What is wrong with them.
    pub reason: &'static str,
}

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "A message of replication is damaged: {}", self.reason)
    }
}

impl std::error::Error for InvalidMessage {}

pub(crate) const fn invalid(reason: &'static str) -> InvalidMessage {
    InvalidMessage { reason }
}

/// A payload under construction.
#[derive(Default)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
}

impl Payload {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    pub(crate) fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn number(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn signed(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn short(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes whose number the reader knows.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn sequence(&mut self, bytes: &[u8]) {
        // Longer ones are in no payload: it is refused as a whole.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.short(length);
        self.raw(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.sequence(text.as_bytes());
    }

    pub(crate) fn maybe_text(&mut self, text: Option<&str>) {
        self.flag(text.is_some());
        if let Some(text) = text {
            self.text(text);
        }
    }

    pub(crate) fn append(&mut self, other: &Payload) {
        self.raw(&other.bytes);
    }

    /// The message of this kind.
    pub(crate) fn into_message(self, kind: u8) -> Vec<u8> {
        let compressed = match COMPRESSED_BYTES_MIN <= self.bytes.len() {
            true => zstd::bulk::compress(&self.bytes, COMPRESSION_LEVEL).ok(),
            false => None,
        };
        let compressed = compressed.filter(|compressed| compressed.len() < self.bytes.len());
        let body = compressed.as_deref().unwrap_or(&self.bytes);
        let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
        message.extend_from_slice(MAGIC);
        message.extend_from_slice(&[VERSION, kind, u8::from(compressed.is_some()), 0]);
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        message.extend_from_slice(&length.to_le_bytes());
        message.extend_from_slice(&xxh3_64(&self.bytes).to_le_bytes());
        message.extend_from_slice(body);
        message
    }
}

/// The memory that it takes to read a message, in bytes; what is in it besides its header is not looked at.
pub fn memory_of(message: &[u8]) -> u64 {
    let length = message.get(8..12).and_then(|length| length.first_chunk());
    let length = length.map_or(0, |length| u32::from_le_bytes(*length) as usize);
    // The payload, and the changes that are read from it.
    2 * length.min(MESSAGE_BYTES_MAX) as u64
}

/// A message that arrived: its kind and its payload, whose checksum is right.
pub(crate) fn open(message: &[u8]) -> Result<(u8, Vec<u8>), InvalidMessage> {
    let Some((header, body)) = message.split_first_chunk::<HEADER_BYTES>() else {
        return Err(invalid("it is shorter than its header"));
    };
    if header[..4] != *MAGIC {
        return Err(invalid("it is no message of replication"));
    }
    if header[4] != VERSION {
        return Err(invalid("it is of a version that this server does not know"));
    }
    let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
    if MESSAGE_BYTES_MAX < length {
        return Err(invalid("it is too long"));
    }
    let payload = match header[6] {
        0 => body.to_vec(),
        1 => zstd::bulk::decompress(body, length)
            .map_err(|_| invalid("it cannot be decompressed"))?,
        _ => return Err(invalid("it is compressed in an unknown way")),
    };
    let mut checksum = [0; 8];
    checksum.copy_from_slice(&header[12..]);
    if payload.len() != length || xxh3_64(&payload) != u64::from_le_bytes(checksum) {
        return Err(invalid("its checksum is wrong"));
    }
    Ok((header[5], payload))
}

/// Reads a payload.
pub(crate) struct Reader<'p> {
    rest: &'p [u8],
}

impl<'p> Reader<'p> {
    pub(crate) fn new(payload: &'p [u8]) -> Reader<'p> {
        Reader { rest: payload }
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'p [u8], InvalidMessage> {
        let taken = self.rest.split_at_checked(length);
        let (taken, rest) = taken.ok_or(invalid("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], InvalidMessage> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, InvalidMessage> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, InvalidMessage> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(invalid("a flag is neither 0 nor 1")),
        }
    }

    pub(crate) fn number(&mut self) -> Result<u64, InvalidMessage> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn signed(&mut self) -> Result<i64, InvalidMessage> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn short(&mut self) -> Result<u32, InvalidMessage> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn sequence(&mut self) -> Result<&'p [u8], InvalidMessage> {
        let length = self.short()?;
        self.raw(length as usize)
    }

    pub(crate) fn text(&mut self) -> Result<&'p str, InvalidMessage> {
        std::str::from_utf8(self.sequence()?).map_err(|_| invalid("a text is not UTF-8"))
    }

    /// A text that is kept for operators after the message: a name or an address.
    pub(crate) fn name(&mut self) -> Result<&'p str, InvalidMessage> {
        let name = self.text()?;
        if NAME_BYTES_MAX < name.len() {
            return Err(invalid("a name or an address is too long"));
        }
        Ok(name)
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<&'p str>, InvalidMessage> {
        if self.flag()? { self.text().map(Some) } else { Ok(None) }
    }

    pub(crate) fn end(self) -> Result<(), InvalidMessage> {
        if self.rest.is_empty() { Ok(()) } else { Err(invalid("it is longer than it should be")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_payload() -> Payload {
        let mut payload = Payload::default();
        (0..200).for_each(|number| payload.number(number));
        payload
    }

    #[test]
    fn a_message_lies_as_it_is_drawn() {
        let mut payload = Payload::default();
        payload.text("ab");
        payload.flag(true);
        let message = payload.into_message(2);
        let golden = b"CRVR\x02\x02\0\0\x07\0\0\0";
        assert_eq!(message[..12], *golden);
        assert_eq!(message[12..20], xxh3_64(b"\x02\0\0\0ab\x01").to_le_bytes());
        assert_eq!(message[20..], *b"\x02\0\0\0ab\x01");
        assert_eq!(open(&message).unwrap(), (2, b"\x02\0\0\0ab\x01".to_vec()));
    }

    #[test]
    fn a_long_payload_is_compressed() {
        let message = long_payload().into_message(66);
        assert!(message[6] == 1 && message.len() < 1600);
        let (kind, payload) = open(&message).unwrap();
        assert_eq!((kind, payload.len()), (66, 1600));
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let mut short = Payload::default();
        short.text("abc");
        for message in [short.into_message(1), long_payload().into_message(1)] {
            for length in 0..message.len() {
                assert!(open(&message[..length]).is_err(), "cut to {length}");
            }
            for position in (0..message.len()).filter(|position| ![5, 7].contains(position)) {
                let mut damaged = message.clone();
                damaged[position] ^= 0x41;
                assert!(open(&damaged).is_err(), "byte {position}");
            }
        }
        let mut bomb = long_payload().into_message(1);
        bomb[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(open(&bomb), Err(invalid("it is too long")));
    }

    #[test]
    fn what_is_in_a_payload_is_within_it() {
        let payload = [3, 0, 0, 0, b'a', b'b'];
        assert!(Reader::new(&payload).text().is_err());
        assert!(Reader::new(&[1, 0, 0, 0, 0xff]).text().is_err());
        assert!(Reader::new(&[2]).flag().is_err());
        assert!(Reader::new(&[2]).end().is_err());
    }
}
