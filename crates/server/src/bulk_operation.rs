//! An operation of a database on all documents that a query chooses.
//!
//! The documents are changed in batches through the commit queue like anybody's. One that changed since it
//! was chosen is changed all the same; one that came later is not looked at.

use std::{collections::HashSet, sync::Arc, time::Duration};

use commands::{Batch, BatchOutcome, Command, CommandResult, PatchEach, PatchRequest, PatchedOne};
use database::{DatabaseLease, Operation};
use documents::{DeletedDocument, ExpectedVersion};
use http::StatusCode;
use indexing::Index;
use model::DocumentId;
use query::{Paging, QueryError};
use serde_json::json;
use wire::{
    ErrorKind, ProtocolError, QueryRequest,
    database_shapes::NODE_TAG,
    operation_state::{BulkDetail, BulkOperationResult, OperationProgress, OperationStatus},
};

use crate::{
    answer::Answer,
    blocking::blocking,
    call::Call,
    chosen_documents::{Chosen, IDS_ALLOWED_BYTES, description},
    error_mapping::{document_error, query_error},
    handlers::operations::{failed, too_many_operations},
    index_choice::{Target, TargetError, WAIT_DEFAULT, catch_up, refuse_invalid, target_of},
    server_state::ServerState,
    submitting::submit,
};

/// Documents changed in one batch.
const BATCH_DOCUMENTS_MAX: usize = 1024;
/// Single documents that the result of an operation tells of, when it is asked to.
const DETAILS_MAX: usize = 100_000;

/// What is done with each document.
pub(crate) enum Work {
    /// It is deleted.
    Delete,
    /// It is deleted, unless it is one of these.
    DeleteOthers(HashSet<DocumentId>),
    /// A script changes it.
    Patch(Arc<PatchRequest>),
}

impl Work {
    fn task_type(&self) -> &'static str {
        match self {
            Work::Delete => "DeleteByQuery",
            Work::DeleteOthers(_) => "DeleteByCollection",
            Work::Patch(_) => "UpdateByQuery",
        }
    }
}

/// How it is done.
pub(crate) struct Options {
    /// How many documents may be changed in a second.
    rate: Option<u32>,
    /// Whether an index that has not caught up may say what is changed.
    allows_stale: bool,
    /// How long to wait for it to catch up.
    stale_wait: Option<Duration>,
    /// Whether the result tells of each document.
    wants_details: bool,
}

impl Options {
    pub(crate) fn of(call: &Call) -> Result<Options, ProtocolError> {
        let query = call.query();
        Ok(Options {
            rate: rate(call)?,
            allows_stale: query.bool("allowStale")?.unwrap_or(false),
            stale_wait: query.time_span("staleTimeout")?,
            wants_details: query.bool("details")?.unwrap_or(false),
        })
    }
}

fn rate(call: &Call) -> Result<Option<u32>, ProtocolError> {
    let Some(rate) = call.query().int("maxOpsPerSec")? else { return Ok(None) };
    match u32::try_from(rate) {
        Ok(rate) if 0 < rate => Ok(Some(rate)),
        _ => Err(ProtocolError::invalid_operation("MaxOpsPerSecond must be greater than 0")),
    }
}

/// Begins the operation; `query` is that of the request, without what is done with the documents.
pub(crate) fn begin(
    call: &Call,
    options: Options,
    query: rql::Query,
    request: QueryRequest,
    work: Work,
) -> Result<Answer, ProtocolError> {
    let paging = Paging { start: request.start, page_size: request.page_size };
    let parameters = request.parameters.as_ref().map(|values| values.as_view().root());
    let window = query::page_window(&query, parameters, paging).map_err(query_error)?;
    let description = description(&query, parameters)?;
    let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
    let (id, now) = (database.operations().next_id(), state.platform.clock.now());
    let operation = database
        .operations()
        .begin_query(id, &description, work.task_type(), &request.text, now)
        .map_err(|_| too_many_operations())?;
    operation.set_progress(OperationProgress::Determinate { processed: 0, total: 0 });
    let memory = state.memory.bodies.share(IDS_ALLOWED_BYTES);
    let chosen = Chosen::of(query, request.parameters, window, memory);
    let (processed, details) = (0, Vec::new());
    let bulk = BulkOperation { state, database, operation, options, work, processed, details };
    tokio::spawn(bulk.run(chosen));
    Ok(Answer::shape(StatusCode::OK, &json!({"OperationId": id, "OperationNodeTag": NODE_TAG})))
}

