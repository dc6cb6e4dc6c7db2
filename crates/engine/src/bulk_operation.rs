//! An operation on all documents that a query selects.
//!
//! The documents are changed in batches through the commit queue, like those of a client. A
//! document that was changed after it was selected is changed anyway; one that was created later is
//! not.

use std::{collections::HashSet, sync::Arc, time::Duration};

use blittable::BlittableBuf;
use commands::{
    Batch, BatchOutcome, Command, CommandError, CommandResult, PatchEach, PatchRequest, PatchedOne,
};
use database::{DatabaseLease, Operation};
use documents::{DeletedDocument, ExpectedVersion};
use indexing::Index;
use model::DocumentId;
use query::{Paging, QueryError, RowOptions};
use rql::Query;
use wire::operation_state::{BulkDetail, BulkOperationResult, OperationProgress, OperationStatus};

use crate::{
    bound_query::BoundQuery,
    chosen_documents::{Chosen, IDS_ALLOWED_BYTES, description},
    engine::Engine,
    error::{EngineError, Shortage},
    operation_thread::ShowFailure,
    query_target::{NEW_INDEX_WAIT, QueryTarget, check_index_answers, query_target},
};

/// How often an operation that waits for an index checks whether it was stopped.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Memory of a query, while it is planned, that is not charged.
const PLANNING_ALLOWED_BYTES: u64 = 256 << 10;
/// Maximum number of documents changed in one batch.
const BATCH_DOCUMENTS_MAX: usize = 1024;
/// How often a batch is submitted again whose scripts found no memory, each time for some seconds.
const SCRIPT_REFUSALS_MAX: u32 = 12;
/// How long a batch waits for memory that others use, and how long between two tries.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(10);
const MEMORY_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of documents that the result of an operation lists when details are requested.
const DETAILS_MAX: usize = 100_000;

/// What the operation does with each document.
pub enum BulkWork {
    /// Deletes each document.
    Delete,
    /// Deletes it, unless it is one of these.
    DeleteOthers(HashSet<DocumentId>),
    /// Runs a script on it.
    Patch(Arc<PatchRequest>),
}

impl BulkWork {
    fn task_type(&self) -> &'static str {
        match self {
            BulkWork::Delete => "DeleteByQuery",
            BulkWork::DeleteOthers(_) => "DeleteByCollection",
            BulkWork::Patch(_) => "UpdateByQuery",
        }
    }
}

/// The options of a bulk operation.
#[derive(Default)]
pub struct BulkOptions {
    /// Maximum number of documents changed per second.
    pub rate: Option<u32>,
    /// Whether an index that has not caught up may select the documents.
    pub allows_stale: bool,
    /// How long to wait for it to catch up.
    pub stale_wait: Option<Duration>,
    /// Whether the result lists each document.
    pub wants_details: bool,
}

/// Which documents the operation changes.
pub struct BulkSelection {
    /// The query, without the changes to the documents.
    pub query: Query,
    /// The text of the request, for the list of operations.
    pub text: String,
    /// The values of its parameters.
    pub parameters: Option<BlittableBuf>,
    /// The page of the selected documents.
    pub paging: Paging,
}

impl Engine {
    /// Starts an operation on all documents that a query selects, on its own thread; returns its
    /// id. It is listed among the operations of the database, where it can be stopped.
    ///
    /// # Errors
    /// The query is invalid; there are too many operations; or no thread can be started.
    pub fn begin_bulk_operation(
        self: &Arc<Self>,
        database: &DatabaseLease,
        selection: BulkSelection,
        options: BulkOptions,
        work: BulkWork,
        show_failure: ShowFailure,
    ) -> Result<i64, EngineError> {
        let BulkSelection { query, text, parameters, paging } = selection;
        let (rows, stop) = (RowOptions::default(), Arc::default());
        let mut bound = BoundQuery { query, parameters, paging, rows, seed: 0, stop };
        let mut planning = self.memory.answers.share(PLANNING_ALLOWED_BYTES);
        planning.try_grow_to(bound.bytes()?).map_err(QueryError::from)?;
        let window = query::page_window(&bound.query, bound.parameters(), paging)?;
        let start = i64::try_from(window.start).unwrap_or(i64::MAX);
        bound.paging = Paging { start, page_size: i64::try_from(window.page_size).ok() };
        let description = description(&bound.query, bound.parameters())?;
        let (id, now) = (database.operations().next_id(), self.platform.clock.now());
        let operation = database
            .operations()
            .begin_query(id, &description, work.task_type(), &text, now)
            .map_err(|_| EngineError::TooManyOperations)?;
        operation.set_progress(OperationProgress::Determinate { processed: 0, total: 0 });
        let memory = self.memory.bodies.share(IDS_ALLOWED_BYTES);
        let chosen = Chosen::of(bound, (planning, memory));
        let bulk = BulkOperation {
            engine: Arc::clone(self),
            database: database.clone(),
            operation: Arc::clone(&operation),
            options,
            work,
            processed: 0,
            details: Vec::new(),
        };
        self.run_operation(operation, show_failure, move || bulk.run(chosen))?;
        Ok(id)
    }
}

