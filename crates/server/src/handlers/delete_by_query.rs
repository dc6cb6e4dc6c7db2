//! `DELETE /queries`: deletes the documents that a query chooses, as an operation of the database.
//!
//! The ids are read from a snapshot, then deleted in batches through the commit queue like anybody's
//! deletes. A document that changed in between is deleted all the same; one that came later is not
//! looked at. Invariant: no snapshot is held while batches are written, so that deleting much does
//! not keep the storage from flushing.

use std::{sync::Arc, time::Duration};

use commands::{Batch, Command, CommandResult};
use database::{DatabaseLease, Operation};
use documents::ExpectedVersion;
use http::StatusCode;
use model::{DocumentId, Etag};
use query::{Paging, Plan, QueryError};
use serde_json::json;
use wire::{
    ErrorKind, ProtocolError,
    database_shapes::NODE_TAG,
    operation_state::{BulkOperationResult, OperationProgress, OperationStatus},
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
    router::Answering,
    server_state::ServerState,
    submitting::submit,
};

/// Documents deleted in one batch.
const BATCH_DOCUMENTS_MAX: usize = 1024;
/// About how many bytes of ids are held at once; what is left is read from a newer snapshot.
const IDS_BYTES_MAX: usize = 32 << 20;

/// `DELETE /queries`.
pub(crate) fn delete(call: Call) -> Answering {
    Box::pin(async move {
        let rate = rate(&call)?;
        let request = call.state.with_builder(|builder| wire::read_query(&call.body, builder))?;
        let query = query::parse(&request.text).map_err(query_error)?;
        let paging = Paging { start: request.start, page_size: request.page_size };
        let state = Arc::clone(&call.state);
        let database = call.database()?.clone();
        let parameters = request.parameters.as_ref().map(|values| values.as_view().root());
        let (description, planned) = match query::plan(&query, parameters, paging) {
            Ok(plan) => (plan.index_name.clone(), Ok(whole_page(&plan))),
            Err(QueryError::MissingIndex { name }) => {
                (name.clone(), Err(query_error(QueryError::MissingIndex { name })))
            }
            Err(error) => return Err(query_error(error)),
        };
        let (id, now) = (database.operations().next_id(), state.platform.clock.now());
        let operation = database
            .operations()
            .begin_query(id, &description, "DeleteByQuery", &request.text, now)
            .map_err(|_| too_many_operations())?;
        operation.set_progress(OperationProgress::Determinate { processed: 0, total: 0 });
        match planned {
            Err(error) => operation.finish(failed(&error), now),
            Ok(paging) => {
                let chosen = Chosen { query, parameters: request.parameters, paging };
                let deletion = Deletion { state, database, operation, rate, processed: 0 };
                tokio::spawn(deletion.run(chosen));
            }
        }
        Ok(Answer::shape(StatusCode::OK, &json!({"OperationId": id, "OperationNodeTag": NODE_TAG})))
    })
}

/// The page that the request and the text of the query ask for together.
fn whole_page(plan: &Plan) -> Paging {
    let start = i64::try_from(plan.shown.window.start).unwrap_or(i64::MAX);
    Paging { start, page_size: i64::try_from(plan.shown.window.page_size).ok() }
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
    fn ids(&self, database: &DatabaseLease, newest: Etag) -> Result<Ids, ProtocolError> {
        let tx = database.read();
        let parameters = self.parameters.as_ref().map(|values| values.as_view().root());
        let mut result =
            query::execute(&tx, &self.query, parameters, self.paging).map_err(query_error)?;
        let total = u64::try_from(result.total_results()).unwrap_or(0);
        let (mut ids, mut bytes) = (Vec::new(), 0);
        while let Some(row) = result.next_row().map_err(query_error)? {
            let row = row.document;
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
    rate: Option<u32>,
    processed: u64,
}

impl Deletion {
    async fn run(mut self, chosen: Chosen) {
        let status = match self.delete_all(chosen).await {
            Ok(()) => OperationStatus::Completed(BulkOperationResult {
                total: self.processed,
                documents_processed: 0,
            }),
            Err(error) if error.kind == ErrorKind::OperationCanceled => OperationStatus::Canceled,
            Err(error) => failed(&error),
        };
        self.operation.finish(status, self.state.platform.clock.now());
    }

    async fn delete_all(&mut self, mut chosen: Chosen) -> Result<(), ProtocolError> {
        let progress = documents::progress(&self.database.read());
        let newest = progress.map_err(|error| document_error(&error))?.last_etag;
        loop {
            let database = self.database.clone();
            let (found, read) = blocking(move || {
                let found = chosen.ids(&database, newest)?;
                Ok((found, chosen))
            })
            .await?;
            let total = (self.processed + found.ids.len() as u64).max(found.total);
            let per_batch = self.rate.map_or(BATCH_DOCUMENTS_MAX, |rate| rate as usize);
            for ids in found.ids.chunks(per_batch.min(BATCH_DOCUMENTS_MAX)) {
                self.delete_batch(ids, total).await?;
            }
            if found.is_all {
                return Ok(());
            }
            chosen = read.without(found.ids.len());
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
        self.processed += outcome.results.iter().filter(|result| was_there(result)).count() as u64;
        self.operation.set_progress(OperationProgress::Determinate {
            processed: self.processed,
            total: total.max(self.processed),
        });
        if let Some(rate) = self.rate {
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

fn was_there(result: &CommandResult) -> bool {
    matches!(result, CommandResult::Deleted { deleted: Some(_), .. })
}
