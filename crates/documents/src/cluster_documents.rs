//! The documents of cluster-wide transactions, executed exactly once and in order.
//!
//! ```text
//! tree Meta   "cluster-transactions"   version 1 (= 2), id of the group of nodes 16,
//!                                      index of the last executed transaction 8,
//!                                      point in the history of the machine that it was read from 32
//! ```
//!
//! Version 1 has no point; all zeroes stand for none.
//!
//! Nodes execute a transaction at different times, so what one of them has written over a document of it may arrive at
//! another one before that: such a document is left as it is.
//!
//! The mark changes in the transaction of the documents, so a node that executes a transaction again after
//! a crash finds that it is done. The id tells marks of an earlier life of the files apart.
//!
//! What the cluster has agreed on must not be refused any more, whatever memory it takes:
//! everything that comes after it would wait forever. So a transaction that may be too large is
//! tried in a dry run before it is agreed on: executed as any batch is, and undone.

use blittable::BlittableBuf;
use model::{ChangeVector, DatabaseId, DocumentFlags, DocumentId};
use platform::Timestamp;
use storage::{HistoryPoint, StorageError, Transaction, WriteTransaction};

use crate::{
    conflicts::conflicts_of,
    error::{DocumentError, corrupt},
    metadata, read,
    requests::{ExpectedVersion, RequestedId},
    schema::meta,
    write::{DocumentWriter, Marks, parsed},
};

const MARK: &[u8] = b"cluster-transactions";
const VERSION: u8 = 2;
const VERSION_WITHOUT_POINT: u8 = 1;
const BYTES_WITHOUT_POINT: usize = 25;
const MARK_BYTES: usize = BYTES_WITHOUT_POINT + HistoryPoint::BYTES;

/// The documents of one cluster-wide transaction.
#[derive(Clone, Debug)]
pub struct ClusterDocuments {
    /// The group of nodes that numbers the transactions.
    pub group: DatabaseId,
    /// The index of the transaction.
    pub index: u64,
    /// The transaction that must have been executed before it; `None` when no earlier one is
    /// outstanding.
    pub after: Option<u64>,
    /// The point in the history of the machine that it was read from.
    pub read_at: Option<HistoryPoint>,
    /// The modification time of its documents, in ticks of UTC.
    pub ticks: i64,
    /// The changes, in order.
    pub changes: Vec<ClusterDocument>,
    /// Whether this is a dry run: not agreed on yet, and rolled back afterwards.
    pub is_dry_run: bool,
}

/// A change of one document.
#[derive(Clone, Debug)]
pub struct ClusterDocument {
    /// The id of the document.
    pub id: DocumentId,
    /// The version that the transaction assigns to it.
    pub change_vector: ChangeVector,
    /// The document; `None` deletes it.
    pub body: Option<BlittableBuf>,
    /// The version that the node which made the transaction replaces; empty if it had none. `None` if no other node writes
    /// the document.
    pub replaces: Option<ChangeVector>,
}

impl ClusterDocuments {
    /// Approximate bytes that they add to a transaction.
    pub fn size_bytes(&self) -> usize {
        /// Ids, row headers and index entries, approximately.
        const OVERHEAD_BYTES: usize = 256;
        let of_one = |change: &ClusterDocument| {
            OVERHEAD_BYTES + change.body.as_ref().map_or(0, |body| body.as_bytes().len())
        };
        self.changes.iter().map(of_one).sum()
    }
}

/// Rejects a document that no transaction could store.
///
/// # Errors
/// Those of [`DocumentWriter::put`] that come from the document itself.
pub fn check_document(
    id: &DocumentId,
    body: &BlittableBuf,
    now_ticks: i64,
) -> Result<(), DocumentError> {
    metadata::accept(body, None, id.as_str(), now_ticks).map(drop)
}

/// How far a database has executed its cluster's transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutedTransactions {
    /// The index of the last executed transaction; 0 before the first.
    pub index: u64,
    /// The point in the history of the machine that it was read from, when that is known.
    pub read_at: Option<HistoryPoint>,
}