struct BulkOperation {
    engine: Arc<Engine>,
    database: DatabaseLease,
    operation: Arc<Operation>,
    options: BulkOptions,
    work: BulkWork,
    processed: u64,
    details: Vec<BulkDetail>,
}

impl BulkOperation {
    fn run(mut self, chosen: Chosen) -> Result<OperationStatus, EngineError> {
        self.change_all(chosen)?;
        Ok(OperationStatus::Completed(BulkOperationResult {
            total: self.processed,
            documents_processed: 0,
            attachments_processed: 0,
            counters_processed: 0,
            time_series_processed: 0,
            details: self.details,
        }))
    }

    /// The index that selects the documents, caught up as far as required; `None` if the query
    /// reads the documents themselves.
    fn index_of(&self, chosen: &Chosen) -> Result<Option<Arc<Index>>, EngineError> {
        let (query, parameters) = (&chosen.bound.query, chosen.bound.parameters());
        let target = query_target(&self.database, query, parameters, Paging::default());
        let (index, is_new) = match target? {
            QueryTarget::Documents(_) => return Ok(None),
            QueryTarget::Index(index) => (index, false),
            QueryTarget::Missing(missing) => {
                (self.engine.create_auto_index(&self.database, missing)?, true)
            }
        };
        let refused = |message: &str| Err(EngineError::Refused { message: message.to_owned() });
        if index.source_kind() != indexing::SourceKind::Documents {
            return refused("Cannot execute bulk operation on indexes of counters or time series.");
        }
        if index.has_reduce() {
            return refused("Cannot execute bulk operation on Map-Reduce indexes.");
        }
        let wait_max = self.options.stale_wait.or(is_new.then_some(NEW_INDEX_WAIT));
        self.follow(&index, wait_max.unwrap_or_default())?;
        Ok(Some(index))
    }

    fn follow(&self, index: &Arc<Index>, wait_max: Duration) -> Result<(), EngineError> {
        check_index_answers(index)?;
        let mut catch_up = self.engine.begin_catch_up(&self.database, index, wait_max)?;
        while !catch_up.block(STOP_CHECK_INTERVAL) && !self.should_stop() {}
        if self.should_stop() {
            return Err(EngineError::Stopped);
        }
        if catch_up.end()? || self.options.allows_stale {
            return Ok(());
        }
        let message = "Cannot perform bulk operation. Index is stale.".to_owned();
        Err(EngineError::Refused { message })
    }

    fn change_all(&mut self, mut chosen: Chosen) -> Result<(), EngineError> {
        chosen.index = self.index_of(&chosen)?;
        chosen.newest = documents::progress(&self.database.read())?.last_etag;
        loop {
            let (engine, seed) = (&self.engine, self.engine.random_number());
            let found = chosen.ids(&self.database, seed, engine.scripts())?;
            let total = (self.processed + found.ids.len() as u64).max(found.total);
            let per_batch = self.options.rate.map_or(BATCH_DOCUMENTS_MAX, |rate| rate as usize);
            for ids in found.ids.chunks(per_batch.min(BATCH_DOCUMENTS_MAX)) {
                self.change_batch(ids, total)?;
            }
            if found.is_all {
                return Ok(());
            }
            match &self.work {
                BulkWork::Delete => chosen.without(found.ids.len()),
                // All of a collection, without a page.
                BulkWork::DeleteOthers(_) => {}
                BulkWork::Patch(_) if chosen.is_whole(found.total) => {
                    chosen.bound.paging = Paging::default()
                }
                BulkWork::Patch(_) => {
                    return Err(EngineError::PageTooLarge { done: self.processed });
                }
            }
            if let Some(index) = chosen.index.clone() {
                // The entries must reflect the changes before a page is counted again.
                self.follow(&index, NEW_INDEX_WAIT)?;
            }
        }
    }

    fn change_batch(&mut self, ids: &[DocumentId], total: u64) -> Result<(), EngineError> {
        let began = self.engine.platform.clock.monotonic();
        let mut left = ids;
        while !left.is_empty() {
            if self.should_stop() {
                return Err(EngineError::Stopped);
            }
            let done = match &self.work {
                BulkWork::Delete => self.delete(left)?,
                BulkWork::DeleteOthers(kept) => {
                    let others = left.iter().filter(|id| !kept.contains(*id)).cloned();
                    let others: Vec<DocumentId> = others.collect();
                    self.delete_all(&others)?;
                    left.len()
                }
                BulkWork::Patch(script) => self.patch(left, Arc::clone(script))?,
            };
            left = &left[done..];
            self.operation.set_progress(OperationProgress::Determinate {
                processed: self.processed,
                total: total.max(self.processed),
            });
        }
        if let Some(rate) = self.options.rate {
            let due = Duration::from_secs(1).mul_f64(ids.len() as f64 / f64::from(rate));
            let elapsed = self.engine.platform.clock.monotonic().saturating_sub(began);
            self.pause(due.saturating_sub(elapsed));
        }
        Ok(())
    }

