//! `DELETE /queries`: deletes the documents that a query chooses, as an operation of the database.
//!
//! The ids are read from a snapshot, then deleted in batches through the commit queue like anybody's
//! deletes. A document that changed in between is deleted all the same; one that came later is not
//! looked at. Invariant: no snapshot is held while batches are written, so that deleting much does
//! not keep the storage from flushing.

use std::{sync::Arc, time::Duration};

use commands::{Batch, Command, CommandResult};
use database::{DatabaseLease, Operation};
use documents::{DeletedDocument, ExpectedVersion};
use http::StatusCode;
use indexing::Index;
use model::{DocumentId, Etag};
use query::{IndexSnapshot, Paging, QueryError, QueryScripts, RowOptions};
use rql::SourceKind;
use script::ScriptPool;
use serde_json::json;
use wire::{
    ErrorKind, ProtocolError,
    database_shapes::NODE_TAG,
    operation_state::{BulkDetail, BulkOperationResult, OperationProgress, OperationStatus},
};

use crate::{
    answer::Answer,
    blocking::blocking,
    call::Call,
    error_mapping::document_error,
    handlers::{
        operations::{failed, too_many_operations},
        queries::query_error,
    },
    index_choice::{Target, TargetError, WAIT_DEFAULT, catch_up, refuse_invalid, target_of},
    router::Answering,
    server_state::ServerState,
    submitting::submit,
};

/// Documents deleted in one batch.
const BATCH_DOCUMENTS_MAX: usize = 1024;
/// About how many bytes of ids are held at once; what is left is read from a newer snapshot.
const IDS_BYTES_MAX: usize = 32 << 20;
/// Single documents that the result of an operation tells of, when it is asked to.
const DETAILS_MAX: usize = 100_000;

/// `DELETE /queries`.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let options = Options::of(&call)?;
        let request = call.state.with_builder(|builder| wire::read_query(&call.body, builder))?;
        let mut query = query::parse(&request.text).map_err(query_error)?;
        // Whole documents are deleted, whatever would be shown of them.
        query.select = None;
        query.include.clear();
        let paging = Paging { start: request.start, page_size: request.page_size };
        let parameters = request.parameters.as_ref().map(|values| values.as_view().root());
        let window = query::page_window(&query, parameters, paging).map_err(query_error)?;
        let description = description(&query, parameters)?;
        let (state, database) = (Arc::clone(&call.state), call.database()?.clone());
        let (id, now) = (database.operations().next_id(), state.platform.clock.now());
        let operation = database
            .operations()
            .begin_query(id, &description, "DeleteByQuery", &request.text, now)
            .map_err(|_| too_many_operations())?;
        operation.set_progress(OperationProgress::Determinate { processed: 0, total: 0 });
        let start = i64::try_from(window.start).unwrap_or(i64::MAX);
        let paging = Paging { start, page_size: i64::try_from(window.page_size).ok() };
        let chosen = Chosen { query, parameters: request.parameters, paging, index: None };
        let details = Vec::new();
        let deletion = Deletion { state, database, operation, options, processed: 0, details };
        tokio::spawn(deletion.run(chosen));
        Ok(Answer::shape(StatusCode::OK, &json!({"OperationId": id, "OperationNodeTag": NODE_TAG})))
    })
}

/// What the list of operations says that is deleted from.
fn description(
    query: &rql::Query,
    parameters: Option<blittable::Object<'_>>,
) -> Result<String, ProtocolError> {
    if let SourceKind::Index(name) = &query.source.kind {
        return Ok(name.to_string());
    }
    match query::plan(query, parameters, Paging::default()) {
        Ok(plan) => Ok(plan.index_name),
        Err(QueryError::NeedsIndex { .. }) => {
            query::needed_index(query, parameters).map_err(query_error)?;
            Ok(match &query.source.kind {
                SourceKind::Collection(name) => format!("dynamic/{name}"),
                _ => "dynamic/AllDocs".to_owned(),
            })
        }
        Err(error) => Err(query_error(error)),
    }
}

