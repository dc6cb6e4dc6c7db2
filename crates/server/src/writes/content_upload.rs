//! Contents of attachments on their way into the database.
//!
//! A small one is submitted with the command that puts it. A large one is staged chunk by chunk
//! while it arrives, a few chunks ahead of the disk, so that one write to the journal covers
//! several; meanwhile a thread of the blocking pool computes its hash. Invariants: the arriving
//! chunk is charged as a body; a content that is not put after all, for whatever reason, is
//! discarded; memory holds those chunks of each upload, and what the database has not flushed.

use std::{collections::VecDeque, sync::Arc};

use commands::{Batch, Command, CommandResult, SubmitError};
use database::DatabaseLease;
use documents::{CONTENT_CHUNK_BYTES, ContentHasher, ContentNumber, NewContent, hash_of};
use tokio::task::JoinHandle;
use wire::ErrorKind;

use crate::{
    api_error::ApiError,
    http::body_share::{BodyShare, SMALL_BODY_BYTES, UNCOUNTED_BYTES},
    server_state::ServerState,
    writes::submitting::{Submitted, begin},
};

/// Maximum number of chunks of an upload that are on their way to the disk.
const CHUNKS_IN_FLIGHT_MAX: usize = 3;
/// An upload waits for the flush when the database holds more unflushed bytes than this.
const UNFLUSHED_BYTES_MAX: u64 = 8 << 20;
/// How many times, and how long, an upload waits for a busy database before it fails.
const FULL_QUEUE_TRIES: usize = 600;
const FULL_QUEUE_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// A content that is arriving.
pub(crate) struct ContentUpload {
    state: Arc<ServerState>,
    database: DatabaseLease,
    hashing: Hashing,
    bytes: u64,
    /// Contents up to this length are not staged.
    small_bytes_max: usize,
    chunk: Vec<u8>,
    /// The memory charged for `chunk`.
    share: BodyShare,
    next_index: u32,
    staged: Option<StagedContent>,
    /// Submitted chunks that are not durable yet, oldest first.
    in_flight: VecDeque<Submitted>,
    flush: Option<JoinHandle<()>>,
}

/// The hash of what has arrived, chunk by chunk.
enum Hashing {
    Idle(Box<ContentHasher>),
    /// Of the newest chunk.
    Running(JoinHandle<Box<ContentHasher>>),
}

impl Hashing {
    /// Waits for the chunks passed so far.
    async fn done(&mut self) -> Result<Box<ContentHasher>, ApiError> {
        match std::mem::replace(self, Self::Idle(Box::default())) {
            Self::Idle(hasher) => Ok(hasher),
            Self::Running(task) => task.await.map_err(|error| lost(&error.to_string())),
        }
    }

    /// Hashes the next chunk, once the one before is done.
    async fn begin(&mut self, chunk: Arc<Vec<u8>>) -> Result<(), ApiError> {
        let mut hasher = self.done().await?;
        *self = Self::Running(tokio::task::spawn_blocking(move || {
            hasher.update(&chunk);
            hasher
        }));
        Ok(())
    }
}

/// Staged contents. Discarded on drop, unless they are put.
#[derive(Default)]
pub(crate) struct StagedContents(Vec<StagedContent>);

impl StagedContents {
    /// Adds those of another.
    pub(crate) fn append(&mut self, mut others: StagedContents) {
        self.0.append(&mut others.0);
    }

    /// They belong to attachments now.
    pub(crate) fn are_put(&mut self) {
        self.0.iter_mut().for_each(|staged| staged.is_put = true);
        self.0.clear();
    }
}

/// A staged content. Discarded on drop.
struct StagedContent {
    state: Arc<ServerState>,
    database: DatabaseLease,
    number: ContentNumber,
    is_put: bool,
}

impl StagedContent {
    /// The content whose first chunk this is.
    async fn of_first_chunk(
        state: Arc<ServerState>,
        database: DatabaseLease,
        submitted: Submitted,
    ) -> Result<StagedContent, ApiError> {
        let outcome = submitted.await?;
        match outcome.results.first() {
            Some(CommandResult::ContentStaged(number)) => {
                Ok(StagedContent { number: *number, state, database, is_put: false })
            }
            _ => Err(lost("its first chunk was not stored")),
        }
    }
}

fn lost(why: &str) -> ApiError {
    ApiError::new(ErrorKind::Internal, format!("The content of an attachment is lost: {why}"))
}

impl Drop for StagedContent {
    fn drop(&mut self) {
        if !self.is_put {
            let batch = Batch::one(Command::DiscardContent(self.number));
            // If that fails, the content is discarded when the database is opened again.
            drop(begin(&self.state, &self.database, batch.into()));
        }
    }
}

impl ContentUpload {
    /// A content of which nothing has arrived yet.
    pub(crate) fn new(
        state: &Arc<ServerState>,
        database: &DatabaseLease,
        small_bytes_max: usize,
    ) -> ContentUpload {
        ContentUpload {
            state: Arc::clone(state),
            database: database.clone(),
            hashing: Hashing::Idle(Box::default()),
            bytes: 0,
            small_bytes_max: small_bytes_max.min(CONTENT_CHUNK_BYTES),
            chunk: Vec::new(),
            share: BodyShare::none_of(state),
            next_index: 0,
            staged: None,
            in_flight: VecDeque::new(),
            flush: None,
        }
    }

