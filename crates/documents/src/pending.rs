//! How much of the log is after an etag: what a reader of the log has yet to process.

use model::{CollectionName, Etag};
use storage::Transaction;

use crate::{
    collections::{collection, collections},
    error::DocumentError,
    log::{self, EntryKind, EntryKinds, Selection},
};

/// The number of rows that are read; rows after them are only counted.
const ROWS_READ_MAX: usize = 1_000;
/// The number of changes that are counted, on some 2,000 pages.
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
/// Storage errors.
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
/// after many rows its parts are an estimate, which assumes that the rest holds as few tombstones
/// as possible.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn pending_changes(
    tx: &impl Transaction,
    name: Option<&CollectionName>,
    after: Etag,
) -> Result<ChangeCount, DocumentError> {
    let all = all_changes(tx, name)?;
    if after == Etag::ZERO {
        return Ok(all);
    }
    let changes = [Selection::of_collection(EntryKinds::DOCUMENTS, name)];
    let mut count = ChangeCount::default();
    for entry in log::read(tx, &changes, after)?.take(ROWS_READ_MAX) {
        match entry?.kind() {
            EntryKind::Document => count.documents += 1,
            _ => count.tombstones += 1,
        }
    }
    if count.documents + count.tombstones < ROWS_READ_MAX as u64 {
        return Ok(count);
    }
    let behind = log::count_after(tx, &changes, after, COUNTED_MAX)?;
    let behind = behind.saturating_sub(ROWS_READ_MAX as u64);
    let documents = behind.min(all.documents.saturating_sub(count.documents));
    count.documents += documents;
    count.tombstones += behind - documents;
    Ok(count)
}
