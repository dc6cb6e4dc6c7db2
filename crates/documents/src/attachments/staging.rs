//! Contents before the first and after the last reference.
//!
//! A large content arrives in chunks, each in a transaction of its own, under a number that is
//! recorded as staged. The transaction that puts the attachment deletes that record. Unused
//! contents are marked for removal and their chunks are removed a few at a time, so that no
//! transaction grows with the size of a content.

use std::ops::Bound;

use model::ContentHash;
use storage::Transaction;

use super::{
    content::content,
    content_row::{
        self, CONTENT_CHUNK_BYTES, ContentNumber, ContentRecord, chunk_key, read_chunk_key,
    },
    read::is_referenced,
    requests::NewContent,
    tables::{CONTENT_CHUNKS, CONTENTS, NEWEST_CONTENT, leftovers},
};
use crate::{
    DocumentWriter,
    error::{DocumentError, corrupt},
    schema::meta,
};

const STATE_BYTES: u16 = 1;
const STAGED: &[u8] = b"s";
const DROPPED: &[u8] = b"d";

/// Chunks that one batch removes.
const REMOVED_CHUNKS_MAX: usize = 8;

/// What a batch leaves to be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Leftovers {
    /// Nothing was dropped.
    #[default]
    None,
    /// Something was dropped and is not removed yet.
    Dropped,
    /// More was dropped than one batch removes.
    Remaining,
}

/// Whether any contents are staged or waiting to be removed.
///
/// # Errors
/// Storage errors.
pub fn has_leftover_contents(tx: &impl Transaction) -> Result<bool, DocumentError> {
    Ok(!tx.fixed_tree(&leftovers())?.is_empty())
}

