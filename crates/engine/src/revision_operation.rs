//! Operations on all revisions of a database: enforcing the configuration, and reverting documents to a time.
//!
//! They read ids from a snapshot, a chunk at a time, and release it before they write, so that they
//! do not delay flushes.

use std::{ops::Bound, sync::Arc};

use commands::{Batch, Command, CommandResult};
use database::{Database, DatabaseLease, Operation};
use documents::{DocumentError, Reversion, RevisionsToRemove};
use model::{CollectionName, DocumentFlags, DocumentId, Etag, date};
use wire::operation_state::{OperationProgress, OperationStatus, RevisedKind, RevisedResult};

use crate::{engine::Engine, error::EngineError, operation_thread::ShowFailure};

/// Number of ids read from one snapshot.
const IDS_CHUNK: usize = 16 << 10;
/// Number of documents of one batch.
const BATCH_DOCUMENTS_MAX: usize = 512;
/// Approximate number of revisions that one batch removes.
const BATCH_REVISIONS_MAX: u64 = 4096;
/// Maximum number of warnings that the result of an operation lists.
const WARNINGS_MAX: usize = 10_000;

/// What the operation does with each document. Times are in ticks.
#[derive(Clone, Copy)]
pub enum RevisionTask {
    /// Removes the revisions that the configuration does not keep.
    Enforce {
        /// Also those that a client created explicitly.
        with_forced: bool,
    },
    /// Reverts the document to a point in time.
    Revert {
        /// The point in time.
        to: i64,
        /// Revisions created before this are ignored.
        oldest: i64,
    },
}

/// The read position in the ids.
enum Position {
    /// Enforcing goes through the ids.
    Behind(Option<String>),
    /// Reverting goes backwards through the log of revisions.
    Before(Etag),
    End,
}

/// Some of the ids, with the approximate number of revisions that each step may remove.
struct Chunk {
    ids: Vec<(DocumentId, u64)>,
    scanned_revisions: u64,
    next: Position,
}

struct Work {
    engine: Arc<Engine>,
    database: DatabaseLease,
    operation: Arc<Operation>,
    task: RevisionTask,
    /// Only documents of these collections; of all if empty.
    collections: Vec<CollectionName>,
    result: RevisedResult,
}

impl Engine {
    /// Begins an operation on all revisions of a database, or of some collections; its id.
    ///
    /// # Errors
    /// There are too many operations, or no thread can be started.
    pub fn begin_revision_operation(
        self: &Arc<Self>,
        database: &DatabaseLease,
        task: RevisionTask,
        collections: Vec<CollectionName>,
        show_failure: ShowFailure,
    ) -> Result<i64, EngineError> {
        let id = database.operations().next_id();
        let name = database.record().name.as_str().to_owned();
        let (kind, task_type, description) = match task {
            RevisionTask::Enforce { .. } => (
                RevisedKind::Enforce,
                "EnforceRevisionConfiguration",
                format!("Enforce revision configuration in database '{name}'."),
            ),
            RevisionTask::Revert { to, .. } => (
                RevisedKind::Revert,
                "DatabaseRevert",
                format!("Revert database '{name}' to {} UTC.", date::american(to)),
            ),
        };
        let operation = database
            .operations()
            .begin(id, description, task_type, self.platform.clock.now())
            .map_err(|_| EngineError::TooManyOperations)?;
        operation.set_progress(OperationProgress::Determinate { processed: 0, total: 0 });
        let result = RevisedResult {
            kind,
            scanned_revisions: 0,
            scanned_documents: 0,
            warnings: Vec::new(),
            changed: 0,
        };
        let mut work = Work {
            engine: Arc::clone(self),
            database: database.clone(),
            operation: Arc::clone(&operation),
            task,
            collections,
            result,
        };
        self.run_operation(operation, show_failure, move || {
            work.run()?;
            Ok(OperationStatus::Revised(work.result))
        })?;
        Ok(id)
    }
}

impl Work {
    fn run(&mut self) -> Result<(), EngineError> {
        let numbers = self.numbers_of_collections()?;
        let mut position = match self.task {
            RevisionTask::Enforce { .. } => Position::Behind(None),
            RevisionTask::Revert { .. } => Position::Before(Etag(u64::MAX)),
        };
        loop {
            let chunk = read_chunk(&self.database, &position, self.task, numbers.as_deref())?;
            self.result.scanned_revisions += chunk.scanned_revisions;
            self.result.scanned_documents += chunk.ids.len() as u64;
            self.change(chunk.ids)?;
            position = match chunk.next {
                Position::End => return Ok(()),
                next => next,
            };
        }
    }

    /// The numbers of the requested collections; the result has a warning for each that does not
    /// exist.
    fn numbers_of_collections(&mut self) -> Result<Option<Vec<u32>>, EngineError> {
        if self.collections.is_empty() {
            return Ok(None);
        }
        let tx = self.database.read();
        let mut numbers = Vec::new();
        for name in &self.collections {
            match documents::collection(&tx, name)? {
                Some(found) => numbers.push(found.number),
                None => {
                    let verb = match self.result.kind {
                        RevisedKind::Revert => "Revert",
                        RevisedKind::Enforce => "Enforce",
                    };
                    let number = self.result.warnings.len() + 1;
                    let text = format!(
                        "Tried to {} revisions in the collection '{name}' which does not exist",
                        verb.to_lowercase()
                    );
                    let name = format!("{verb} Collection Fail No.{number}");
                    self.result.warnings.push((name, text));
                }
            }
        }
        Ok(Some(numbers))
    }

