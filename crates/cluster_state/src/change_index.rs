//! The counter that numbers every change of the server-wide state; clients call it the raft index.
//!
//! It is not the index of a log entry: an entry carries many commands, and each needs an index of its own.
//! Writers name a value's index to say which version they have seen.

use storage::{StorageError, Transaction, WriteTransaction};

use crate::schema;

/// The index of the newest change; 0 before the first.
pub(crate) fn last_index(tx: &impl Transaction) -> Result<u64, StorageError> {
    let tree = tx.tree(&schema::counters())?;
    let last = tree.get(schema::LAST_INDEX)?.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
    Ok(last.map_or(0, u64::from_le_bytes))
}

/// Makes `index` that of the newest change.
pub(crate) fn store(tx: &mut WriteTransaction, index: u64) -> Result<(), StorageError> {
    tx.tree_mut(&schema::counters())?.put(schema::LAST_INDEX, &index.to_le_bytes())?;
    Ok(())
}
