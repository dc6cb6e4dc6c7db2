//! Compacting a database while the server runs: an operation of the server, because the database is
//! closed meanwhile.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use cluster_state::DatabaseRecord;
use database::Operation;
use http::StatusCode;
use serde_json::{Value, json};
use storage::{CompactOutcome, CompactProgress, CompactStep, compact_in_place};
use wire::{
    ErrorKind, ProtocolError,
    database_shapes::NODE_TAG,
    operation_state::{
        CompactionProgress, CompactionResult, OperationProgress, OperationStatus, group_digits,
    },
};

use crate::{
    answer::Answer,
    call::Call,
    error_mapping::storage_error,
    handlers::operations::{failed, too_many_operations},
    router::Answering,
    server_state::ServerState,
    stored_record::{read_object, texts_of},
};

/// What requests for the database are told meanwhile.
const LOCKED_REASON: &str = "it is being compacted";

/// `POST /admin/compact`.
pub(crate) fn compact(call: Call) -> Answering {
    Box::pin(async move {
        let body = read_object(&call.body)?;
        let refused = |message: String| Err(ProtocolError::invalid_operation(message));
        let Some(name) = body.get("DatabaseName").and_then(Value::as_str) else {
            return refused("DatabaseName is a required field when compacting a database.".into());
        };
        let with_documents = body.get("Documents").and_then(Value::as_bool).unwrap_or(false);
        let indexes = texts_of(&body, "Indexes")?;
        if !with_documents && indexes.is_empty() {
            return refused(
                "Documents is false in compact settings and no indexes were supplied. Nothing to \
                 compact."
                    .into(),
            );
        }
        let state = Arc::clone(&call.state);
        let Some(record) = state.catalog.record(name) else {
            return refused(format!("Cannot compact database {name}, it doesn't exist."));
        };
        let id = state.operations.next_id();
        let description = format!("Compacting database: {}", record.name.as_str());
        let now = state.platform.clock.now();
        let operation = state
            .operations
            .begin(id, description, "DatabaseCompact", now)
            .map_err(|_| too_many_operations())?;
        let message = format!("Started database compaction for {}", record.name.as_str());
        let began = CompactionProgress { message, ..CompactionProgress::default() };
        operation.set_progress(OperationProgress::Compaction(began));
        tracing::info!(database = record.name.as_str(), with_documents, "compacting begins");
        let work = Compaction { state, record, operation, with_documents, indexes };
        tokio::task::spawn_blocking(move || work.run());
        Ok(Answer::shape(StatusCode::OK, &json!({"OperationId": id, "OperationNodeTag": NODE_TAG})))
    })
}

struct Compaction {
    state: Arc<ServerState>,
    record: Arc<DatabaseRecord>,
    operation: Arc<Operation>,
    with_documents: bool,
    indexes: Vec<String>,
}

impl Compaction {
    fn run(self) {
        // Whatever happens, the database must be let go of and the operation must end.
        let compacted = match self.with_documents {
            true => {
                self.state.registry.with_locked(self.record.name.as_str(), LOCKED_REASON, || {
                    catch_unwind(AssertUnwindSafe(|| self.compact()))
                })
            }
            false => Ok(Ok(None)),
        };
        let compacted = compacted.unwrap_or_else(|_| {
            Err(ProtocolError::new(ErrorKind::Internal, "compacting the database panicked"))
        });
        let status = match compacted {
            Ok(outcome) => {
                if let Some(CompactOutcome { before_bytes, after_bytes, .. }) = &outcome {
                    let database = self.record.name.as_str();
                    tracing::info!(database, before_bytes, after_bytes, "compacting is done");
                }
                OperationStatus::Compacted(self.result(outcome))
            }
            Err(error) if error.kind == ErrorKind::OperationCanceled => {
                let database = self.record.name.as_str();
                tracing::info!(database, "compacting was stopped; the database is as it was");
                OperationStatus::Canceled
            }
            Err(error) => {
                let database = self.record.name.as_str();
                tracing::error!(database, %error, "the database could not be compacted");
                failed(&error)
            }
        };
        self.operation.finish(status, self.state.platform.clock.now());
    }

    fn compact(&self) -> Result<Option<CompactOutcome>, ProtocolError> {
        let name = self.record.name.as_str();
        // It may have been deleted, or its settings changed, before its name was taken.
        let Some(record) = self.state.catalog.record(name) else {
            let message = format!("Cannot compact database {name}, it doesn't exist.");
            return Err(ProtocolError::invalid_operation(message));
        };
        let options = self.state.files.options_of(&record);
        let tables = documents::TABLES;
        compact_in_place(&options.platform, &options.environment, tables, &mut |progress| {
            self.tell(progress)
        })
        .map(Some)
        .map_err(|error| storage_error(&error))
    }

    fn tell(&self, progress: &CompactProgress) -> ControlFlow<()> {
        let shape = OperationProgress::Compaction(progress_shape(progress));
        self.operation.set_progress(shape);
        match self.operation.should_stop() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn result(&self, outcome: Option<CompactOutcome>) -> CompactionResult {
        let name = self.record.name.as_str();
        let mut messages = vec![format!("Started database compaction for {name}")];
        let (before_bytes, after_bytes, trees) = match &outcome {
            Some(outcome) => {
                let rows = group_digits(outcome.report.rows);
                let entries = group_digits(outcome.report.entries);
                messages.push(format!("Copied {rows} rows and {entries} entries of trees."));
                let trees = outcome.report.trees + outcome.report.tables;
                (outcome.before_bytes, outcome.after_bytes, trees)
            }
            None => (0, 0, 0),
        };
        CompactionResult {
            name: name.to_owned(),
            before_bytes,
            after_bytes,
            trees,
            messages,
            missing_indexes: self.indexes.clone(),
        }
    }
}

fn progress_shape(progress: &CompactProgress) -> CompactionProgress {
    let CompactProgress { step, name, entries_done, entries, trees_done, trees, bytes_done } =
        progress;
    let kind = match step {
        CompactStep::Table => "table",
        CompactStep::Tree => "tree",
        CompactStep::FixedTree => "tree of numbers",
        CompactStep::Verifying => "",
    };
    let copied = group_digits(*bytes_done);
    let is_verifying = *step == CompactStep::Verifying;
    let message = if is_verifying {
        format!("Everything is copied, {copied} bytes; reading the copy through.")
    } else {
        let (done, all) = (group_digits(*entries_done), group_digits(*entries));
        format!("Copying the {kind} '{name}': {done} of {all} entries; {copied} bytes so far.")
    };
    CompactionProgress {
        message,
        tree: (!is_verifying).then(|| name.clone()),
        tree_progress: *entries_done,
        tree_total: *entries,
        global_progress: *trees_done,
        global_total: *trees,
    }
}