    fn change(&mut self, ids: Vec<(DocumentId, u64)>) -> Result<(), EngineError> {
        let mut ids = ids.into_iter().peekable();
        while ids.peek().is_some() {
            let (mut batch, mut weight) = (Vec::new(), 0);
            while batch.len() < BATCH_DOCUMENTS_MAX
                && weight < BATCH_REVISIONS_MAX
                && let Some((id, revisions)) = ids.next()
            {
                weight += revisions;
                batch.push(id);
            }
            // A document with more to remove than one step allows is in the next batch again.
            while !batch.is_empty() {
                batch = self.change_batch(batch)?;
            }
        }
        Ok(())
    }

    /// Returns the documents that are not done.
    fn change_batch(&mut self, ids: Vec<DocumentId>) -> Result<Vec<DocumentId>, EngineError> {
        if self.operation.should_stop() || self.database.is_closing() {
            return Err(EngineError::Stopped);
        }
        let task = self.task;
        let command = |id: &DocumentId| match task {
            RevisionTask::Enforce { with_forced } => {
                let what = RevisionsToRemove::Unwanted { with_forced };
                Command::RemoveRevisions { id: id.clone(), what }
            }
            RevisionTask::Revert { to, .. } => {
                Command::RevertDocument { id: id.clone(), ticks: to }
            }
        };
        let batch = Batch { commands: ids.iter().map(command).collect() };
        let outcome = self.engine.execute(&self.database, batch)?;
        let mut left = Vec::new();
        for (id, result) in ids.into_iter().zip(&outcome.results) {
            match (result, task) {
                (CommandResult::RemovedRevisions(step), _) => {
                    self.result.changed += step.removed;
                    if step.has_more {
                        left.push(id);
                    }
                }
                (CommandResult::Reverted(reversion), RevisionTask::Revert { to, .. }) => {
                    self.note_reversion(&id, *reversion, to);
                }
                _ => {}
            }
        }
        self.operation.set_progress(OperationProgress::Determinate {
            processed: self.result.changed,
            total: self.result.scanned_revisions,
        });
        Ok(left)
    }

    fn note_reversion(&mut self, id: &DocumentId, reversion: Reversion, to: i64) {
        match reversion {
            Reversion::Unchanged => return,
            Reversion::Reverted => {}
            Reversion::RevertedToOldest { count_to_keep } => {
                if self.result.warnings.len() < WARNINGS_MAX {
                    let text = format!(
                        "Reverted to oldest revision, since no revision prior to '{}' was found and \
                         you reached the maximum number of revisions ({count_to_keep}).",
                        date::american(to)
                    );
                    self.result.warnings.push((id.as_str().to_owned(), text));
                }
            }
        }
        self.result.changed += 1;
    }
}

fn read_chunk(
    database: &Database,
    position: &Position,
    task: RevisionTask,
    collections: Option<&[u32]>,
) -> Result<Chunk, DocumentError> {
    let is_wanted = |number: u32| collections.is_none_or(|numbers| numbers.contains(&number));
    let tx = database.read();
    let mut chunk = Chunk { ids: Vec::new(), scanned_revisions: 0, next: Position::End };
    match position {
        Position::End => {}
        Position::Behind(after) => {
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            for id in documents::revised_ids(&tx, from)? {
                let id = id?;
                if chunk.ids.len() == IDS_CHUNK {
                    let last = chunk.ids.last().map(|(id, _)| id.lower_cased().to_owned());
                    chunk.next = Position::Behind(last);
                    break;
                }
                let newest = documents::revisions_newest_first(&tx, &id)?.next().transpose()?;
                if newest.is_some_and(|newest| is_wanted(newest.collection_number())) {
                    let count = documents::revision_count(&tx, &id)?;
                    chunk.scanned_revisions += count;
                    chunk.ids.push((id, count));
                }
            }
        }
        Position::Before(before) => {
            let oldest = match task {
                RevisionTask::Revert { oldest, .. } => oldest,
                RevisionTask::Enforce { .. } => i64::MIN,
            };
            for revision in documents::revision_log_newest_first(&tx, *before)? {
                let revision = revision?;
                // A revision that was stored later than it was written says nothing about the log.
                let is_late = revision.flags().contains(DocumentFlags::FROM_OLD_DOCUMENT_REVISION)
                    || revision.flags().contains(DocumentFlags::FORCE_CREATED);
                if revision.last_modified_ticks() < oldest && !is_late {
                    break;
                }
                if chunk.ids.len() == IDS_CHUNK {
                    chunk.next = Position::Before(revision.etag());
                    break;
                }
                if !is_wanted(revision.collection_number()) {
                    continue;
                }
                chunk.scanned_revisions += 1;
                // A document is first encountered with its newest revision; any other revision
                // belongs to a document that was encountered before.
                let id = DocumentId::new(revision.id())?;
                let newest = documents::revisions_newest_first(&tx, &id)?.next().transpose()?;
                if newest.is_some_and(|newest| newest.etag() == revision.etag()) {
                    chunk.ids.push((id, 1));
                }
            }
        }
    }
    Ok(chunk)
}
