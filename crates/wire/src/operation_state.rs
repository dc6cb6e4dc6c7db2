//! The state of a long operation, as `/operations/state` shows it.

use serde_json::{Value, json};

use crate::{
    backup_result::{BackupResult, RestoreResult},
    smuggler_result::SmugglerResult,
};

/// The status of an operation.
#[derive(Clone, PartialEq, Debug)]
pub enum OperationStatus {
    /// It runs.
    InProgress,
    /// It has completed.
    Completed(BulkOperationResult),
    /// A database was compacted.
    Compacted(CompactionResult),
    /// An index was asked to merge its segments, of which it has none.
    IndexOptimized {
        /// The index.
        index: String,
        /// The result.
        message: String,
    },
    /// A database was exported or imported.
    Smuggled(Box<SmugglerResult>),
    /// A database was backed up.
    BackedUp(Box<BackupResult>),
    /// A database was restored.
    Restored(Box<RestoreResult>),
    /// Documents were reverted, or the configuration of revisions was enforced.
    Revised(RevisedResult),
    /// It failed.
    Faulted(OperationFailure),
    /// It was cancelled.
    Canceled,
}

/// The result of a bulk operation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BulkOperationResult {
    /// Items processed.
    pub total: u64,
    /// Documents among them.
    pub documents_processed: u64,
    /// Attachments among them.
    pub attachments_processed: u64,
    /// Commands among them that change counters.
    pub counters_processed: u64,
    /// Commands among them that change time series.
    pub time_series_processed: u64,
    /// The result for each document, if requested.
    pub details: Vec<BulkDetail>,
}

/// The result for one document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BulkDetail {
    /// It was deleted.
    Deleted {
        /// Its id.
        id: String,
        /// The etag of the deletion.
        etag: u64,
    },
    /// It was patched.
    Patched {
        /// Its id.
        id: String,
        /// Its new change vector, if it has one.
        change_vector: Option<String>,
        /// The status of the patch.
        status: &'static str,
    },
}

/// The result of compacting a database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompactionResult {
    /// The database.
    pub name: String,
    /// Size of its files before, in bytes.
    pub before_bytes: u64,
    /// Size of its files after, in bytes.
    pub after_bytes: u64,
    /// Trees and tables copied.
    pub trees: u64,
    /// A log of the steps; the last one is the message of the result.
    pub messages: Vec<String>,
    /// Requested indexes that do not exist.
    pub missing_indexes: Vec<String>,
}

/// The result of reverting documents, or of enforcing the configuration of revisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevisedResult {
    /// Which of the two.
    pub kind: RevisedKind,
    /// Revisions scanned.
    pub scanned_revisions: u64,
    /// Documents scanned.
    pub scanned_documents: u64,
    /// What could not be done, by document id.
    pub warnings: Vec<(String, String)>,
    /// Documents reverted, or revisions removed.
    pub changed: u64,
}

/// The kind of an operation on revisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RevisedKind {
    /// Reverts documents to a point in time.
    Revert,
    /// Removes the revisions that exceed the configuration.
    Enforce,
}

/// The progress of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OperationProgress {
    /// Of a bulk insert.
    BulkInsert(BulkInsertProgress),
    /// Of an operation whose total is known.
    Determinate {
        /// Items processed.
        processed: u64,
        /// Items to process.
        total: u64,
    },
    /// Of compacting a database.
    Compaction(CompactionProgress),
    /// Of exporting or importing a database.
    Smuggler(Box<SmugglerResult>),
}

/// The progress of a compaction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompactionProgress {
    /// The current step.
    pub message: String,
    /// The tree or table being copied.
    pub tree: Option<String>,
    /// Its entries copied so far.
    pub tree_progress: u64,
    /// Its entries in total.
    pub tree_total: u64,
    /// Trees and tables copied so far.
    pub global_progress: u64,
    /// Trees and tables in total.
    pub global_total: u64,
}

impl From<BulkInsertProgress> for OperationProgress {
    fn from(progress: BulkInsertProgress) -> OperationProgress {
        OperationProgress::BulkInsert(progress)
    }
}

/// Why an operation failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperationFailure {
    /// Full .NET type name.
    pub type_name: String,
    /// Short text.
    pub message: String,
    /// Full text.
    pub error: String,
    /// The HTTP status the failure would have as an answer.
    pub status_code: u16,
}

