//! What an administrator does with all revisions of a database: the configuration, enforcing it, setting
//! documents back to a time.
//!
//! Enforcing and setting back are operations of the database. They read ids from a snapshot, some at a
//! time, and let go of it before they write, so that they keep nobody from flushing.

use std::{ops::Bound, sync::Arc};

use commands::{Batch, Command, CommandResult};
use database::{DatabaseLease, Operation};
use documents::{DocumentError, Reversion, RevisionsToRemove};
use http::StatusCode;
use model::{CollectionName, DocumentFlags, DocumentId, Etag, date};
use serde_json::{Map, Value, json};
use wire::{
    CONFLICT_REVISIONS_PROPERTY, ErrorKind, ProtocolError, REVISIONS_PROPERTY,
    database_shapes::NODE_TAG,
    operation_state::{OperationProgress, OperationStatus, RevisedKind, RevisedResult},
};

use crate::{
    answer::Answer,
    blocking::blocking,
    call::Call,
    error_mapping::document_error,
    handlers::operations::{failed, too_many_operations},
    router::Answering,
    server_state::ServerState,
    stored_record::{body_of, change_body, read_object, texts_of},
    submitting::submit,
};

/// Ids that are read from one snapshot.
const IDS_CHUNK: usize = 16 << 10;
/// Documents of one batch.
const BATCH_DOCUMENTS_MAX: usize = 512;
/// Revisions that one batch removes, roughly.
const BATCH_REVISIONS_MAX: u64 = 4096;
/// Warnings that the result of an operation tells of.
const WARNINGS_MAX: usize = 10_000;
const TICKS_PER_SECOND: i64 = 10_000_000;

/// `GET /revisions/config`.
pub(crate) fn configuration(call: &Call) -> Result<Answer, ProtocolError> {
    let body = body_of(&call.database()?.record());
    Ok(match body.get(REVISIONS_PROPERTY).filter(|stored| !stored.is_null()) {
        Some(stored) => Answer::shape(StatusCode::OK, stored),
        None => Answer::empty(StatusCode::NOT_FOUND),
    })
}

/// `POST /admin/revisions/config`: replaces the whole configuration.
pub(crate) fn configure(call: Call) -> Answering {
    Box::pin(async move {
        let configuration = wire::read_revisions_configuration(&read_object(&call.body)?)?;
        store(call, REVISIONS_PROPERTY, configuration).await
    })
}

/// `GET /revisions/conflicts/config`.
pub(crate) fn of_conflicts(call: &Call) -> Result<Answer, ProtocolError> {
    let body = body_of(&call.database()?.record());
    let stored = body.get(CONFLICT_REVISIONS_PROPERTY).filter(|stored| !stored.is_null());
    let shown = stored.cloned().unwrap_or_else(wire::default_conflict_revisions);
    Ok(Answer::shape(StatusCode::OK, &shown))
}

/// `POST /admin/revisions/conflicts/config`.
pub(crate) fn configure_conflicts(call: Call) -> Answering {
    Box::pin(async move {
        let configuration = wire::read_conflict_revisions(&read_object(&call.body)?)?;
        store(call, CONFLICT_REVISIONS_PROPERTY, configuration).await
    })
}

/// Keeps a configuration in the record of the database.
pub(crate) async fn store(
    call: Call,
    property: &'static str,
    configuration: Value,
) -> Result<Answer, ProtocolError> {
    let name = call.database()?.record().name.as_str().to_owned();
    let state = call.state;
    blocking(move || {
        let set = |body: &mut Map<String, Value>| {
            body.insert(property.to_owned(), configuration.clone());
        };
        let written = change_body(&state, &name, set)?.ok_or_else(|| {
            let message = format!("Database '{name}' does not exist");
            ProtocolError::new(ErrorKind::DatabaseDoesNotExist, message)
        })?;
        Ok(Answer::shape(StatusCode::OK, &json!({"RaftCommandIndex": written.index})))
    })
    .await
}

