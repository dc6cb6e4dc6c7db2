//! The change log of compare exchange: the last change of each key, ordered by index. Readers that have
//! derived data from values find here which ones have changed.

use std::ops::Bound;

use model::DatabaseId;
use storage::{Transaction, WriteTransaction};

use crate::{
    error::ClusterError,
    schema::{self, DATABASE_BYTES, key_of},
};

const INDEX_BYTES: usize = 8;

/// The last change of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedValue {
    /// The index of the change.
    pub index: u64,
    /// The key, in lower case.
    pub key: String,
    /// Whether the value was deleted.
    pub is_deleted: bool,
}

/// Keys include the value's key, because one command may change several values under the same index.
fn change_key(database: DatabaseId, index: u64, lower_key: &str) -> Vec<u8> {
    key_of(database, &[&index.to_be_bytes()[..], lower_key.as_bytes()].concat())
}

pub(crate) fn note(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    index: u64,
    lower_key: &str,
    is_deleted: bool,
) -> Result<(), ClusterError> {
    let key = change_key(database, index, lower_key);
    tx.tree_mut(&schema::compare_exchange_changes())?.put(&key, &[u8::from(is_deleted)])?;
    Ok(())
}

pub(crate) fn forget(
    tx: &mut WriteTransaction,
    database: DatabaseId,
    index: u64,
    lower_key: &str,
) -> Result<(), ClusterError> {
    let key = change_key(database, index, lower_key);
    tx.tree_mut(&schema::compare_exchange_changes())?.delete(&key)?;
    Ok(())
}

/// The index of the last change that is kept; 0 if there is none.
pub(crate) fn last(tx: &impl Transaction, database: DatabaseId) -> Result<u64, ClusterError> {
    let end = change_key(database, u64::MAX, "");
    let changes = tx.tree(&schema::compare_exchange_changes())?;
    let Some(entry) = changes.range_back(Bound::Excluded(&end))?.next() else { return Ok(0) };
    let (key, flag) = entry?;
    match key.starts_with(&database.0) {
        true => Ok(read(&key, flag)?.index),
        false => Ok(0),
    }
}

/// The changes after an index, in order.
pub(crate) fn after<'t, T: Transaction>(
    tx: &'t T,
    database: DatabaseId,
    index: u64,
) -> Result<impl Iterator<Item = Result<ChangedValue, ClusterError>> + use<'t, T>, ClusterError> {
    let from = change_key(database, index.saturating_add(1), "");
    let rows = tx.tree(&schema::compare_exchange_changes())?.range(Bound::Included(&from))?;
    let is_within = move |row: &Result<(Vec<u8>, &[u8]), _>| {
        row.as_ref().map_or(true, |(key, _)| key.starts_with(&database.0))
    };
    Ok(rows.take_while(is_within).map(|row| {
        let (key, flag) = row?;
        read(&key, flag)
    }))
}

fn read(stored_key: &[u8], flag: &[u8]) -> Result<ChangedValue, ClusterError> {
    let damaged = ClusterError::Corrupt { detail: "a change of compare exchange is damaged" };
    let behind =
        stored_key.get(DATABASE_BYTES..).and_then(<[u8]>::split_first_chunk::<INDEX_BYTES>);
    let Some((index, key)) = behind else { return Err(damaged) };
    Ok(ChangedValue {
        index: u64::from_be_bytes(*index),
        key: String::from_utf8(key.to_vec()).map_err(|_| damaged)?,
        is_deleted: flag == [1],
    })
}
