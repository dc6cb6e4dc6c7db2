//! Compacting a database while the server runs: an operation of the server, because the database is closed
//! meanwhile.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use database::Operation;
use model::DatabaseRecord;
use storage::{CompactOutcome, CompactProgress, CompactStep, StorageError, compact_in_place};
use wire::operation_state::{
    CompactionProgress, CompactionResult, OperationProgress, OperationStatus, group_digits,
};

use crate::{engine::Engine, error::EngineError, operation_thread::ShowFailure};

/// The reason given to requests for the database in the meantime.
const LOCKED_REASON: &str = "it is being compacted";

impl Engine {
    /// Begins to compact a database; the id of the operation, which is one of the server's. Without
    /// `with_documents`, only indexes are meant: theirs need none, and the result lists them.
    ///
    /// # Errors
    /// The database does not exist; there are too many operations; no thread can be
    /// started.
    pub fn begin_compaction(
        self: &Arc<Self>,
        name: &str,
        with_documents: bool,
        indexes: Vec<String>,
        show_failure: ShowFailure,
    ) -> Result<i64, EngineError> {
        let Some(record) = self.catalog.record(name) else {
            let message = format!("Cannot compact database {name}, it doesn't exist.");
            return Err(EngineError::Refused { message });
        };
        let id = self.operations.next_id();
        let description = format!("Compacting database: {}", record.name.as_str());
        let operation = self
            .operations
            .begin(id, description, "DatabaseCompact", self.platform.clock.now())
            .map_err(|_| EngineError::TooManyOperations)?;
        let message = format!("Started database compaction for {}", record.name.as_str());
        let began = CompactionProgress { message, ..CompactionProgress::default() };
        operation.set_progress(OperationProgress::Compaction(began));
        tracing::info!(database = record.name.as_str(), with_documents, "compaction started");
        let work = Compaction {
            engine: Arc::clone(self),
            record,
            operation: Arc::clone(&operation),
            with_documents,
            indexes,
        };
        self.run_operation(operation, show_failure, move || work.run())?;
        Ok(id)
    }
}

impl Engine {
    /// Does something with the files of a database while it is closed. Blocks.
    ///
    /// # Errors
    /// Those of `work`; it panicked. The database is released in any case.
    pub(crate) fn while_closed<T>(
        &self,
        database: &str,
        reason: &'static str,
        work: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.registry.with_locked(database, reason, || {
            catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(EngineError::Panicked))
        })
    }
}

struct Compaction {
    engine: Arc<Engine>,
    record: Arc<DatabaseRecord>,
    operation: Arc<Operation>,
    with_documents: bool,
    indexes: Vec<String>,
}

impl Compaction {
    fn run(self) -> Result<OperationStatus, EngineError> {
        let database = self.record.name.as_str();
        let compacted = match self.with_documents {
            true => self.engine.while_closed(database, LOCKED_REASON, || self.compact()),
            false => Ok(None),
        };
        match &compacted {
            Ok(Some(CompactOutcome { before_bytes, after_bytes, .. })) => {
                tracing::info!(database, before_bytes, after_bytes, "compaction completed");
            }
            Ok(None) => {}
            Err(EngineError::Stopped | EngineError::Storage(StorageError::Stopped)) => {
                tracing::info!(database, "compaction was stopped; the database is unchanged");
                return Err(EngineError::Stopped);
            }
            Err(error) => tracing::error!(database, %error, "compaction failed"),
        }
        compacted.map(|outcome| OperationStatus::Compacted(self.result(outcome)))
    }

    fn compact(&self) -> Result<Option<CompactOutcome>, EngineError> {
        let name = self.record.name.as_str();
        // It may have been deleted, or its settings changed, before its name was taken.
        let Some(record) = self.engine.catalog.record(name) else {
            let message = format!("Cannot compact database {name}, it doesn't exist.");
            return Err(EngineError::Refused { message });
        };
        let options = self.engine.files.opening_options_of(&record)?;
        let report = &mut |progress: &CompactProgress| show_progress(&self.operation, progress);
        let tables = documents::TABLES;
        let outcome = compact_in_place(&options.platform, &options.environment, tables, report)?;
        Ok(Some(outcome))
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

/// Shows how far an operation is that copies a database, and decides whether it continues.
pub(crate) fn show_progress(operation: &Operation, progress: &CompactProgress) -> ControlFlow<()> {
    operation.set_progress(OperationProgress::Compaction(progress_shape(progress)));
    match operation.should_stop() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
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