struct BulkOperation {
    state: Arc<ServerState>,
    database: DatabaseLease,
    operation: Arc<Operation>,
    options: Options,
    work: Work,
    processed: u64,
    details: Vec<BulkDetail>,
}

impl BulkOperation {
    async fn run(mut self, chosen: Chosen) {
        let status = match self.change_all(chosen).await {
            Ok(()) => OperationStatus::Completed(BulkOperationResult {
                total: self.processed,
                documents_processed: 0,
                attachments_processed: 0,
                counters_processed: 0,
                time_series_processed: 0,
                details: std::mem::take(&mut self.details),
            }),
            Err(error) if error.kind == ErrorKind::OperationCanceled => OperationStatus::Canceled,
            Err(error) => failed(&error),
        };
        self.operation.finish(status, self.state.platform.clock.now());
    }

    /// The index that says what is changed, as far as it has to be.
    async fn index_of(&self, chosen: &Chosen) -> Result<Option<Arc<Index>>, ProtocolError> {
        let parameters = chosen.parameters.as_ref();
        let target = target_of(&self.state, &self.database, &chosen.query, parameters).await;
        let (index, is_new) = match target {
            Ok(Target::Collection) => return Ok(None),
            Ok(Target::Index { index, is_new }) => (index, is_new),
            Err(TargetError::Refused(error)) => return Err(error),
            Err(TargetError::MissingIndex(name)) => {
                return Err(query_error(QueryError::MissingIndex { name }));
            }
        };
        if index.source_kind() != indexing::SourceKind::Documents {
            let message =
                "Cannot execute bulk operation on indexes of counters or time series.".to_owned();
            return Err(ProtocolError::invalid_operation(message));
        }
        if index.has_reduce() {
            let message = "Cannot execute bulk operation on Map-Reduce indexes.".to_owned();
            return Err(ProtocolError::invalid_operation(message));
        }
        let wait_max = self.options.stale_wait.or(is_new.then_some(WAIT_DEFAULT));
        self.follow(&index, wait_max.unwrap_or_default()).await?;
        Ok(Some(index))
    }

    async fn follow(&self, index: &Index, wait_max: Duration) -> Result<(), ProtocolError> {
        refuse_invalid(index)?;
        if catch_up(&self.database, index, wait_max).await? || self.options.allows_stale {
            return Ok(());
        }
        let message = "Cannot perform bulk operation. Index is stale.";
        Err(ProtocolError::invalid_operation(message.to_owned()))
    }

    async fn change_all(&mut self, mut chosen: Chosen) -> Result<(), ProtocolError> {
        chosen.index = self.index_of(&chosen).await?;
        let progress = documents::progress(&self.database.read());
        chosen.newest = progress.map_err(|error| document_error(&error))?.last_etag;
        loop {
            let (database, seed) = (self.database.clone(), self.state.random_number());
            let state = Arc::clone(&self.state);
            let found;
            (found, chosen) = blocking(move || {
                let found = chosen.ids(&database, seed, state.scripts())?;
                Ok((found, chosen))
            })
            .await?;
            let total = (self.processed + found.ids.len() as u64).max(found.total);
            let per_batch = self.options.rate.map_or(BATCH_DOCUMENTS_MAX, |rate| rate as usize);
            for ids in found.ids.chunks(per_batch.min(BATCH_DOCUMENTS_MAX)) {
                self.change_batch(ids, total).await?;
            }
            if found.is_all {
                return Ok(());
            }
            match &self.work {
                Work::Delete => chosen.without(found.ids.len()),
                // All of a collection, without a page.
                Work::DeleteOthers(_) => {}
                Work::Patch(_) if chosen.is_whole(found.total) => chosen.paging = Paging::default(),
                Work::Patch(_) => return Err(too_large_a_page(self.processed)),
            }
            if let Some(index) = chosen.index.clone() {
                // What was changed must be so in the entries before a page is counted again.
                self.follow(&index, WAIT_DEFAULT).await?;
            }
        }
    }