/// The progress of a bulk insert.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BulkInsertProgress {
    /// Items committed.
    pub processed: u64,
    /// Attachments among them.
    pub attachments_processed: u64,
    /// Commands among them that change counters.
    pub counters_processed: u64,
    /// Commands among them that change time series.
    pub time_series_processed: u64,
    /// Transactions committed.
    pub batch_count: u64,
    /// The id of the last document committed.
    pub last_processed_id: Option<String>,
}

impl OperationStatus {
    /// The value of `Status`.
    pub fn word(&self) -> &'static str {
        match self {
            OperationStatus::InProgress => "InProgress",
            OperationStatus::Completed(_)
            | OperationStatus::Compacted(_)
            | OperationStatus::IndexOptimized { .. }
            | OperationStatus::Smuggled(_)
            | OperationStatus::BackedUp(_)
            | OperationStatus::Restored(_)
            | OperationStatus::Revised(_) => "Completed",
            OperationStatus::Faulted(_) => "Faulted",
            OperationStatus::Canceled => "Canceled",
        }
    }
}

/// The complete state. Clients read `Result.$type`, so `$type` comes first everywhere.
pub fn operation_state(status: &OperationStatus, progress: Option<&OperationProgress>) -> Value {
    let result = match status {
        OperationStatus::InProgress | OperationStatus::Canceled => Value::Null,
        OperationStatus::Completed(result) => bulk_operation_result(result),
        OperationStatus::Compacted(result) => compaction_result(result),
        OperationStatus::IndexOptimized { index, message } => json!({
            "$type": "Raven.Client.ServerWide.Operations.IndexOptimizeResult, Raven.Client",
            "IndexName": index, "Message": message
        }),
        OperationStatus::Smuggled(result) => result.to_json(),
        OperationStatus::BackedUp(result) => result.to_json(),
        OperationStatus::Restored(result) => result.to_json(),
        OperationStatus::Revised(result) => revised_result(result),
        OperationStatus::Faulted(failure) => json!({
            "$type": "Raven.Client.Documents.Operations.OperationExceptionResult, Raven.Client",
            "Type": failure.type_name, "Message": failure.message, "Error": failure.error,
            "StatusCode": failure.status_code
        }),
    };
    let running = matches!(status, OperationStatus::InProgress);
    let progress = progress.filter(|_| running).map_or(Value::Null, progress_shape);
    json!({
        "$type": "Raven.Client.Documents.Operations.OperationState, Raven.Client",
        "Progress": progress, "Result": result, "Status": status.word()
    })
}

fn bulk_operation_result(result: &BulkOperationResult) -> Value {
    let details: Vec<_> = result.details.iter().map(bulk_detail).collect();
    json!({
        "$type": "Raven.Client.Documents.Operations.BulkOperationResult, Raven.Client",
        "Total": result.total, "Message": format!("Processed {} items.", group_digits(result.total)),
        "Details": details, "Query": null, "DocumentsProcessed": result.documents_processed,
        "AttachmentsProcessed": result.attachments_processed,
        "CountersProcessed": result.counters_processed,
        "TimeSeriesProcessed": result.time_series_processed
    })
}

fn bulk_detail(detail: &BulkDetail) -> Value {
    const OF: &str = "Raven.Client.Documents.Operations.BulkOperationResult";
    match detail {
        BulkDetail::Deleted { id, etag } => json!({
            "$type": format!("{OF}+DeleteDetails, Raven.Client"), "Id": id, "Etag": etag
        }),
        BulkDetail::Patched { id, change_vector, status } => json!({
            "$type": format!("{OF}+PatchDetails, Raven.Client"), "Id": id,
            "ChangeVector": change_vector, "Status": status
        }),
    }
}

fn revised_result(result: &RevisedResult) -> Value {
    let (name, changed) = match result.kind {
        RevisedKind::Revert => ("RevertResult", "RevertedDocuments"),
        RevisedKind::Enforce => ("EnforceConfigurationResult", "RemovedRevisions"),
    };
    let warnings = result.warnings.iter().map(|(id, text)| (id.clone(), text.clone().into()));
    json!({
        "$type": format!("Raven.Client.Documents.Operations.Revisions.{name}, Raven.Client"),
        "Message": null, "ScannedRevisions": result.scanned_revisions,
        "ScannedDocuments": result.scanned_documents,
        "Warnings": warnings.collect::<serde_json::Map<String, Value>>(),
        changed: result.changed
    })
}

