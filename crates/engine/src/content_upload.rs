//! Contents of attachments on their way into the database.
//!
//! A small one is carried by the command that puts it. A large one is staged chunk by chunk while it arrives, a few
//! chunks ahead of the disk, so that one write to the journal covers several. The caller reads the content, computes
//! its hash, and waits; here is decided what becomes of it. Invariant: a content that is not put after all, for
//! whatever reason, is discarded.

use std::{mem, sync::Arc};

use commands::{Batch, BatchOutcome, Command, CommandResult};
use database::DatabaseLease;
use documents::{CONTENT_CHUNK_BYTES, ContentNumber, NewContent, hash_of};
use model::ContentHash;

use crate::{engine::Engine, error::EngineError};

/// Maximum total size of the contents that the commands of a batch carry, in bytes; further ones are staged.
pub const CARRIED_BYTES_MAX: usize = 4 << 20;
/// Maximum number of chunks of an upload that are on their way to the disk.
const CHUNKS_IN_FLIGHT_MAX: usize = 3;
/// An upload waits for the flush in progress when the database holds more unflushed bytes than this. So it is at most
/// one flush ahead.
const UNFLUSHED_BYTES_MAX: u64 = 8 << 20;

/// A content that is arriving.
pub struct ContentUpload {
    database: DatabaseLease,
    bytes: u64,
    /// Contents up to this length are not staged.
    carried_bytes_max: usize,
    chunk: Vec<u8>,
    next_index: u32,
    /// How many chunks were taken and are not stored yet.
    in_flight: usize,
    staged: Option<StagedContent>,
}

/// A chunk of a content: to be submitted, and to be hashed.
pub struct ContentChunk {
    /// Stores it. The outcome of the first chunk makes the [`StagedContent`].
    pub batch: Batch,
    /// Its bytes.
    pub bytes: Arc<Vec<u8>>,
}

/// How much of what a database has stored is not flushed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// There is nothing to do.
    Small,
    /// The database is to be flushed while the upload goes on.
    Large,
    /// The upload waits for the flush in progress, if there is one, before it starts another and goes on.
    TooLarge,
}

/// Staged contents. Discarded on drop, unless they are put.
#[derive(Default)]
pub struct StagedContents(Vec<StagedContent>);

/// A staged content. Discarded on drop, unless it is put.
pub struct StagedContent {
    engine: Arc<Engine>,
    database: DatabaseLease,
    number: ContentNumber,
    is_put: bool,
}

impl ContentUpload {
    /// A content of which nothing has arrived yet. It is carried if it has at most this many bytes, and fits into a
    /// chunk.
    pub fn new(database: &DatabaseLease, carried_bytes_max: usize) -> ContentUpload {
        ContentUpload {
            database: database.clone(),
            bytes: 0,
            carried_bytes_max: carried_bytes_max.min(CONTENT_CHUNK_BYTES),
            chunk: Vec::new(),
            next_index: 0,
            in_flight: 0,
            staged: None,
        }
    }

    /// The length of the chunk that is being filled, in bytes.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk.len()
    }

    /// How many bytes the chunk takes until it is full, and has to be submitted.
    pub fn room_bytes(&self) -> usize {
        CONTENT_CHUNK_BYTES - self.chunk.len()
    }

    /// Adds the next bytes, at most [`ContentUpload::room_bytes`].
    pub fn fill(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.chunk.extend_from_slice(bytes);
    }

    /// Whether another chunk may be taken: not too many are on their way.
    pub fn may_submit(&self) -> bool {
        self.in_flight < CHUNKS_IN_FLIGHT_MAX
    }

    /// Whether the database has to be flushed before the next chunk, which bounds its memory.
    pub fn backlog(&self) -> Backlog {
        match self.database.environment().statistics().unflushed_bytes {
            bytes if UNFLUSHED_BYTES_MAX < bytes => Backlog::TooLarge,
            bytes if UNFLUSHED_BYTES_MAX / 2 < bytes => Backlog::Large,
            _ => Backlog::Small,
        }
    }

    /// Takes the chunk, to submit it. Its end is noted by [`ContentUpload::stage`] for the first one, and by
    /// [`ContentUpload::note_stored`] for the others.
    ///
    /// # Errors
    /// There are too many chunks.
    pub fn take_chunk(&mut self) -> Result<ContentChunk, EngineError> {
        let index = self.next_index;
        self.next_index = index.checked_add(1).ok_or(EngineError::ContentTooLong)?;
        self.in_flight += 1;
        let chunk = mem::replace(&mut self.chunk, Vec::with_capacity(CONTENT_CHUNK_BYTES));
        let bytes = Arc::new(chunk);
        let number = self.staged.as_ref().map(|staged| staged.number);
        let command = Command::StageContent { number, index, bytes: Arc::clone(&bytes) };
        Ok(ContentChunk { batch: Batch::one(command), bytes })
    }

    /// Whether the first chunk is stored, so that others may follow.
    pub fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    /// Notes that the first chunk is stored.
    pub fn stage(&mut self, staged: StagedContent) {
        self.staged = Some(staged);
        self.note_stored();
    }

    /// Notes that a chunk is stored.
    pub fn note_stored(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// The whole content if it is so small that the command which puts it carries it. To be called at its end.
    pub fn carried(&mut self) -> Option<NewContent> {
        if self.staged.is_some() || self.carried_bytes_max < self.chunk.len() {
            return None;
        }
        let bytes = mem::take(&mut self.chunk);
        Some(NewContent::Bytes { hash: hash_of(&bytes), bytes })
    }

    /// The content, all chunks of which were submitted. They need not be durable yet: the command that puts it comes
    /// later, and checks whether all of it is there.
    ///
    /// # Errors
    /// The first chunk was not stored, which is a bug.
    pub fn end(self, hash: ContentHash) -> Result<(NewContent, StagedContents), EngineError> {
        let staged = self.staged.ok_or_else(|| lost("it was not staged"))?;
        let content = NewContent::Staged { number: staged.number, bytes: self.bytes, hash };
        Ok((content, StagedContents(vec![staged])))
    }
}

impl StagedContent {
    /// The content whose first chunk has this outcome.
    ///
    /// # Errors
    /// The outcome is that of something else, which is a bug.
    pub fn of_first_chunk(
        engine: Arc<Engine>,
        database: DatabaseLease,
        outcome: &BatchOutcome,
    ) -> Result<StagedContent, EngineError> {
        match outcome.results.first() {
            Some(CommandResult::ContentStaged(number)) => {
                Ok(StagedContent { number: *number, engine, database, is_put: false })
            }
            _ => Err(lost("its first chunk was not stored")),
        }
    }
}

impl StagedContents {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds those of another.
    pub fn append(&mut self, mut others: StagedContents) {
        self.0.append(&mut others.0);
    }

    /// They belong to attachments now.
    pub fn are_put(&mut self) {
        self.0.iter_mut().for_each(|staged| staged.is_put = true);
        self.0.clear();
    }
}

impl Drop for StagedContent {
    fn drop(&mut self) {
        if !self.is_put {
            let batch = Batch::one(Command::DiscardContent(self.number));
            // If that fails, the content is discarded when the database is opened again.
            drop(self.engine.submit(&self.database, batch.into(), Box::new(drop)));
        }
    }
}

/// The error for a content that is lost, which is a bug.
fn lost(why: &str) -> EngineError {
    EngineError::Internal { what: format!("The content of an attachment is lost: {why}") }
}