/// The last transaction of this group that the documents contain.
///
/// # Errors
/// Storage errors; a damaged mark.
pub fn executed_transactions(
    tx: &impl Transaction,
    group: DatabaseId,
) -> Result<ExecutedTransactions, DocumentError> {
    let Some(mark) = tx.tree(&meta())?.get(MARK)? else {
        return Ok(ExecutedTransactions::default());
    };
    let known = [(VERSION, MARK_BYTES), (VERSION_WITHOUT_POINT, BYTES_WITHOUT_POINT)];
    let is_known = mark.first().is_some_and(|version| known.contains(&(*version, mark.len())));
    let Some((head, point)) = mark.split_at_checked(BYTES_WITHOUT_POINT).filter(|_| is_known)
    else {
        return Err(corrupt("the mark of the cluster's transactions is of no known form"));
    };
    if head[1..17] != group.0 {
        return Ok(ExecutedTransactions::default());
    }
    let mut index = [0; 8];
    index.copy_from_slice(&head[17..]);
    let read_at = HistoryPoint::from_bytes(point).filter(|point| point.environment != 0);
    Ok(ExecutedTransactions { index: u64::from_le_bytes(index), read_at })
}

/// Records the last transaction of this group that the documents contain.
///
/// # Errors
/// Storage errors.
pub fn set_executed_transactions(
    tx: &mut WriteTransaction,
    group: DatabaseId,
    executed: ExecutedTransactions,
) -> Result<(), StorageError> {
    let point = executed.read_at.map_or([0; HistoryPoint::BYTES], HistoryPoint::to_bytes);
    let mark = [&[VERSION][..], &group.0, &executed.index.to_le_bytes(), &point].concat();
    tx.tree_mut(&meta())?.put(MARK, &mark).map(drop)
}

impl DocumentWriter<'_> {
    /// Executes a transaction unless it was executed before; returns whether it was executed now.
    ///
    /// # Errors
    /// [`DocumentError::OutOfTurn`] when one before it is missing; those of putting and deleting. The
    /// transaction has to be rolled back then.
    pub fn execute_cluster_documents(
        &mut self,
        documents: &ClusterDocuments,
    ) -> Result<bool, DocumentError> {
        let executed = executed_transactions(self.transaction(), documents.group)?.index;
        if documents.index <= executed {
            return Ok(false);
        }
        if documents.after.is_some_and(|after| after != executed) {
            return Err(DocumentError::OutOfTurn { index: documents.index, executed });
        }
        let now = self.set_now(Timestamp::from_ticks(documents.ticks));
        for change in &documents.changes {
            self.merge_change_vector(&change.change_vector);
            if !documents.is_dry_run
                && (self.has_arrived(change, documents.group)?
                    || self.put_over_concurrent(change, documents.ticks)?)
            {
                continue;
            }
            match &change.body {
                Some(body) => self.put_of_cluster(change, body)?,
                None => drop(self.delete(&change.id, &ExpectedVersion::Any)?),
            }
        }
        self.set_now(now);
        let executed = ExecutedTransactions { index: documents.index, read_at: documents.read_at };
        set_executed_transactions(self.tx, documents.group, executed)?;
        Ok(true)
    }

    /// Whether what the transaction writes, or something that was written over it, has arrived here before the transaction:
    /// another node was faster.
    fn has_arrived(
        &self,
        change: &ClusterDocument,
        group: DatabaseId,
    ) -> Result<bool, DocumentError> {
        if !self.has_sources {
            return Ok(false);
        }
        let number = change.change_vector.etag_of(group);
        for row in conflicts_of(self.transaction(), &change.id)? {
            let version = parsed(row.change_vector())?;
            // The transaction is above what it is in conflict with.
            if number <= version.etag_of(group) && version != change.change_vector {
                return Ok(true);
            }
        }
        let document = read::get(self.transaction(), &change.id)?;
        let tombstone = match &document {
            Some(_) => None,
            None => read::get_tombstone(self.transaction(), &change.id)?,
        };
        let version = document.map(|row| row.change_vector());
        match version.or(tombstone.map(|row| row.change_vector())) {
            Some(version) => Ok(number <= parsed(version)?.etag_of(group)),
            None => Ok(false),
        }
    }

    /// The cluster has agreed on the transaction, so a document of the same id in another
    /// collection is deleted first.
    fn put_of_cluster(
        &mut self,
        change: &ClusterDocument,
        body: &BlittableBuf,
    ) -> Result<(), DocumentError> {
        let id = RequestedId::Exactly(change.id.clone());
        let marks = || Marks {
            change_vector: Some(change.change_vector.clone()),
            ..Marks::with(DocumentFlags::FROM_CLUSTER_TRANSACTION)
        };
        self.with_any_size(|writer| {
            match writer.put_marked(&id, &ExpectedVersion::Any, body, marks()) {
                Err(DocumentError::CollectionMismatch { .. }) => {
                    writer.delete(&change.id, &ExpectedVersion::Any)?;
                    writer.put_marked(&id, &ExpectedVersion::Any, body, marks()).map(drop)
                }
                done => done.map(drop),
            }
        })
    }
}
