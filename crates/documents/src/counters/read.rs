//! Reading counters: one, those of a document, how many there are.

use std::ops::Bound;

use model::{CounterName, DocumentId};
use storage::{Transaction, WriteTransaction};

use super::{
    row::{self, CounterRow},
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
/// Those of the storage; a damaged row.
pub fn counter<'t>(
    tx: &'t impl Transaction,
    id: &DocumentId,
    name: &CounterName,
) -> Result<Option<CounterRow<'t>>, DocumentError> {
    by_key(tx, &row::counter_key(id.lower_cased(), name.lower_cased()))
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
/// Those of the storage; each entry may be a damaged row.
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

/// How many counters all documents have together.
///
/// # Errors
/// Those of the storage.
pub fn counters_count(tx: &impl Transaction) -> Result<u64, DocumentError> {
    let Some(bytes) = tx.tree(&meta())?.get(tables::COUNT)? else { return Ok(0) };
    let bytes = bytes.try_into().map_err(|_| corrupt("the number of counters is damaged"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Writes how many counters there are.
pub(super) fn write_count(tx: &mut WriteTransaction, count: u64) -> Result<(), DocumentError> {
    tx.tree_mut(&meta())?.put(tables::COUNT, &count.to_le_bytes())?;
    Ok(())
}