    /// Adds the next piece.
    pub(crate) async fn push(&mut self, piece: &[u8]) -> Result<(), ApiError> {
        self.bytes += piece.len() as u64;
        let mut rest = piece;
        while !rest.is_empty() {
            if self.chunk.len() == CONTENT_CHUNK_BYTES {
                self.send_chunk().await?;
            }
            let room = CONTENT_CHUNK_BYTES - self.chunk.len();
            let (taken, behind) = rest.split_at(room.min(rest.len()));
            self.share.grow_when_there_is_room(counted(self.chunk.len() + taken.len())).await?;
            self.chunk.extend_from_slice(taken);
            rest = behind;
        }
        Ok(())
    }

    /// The memory charged for its content.
    pub(crate) fn share(&self) -> &BodyShare {
        &self.share
    }

    /// Ends the content. What is staged need not be durable yet: the command that puts it comes
    /// later, and checks whether all of it is there.
    pub(crate) async fn finish(mut self) -> Result<(NewContent, StagedContents), ApiError> {
        if self.staged.is_none() && self.chunk.len() <= self.small_bytes_max {
            let bytes = std::mem::take(&mut self.chunk);
            let hash = hash_of(&bytes);
            return Ok((NewContent::Bytes { bytes, hash }, StagedContents::default()));
        }
        if !self.chunk.is_empty() {
            self.send_chunk().await?;
        }
        let hash = self.hashing.done().await?.finish();
        let staged = self.staged.take().ok_or_else(|| lost("it was not staged"))?;
        let content = NewContent::Staged { number: staged.number, bytes: self.bytes, hash };
        Ok((content, StagedContents(vec![staged])))
    }

    /// Submits the chunk, when not too many are in flight.
    async fn send_chunk(&mut self) -> Result<(), ApiError> {
        while self.in_flight.len() >= CHUNKS_IN_FLIGHT_MAX {
            self.wait_for_chunk().await?;
        }
        self.wait_for_flush().await?;
        self.wait_for_room().await?;
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CONTENT_CHUNK_BYTES));
        let bytes = Arc::new(chunk);
        self.hashing.begin(Arc::clone(&bytes)).await?;
        let number = self.staged.as_ref().map(|staged| staged.number);
        let command = Command::StageContent { number, index: self.next_index, bytes };
        let submitted = begin(&self.state, &self.database, Batch::one(command).into())?;
        self.next_index = self.next_index.checked_add(1).ok_or_else(|| {
            ApiError::new(ErrorKind::RequestTooLarge, "An attachment has too many bytes")
        })?;
        if self.staged.is_some() {
            self.in_flight.push_back(submitted);
            return Ok(());
        }
        // The number of the content is known when its first chunk is stored. A separate task waits
        // for that, so that the content is discarded if the upload is abandoned.
        let (state, database) = (Arc::clone(&self.state), self.database.clone());
        let staged = tokio::spawn(StagedContent::of_first_chunk(state, database, submitted)).await;
        self.staged = Some(staged.unwrap_or_else(|error| Err(lost(&error.to_string())))?);
        Ok(())
    }

    /// Waits for the oldest chunk in flight.
    async fn wait_for_chunk(&mut self) -> Result<(), ApiError> {
        let Some(submitted) = self.in_flight.pop_front() else { return Ok(()) };
        submitted.await.map(drop)
    }

    /// Bounds the memory: flushes concurrently with the upload, and waits when that is too slow.
    async fn wait_for_flush(&mut self) -> Result<(), ApiError> {
        let unflushed = self.database.environment().statistics().unflushed_bytes;
        if unflushed <= UNFLUSHED_BYTES_MAX / 2 {
            return Ok(());
        }
        if let Some(flush) =
            self.flush.take_if(|flush| flush.is_finished() || unflushed > UNFLUSHED_BYTES_MAX)
        {
            // A failed flush is reported by the next chunk.
            drop(flush.await);
        }
        if self.flush.is_none() {
            let environment = Arc::clone(self.database.environment());
            self.flush = Some(tokio::task::spawn_blocking(move || drop(environment.flush())));
        }
        Ok(())
    }

    async fn wait_for_room(&self) -> Result<(), ApiError> {
        for _ in 0..FULL_QUEUE_TRIES {
            if self.database.has_room() {
                return Ok(());
            }
            tokio::time::sleep(FULL_QUEUE_PAUSE).await;
        }
        Err(SubmitError::Full.into())
    }
}

/// The charge for a chunk of that length: in few steps, so that uploads in progress do not wait for
/// each other.
fn counted(bytes: usize) -> u64 {
    match bytes as u64 {
        bytes if bytes <= UNCOUNTED_BYTES => bytes,
        bytes if bytes <= SMALL_BODY_BYTES => SMALL_BODY_BYTES,
        _ => CONTENT_CHUNK_BYTES as u64,
    }
}