const MIB: u64 = 1 << 20;

fn compaction_result(result: &CompactionResult) -> Value {
    let message = result.messages.last().map(String::as_str);
    let mut shape = compaction_shape(&result.name, message, false);
    shape["GlobalProgress"] = result.trees.into();
    shape["GlobalTotal"] = result.trees.into();
    shape["SizeBeforeCompactionInMb"] = (result.before_bytes / MIB).into();
    shape["SizeAfterCompactionInMb"] = (result.after_bytes / MIB).into();
    shape["Messages"] = result.messages.clone().into();
    if !result.missing_indexes.is_empty() {
        let indexes = result.missing_indexes.iter().map(|name| {
            let message = format!("Index '{name}' does not exist.");
            (name.clone(), compaction_shape(name, Some(&message), true))
        });
        shape["IndexesResults"] = Value::Object(indexes.collect());
    }
    shape
}

fn compaction_shape(name: &str, message: Option<&str>, skipped: bool) -> Value {
    let messages: Vec<&str> = message.into_iter().collect();
    json!({
        "$type": "Raven.Client.ServerWide.Operations.CompactionResult, Raven.Client",
        "Message": message, "TreeName": null, "TreeProgress": 0, "TreeTotal": 0,
        "GlobalProgress": 0, "GlobalTotal": 0, "Skipped": skipped, "Processed": true, "Name": name,
        "SizeBeforeCompactionInMb": 0, "SizeAfterCompactionInMb": 0, "Messages": messages
    })
}

fn progress_shape(progress: &OperationProgress) -> Value {
    match progress {
        OperationProgress::BulkInsert(progress) => bulk_insert_progress(progress),
        OperationProgress::Determinate { processed, total } => json!({
            "$type": "Raven.Client.Documents.Operations.DeterminateProgress, Raven.Client",
            "Processed": processed, "Total": total
        }),
        OperationProgress::Compaction(progress) => compaction_progress(progress),
        OperationProgress::Smuggler(result) => result.progress_json(),
    }
}

fn compaction_progress(progress: &CompactionProgress) -> Value {
    json!({
        "$type": "Raven.Client.ServerWide.Operations.CompactionProgress, Raven.Client",
        "Message": progress.message, "TreeName": progress.tree,
        "TreeProgress": progress.tree_progress, "TreeTotal": progress.tree_total,
        "GlobalProgress": progress.global_progress, "GlobalTotal": progress.global_total,
        "Skipped": false, "Processed": false
    })
}

fn bulk_insert_progress(progress: &BulkInsertProgress) -> Value {
    json!({
        "$type": "Raven.Client.Documents.Operations.BulkInsertProgress, Raven.Client",
        "Processed": progress.processed, "BatchCount": progress.batch_count,
        "LastProcessedId": progress.last_processed_id,
        "DocumentsProcessed": progress.processed - progress.attachments_processed
            - progress.counters_processed - progress.time_series_processed,
        "AttachmentsProcessed": progress.attachments_processed,
        "CountersProcessed": progress.counters_processed,
        "TimeSeriesProcessed": progress.time_series_processed
    })
}

