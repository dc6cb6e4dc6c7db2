//! Contents of attachments, from a request into the database.
//!
//! [`engine::ContentUpload`] decides what becomes of the bytes. This part charges them as a body, has a thread of the
//! blocking pool compute their hash, and waits: memory holds a few chunks of each upload, and what the database has not
//! flushed.

use std::{collections::VecDeque, sync::Arc};

use commands::BatchOutcome;
use database::{Closing, DatabaseLease};
use documents::{CONTENT_CHUNK_BYTES, ContentHasher, NewContent};
use engine::{Backlog, BusyWait, ContentChunk, StagedContent, StagedContents};
use tokio::task::JoinHandle;
use wire::ErrorKind;

use crate::{
    api_error::ApiError,
    blocking::begin_blocking,
    database_access::unless_closed,
    http::body_share::{BodyShare, SMALL_BODY_BYTES, charge_in_steps},
    server_state::ServerState,
    writes::submitting::{Submitted, begin},
};

/// What is charged for the chunk that is being filled.
const CHARGE_STEPS: [u64; 2] = [SMALL_BODY_BYTES, CONTENT_CHUNK_BYTES as u64];

/// A content that is arriving.
pub(crate) struct ContentUpload {
    state: Arc<ServerState>,
    database: DatabaseLease,
    closing: Closing,
    upload: engine::ContentUpload,
    hashing: Hashing,
    /// The memory charged for the chunk that is being filled.
    share: BodyShare,
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
        *self = Self::Running(begin_blocking(move || {
            hasher.update(&chunk);
            hasher
        }));
        Ok(())
    }
}

fn lost(why: &str) -> ApiError {
    ApiError::new(ErrorKind::Internal, format!("The content of an attachment is lost: {why}"))
}

impl ContentUpload {
    /// A content of which nothing has arrived yet. It is carried with the command that puts it if it has at most
    /// `carried_bytes_max` bytes.
    pub(crate) fn new(
        state: &Arc<ServerState>,
        database: &DatabaseLease,
        carried_bytes_max: usize,
    ) -> ContentUpload {
        ContentUpload {
            state: Arc::clone(state),
            database: database.clone(),
            closing: Closing::of(database),
            upload: engine::ContentUpload::new(database, carried_bytes_max),
            hashing: Hashing::Idle(Box::default()),
            share: BodyShare::none_of(state),
            in_flight: VecDeque::new(),
            flush: None,
        }
    }

    /// Adds the next piece.
    pub(crate) async fn push(&mut self, piece: &[u8]) -> Result<(), ApiError> {
        let mut rest = piece;
        while !rest.is_empty() {
            if self.upload.room_bytes() == 0 {
                self.send_chunk().await?;
            }
            let (taken, behind) = rest.split_at(self.upload.room_bytes().min(rest.len()));
            let bytes = charge_in_steps(self.upload.chunk_bytes() + taken.len(), &CHARGE_STEPS);
            let growth = self.share.grow_when_there_is_room(bytes);
            unless_closed(&mut self.closing, growth).await??;
            self.upload.fill(taken);
            rest = behind;
        }
        Ok(())
    }

    /// The memory charged for its content.
    pub(crate) fn share(&self) -> &BodyShare {
        &self.share
    }

    /// Ends the content. What is staged need not be durable yet.
    pub(crate) async fn finish(mut self) -> Result<(NewContent, StagedContents), ApiError> {
        if let Some(carried) = self.upload.carried() {
            return Ok((carried, StagedContents::default()));
        }
        if 0 < self.upload.chunk_bytes() {
            self.send_chunk().await?;
        }
        let hash = self.hashing.done().await?.finish();
        Ok(self.upload.end(hash)?)
    }

    /// Submits the chunk, when not too many are in flight.
    async fn send_chunk(&mut self) -> Result<(), ApiError> {
        while !self.upload.may_submit() {
            self.wait_for_chunk().await?;
        }
        self.wait_for_flush().await?;
        self.wait_for_room().await?;
        let ContentChunk { batch, bytes } = self.upload.take_chunk()?;
        self.hashing.begin(bytes).await?;
        let submitted = begin(&self.state, &self.database, batch.into())?;
        if self.upload.is_staged() {
            self.in_flight.push_back(submitted);
            return Ok(());
        }
        // The number of the content is known when its first chunk is stored. A separate task waits
        // for that, so that the content is discarded if the upload is abandoned.
        let (engine, database) = (Arc::clone(&self.state.engine), self.database.clone());
        let first = tokio::spawn(async move {
            let outcome: BatchOutcome = submitted.await?;
            StagedContent::of_first_chunk(engine, database, &outcome)
        });
        let staged = first.await.map_err(|error| lost(&error.to_string()))?;
        self.upload.stage(staged?);
        Ok(())
    }

    /// Waits for the oldest chunk in flight.
    async fn wait_for_chunk(&mut self) -> Result<(), ApiError> {
        let Some(submitted) = self.in_flight.pop_front() else { return Ok(()) };
        submitted.await?;
        self.upload.note_stored();
        Ok(())
    }

    /// Flushes concurrently with the upload, and waits for the flush in progress when that is too slow.
    async fn wait_for_flush(&mut self) -> Result<(), ApiError> {
        let backlog = self.upload.backlog();
        if backlog == Backlog::Small {
            return Ok(());
        }
        let waits = backlog == Backlog::TooLarge;
        if let Some(flush) = self.flush.take_if(|flush| waits || flush.is_finished()) {
            // A failed flush is reported by the next chunk.
            drop(flush.await);
        }
        if self.flush.is_none() {
            let environment = Arc::clone(self.database.environment());
            self.flush = Some(begin_blocking(move || drop(environment.flush())));
        }
        Ok(())
    }

    async fn wait_for_room(&self) -> Result<(), ApiError> {
        let mut busy = BusyWait::default();
        while let Some(pause) = busy.next(&self.database)? {
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }
}
