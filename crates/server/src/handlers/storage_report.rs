//! The space used by a database, in the protocol's form: totals for the list of environments,
//! details for one of them. A database has one environment for its documents, and one for each
//! index.

use std::sync::Arc;

use database::Database;
use http::StatusCode;
use indexing::Index;
use serde_json::{Value, json};
use storage::{Environment, JournalReport, StorageReport, TableReport, TreeReport};
use wire::ErrorKind;

use crate::{answers::answer::Answer, api_error::ApiError, call::Call};

const DOCUMENTS: &str = "Documents";
const INDEX: &str = "Index";
/// The unit in which the protocol reports the free space of a journal file.
const JOURNAL_SECTOR_BYTES: u64 = 4096;

/// `GET /debug/storage/report`: the totals of every environment.
pub(crate) fn totals(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let path = database.environment().options().directory.display().to_string();
    let total = |one: &Reported| {
        let report = one.report()?;
        Ok(one.named(json!({
            "DataFile": data_file(&report),
            "Journals": journals(&report),
            "TempFiles": [],
            "CountOfTrees": report.trees.len(),
            "CountOfTables": report.tables.len(),
        })))
    };
    let results: Result<Vec<Value>, ApiError> = environments(database).iter().map(total).collect();
    let answer = json!({
        "@metadata": call.state.debug_metadata(), "BasePath": path, "Results": results?
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /debug/storage/all-environments/report`: everything about every environment.
pub(crate) fn all_environments(call: &Call) -> Result<Answer, ApiError> {
    let database = call.database()?;
    let all = environments(database);
    let shown: Result<Vec<Value>, ApiError> = all.iter().map(Reported::whole).collect();
    let answer = json!({
        "@metadata": call.state.debug_metadata(),
        "DatabaseName": database.record().name.as_str(),
        "Environments": shown?,
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /debug/storage/environment/report?name=&type=`: everything about one environment.
pub(crate) fn one_environment(call: &Call) -> Result<Answer, ApiError> {
    let query = call.query();
    let (name, kind) = (query.single_non_empty("name")?, query.single_non_empty("type")?);
    let is_it = |one: &&Reported| {
        kind.eq_ignore_ascii_case(one.kind) && name.eq_ignore_ascii_case(&one.name)
    };
    match environments(call.database()?).iter().find(is_it) {
        Some(found) => Ok(Answer::shape(StatusCode::OK, &found.whole()?)),
        None => Ok(Answer::empty(StatusCode::NOT_FOUND)),
    }
}

/// An environment of a database.
struct Reported {
    name: String,
    kind: &'static str,
    environment: Arc<Environment>,
}

/// The environment of the documents, then those of the indexes.
fn environments(database: &Database) -> Vec<Reported> {
    let of_documents = Reported {
        name: database.record().name.as_str().to_owned(),
        kind: DOCUMENTS,
        environment: Arc::clone(database.environment()),
    };
    let of_index = |index: &Arc<Index>| Reported {
        name: index.name().to_owned(),
        kind: INDEX,
        environment: Arc::clone(index.environment()),
    };
    let indexes = database.indexes().all();
    [of_documents].into_iter().chain(indexes.iter().map(of_index)).collect()
}

impl Reported {
    fn report(&self) -> Result<StorageReport, ApiError> {
        let report = self.environment.report();
        report.map_err(|error| ApiError::new(ErrorKind::StorageFailed, error.to_string()))
    }

    fn named(&self, report: Value) -> Value {
        json!({"Name": self.name, "Type": self.kind, "Report": report})
    }

    fn whole(&self) -> Result<Value, ApiError> {
        Ok(self.named(details(&self.report()?)))
    }
}

fn details(report: &StorageReport) -> Value {
    let page_bytes = report.statistics.page_bytes as u64;
    json!({
        "InMemoryState": {
            "CurrentReadTransactionId": report.statistics.transaction,
            "NextWriteTransactionId": report.statistics.transaction + 1,
            "OlderSnapshots": report.statistics.older_snapshots,
            "UnflushedBytes": report.statistics.unflushed_bytes,
        },
        "DataFile": data_file(report),
        "Journals": {"Journals": journals(report)},
        "TempBuffers": [],
        "Trees": report.trees.iter().map(|tree| tree_item(tree, page_bytes)).collect::<Vec<_>>(),
        "Tables": report.tables.iter().map(table_item).collect::<Vec<_>>(),
        "SystemBytes": report.system_pages * page_bytes,
        "RowAndRunBytes": report.row_and_run_pages * page_bytes,
    })
}

fn data_file(report: &StorageReport) -> Value {
    let statistics = &report.statistics;
    let used_pages = statistics.allocated_pages - statistics.free_pages;
    let used = (used_pages * statistics.page_bytes as u64).min(statistics.data_file_bytes);
    json!({
        "AllocatedSpaceInBytes": statistics.data_file_bytes,
        "UsedSpaceInBytes": used,
        "FreeSpaceInBytes": statistics.data_file_bytes - used,
    })
}

fn journals(report: &StorageReport) -> Vec<Value> {
    report.journals.iter().map(journal_item).collect()
}

fn journal_item(journal: &JournalReport) -> Value {
    json!({
        "Number": journal.number,
        "AllocatedSpaceInBytes": journal.bytes,
        "Available4Kbs": journal.unused_bytes / JOURNAL_SECTOR_BYTES,
        "LastTransaction": journal.last_transaction.unwrap_or(0),
        "Flushed": journal.last_transaction.is_none(),
    })
}

fn tree_item(tree: &TreeReport, page_bytes: u64) -> Value {
    let pages = tree.branch_pages + tree.leaf_pages;
    json!({
        "Type": if tree.has_fixed_keys { "FixedSizeTree" } else { "VariableSizeTree" },
        "Name": tree.name,
        "PageCount": pages,
        "NumberOfEntries": tree.entries,
        "BranchPages": tree.branch_pages,
        "LeafPages": tree.leaf_pages,
        "Depth": tree.depth,
        "AllocatedSpaceInBytes": pages * page_bytes,
    })
}

fn table_item(table: &TableReport) -> Value {
    json!({
        "Name": table.name,
        "NumberOfEntries": table.rows,
        "DataSizeInBytes": table.row_bytes,
    })
}
