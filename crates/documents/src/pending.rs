//! How much of the log lies behind an etag: what a reader of the log has still to do.

use model::{CollectionName, Etag};
use storage::Transaction;

use crate::{
    collections::{collection, collections},
    error::DocumentError,
    read::{LogEntry, changes_after, log, log_of_collection},
};

/// Rows that are looked at; what lies behind them is only counted.
const ROWS_READ_MAX: usize = 1_000;
/// Changes that are counted; some 2,000 pages.
const COUNTED_MAX: u64 = 1_000_000;

/// Changes of a database or of one of its collections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCount {
    /// Documents that were written.
    pub documents: u64,
    /// Documents that were deleted.
    pub tombstones: u64,
}

/// Everything that is in the log, of one collection or of all.
///
/// # Errors
/// Those of the storage.
pub fn all_changes(
    tx: &impl Transaction,
    name: Option<&CollectionName>,
) -> Result<ChangeCount, DocumentError> {
    let known = match name {
        Some(name) => collection(tx, name)?.into_iter().collect(),
        None => collections(tx)?,
    };
    Ok(known.iter().fold(ChangeCount::default(), |count, collection| ChangeCount {
        documents: count.documents + collection.documents,
        tombstones: count.tombstones + collection.tombstones,
    }))
}

/// What is in the log after an etag, of one collection or of all. Up to a million the sum is exact;
/// behind many rows its parts are an estimate: that the rest holds as few tombstones as it can.
///
/// # Errors
/// Those of the storage; a damaged row.
pub fn pending_changes(
    tx: &impl Transaction,
    name: Option<&CollectionName>,
    after: Etag,
) -> Result<ChangeCount, DocumentError> {
    let all = all_changes(tx, name)?;
    if after == Etag::ZERO {
        return Ok(all);
    }
    let mut count = ChangeCount::default();
    let mut add = |entry: Result<LogEntry<'_>, DocumentError>| {
        match entry? {
            LogEntry::Document(_) => count.documents += 1,
            LogEntry::Tombstone(_) => count.tombstones += 1,
        }
        Ok::<_, DocumentError>(())
    };
    match name {
        Some(name) => {
            log_of_collection(tx, name, after)?.take(ROWS_READ_MAX).try_for_each(&mut add)?;
        }
        None => log(tx, after)?.take(ROWS_READ_MAX).try_for_each(&mut add)?,
    }
    if count.documents + count.tombstones < ROWS_READ_MAX as u64 {
        return Ok(count);
    }
    let behind = changes_after(tx, name, after, COUNTED_MAX)?.saturating_sub(ROWS_READ_MAX as u64);
    let documents = behind.min(all.documents.saturating_sub(count.documents));
    count.documents += documents;
    count.tombstones += behind - documents;
    Ok(count)
}
