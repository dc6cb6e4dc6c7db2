//! Reading a content chunk by chunk, in place.

use model::ContentHash;
use storage::Transaction;

use super::{
    content_row::{self, ContentRecord, chunk_key},
    tables::{CONTENT_CHUNKS, CONTENTS},
};
use crate::error::{DocumentError, corrupt};

/// A stored content, readable through any transaction that still has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content(ContentRecord);

/// The content of that hash, if some attachment has it.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn content(
    tx: &impl Transaction,
    hash: &ContentHash,
) -> Result<Option<Content>, DocumentError> {
    match tx.table(&CONTENTS).get(&hash.0)? {
        Some((_, row)) => content_row::read(row).map(|record| Some(Content(record))),
        None => Ok(None),
    }
}

impl Content {
    /// The length of the content.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// The hash that identifies the content.
    pub fn hash(&self) -> ContentHash {
        self.0.hash
    }

    /// The bytes from `at` on that are contiguous; at least one, unless `at` is at or past the end.
    ///
    /// # Errors
    /// Storage errors; a chunk that is missing or damaged.
    pub fn read_at<'t>(
        &self,
        tx: &'t impl Transaction,
        at: u64,
    ) -> Result<&'t [u8], DocumentError> {
        if at >= self.0.bytes {
            return Ok(&[]);
        }
        let chunk_bytes = u64::from(self.0.chunk_bytes);
        let bytes = self.chunk(tx, at / chunk_bytes)?;
        // The remainder fits in 32 bits.
        Ok(&bytes[(at % chunk_bytes) as usize..])
    }

    /// The whole chunk of that index.
    pub(super) fn chunk<'t>(
        &self,
        tx: &'t impl Transaction,
        index: u64,
    ) -> Result<&'t [u8], DocumentError> {
        let number = self.0.number;
        let key = u32::try_from(index).map_err(|_| corrupt("a content has too many chunks"))?;
        let found = tx.table(&CONTENT_CHUNKS).get(&chunk_key(number, key))?;
        let (_, row) = found.ok_or(corrupt("a chunk of a content is missing"))?;
        let (_, _, bytes) = content_row::read_chunk(row)?;
        if bytes.len() as u64 != self.0.bytes_of_chunk(index) {
            return Err(corrupt("a chunk of a content has another length"));
        }
        Ok(bytes)
    }

    pub(super) fn record(&self) -> &ContentRecord {
        &self.0
    }
}