/// How to delete.
struct Options {
    /// How many documents may be deleted in a second.
    rate: Option<u32>,
    /// Whether an index that has not caught up may say what is deleted.
    allows_stale: bool,
    /// How long to wait for it to catch up.
    stale_wait: Option<Duration>,
    /// Whether the result tells of each document.
    wants_details: bool,
}

impl Options {
    fn of(call: &Call) -> Result<Options, ProtocolError> {
        let query = call.query();
        Ok(Options {
            rate: rate(call)?,
            allows_stale: query.bool("allowStale")?.unwrap_or(false),
            stale_wait: query.time_span("staleTimeout")?,
            wants_details: query.bool("details")?.unwrap_or(false),
        })
    }
}

/// How many documents may be deleted in a second.
fn rate(call: &Call) -> Result<Option<u32>, ProtocolError> {
    let Some(rate) = call.query().int("maxOpsPerSec")? else { return Ok(None) };
    match u32::try_from(rate) {
        Ok(rate) if 0 < rate => Ok(Some(rate)),
        _ => Err(ProtocolError::invalid_operation("MaxOpsPerSecond must be greater than 0")),
    }
}

/// The documents to delete.
struct Chosen {
    query: rql::Query,
    parameters: Option<blittable::BlittableBuf>,
    paging: Paging,
    /// What says which they are; the documents themselves when there is none.
    index: Option<Arc<Index>>,
}

/// Some of the ids to delete.
struct Ids {
    ids: Vec<DocumentId>,
    /// Documents that the whole query chooses.
    total: u64,
    /// Whether there are no others.
    is_all: bool,
}

impl Chosen {
    /// Reads ids from the newest snapshot, up to the limit, of documents written up to `newest`.
    fn ids(
        &self,
        database: &DatabaseLease,
        newest: Etag,
        seed: u64,
        pool: &ScriptPool,
    ) -> Result<Ids, ProtocolError> {
        let entries = self.index.as_ref().map(|index| (index, index.read()));
        let tx = database.read();
        let parameters = self.parameters.as_ref().map(|values| values.as_view().root());
        let scripts = QueryScripts::of(&self.query, parameters, pool).map_err(query_error)?;
        let bound = scripts.as_ref().map(|scripts| scripts.bind(&self.query, parameters));
        let bound = bound.transpose().map_err(query_error)?;
        let result = match &entries {
            None => query::execute(&tx, &self.query, parameters, self.paging),
            Some((index, entries)) => {
                let snapshot = IndexSnapshot { index, tx: entries, seed, stop: Arc::default() };
                let rows = RowOptions::default();
                query::execute_on_index(&tx, &snapshot, &self.query, parameters, self.paging, rows)
            }
        };
        let mut result = result.map_err(query_error)?.with_scripts(bound.as_ref());
        let total = u64::try_from(result.total_results()).unwrap_or(0);
        let (mut ids, mut bytes) = (Vec::new(), 0);
        while let Some(row) = result.next_row().map_err(query_error)? {
            let Some(row) = row.document.stored() else { continue };
            if newest < row.etag() {
                continue;
            }
            if IDS_BYTES_MAX <= bytes {
                return Ok(Ids { ids, total, is_all: false });
            }
            bytes += row.id().len() + size_of::<DocumentId>();
            let id = DocumentId::new(row.id());
            ids.push(id.map_err(|error| ProtocolError::argument(error.to_string()))?);
        }
        Ok(Ids { ids, total, is_all: true })
    }

    /// Leaves what has been deleted out of a page; the rows behind it have moved up.
    fn without(mut self, deleted: usize) -> Chosen {
        let deleted = i64::try_from(deleted).unwrap_or(i64::MAX);
        self.paging.page_size = self.paging.page_size.map(|size| size.saturating_sub(deleted));
        self
    }
}

