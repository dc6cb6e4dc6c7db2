//! What a database spends its space on, in the protocol's shape: totals for the list of environments,
//! everything for one of them. A database has one environment so far: its documents.

use database::Database;
use http::StatusCode;
use serde_json::{Value, json};
use storage::{JournalReport, StorageReport, TableReport, TreeReport};
use wire::{ErrorKind, ProtocolError};

use crate::{answer::Answer, call::Call};

const DOCUMENTS: &str = "Documents";
/// The unit in which the protocol counts the room that is left in a journal file.
const JOURNAL_SECTOR_BYTES: u64 = 4096;

/// `GET /debug/storage/report`: the totals of every environment.
pub(crate) fn totals(call: &Call) -> Result<Answer, ProtocolError> {
    let database = call.database()?;
    let report = report_of(database)?;
    let path = database.environment().options().directory.display().to_string();
    let answer = json!({
        "@metadata": call.state.debug_metadata(),
        "BasePath": path,
        "Results": [named(database, json!({
            "DataFile": data_file(&report),
            "Journals": journals(&report),
            "TempFiles": [],
            "CountOfTrees": report.trees.len(),
            "CountOfTables": report.tables.len(),
        }))],
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /debug/storage/all-environments/report`: everything about every environment.
pub(crate) fn all_environments(call: &Call) -> Result<Answer, ProtocolError> {
    let database = call.database()?;
    let answer = json!({
        "@metadata": call.state.debug_metadata(),
        "DatabaseName": database.record().name.as_str(),
        "Environments": [named(database, details(&report_of(database)?))],
    });
    Ok(Answer::shape(StatusCode::OK, &answer))
}

/// `GET /debug/storage/environment/report?name=&type=`: everything about one environment.
pub(crate) fn one_environment(call: &Call) -> Result<Answer, ProtocolError> {
    let query = call.query();
    let (name, kind) = (query.single_non_empty("name")?, query.single_non_empty("type")?);
    let database = call.database()?;
    let is_known = kind.eq_ignore_ascii_case(DOCUMENTS)
        && name.eq_ignore_ascii_case(database.record().name.as_str());
    if !is_known {
        return Ok(Answer::empty(StatusCode::NOT_FOUND));
    }
    Ok(Answer::shape(StatusCode::OK, &named(database, details(&report_of(database)?))))
}

fn report_of(database: &Database) -> Result<StorageReport, ProtocolError> {
    let report = database.environment().report();
    report.map_err(|error| ProtocolError::new(ErrorKind::StorageFailed, error.to_string()))
}

fn named(database: &Database, report: Value) -> Value {
    json!({"Name": database.record().name.as_str(), "Type": DOCUMENTS, "Report": report})
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
