//! Whether the files of an index belong to the documents that it indexes.
//!
//! ```text
//! tree `Index`
//!   Documents   point in the history of the documents' environment that the entries were made of
//!   Values      the same of compare exchange, in an index that reads it
//! ```
//!
//! Both change in the transaction of the entries. When the point is not in the environment's
//! history (the index belongs to another database, the database is an older copy, it was salvaged),
//! the entries are unusable: etags of the lost history will be assigned to other changes. Such
//! files are deleted, and the index is rebuilt.
//!
//! A point that lies ahead in the present history proves more: the documents have lost transactions, which
//! were durable before the index read them.

use cluster_state::{DatabaseValues, ValueSource};
use storage::{
    Environment, HistoryMismatch, HistoryPoint, ReadTransaction, StorageError, Transaction,
    WriteTransaction,
};

use crate::{
    error::IndexError,
    index_record::{self, index_tree},
};

const DOCUMENTS: &[u8] = b"Documents";
const VALUES: &[u8] = b"Values";

/// The sources of an index.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'s> {
    pub(crate) documents: &'s Environment,
    /// Compare exchange, if available.
    pub(crate) values: Option<&'s ValueSource>,
}

/// The points in history that one batch has seen.
#[derive(Clone, Copy, Default)]
pub(crate) struct SeenPoints {
    documents: Option<HistoryPoint>,
    values: Option<HistoryPoint>,
}

/// Why the files of an index are not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Foreign {
    pub(crate) because: String,
    /// Whether the documents lack transactions that the index has seen.
    pub(crate) documents_are_older: bool,
}

impl Sources<'_> {
    /// The points of these snapshots.
    pub(crate) fn points_of(
        &self,
        documents: &ReadTransaction,
        values: Option<&DatabaseValues>,
    ) -> Result<SeenPoints, IndexError> {
        let of_values = match (self.values, values) {
            (Some(source), Some(values)) => source.point_of(values)?,
            _ => None,
        };
        Ok(SeenPoints { documents: self.documents.point_of(documents)?, values: of_values })
    }

    /// Why the files of an index do not belong to these sources; `None` when they do.
    pub(crate) fn refuse(&self, files: &ReadTransaction) -> Result<Option<Foreign>, IndexError> {
        let foreign = |because| Foreign { because, documents_are_older: false };
        let documents = read(files, DOCUMENTS)?;
        if let Some(point) = documents
            && let Err(mismatch) = self.documents.vouches_for(&point)?
        {
            return Ok(Some(Foreign {
                because: format!("of the documents that it was made of, {mismatch}"),
                documents_are_older: mismatch == HistoryMismatch::Ahead,
            }));
        }
        let has_history = self.documents.point_of(&self.documents.read())?.is_some();
        if documents.is_none() && has_history && index_record::read_record(files)?.last_etag != 0 {
            return Ok(Some(foreign("it does not say which documents it was made of".to_owned())));
        }
        let Some((source, point)) = self.values.zip(read(files, VALUES)?) else { return Ok(None) };
        let mismatch = source.vouches_for(&point)?.err();
        Ok(mismatch.map(|mismatch| {
            foreign(format!("of the compare exchange that it has read, {mismatch}"))
        }))
    }
}

impl SeenPoints {
    /// Stores them with the entries.
    pub(crate) fn write(&self, tx: &mut WriteTransaction) -> Result<(), StorageError> {
        for (key, point) in [(DOCUMENTS, self.documents), (VALUES, self.values)] {
            if let Some(point) = point {
                tx.tree_mut(&index_tree())?.put(key, &point.to_bytes())?;
            }
        }
        Ok(())
    }
}

fn read(files: &ReadTransaction, key: &[u8]) -> Result<Option<HistoryPoint>, IndexError> {
    let tree = files.tree(&index_tree())?;
    let Some(bytes) = tree.get(key)? else { return Ok(None) };
    let damaged = || IndexError::corrupt("the point in the history of its sources is cut off");
    HistoryPoint::from_bytes(bytes).map(Some).ok_or_else(damaged)
}