struct Deletion {
    state: Arc<ServerState>,
    database: DatabaseLease,
    operation: Arc<Operation>,
    options: Options,
    processed: u64,
    details: Vec<BulkDetail>,
}

impl Deletion {
    async fn run(mut self, chosen: Chosen) {
        let status = match self.delete_all(chosen).await {
            Ok(()) => OperationStatus::Completed(BulkOperationResult {
                total: self.processed,
                documents_processed: 0,
                details: std::mem::take(&mut self.details),
            }),
            Err(error) if error.kind == ErrorKind::OperationCanceled => OperationStatus::Canceled,
            Err(error) => failed(&error),
        };
        self.operation.finish(status, self.state.platform.clock.now());
    }

    /// The index that says what is deleted, as far as it has to be.
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

    async fn delete_all(&mut self, mut chosen: Chosen) -> Result<(), ProtocolError> {
        chosen.index = self.index_of(&chosen).await?;
        let progress = documents::progress(&self.database.read());
        let newest = progress.map_err(|error| document_error(&error))?.last_etag;
        loop {
            let (database, seed) = (self.database.clone(), self.state.random_number());
            let state = Arc::clone(&self.state);
            let (found, read) = blocking(move || {
                let found = chosen.ids(&database, newest, seed, state.scripts())?;
                Ok((found, chosen))
            })
            .await?;
            let total = (self.processed + found.ids.len() as u64).max(found.total);
            let per_batch = self.options.rate.map_or(BATCH_DOCUMENTS_MAX, |rate| rate as usize);
            for ids in found.ids.chunks(per_batch.min(BATCH_DOCUMENTS_MAX)) {
                self.delete_batch(ids, total).await?;
            }
            if found.is_all {
                return Ok(());
            }
            chosen = read.without(found.ids.len());
            if let Some(index) = chosen.index.clone() {
                // What is deleted must be gone from the entries before a page is counted again.
                self.follow(&index, WAIT_DEFAULT).await?;
            }
        }
    }

    async fn delete_batch(&mut self, ids: &[DocumentId], total: u64) -> Result<(), ProtocolError> {
        if self.operation.should_stop() || self.database.is_closing() {
            let message = "The operation was stopped";
            return Err(ProtocolError::new(ErrorKind::OperationCanceled, message));
        }
        let began = self.state.platform.clock.monotonic();
        let delete =
            |id: &DocumentId| Command::Delete { id: id.clone(), expected: ExpectedVersion::Any };
        let batch = Batch { commands: ids.iter().map(delete).collect() };
        let outcome = submit(&self.state, &self.database, batch).await?;
        let deleted: Vec<_> = outcome.results.iter().filter_map(deleted).collect();
        self.processed += deleted.len() as u64;
        if self.options.wants_details {
            let left = DETAILS_MAX.saturating_sub(self.details.len());
            self.details.extend(deleted.into_iter().take(left).map(detail));
        }
        self.operation.set_progress(OperationProgress::Determinate {
            processed: self.processed,
            total: total.max(self.processed),
        });
        if let Some(rate) = self.options.rate {
            let due = Duration::from_secs(1).mul_f64(ids.len() as f64 / f64::from(rate));
            let elapsed = self.state.platform.clock.monotonic().saturating_sub(began);
            self.pause(due.saturating_sub(elapsed)).await;
        }
        Ok(())
    }

    /// Keeps to the rate, but hears a wish to stop.
    async fn pause(&self, mut left: Duration) {
        const STEP: Duration = Duration::from_millis(100);
        while !left.is_zero() && !self.operation.should_stop() && !self.database.is_closing() {
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

fn detail(deleted: &DeletedDocument) -> BulkDetail {
    BulkDetail::Deleted { id: deleted.id.as_str().to_owned(), etag: deleted.etag.0 }
}
