//! Deleted databases of which something is still to be removed.
//!
//! Deleting a database writes a row in each of two places, in the transaction that removes its record. Each row
//! goes when its work is done, so a deletion that is interrupted can be found and finished by its name.
//!
//! - What all nodes share: the entries of the database, such as its compare exchange values. A row of
//!   `Cluster/Deleted` says that they are still to be removed, by commands.
//! - What this node has: the files of the database. A row of `Deletions` says that they are still to be removed, and
//!   the row of `DeletedEnvironments` says which files those are. Applying a command never reads these rows, so
//!   its outcome is the same on every node.

use std::{ops::Bound, sync::Arc};

use model::{DatabaseId, DatabaseRecord};
use storage::{HistoryPoint, Transaction, WriteTransaction};

use crate::{
    applying::Applying,
    database_record::{read_record, write_record},
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    schema,
};

/// A deleted database whose entries in the shared state are still to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedDatabase {
    /// The topology id of its record, which is never reused.
    pub database: DatabaseId,
    /// The index of the deletion.
    pub index: u64,
    /// Its name, in lower case.
    pub key: String,
}

/// A deleted database whose files are still to be removed from this node.
#[derive(Clone, Debug)]
pub struct PendingDeletion {
    /// The index of the deletion.
    pub index: u64,
    /// The record of the deleted database.
    pub record: Arc<DatabaseRecord>,
    /// The identity of its environment on this node; `None` if nothing was ever written to it here.
    pub environment: Option<u128>,
}

/// Notes what is to be removed of a database whose record is deleted.
pub(crate) fn begin(
    applying: &mut Applying<'_>,
    record: &DatabaseRecord,
    removes_files: bool,
) -> Result<(), ClusterError> {
    let (tx, index) = (&mut *applying.tx, applying.index);
    let key = record.name.lower_cased();
    let mut row = Encoder::default();
    row.u64(index);
    row.text(key);
    tx.tree_mut(&schema::deleted_databases())?.put(&record.topology_id.0, &row.finish())?;
    if removes_files {
        note_files_under(tx, index, record)?;
    }
    Ok(())
}

/// Notes that the files of a database are to be removed from this node, which was not notified of its deletion.
pub(crate) fn note_files(
    tx: &mut WriteTransaction,
    record: &DatabaseRecord,
) -> Result<(), ClusterError> {
    // No deletion has this index: it is that of a change of the record.
    note_files_under(tx, record.etag, record)
}

pub(crate) fn note_files_under(
    tx: &mut WriteTransaction,
    index: u64,
    record: &DatabaseRecord,
) -> Result<(), ClusterError> {
    let (index, key) = (index.to_be_bytes(), record.name.lower_cased());
    tx.tree_mut(&schema::deletions())?.put(&index, &write_record(record))?;
    // The next database of the name starts without the files of this one.
    let point = tx.tree(&schema::environments())?.get(key.as_bytes())?.map(<[u8]>::to_vec);
    let point = point.unwrap_or_default();
    tx.tree_mut(&schema::deleted_environments())?.put(&index, &point)?;
    forget_files(tx, key)
}

/// Forgets which files belong to a database, so that the next one of its name starts without any.
pub(crate) fn forget_files(tx: &mut WriteTransaction, key: &str) -> Result<(), ClusterError> {
    tx.tree_mut(&schema::environments())?.delete(key.as_bytes())?;
    Ok(())
}

/// Notes that a deleted database has no entries left in the shared state.
pub(crate) fn entries_removed(
    tx: &mut WriteTransaction,
    database: DatabaseId,
) -> Result<(), ClusterError> {
    tx.tree_mut(&schema::deleted_databases())?.delete(&database.0)?;
    Ok(())
}

/// The deleted databases whose entries are still to be removed.
pub(crate) fn with_entries(tx: &impl Transaction) -> Result<Vec<DeletedDatabase>, ClusterError> {
    let mut deleted = Vec::new();
    for row in tx.tree(&schema::deleted_databases())?.range(Bound::Unbounded)? {
        let (id, row) = row?;
        let id = <[u8; 16]>::try_from(&id[..]);
        let id = id.map_err(|_| Malformed("a deleted database has no id"))?;
        let mut row = Decoder::new(row);
        let (index, key) = (row.u64()?, row.text()?.to_owned());
        row.end()?;
        deleted.push(DeletedDatabase { database: DatabaseId(id), index, key });
    }
    Ok(deleted)
}

/// The deleted databases whose files are still to be removed from this node, oldest first. A row that cannot be
/// read is an error of its own.
///
/// # Errors
/// Storage errors.
pub fn pending_deletions(
    tx: &impl Transaction,
) -> Result<Vec<Result<PendingDeletion, ClusterError>>, ClusterError> {
    let mut pending = Vec::new();
    for row in tx.tree(&schema::deletions())?.range(Bound::Unbounded)? {
        let (key, row) = row?;
        pending.push(read_pending(tx, &key, row));
    }
    Ok(pending)
}

fn read_pending(
    tx: &impl Transaction,
    key: &[u8],
    row: &[u8],
) -> Result<PendingDeletion, ClusterError> {
    let damaged = || {
        let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        ClusterError::CorruptRow { tree: "Deletions", key }
    };
    let index = u64::from_be_bytes(<[u8; 8]>::try_from(key).map_err(|_| damaged())?);
    let record = Arc::new(read_record(row).ok_or_else(damaged)?);
    let environments = tx.tree(&schema::environments())?;
    let point = match tx.tree(&schema::deleted_environments())?.get(key)? {
        Some(point) => Some(point).filter(|point| !point.is_empty()),
        // Earlier builds left it under the name until the files were removed.
        None => environments.get(record.name.lower_cased().as_bytes())?,
    };
    let read = |point: &[u8]| HistoryPoint::from_bytes(point).ok_or_else(damaged);
    let environment = point.map(read).transpose()?.map(|point| point.environment);
    Ok(PendingDeletion { index, record, environment })
}

/// Notes that the files of a deleted database are gone from this node, or never were here.
///
/// # Errors
/// Storage errors.
pub fn end_deletion(
    tx: &mut WriteTransaction,
    deletion: &PendingDeletion,
) -> Result<(), ClusterError> {
    let index = deletion.index.to_be_bytes();
    tx.tree_mut(&schema::deletions())?.delete(&index)?;
    let is_of_earlier_build = tx.tree(&schema::deleted_environments())?.get(&index)?.is_none();
    tx.tree_mut(&schema::deleted_environments())?.delete(&index)?;
    if is_of_earlier_build {
        forget_files(tx, deletion.record.name.lower_cased())?;
    }
    Ok(())
}