/// `POST /admin/revisions/config/enforce`.
pub(crate) fn enforce(call: &Call) -> Result<Answer, ProtocolError> {
    let body = read_object(&call.body)?;
    let with_forced = flag(&body, "IncludeForceCreated")?;
    let name = call.database()?.record().name.as_str().to_owned();
    let description = format!("Enforce revision configuration in database '{name}'.");
    let work = Work::begin(call, &body, description, RevisedKind::Enforce)?;
    let started = work.started();
    tokio::spawn(work.run(Task::Enforce { with_forced }));
    Ok(started)
}

/// `POST /revisions/revert`.
pub(crate) fn revert(call: &Call) -> Result<Answer, ProtocolError> {
    let body = read_object(&call.body)?;
    let text = body.get("Time").and_then(Value::as_str).unwrap_or("");
    let Some(time) = date::parse(text) else {
        let message = format!("Could not convert '{text}' to System.DateTime");
        return Err(ProtocolError::new(ErrorKind::Format, message));
    };
    let window = match body.get("WindowInSec") {
        None | Some(Value::Null) => 0,
        Some(window) => window.as_i64().ok_or_else(|| {
            let message = format!("Could not convert '{window}' to System.Int64");
            ProtocolError::new(ErrorKind::Format, message)
        })?,
    };
    let to = time.utc_ticks();
    let oldest = to.saturating_sub(window.max(0).saturating_mul(TICKS_PER_SECOND));
    let name = call.database()?.record().name.as_str().to_owned();
    let description = format!("Revert database '{name}' to {} UTC.", american_date(to));
    let work = Work::begin(call, &body, description, RevisedKind::Revert)?;
    let started = work.started();
    tokio::spawn(work.run(Task::Revert { to, oldest }));
    Ok(started)
}

pub(crate) fn flag(body: &Map<String, Value>, name: &str) -> Result<bool, ProtocolError> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(value) => value.as_bool().ok_or_else(|| {
            let message = format!("Could not convert '{value}' to System.Boolean");
            ProtocolError::new(ErrorKind::Format, message)
        }),
    }
}

/// `11/22/2026 01:51:36`, as the protocol's texts have it.
fn american_date(ticks: i64) -> String {
    let text = date::format(ticks);
    format!("{}/{}/{} {}", &text[5..7], &text[8..10], &text[0..4], &text[11..19])
}

/// What is done to each document.
#[derive(Clone, Copy)]
enum Task {
    Enforce {
        with_forced: bool,
    },
    Revert {
        to: i64,
        /// Revisions that were made before are not looked at.
        oldest: i64,
    },
}

/// How far the ids are read.
enum Position {
    /// Enforcing goes through the ids.
    Behind(Option<String>),
    /// Setting back goes through the log of revisions, from its end.
    Before(Etag),
    End,
}

/// Some of the ids, with about how many revisions each step of them may remove.
struct Chunk {
    ids: Vec<(DocumentId, u64)>,
    scanned_revisions: u64,
    next: Position,
}

struct Work {
    state: Arc<ServerState>,
    database: DatabaseLease,
    operation: Arc<Operation>,
    operation_id: i64,
    /// Only documents of these collections, when there are any.
    collections: Option<Vec<CollectionName>>,
    result: RevisedResult,
}

impl Work {
    fn begin(
        call: &Call,
        body: &Map<String, Value>,
        description: String,
        kind: RevisedKind,
    ) -> Result<Work, ProtocolError> {
        let collections = texts_of(body, "Collections")?.into_iter().map(CollectionName::new);
        let collections = collections.collect::<Result<Vec<_>, _>>();
        let collections =
            collections.map_err(|error| ProtocolError::argument(error.to_string()))?;
        let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
        let id = database.operations().next_id();
        let task = match kind {
            RevisedKind::Revert => "DatabaseRevert",
            RevisedKind::Enforce => "EnforceRevisionConfiguration",
        };
        let operation = database
            .operations()
            .begin(id, description, task, state.platform.clock.now())
            .map_err(|_| too_many_operations())?;
        operation.set_progress(OperationProgress::Determinate { processed: 0, total: 0 });
        let result = RevisedResult {
            kind,
            scanned_revisions: 0,
            scanned_documents: 0,
            warnings: Vec::new(),
            changed: 0,
        };
        let collections = (!collections.is_empty()).then_some(collections);
        Ok(Work { state, database, operation, operation_id: id, collections, result })
    }

