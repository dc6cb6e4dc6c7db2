//! Removes the entries of a deleted database.

use std::ops::Bound;

use model::DatabaseId;
use storage::{Transaction, TreeName, WriteTransaction};

use crate::{error::ClusterError, schema};

/// Entries removed by one command, which keeps the command short.
const ENTRIES_MAX: usize = 10_000;

/// Removes some of the entries of a database; returns whether none is left. Due times of its values stay:
/// when they come, the values are missing and nothing happens.
pub(crate) fn remove_some(
    tx: &mut WriteTransaction,
    database: DatabaseId,
) -> Result<bool, ClusterError> {
    let mut left = ENTRIES_MAX;
    for tree in schema::trees_by_database() {
        let keys = keys_of(tx, &tree, database, left)?;
        left -= keys.len();
        let mut tree = tx.tree_mut(&tree)?;
        for key in keys {
            tree.delete(&key)?;
        }
    }
    Ok(left > 0)
}

fn keys_of(
    tx: &WriteTransaction,
    tree: &TreeName,
    database: DatabaseId,
    at_most: usize,
) -> Result<Vec<Vec<u8>>, ClusterError> {
    let mut keys = Vec::new();
    for entry in tx.tree(tree)?.range(Bound::Included(&database.0))?.take(at_most) {
        let (key, _) = entry?;
        if !key.starts_with(&database.0) {
            break;
        }
        keys.push(key);
    }
    Ok(keys)
}
