//! Reading counters: one, those of a document, and how many there are.

use std::ops::Bound;

use model::{CounterName, DocumentId};
use storage::{Transaction, WriteTransaction};

use super::{
    row::{self, CounterRow, CounterTombstoneRow},
    tables::{self, COUNTERS},
};
use crate::{
    error::{DocumentError, corrupt},
    read::with_prefix,
    schema::meta,
};

/// A counter of a document.
///
/// # Errors
/// Storage errors; a damaged row.
pub fn counter<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
    name: &CounterName,
) -> Result<Option<CounterRow<'t>>, DocumentError> {
    by_key(tx, &row::counter_key(id.lower_cased(), name.lower_cased()))
}

/// The tombstone of a counter. There may be one beside a counter, of values that were received and deleted.
pub(super) fn counter_tombstone<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
    name: &CounterName,
) -> Result<Option<CounterTombstoneRow<'t>>, DocumentError> {
    let key = row::tombstone_key(id.lower_cased(), name.lower_cased());
    match tx.table(&COUNTERS).get(&key)? {
        Some((_, bytes)) => row::read_tombstone(bytes).map(Some),
        None => Ok(None),
    }
}

pub(super) fn by_key<'t>(
    tx: &'t impl Transaction,
    key: &[u8],
) -> Result<Option<CounterRow<'t>>, DocumentError> {
    match tx.table(&COUNTERS).get(key)? {
        Some((_, bytes)) => row::read(bytes).map(Some),
        None => Ok(None),
    }
}

/// The counters of a document in the order of their lower-cased names.
///
/// # Errors
/// Storage errors; each entry may be a damaged row.
pub fn counters_of<'t, T: Transaction>(
    tx: &'t T,
    id: &DocumentId,
) -> Result<impl Iterator<Item = Result<CounterRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    of_document(tx, id.lower_cased())
}

pub(super) fn of_document<'t, T: Transaction>(
    tx: &'t T,
    lower_id: &str,
) -> Result<impl Iterator<Item = Result<CounterRow<'t>, DocumentError>> + use<'t, T>, DocumentError>
{
    let prefix = row::counter_key(lower_id, "");
    let rows = tx.table(&COUNTERS).range(Bound::Included(&prefix))?;
    Ok(with_prefix(rows, prefix).map(|row| row::read(row?)))
}

/// The number of counters of all documents.
///
/// # Errors
/// Storage errors.
pub fn counters_count(tx: &impl Transaction) -> Result<u64, DocumentError> {
    Ok(number(tx, tables::COUNT)?.unwrap_or(0))
}

/// The number of documents that have counters.
///
/// # Errors
/// Storage errors.
pub fn counted_documents(tx: &impl Transaction) -> Result<u64, DocumentError> {
    match number(tx, tables::OWNERS)? {
        Some(count) => Ok(count),
        None if counters_count(tx)? == 0 => Ok(0),
        // The counters are older than this record, and there was no room to write it.
        None => count_owners(tx),
    }
}

/// Whether the number of documents that have counters is not stored, because the counters are older than it.
///
/// # Errors
/// Storage errors.
pub fn lacks_counted_documents(tx: &impl Transaction) -> Result<bool, DocumentError> {
    Ok(number(tx, tables::OWNERS)?.is_none() && 0 < counters_count(tx)?)
}

/// Stores the number of documents that have counters, so that statistics need not count them.
///
/// # Errors
/// Storage errors.
pub fn store_counted_documents(tx: &mut WriteTransaction) -> Result<(), DocumentError> {
    let counts = (counters_count(tx)?, counted_documents(tx)?);
    write_counts(tx, counts.0, counts.1)
}

/// Looks up one counter of each document that has any.
pub(super) fn count_owners(tx: &impl Transaction) -> Result<u64, DocumentError> {
    let mut owners = 0;
    let mut from = row::FIRST_COUNTER_KEY.to_vec();
    while let Some(entry) = tx.table(&COUNTERS).range(Bound::Included(&from))?.next() {
        let (key, _) = entry?;
        if !row::is_counter_key(&key) {
            break;
        }
        owners += 1;
        from = row::behind_counters_of(&key);
    }
    Ok(owners)
}

/// Whether a document has any counter.
pub(super) fn has_counters(tx: &impl Transaction, id: &DocumentId) -> Result<bool, DocumentError> {
    Ok(counters_of(tx, id)?.next().transpose()?.is_some())
}

/// Writes the number of counters and of documents that have any.
pub(super) fn write_counts(
    tx: &mut WriteTransaction,
    counters: u64,
    owners: u64,
) -> Result<(), DocumentError> {
    let mut meta = tx.tree_mut(&meta())?;
    meta.put(tables::COUNT, &counters.to_le_bytes())?;
    meta.put(tables::OWNERS, &owners.to_le_bytes())?;
    Ok(())
}

fn number(tx: &impl Transaction, record: &[u8]) -> Result<Option<u64>, DocumentError> {
    let Some(bytes) = tx.tree(&meta())?.get(record)? else { return Ok(None) };
    let bytes = bytes.try_into().map_err(|_| corrupt("the number of counters is damaged"))?;
    Ok(Some(u64::from_le_bytes(bytes)))
}