    fn started(&self) -> Answer {
        let answer = json!({"OperationId": self.operation_id, "OperationNodeTag": NODE_TAG});
        Answer::shape(StatusCode::OK, &answer)
    }

    async fn run(mut self, task: Task) {
        let status = match self.work(task).await {
            Ok(()) => OperationStatus::Revised(self.result),
            Err(error) if error.kind == ErrorKind::OperationCanceled => OperationStatus::Canceled,
            Err(error) => failed(&error),
        };
        self.operation.finish(status, self.state.platform.clock.now());
    }

    async fn work(&mut self, task: Task) -> Result<(), ProtocolError> {
        let numbers = self.numbers_of_collections()?;
        let mut position = match task {
            Task::Enforce { .. } => Position::Behind(None),
            Task::Revert { .. } => Position::Before(Etag(u64::MAX)),
        };
        loop {
            let (database, numbers) = (self.database.clone(), numbers.clone());
            let chunk = blocking(move || {
                read_chunk(&database, &position, task, numbers.as_deref())
                    .map_err(|error| document_error(&error))
            });
            let chunk = chunk.await?;
            self.result.scanned_revisions += chunk.scanned_revisions;
            self.result.scanned_documents += chunk.ids.len() as u64;
            self.change(task, chunk.ids).await?;
            position = match chunk.next {
                Position::End => return Ok(()),
                next => next,
            };
        }
    }

    /// The numbers of the collections that were asked for; of those that do not exist the result
    /// tells.
    fn numbers_of_collections(&mut self) -> Result<Option<Vec<u32>>, ProtocolError> {
        let Some(names) = &self.collections else { return Ok(None) };
        let tx = self.database.read();
        let mut numbers = Vec::new();
        for name in names {
            match documents::collection(&tx, name).map_err(|error| document_error(&error))? {
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

    async fn change(
        &mut self,
        task: Task,
        ids: Vec<(DocumentId, u64)>,
    ) -> Result<(), ProtocolError> {
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
            // What has more to remove than a step is in the next batch again.
            while !batch.is_empty() {
                batch = self.change_batch(task, batch).await?;
            }
        }
        Ok(())
    }

    /// Gives the documents that are not done.
    async fn change_batch(
        &mut self,
        task: Task,
        ids: Vec<DocumentId>,
    ) -> Result<Vec<DocumentId>, ProtocolError> {
        if self.operation.should_stop() || self.database.is_closing() {
            let message = "The operation was stopped";
            return Err(ProtocolError::new(ErrorKind::OperationCanceled, message));
        }
        let command = |id: &DocumentId| match task {
            Task::Enforce { with_forced } => {
                let what = RevisionsToRemove::Unwanted { with_forced };
                Command::RemoveRevisions { id: id.clone(), what }
            }
            Task::Revert { to, .. } => Command::RevertDocument { id: id.clone(), ticks: to },
        };
        let batch = Batch { commands: ids.iter().map(command).collect() };
        let outcome = submit(&self.state, &self.database, batch).await?;
        let mut left = Vec::new();
        for (id, result) in ids.into_iter().zip(&outcome.results) {
            match (result, task) {
                (CommandResult::RemovedRevisions(step), _) => {
                    self.result.changed += step.removed;
                    if step.has_more {
                        left.push(id);
                    }
                }
                (CommandResult::Reverted(reversion), Task::Revert { to, .. }) => {
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
                        american_date(to)
                    );
                    self.result.warnings.push((id.as_str().to_owned(), text));
                }
            }
        }
        self.result.changed += 1;
    }
}

fn read_chunk(
    database: &DatabaseLease,
    position: &Position,
    task: Task,
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
                Task::Revert { oldest, .. } => oldest,
                Task::Enforce { .. } => i64::MIN,
            };
            for revision in documents::revision_log_newest_first(&tx, *before)? {
                let revision = revision?;
                // A version that was kept later than it was written says nothing about the log.
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
                // A document is met first with its newest revision; what is not the newest belongs
                // to a document that was met before.
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
