//! Contents of attachments on their way: staged in the database until the batch arrives that has them.
//!
//! Each sender stages its own: that others send the same content meanwhile changes nothing for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use commands::{Batch, Command, CommandResult};
use database::DatabaseLease;
use documents::{CONTENT_CHUNK_BYTES, ContentHasher, ContentNumber, NewContent};
use model::{ContentHash, DatabaseId};
use replication::{ContentPiece, Refusal, RefusalKind, Reply};

use crate::{engine::Engine, error::EngineError};

/// Contents that may be staged for one database at the same time.
const STAGED_MAX: usize = 64 << 10;

/// See the module.
#[derive(Default)]
pub(super) struct Staging {
    contents: Mutex<HashMap<StagedKey, Staged>>,
}

/// What a content is staged under.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct StagedKey {
    /// The database that it is for.
    database: DatabaseId,
    /// Who sends it.
    source: DatabaseId,
    hash: ContentHash,
}

/// A content of which a part has arrived.
struct Staged {
    /// When the database was opened: what was staged before is gone.
    opened: Duration,
    number: Option<ContentNumber>,
    chunks: u32,
    position: u64,
    content_bytes: u64,
    /// `None` once it is complete.
    hasher: Option<ContentHasher>,
}

impl Staged {
    fn content(&self, hash: ContentHash) -> NewContent {
        match self.number {
            Some(number) => NewContent::Staged { number, bytes: self.content_bytes, hash },
            None => NewContent::Bytes { bytes: Vec::new(), hash },
        }
    }
}

impl Staging {
    fn lock(&self) -> MutexGuard<'_, HashMap<StagedKey, Staged>> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all of a content has arrived from a sender.
    pub(super) fn is_complete(
        &self,
        database: &DatabaseLease,
        source: DatabaseId,
        hash: &ContentHash,
    ) -> bool {
        let key = StagedKey { database: database.record().topology_id, source, hash: *hash };
        let contents = self.lock();
        let staged = contents.get(&key);
        staged.is_some_and(|staged| {
            staged.hasher.is_none() && staged.opened == database.opened_after()
        })
    }

    /// Takes contents that have arrived from a sender.
    pub(super) fn take(
        &self,
        database: &DatabaseLease,
        source: DatabaseId,
        hashes: &[ContentHash],
    ) -> Vec<NewContent> {
        let (topology, opened) = (database.record().topology_id, database.opened_after());
        let mut contents = self.lock();
        let taken = hashes.iter().filter_map(|hash| {
            let staged = contents.remove(&StagedKey { database: topology, source, hash: *hash })?;
            let is_usable = staged.hasher.is_none() && staged.opened == opened;
            is_usable.then(|| staged.content(*hash))
        });
        taken.collect()
    }

    /// Takes everything that a sender has left.
    pub(super) fn take_of(&self, database: &DatabaseLease, source: DatabaseId) -> Vec<NewContent> {
        let (topology, opened) = (database.record().topology_id, database.opened_after());
        let mut left = Vec::new();
        self.lock().retain(|key, staged| {
            let is_left = key.database == topology && key.source == source;
            if is_left && staged.opened == opened {
                left.push(staged.content(key.hash));
            }
            !is_left
        });
        left
    }
}

impl Engine {
    /// Stages a piece of a content. Blocks.
    pub(super) fn stage_replicated(
        &self,
        database: &DatabaseLease,
        piece: ContentPiece,
    ) -> Result<Reply, EngineError> {
        let (topology, opened) = (database.record().topology_id, database.opened_after());
        let key = StagedKey { database: topology, source: piece.source, hash: piece.hash };
        // While it is changed, it is not there: a second message about it begins again.
        let known = self.replication.staging.lock().remove(&key);
        let known = known.filter(|staged| staged.opened == opened);
        let mut staged = match known {
            Some(staged) if staged.position == piece.position && staged.hasher.is_some() => staged,
            other => {
                if let Some(other) = other {
                    self.discard_staged(database, &[other.content(piece.hash)]);
                }
                if piece.position != 0 {
                    return Ok(damaged("A piece of a content does not follow the one before it"));
                }
                if STAGED_MAX <= self.replication.staging.lock().len() {
                    return Ok(damaged("Too many contents are on their way"));
                }
                Staged {
                    opened,
                    number: None,
                    chunks: 0,
                    position: 0,
                    content_bytes: piece.content_bytes,
                    hasher: Some(ContentHasher::default()),
                }
            }
        };
        for chunk in piece.bytes.chunks(CONTENT_CHUNK_BYTES) {
            if let Some(hasher) = &mut staged.hasher {
                hasher.update(chunk);
            }
            let command = Command::StageContent {
                number: staged.number,
                index: staged.chunks,
                bytes: Arc::new(chunk.to_vec()),
            };
            let outcome = self.execute(database, Batch::one(command))?;
            if let Some(CommandResult::ContentStaged(number)) = outcome.results.first() {
                staged.number = Some(*number);
            }
            staged.chunks += 1;
            staged.position += chunk.len() as u64;
        }
        let is_last = staged.content_bytes <= staged.position;
        if !is_last && !piece.bytes.len().is_multiple_of(CONTENT_CHUNK_BYTES) {
            self.discard_staged(database, &[staged.content(piece.hash)]);
            return Ok(damaged("A piece of a content ends within a chunk"));
        }
        if is_last {
            let hash = staged.hasher.take().map(|hasher| hasher.finish());
            if hash != Some(piece.hash) || staged.position != staged.content_bytes {
                self.discard_staged(database, &[staged.content(piece.hash)]);
                return Ok(damaged("A content is not what it should be"));
            }
        }
        let position = staged.position;
        self.replication.staging.lock().insert(key, staged);
        Ok(Reply::Taken(position))
    }

    /// Removes contents that nothing will have. What cannot be removed now is removed when the database is opened.
    pub(super) fn discard_staged(&self, database: &DatabaseLease, contents: &[NewContent]) {
        let numbers = contents.iter().filter_map(|content| match content {
            NewContent::Staged { number, .. } => Some(Command::DiscardContent(*number)),
            NewContent::Bytes { .. } => None,
        });
        let batch = Batch { commands: numbers.collect() };
        if !batch.commands.is_empty()
            && let Err(error) = self.execute(database, batch)
        {
            tracing::warn!(%error, "contents that were not used could not be removed");
        }
    }
}

fn damaged(reason: &str) -> Reply {
    Reply::Refused(Refusal { kind: RefusalKind::Damaged, reason: reason.to_owned() })
}