    async fn change_batch(&mut self, ids: &[DocumentId], total: u64) -> Result<(), ProtocolError> {
        let began = self.state.platform.clock.monotonic();
        let mut left = ids;
        while !left.is_empty() {
            if self.should_stop() {
                let message = "The operation was stopped";
                return Err(ProtocolError::new(ErrorKind::OperationCanceled, message));
            }
            let done = match &self.work {
                Work::Delete => self.delete(left).await?,
                Work::DeleteOthers(kept) => {
                    let others = left.iter().filter(|id| !kept.contains(*id)).cloned();
                    let others: Vec<DocumentId> = others.collect();
                    self.delete_all(&others).await?;
                    left.len()
                }
                Work::Patch(script) => self.patch(left, Arc::clone(script)).await?,
            };
            left = &left[done..];
            self.operation.set_progress(OperationProgress::Determinate {
                processed: self.processed,
                total: total.max(self.processed),
            });
        }
        if let Some(rate) = self.options.rate {
            let due = Duration::from_secs(1).mul_f64(ids.len() as f64 / f64::from(rate));
            let elapsed = self.state.platform.clock.monotonic().saturating_sub(began);
            self.pause(due.saturating_sub(elapsed)).await;
        }
        Ok(())
    }

    /// Submits a batch of the first of these ids: of all, or of fewer while there is no memory for so many
    /// changes. Returns also how many they were.
    async fn submit_some(
        &self,
        ids: &[DocumentId],
        batch: impl Fn(&[DocumentId]) -> Batch,
    ) -> Result<(BatchOutcome, usize), ProtocolError> {
        let mut taken = ids.len();
        loop {
            match submit(&self.state, &self.database, batch(&ids[..taken])).await {
                Err(error) if error.kind == ErrorKind::LowMemory && 1 < taken => taken /= 2,
                outcome => return outcome.map(|outcome| (outcome, taken)),
            }
        }
    }

    async fn delete_all(&mut self, ids: &[DocumentId]) -> Result<(), ProtocolError> {
        let mut left = ids;
        while !left.is_empty() {
            left = &left[self.delete(left).await?..];
        }
        Ok(())
    }

    /// Deletes documents; gives how many ids are done.
    async fn delete(&mut self, ids: &[DocumentId]) -> Result<usize, ProtocolError> {
        let delete =
            |id: &DocumentId| Command::Delete { id: id.clone(), expected: ExpectedVersion::Any };
        let batch = |ids: &[DocumentId]| Batch { commands: ids.iter().map(delete).collect() };
        let (outcome, done) = self.submit_some(ids, batch).await?;
        let deleted: Vec<_> = outcome.results.iter().filter_map(deleted).collect();
        self.processed += deleted.len() as u64;
        if self.options.wants_details {
            self.tell(deleted.into_iter().map(deleted_detail));
        }
        Ok(done)
    }

    /// Changes documents, as many as there is time for; gives how many ids are done.
    async fn patch(
        &mut self,
        ids: &[DocumentId],
        script: Arc<PatchRequest>,
    ) -> Result<usize, ProtocolError> {
        let wants_details = self.options.wants_details && self.details.len() < DETAILS_MAX;
        let batch = |ids: &[DocumentId]| {
            let (ids, script) = (ids.to_vec(), Arc::clone(&script));
            Batch::one(Command::PatchEach(PatchEach { ids, script, wants_details }))
        };
        let (outcome, _) = self.submit_some(ids, batch).await?;
        let Some(CommandResult::PatchedEach(patched)) = outcome.results.into_iter().next() else {
            return Err(ProtocolError::invalid_operation("the fate of the patches is missing"));
        };
        self.processed += patched.done as u64;
        self.tell(patched.details.into_iter().map(patched_detail));
        // One at least is done, so this ends.
        Ok(patched.done.clamp(1, ids.len()))
    }

    fn tell(&mut self, details: impl Iterator<Item = BulkDetail>) {
        let left = DETAILS_MAX.saturating_sub(self.details.len());
        self.details.extend(details.take(left));
    }

    fn should_stop(&self) -> bool {
        self.operation.should_stop() || self.database.is_closing()
    }

    /// Keeps to the rate, but hears a wish to stop.
    async fn pause(&self, mut left: Duration) {
        const STEP: Duration = Duration::from_millis(100);
        while !left.is_zero() && !self.should_stop() {
            let step = left.min(STEP);
            tokio::time::sleep(step).await;
            left -= step;
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

fn too_large_a_page(done: u64) -> ProtocolError {
    let message = format!(
        "A query with a limit may change only as many documents as are chosen at once; {done} were \
         changed. Leave out the limit, or choose fewer by a condition"
    );
    ProtocolError::new(ErrorKind::NotSupported, message)
}
