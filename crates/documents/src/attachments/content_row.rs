//! The bytes of a content and of its chunks.
//!
//! ```text
//! content                                 chunk
//!  0       0xa3: content, version 1        0       0xa4: chunk, version 1
//!  1..4    not used, 0                     1..4    not used, 0
//!  4..8    bytes of each chunk but the     4..12   number of the content, big-endian
//!          last                           12..16   index of the chunk, big-endian
//!  8..16   number                         16..     its bytes
//! 16..24   bytes of the content
//! 24..56   hash
//! ```
//!
//! All other numbers are little-endian. A content without bytes has no chunk.

use std::{fmt, ops::Range};

use model::ContentHash;

use crate::error::{DocumentError, corrupt};

const CONTENT: u8 = 0xa3;
const CHUNK: u8 = 0xa4;
const CONTENT_BYTES: usize = 56;
const CHUNK_HEADER_BYTES: usize = 16;
const NUMBER: Range<usize> = 8..16;
const HASH: Range<usize> = 24..56;
const CHUNK_KEY: Range<usize> = 4..16;

/// Bytes in each chunk of a content but the last, which may have fewer. With the headers of chunk and
/// page, a chunk fills whole pages.
pub const CONTENT_CHUNK_BYTES: usize = (1 << 20) - 80;

/// Identifies the chunks of a content. Never reused in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentNumber(pub(crate) u64);

impl fmt::Display for ContentNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The stored facts about a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentRecord {
    pub(crate) number: ContentNumber,
    pub(crate) chunk_bytes: u32,
    pub(crate) bytes: u64,
    pub(crate) hash: ContentHash,
}

impl ContentRecord {
    /// The number of chunks.
    pub(crate) fn chunks(&self) -> u64 {
        self.bytes.div_ceil(u64::from(self.chunk_bytes))
    }

    /// Bytes of the chunk of that index.
    pub(crate) fn bytes_of_chunk(&self, index: u64) -> u64 {
        let chunk_bytes = u64::from(self.chunk_bytes);
        self.bytes.saturating_sub(index.saturating_mul(chunk_bytes)).min(chunk_bytes)
    }
}

/// The row of a content.
pub(crate) fn write(record: &ContentRecord) -> Vec<u8> {
    let mut row = vec![CONTENT, 0, 0, 0];
    row.extend_from_slice(&record.chunk_bytes.to_le_bytes());
    row.extend_from_slice(&record.number.0.to_le_bytes());
    row.extend_from_slice(&record.bytes.to_le_bytes());
    row.extend_from_slice(&record.hash.0);
    row
}

/// Reads the row of a content.
pub(crate) fn read(row: &[u8]) -> Result<ContentRecord, DocumentError> {
    let row: &[u8; CONTENT_BYTES] =
        row.try_into().map_err(|_| corrupt("a content's row has another length"))?;
    let mut hash = [0; 32];
    hash.copy_from_slice(&row[HASH]);
    let chunk_bytes = u32::from_le_bytes([row[4], row[5], row[6], row[7]]);
    if row[0] != CONTENT || chunk_bytes == 0 {
        return Err(corrupt("a row is no content"));
    }
    Ok(ContentRecord {
        number: ContentNumber(number_of(row)),
        chunk_bytes,
        bytes: u64_at(row, 16..24),
        hash: ContentHash(hash),
    })
}

/// Replaces `out` with the row of a chunk.
pub(crate) fn write_chunk(out: &mut Vec<u8>, number: ContentNumber, index: u32, bytes: &[u8]) {
    out.clear();
    out.reserve_exact(CHUNK_HEADER_BYTES + bytes.len());
    out.extend_from_slice(&[CHUNK, 0, 0, 0]);
    out.extend_from_slice(&chunk_key(number, index));
    out.extend_from_slice(bytes);
}

/// Reads the row of a chunk: the content's number, the chunk's index, and its bytes.
pub(crate) fn read_chunk(row: &[u8]) -> Result<(ContentNumber, u32, &[u8]), DocumentError> {
    let header = row.first_chunk::<CHUNK_HEADER_BYTES>();
    let header = header.filter(|header| header[0] == CHUNK);
    let header = header.ok_or(corrupt("a row is no chunk of a content"))?;
    let (number, index) = read_chunk_key(&header[CHUNK_KEY])?;
    Ok((number, index, &row[CHUNK_HEADER_BYTES..]))
}

/// The primary key of a chunk.
pub(crate) fn chunk_key(number: ContentNumber, index: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&number.0.to_be_bytes());
    key[8..].copy_from_slice(&index.to_be_bytes());
    key
}

/// Parses the primary key of a chunk.
pub(crate) fn read_chunk_key(key: &[u8]) -> Result<(ContentNumber, u32), DocumentError> {
    let parts = key.split_first_chunk::<8>();
    let parts = parts.and_then(|(number, index)| Some((number, index.first_chunk::<4>()?)));
    let (number, index) = parts.ok_or(corrupt("the key of a chunk is too short"))?;
    Ok((ContentNumber(u64::from_be_bytes(*number)), u32::from_be_bytes(*index)))
}

/// The primary key of a content's row: its hash. Empty for an invalid row.
pub(crate) fn hash_of(row: &[u8]) -> &[u8] {
    row.get(HASH).unwrap_or_default()
}

/// The number of a content's row; 0 for an invalid row.
pub(crate) fn number_of(row: &[u8]) -> u64 {
    u64_at(row, NUMBER)
}

/// The primary key of a chunk's row; empty for an invalid row.
pub(crate) fn chunk_key_of(row: &[u8]) -> &[u8] {
    row.get(CHUNK_KEY).unwrap_or_default()
}

fn u64_at(row: &[u8], range: Range<usize>) -> u64 {
    let bytes = row.get(range).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_lie_where_the_drawings_say() {
        let record = ContentRecord {
            number: ContentNumber(3),
            chunk_bytes: 258,
            bytes: 259,
            hash: ContentHash([9; 32]),
        };
        let row = write(&record);
        let mut golden = vec![0xa3, 0, 0, 0, 2, 1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        golden.extend_from_slice(&[3, 1, 0, 0, 0, 0, 0, 0]);
        golden.extend_from_slice(&[9; 32]);
        assert_eq!(row, golden);
        assert_eq!(read(&row).unwrap(), record);
        assert_eq!(
            (record.chunks(), record.bytes_of_chunk(0), record.bytes_of_chunk(1)),
            (2, 258, 1)
        );
        let mut chunk = Vec::new();
        write_chunk(&mut chunk, ContentNumber(258), 2, b"xy");
        assert_eq!(chunk, *b"\xa4\0\0\0\0\0\0\0\0\0\x01\x02\0\0\0\x02xy");
        assert_eq!(read_chunk(&chunk).unwrap(), (ContentNumber(258), 2, b"xy".as_slice()));
    }

    #[test]
    fn damaged_rows_are_errors_and_never_panics() {
        let record = ContentRecord {
            number: ContentNumber(3),
            chunk_bytes: 1,
            bytes: 1,
            hash: ContentHash([9; 32]),
        };
        let row = write(&record);
        for length in 0..row.len() {
            assert!(read(&row[..length]).is_err());
            let _ = (hash_of(&row[..length]), number_of(&row[..length]));
        }
        for length in 0..CHUNK_HEADER_BYTES {
            assert!(read_chunk(&row[..length]).is_err());
            let _ = chunk_key_of(&row[..length]);
        }
        let mut no_chunks = row;
        no_chunks[4] = 0;
        assert!(read(&no_chunks).is_err());
    }
}