    /// Submits a batch with the first of these ids: with all, or with fewer while there is not
    /// enough memory for so many changes; waits a while for what others use. Also returns how many they were.
    fn submit_some(
        &self,
        ids: &[DocumentId],
        batch: impl Fn(&[DocumentId]) -> Batch,
    ) -> Result<(BatchOutcome, usize), EngineError> {
        let (mut taken, mut refusals, mut waited) = (ids.len(), 0, Duration::ZERO);
        loop {
            match self.engine.execute(&self.database, batch(&ids[..taken])) {
                Err(error) if error.is_low_memory() && 1 < taken => taken /= 2,
                // It has waited for some seconds already.
                Err(EngineError::Command(CommandError::NoMemoryForScripts(_)))
                    if refusals < SCRIPT_REFUSALS_MAX && !self.should_stop() =>
                {
                    refusals += 1;
                }
                Err(error)
                    if error.shortage() == Some(Shortage::Passing)
                        && waited < MEMORY_WAIT_MAX
                        && !self.should_stop() =>
                {
                    self.pause(MEMORY_PAUSE);
                    waited += MEMORY_PAUSE;
                }
                outcome => return outcome.map(|outcome| (outcome, taken)),
            }
        }
    }

    fn delete_all(&mut self, ids: &[DocumentId]) -> Result<(), EngineError> {
        let mut left = ids;
        while !left.is_empty() {
            left = &left[self.delete(left)?..];
        }
        Ok(())
    }

    /// Deletes documents; returns how many ids are done.
    fn delete(&mut self, ids: &[DocumentId]) -> Result<usize, EngineError> {
        let delete =
            |id: &DocumentId| Command::Delete { id: id.clone(), expected: ExpectedVersion::Any };
        let batch = |ids: &[DocumentId]| Batch { commands: ids.iter().map(delete).collect() };
        let (outcome, done) = self.submit_some(ids, batch)?;
        let deleted: Vec<_> = outcome.results.iter().filter_map(deleted).collect();
        self.processed += deleted.len() as u64;
        if self.options.wants_details {
            self.add_details(deleted.into_iter().map(deleted_detail));
        }
        Ok(done)
    }

    /// Changes documents, as many as time allows; returns how many ids are done.
    fn patch(
        &mut self,
        ids: &[DocumentId],
        script: Arc<PatchRequest>,
    ) -> Result<usize, EngineError> {
        let wants_details = self.options.wants_details && self.details.len() < DETAILS_MAX;
        let batch = |ids: &[DocumentId]| {
            let (ids, script) = (ids.to_vec(), Arc::clone(&script));
            Batch::one(Command::PatchEach(PatchEach { ids, script, wants_details }))
        };
        let (outcome, _) = self.submit_some(ids, batch)?;
        let Some(CommandResult::PatchedEach(patched)) = outcome.results.into_iter().next() else {
            let what = "the outcome of the patches is missing".to_owned();
            return Err(EngineError::Internal { what });
        };
        self.processed += patched.done as u64;
        self.add_details(patched.details.into_iter().map(patched_detail));
        // At least one is done each time, so this terminates.
        Ok(patched.done.clamp(1, ids.len()))
    }

    fn add_details(&mut self, details: impl Iterator<Item = BulkDetail>) {
        let left = DETAILS_MAX.saturating_sub(self.details.len());
        self.details.extend(details.take(left));
    }

    fn should_stop(&self) -> bool {
        self.operation.should_stop() || self.database.is_closing()
    }

    /// Enforces the rate, and ends early when the operation is stopped.
    fn pause(&self, pause: Duration) {
        const STEP: Duration = Duration::from_millis(100);
        let clock = &self.engine.platform.clock;
        let due = clock.monotonic() + pause;
        while !self.should_stop() {
            let left = due.saturating_sub(clock.monotonic());
            if left.is_zero() {
                return;
            }
            // Nothing wakes it, and if something did, it would look again.
            std::thread::park_timeout(left.min(STEP));
        }
    }
}

fn deleted(result: &CommandResult) -> Option<&DeletedDocument> {
    match result {
        CommandResult::Deleted { deleted, .. } => deleted.as_ref(),
        _ => None,
    }
}

fn deleted_detail(deleted: &DeletedDocument) -> BulkDetail {
    BulkDetail::Deleted { id: deleted.id.as_str().to_owned(), etag: deleted.etag.0 }
}

fn patched_detail(patched: PatchedOne) -> BulkDetail {
    let change_vector = patched.change_vector.map(|version| version.to_string());
    let (id, status) = (patched.id.to_string(), patched.status.word());
    BulkDetail::Patched { id, change_vector, status }
}