/// `12,345`: digits in groups of three.
pub fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completed_operation_shows_its_result_with_the_type_first() {
        let result = BulkOperationResult { total: 2, documents_processed: 2, ..Default::default() };
        let state = operation_state(&OperationStatus::Completed(result), None);
        assert_eq!(
            state.to_string(),
            "{\"$type\":\"Raven.Client.Documents.Operations.OperationState, Raven.Client\",\
             \"Progress\":null,\"Result\":{\
             \"$type\":\"Raven.Client.Documents.Operations.BulkOperationResult, Raven.Client\",\
             \"Total\":2,\"Message\":\"Processed 2 items.\",\"Details\":[],\"Query\":null,\
             \"DocumentsProcessed\":2,\"AttachmentsProcessed\":0,\"CountersProcessed\":0,\
             \"TimeSeriesProcessed\":0},\"Status\":\"Completed\"}"
        );
    }

    #[test]
    fn details_have_the_type_of_what_was_done() {
        let deleted = BulkDetail::Deleted { id: "a".into(), etag: 5 };
        let status = "NotModified";
        let patched = BulkDetail::Patched { id: "b".into(), change_vector: None, status };
        let details = vec![deleted, patched];
        let result = BulkOperationResult { total: 2, details, ..Default::default() };
        let state = operation_state(&OperationStatus::Completed(result), None);
        assert_eq!(
            state["Result"]["Details"].to_string(),
            "[{\"$type\":\"Raven.Client.Documents.Operations.BulkOperationResult+DeleteDetails, \
             Raven.Client\",\"Id\":\"a\",\"Etag\":5},\
             {\"$type\":\"Raven.Client.Documents.Operations.BulkOperationResult+PatchDetails, \
             Raven.Client\",\"Id\":\"b\",\"ChangeVector\":null,\"Status\":\"NotModified\"}]"
        );
    }

    #[test]
    fn progress_is_shown_only_while_the_operation_runs() {
        let progress = BulkInsertProgress { processed: 3, batch_count: 1, ..Default::default() };
        let progress = OperationProgress::from(progress);
        let running = operation_state(&OperationStatus::InProgress, Some(&progress));
        assert_eq!(running["Progress"]["Processed"], 3);
        let ended = operation_state(&OperationStatus::Canceled, Some(&progress));
        assert_eq!(ended["Progress"], Value::Null);
        assert_eq!(ended["Status"], "Canceled");
    }

    #[test]
    fn a_compaction_reports_the_sizes_and_missing_indexes() {
        let result = CompactionResult {
            name: "db".into(),
            before_bytes: 40 << 20,
            after_bytes: 25 << 20,
            trees: 3,
            messages: vec!["began".into(), "ended".into()],
            missing_indexes: vec!["nope".into()],
        };
        let state = operation_state(&OperationStatus::Compacted(result), None);
        assert_eq!(state["Status"], "Completed");
        let result = &state["Result"];
        assert_eq!((&result["Name"], &result["Message"]), (&json!("db"), &json!("ended")));
        assert_eq!(result["SizeBeforeCompactionInMb"], 40);
        assert_eq!(result["SizeAfterCompactionInMb"], 25);
        assert_eq!((&result["GlobalProgress"], &result["GlobalTotal"]), (&json!(3), &json!(3)));
        assert_eq!(result["IndexesResults"]["nope"]["Skipped"], true);
    }

    #[test]
    fn a_compaction_shows_the_tree_that_it_copies() {
        let progress = OperationProgress::Compaction(CompactionProgress {
            message: "copying".into(),
            tree: Some("Docs".into()),
            tree_progress: 5,
            tree_total: 9,
            global_progress: 1,
            global_total: 4,
        });
        let state = operation_state(&OperationStatus::InProgress, Some(&progress));
        assert_eq!(
            state["Progress"].to_string(),
            "{\"$type\":\"Raven.Client.ServerWide.Operations.CompactionProgress, Raven.Client\",\
             \"Message\":\"copying\",\"TreeName\":\"Docs\",\"TreeProgress\":5,\"TreeTotal\":9,\
             \"GlobalProgress\":1,\"GlobalTotal\":4,\"Skipped\":false,\"Processed\":false}"
        );
    }

    #[test]
    fn documents_that_were_set_back_are_counted() {
        let result = RevisedResult {
            kind: RevisedKind::Revert,
            scanned_revisions: 7,
            scanned_documents: 3,
            warnings: vec![("r/5".into(), "oldest".into())],
            changed: 2,
        };
        let state = operation_state(&OperationStatus::Revised(result), None);
        assert_eq!(
            state["Result"].to_string(),
            "{\"$type\":\"Raven.Client.Documents.Operations.Revisions.RevertResult, Raven.Client\",\
             \"Message\":null,\"ScannedRevisions\":7,\"ScannedDocuments\":3,\
             \"Warnings\":{\"r/5\":\"oldest\"},\"RevertedDocuments\":2}"
        );
    }

    #[test]
    fn digits_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(group_digits(number), text);
        }
    }
}
