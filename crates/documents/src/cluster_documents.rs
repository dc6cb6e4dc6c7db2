//! The documents of cluster-wide transactions, executed exactly once and in order.
//!
//! ```text
//! tree Meta   "cluster-transactions"   version 1 (= 1), id of the group of nodes 16,
//!                                      index of the last executed transaction 8
//! ```
//!
//! The mark changes in the transaction of the documents, so whoever executes a transaction again after
//! a crash finds that it is done. The id tells marks of an earlier life of the files apart.

use blittable::BlittableBuf;
use model::{ChangeVector, CollectionName, DatabaseId, DocumentFlags, DocumentId};
use platform::Timestamp;
use storage::Transaction;

use crate::{
    error::{DocumentError, corrupt},
    metadata,
    requests::{ExpectedVersion, RequestedId},
    schema::meta,
    write::{DocumentWriter, Marks},
};

const MARK: &[u8] = b"cluster-transactions";
const VERSION: u8 = 1;
const MARK_BYTES: usize = 25;

/// The documents of one cluster-wide transaction.
#[derive(Clone, Debug)]
pub struct ClusterDocuments {
    /// The group of nodes whose transactions are counted.
    pub group: DatabaseId,
    /// The index of the transaction.
    pub index: u64,
    /// The one that must have been executed before it; `None` when all before it were.
    pub after: Option<u64>,
    /// When its documents are modified, in ticks of UTC.
    pub ticks: i64,
    /// What is done, in order.
    pub changes: Vec<ClusterDocument>,
}

/// A change of one document.
#[derive(Clone, Debug)]
pub struct ClusterDocument {
    /// Which one.
    pub id: DocumentId,
    /// Its new version.
    pub change_vector: ChangeVector,
    /// The document; `None` deletes it.
    pub body: Option<BlittableBuf>,
}

impl ClusterDocuments {
    /// About how many bytes they bring to a transaction.
    pub fn size_bytes(&self) -> usize {
        /// Ids, rows' headers and index entries, roughly.
        const OVERHEAD_BYTES: usize = 256;
        let of_one = |change: &ClusterDocument| {
            OVERHEAD_BYTES + change.body.as_ref().map_or(0, |body| body.as_bytes().len())
        };
        self.changes.iter().map(of_one).sum()
    }
}

/// Refuses a document that no transaction could store.
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

/// The collection that a document says it belongs to.
///
/// # Errors
/// Those of [`check_document`].
pub fn collection_of_document(body: &BlittableBuf) -> Result<CollectionName, DocumentError> {
    Ok(metadata::accept(body, None, "", 0)?.collection)
}

/// The index of the last transaction of this group that was executed; 0 before the first.
///
/// # Errors
/// Those of the storage; a damaged mark.
pub fn executed_transaction(
    tx: &impl Transaction,
    group: DatabaseId,
) -> Result<u64, DocumentError> {
    let Some(mark) = tx.tree(&meta())?.get(MARK)? else { return Ok(0) };
    let Ok(mark) = <&[u8; MARK_BYTES]>::try_from(mark) else {
        return Err(corrupt("the mark of the cluster's transactions has another length"));
    };
    if mark[0] != VERSION {
        return Err(corrupt("the mark of the cluster's transactions has an unknown version"));
    }
    let mut index = [0; 8];
    index.copy_from_slice(&mark[17..]);
    Ok(if mark[1..17] == group.0 { u64::from_le_bytes(index) } else { 0 })
}

impl DocumentWriter<'_> {
    /// Executes a transaction unless that was done before; whether it is done now.
    ///
    /// # Errors
    /// [`DocumentError::OutOfTurn`] when one before it is missing; those of putting and deleting. The
    /// transaction has to be rolled back then.
    pub fn execute_cluster_documents(
        &mut self,
        documents: &ClusterDocuments,
    ) -> Result<bool, DocumentError> {
        let executed = executed_transaction(self.transaction(), documents.group)?;
        if documents.index <= executed {
            return Ok(false);
        }
        if documents.after.is_some_and(|after| after != executed) {
            return Err(DocumentError::OutOfTurn { index: documents.index, executed });
        }
        let now = self.set_now(Timestamp::from_ticks(documents.ticks));
        for change in &documents.changes {
            match &change.body {
                Some(body) => self.put_of_cluster(change, body)?,
                None => {
                    self.contain(&change.change_vector);
                    self.delete(&change.id, &ExpectedVersion::Any)?;
                }
            }
        }
        self.set_now(now);
        let index = documents.index.to_le_bytes();
        let mark = [&[VERSION][..], &documents.group.0, &index].concat();
        self.tx.tree_mut(&meta())?.put(MARK, &mark)?;
        Ok(true)
    }

    /// A transaction of the cluster has been agreed on: a document of another collection gives way.
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
        match self.put_marked(&id, &ExpectedVersion::Any, body, marks()) {
            Err(DocumentError::CollectionMismatch { .. }) => {
                self.delete(&change.id, &ExpectedVersion::Any)?;
                self.put_marked(&id, &ExpectedVersion::Any, body, marks()).map(drop)
            }
            done => done.map(drop),
        }
    }
}