impl DocumentWriter<'_> {
    /// Stores a chunk of a content that nothing refers to yet. When `number` is `None`, the chunk
    /// is the first one of a new number. Chunks come in order, and all but the last have
    /// [`CONTENT_CHUNK_BYTES`].
    ///
    /// # Errors
    /// [`DocumentError::ContentGone`] when nothing is staged under the number; storage errors.
    pub fn stage_content(
        &mut self,
        number: Option<ContentNumber>,
        index: u32,
        bytes: &[u8],
    ) -> Result<ContentNumber, DocumentError> {
        let number = match number {
            Some(number) => self.check_staged(number).map(|()| number)?,
            None => {
                let number = self.next_content_number()?;
                self.note(number, STAGED)?;
                number
            }
        };
        self.store_chunk(number, index, bytes)?;
        Ok(number)
    }

    /// Discards a staged content; its chunks are removed.
    ///
    /// # Errors
    /// Storage errors.
    pub fn discard_staged_content(&mut self, number: ContentNumber) -> Result<(), DocumentError> {
        match self.check_staged(number) {
            Ok(()) => self.drop_chunks(number),
            // It was put or discarded already.
            Err(DocumentError::ContentGone { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Discards everything that is staged. Called when a database is opened: the requests that
    /// staged it are gone.
    ///
    /// # Errors
    /// Storage errors.
    pub fn discard_all_staged_contents(&mut self) -> Result<(), DocumentError> {
        let entries = self.transaction().fixed_tree(&leftovers())?.range(0)?;
        let numbers = entries.map(|entry| entry.map(|(number, _)| ContentNumber(number)));
        for number in numbers.collect::<Result<Vec<_>, _>>()? {
            self.drop_chunks(number)?;
        }
        Ok(())
    }

    /// Lets this batch remove some of the unreferenced contents.
    pub fn remove_leftover_contents(&mut self) {
        self.leftovers = Leftovers::Dropped;
    }

    /// Whether unreferenced contents remain for a later batch to remove.
    pub fn has_leftover_contents(&self) -> bool {
        self.leftovers != Leftovers::None
    }

    /// Ensures that the content is stored and no longer staged.
    pub(crate) fn link(&mut self, new: &NewContent) -> Result<(), DocumentError> {
        let hash = *new.hash();
        let known = content(self.transaction(), &hash)?;
        match (known, new) {
            (Some(_), NewContent::Bytes { .. }) => Ok(()),
            (Some(_), NewContent::Staged { number, .. }) => {
                self.check_staged(*number)?;
                self.drop_chunks(*number)
            }
            (None, NewContent::Bytes { bytes, hash }) => {
                let number = self.next_content_number()?;
                for (index, chunk) in bytes.chunks(CONTENT_CHUNK_BYTES).enumerate() {
                    let index = u32::try_from(index);
                    let index = index.map_err(|_| corrupt("a content has too many chunks"))?;
                    self.store_chunk(number, index, chunk)?;
                }
                self.store_content(number, bytes.len() as u64, *hash)
            }
            (None, NewContent::Staged { number, bytes, hash }) => {
                self.check_staged(*number)?;
                self.check_complete(*number, *bytes)?;
                self.tx.fixed_tree_mut(&leftovers(), STATE_BYTES)?.delete(number.0)?;
                self.store_content(*number, *bytes, *hash)
            }
        }
    }

    /// Releases a content once no attachment refers to it.
    pub(super) fn release(&mut self, hash: &ContentHash) -> Result<(), DocumentError> {
        // The sender was told that it is here, and something else in the batch may have it.
        if self.is_received {
            self.released_contents.push(*hash);
            return Ok(());
        }
        self.release_now(hash)
    }

    /// As [`DocumentWriter::release`], of what a batch of another database has released.
    pub(super) fn release_now(&mut self, hash: &ContentHash) -> Result<(), DocumentError> {
        if is_referenced(self.transaction(), hash)? {
            return Ok(());
        }
        let gone = content(self.transaction(), hash)?;
        let gone = gone.ok_or(corrupt("the content of an attachment is missing"))?;
        self.tx.table_mut(&CONTENTS).delete(&hash.0)?;
        self.drop_chunks(gone.record().number)
    }

    /// Removes as many dropped chunks as one batch may.
    pub(crate) fn remove_dropped(&mut self) -> Result<(), DocumentError> {
        if self.leftovers == Leftovers::None {
            return Ok(());
        }
        let mut left = REMOVED_CHUNKS_MAX;
        while let Some(number) = self.first_dropped()? {
            let keys = self.chunk_keys(number, left)?;
            for key in &keys {
                self.tx.table_mut(&CONTENT_CHUNKS).delete(key)?;
            }
            if keys.len() == left {
                self.leftovers = Leftovers::Remaining;
                return Ok(());
            }
            left -= keys.len();
            self.tx.fixed_tree_mut(&leftovers(), STATE_BYTES)?.delete(number.0)?;
        }
        self.leftovers = Leftovers::None;
        Ok(())
    }

    fn first_dropped(&self) -> Result<Option<ContentNumber>, DocumentError> {
        for entry in self.transaction().fixed_tree(&leftovers())?.range(0)? {
            let (number, state) = entry?;
            if state == DROPPED {
                return Ok(Some(ContentNumber(number)));
            }
        }
        Ok(None)
    }

    fn chunk_keys(
        &self,
        number: ContentNumber,
        count_max: usize,
    ) -> Result<Vec<[u8; 12]>, DocumentError> {
        let from = chunk_key(number, 0);
        let tree = self.transaction().tree(&CONTENT_CHUNKS.primary_tree())?;
        let mut keys = Vec::new();
        for entry in tree.range(Bound::Included(&from))?.take(count_max) {
            let (owner, index) = read_chunk_key(&entry?.0)?;
            if owner != number {
                break;
            }
            keys.push(chunk_key(owner, index));
        }
        Ok(keys)
    }

    fn check_staged(&self, number: ContentNumber) -> Result<(), DocumentError> {
        match self.transaction().fixed_tree(&leftovers())?.get(number.0)? {
            Some(state) if state == STAGED => Ok(()),
            Some(_) | None => Err(DocumentError::ContentGone { number }),
        }
    }

    /// Detects a chunk that could not be written: the caller that stages does not wait for each
    /// chunk.
    fn check_complete(&self, number: ContentNumber, bytes: u64) -> Result<(), DocumentError> {
        let chunks = bytes.div_ceil(CONTENT_CHUNK_BYTES as u64);
        let keys = self.chunk_keys(number, usize::MAX)?;
        let is_complete = keys.len() as u64 == chunks
            && keys.iter().zip(0..).all(|(key, index)| *key == chunk_key(number, index));
        if is_complete { Ok(()) } else { Err(DocumentError::ContentGone { number }) }
    }

    fn drop_chunks(&mut self, number: ContentNumber) -> Result<(), DocumentError> {
        self.leftovers = Leftovers::Dropped;
        self.note(number, DROPPED)
    }

    fn note(&mut self, number: ContentNumber, state: &[u8]) -> Result<(), DocumentError> {
        self.tx.fixed_tree_mut(&leftovers(), STATE_BYTES)?.put(number.0, state)?;
        Ok(())
    }

    fn store_chunk(
        &mut self,
        number: ContentNumber,
        index: u32,
        bytes: &[u8],
    ) -> Result<(), DocumentError> {
        let mut row = Vec::new();
        content_row::write_chunk(&mut row, number, index, bytes);
        self.tx.table_mut(&CONTENT_CHUNKS).insert_new(&row)?;
        Ok(())
    }

    fn store_content(
        &mut self,
        number: ContentNumber,
        bytes: u64,
        hash: ContentHash,
    ) -> Result<(), DocumentError> {
        let chunk_bytes = u32::try_from(CONTENT_CHUNK_BYTES);
        let chunk_bytes = chunk_bytes.map_err(|_| corrupt("chunks of contents are too large"))?;
        let record = ContentRecord { number, chunk_bytes, bytes, hash };
        self.tx.table_mut(&CONTENTS).insert_new(&content_row::write(&record))?;
        Ok(())
    }

    fn next_content_number(&mut self) -> Result<ContentNumber, DocumentError> {
        let newest = newest_content(self.transaction())?;
        let number = newest.checked_add(1).ok_or(corrupt("no number of a content is left"))?;
        self.tx.tree_mut(&meta())?.put(NEWEST_CONTENT, &number.to_le_bytes())?;
        Ok(ContentNumber(number))
    }
}

/// The number of the newest content; 0 before the first.
pub(super) fn newest_content(tx: &impl Transaction) -> Result<u64, DocumentError> {
    let Some(record) = tx.tree(&meta())?.get(NEWEST_CONTENT)? else { return Ok(0) };
    let bytes = record.try_into().map_err(|_| corrupt("the count of contents is damaged"))?;
    Ok(u64::from_le_bytes(bytes))
}
