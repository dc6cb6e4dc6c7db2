//! The whole state as rows, for a node that lags too far behind to be sent the log.
//!
//! ```text
//! a row    number of the tree 1, key after its length 4, value after its length 4
//! ```
//!
//! Only what all nodes share is part of it: the files of databases belong to a node.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use model::DatabaseRecord;
use storage::{ReadTransaction, Transaction, TreeName, WriteTransaction};

use crate::{
    change_index, deletions,
    encoding::{Decoder, Encoder},
    error::ClusterError,
    record_command,
    records::{ChangedRecord, Changes},
    schema,
};

/// The trees of an image, by number.
fn trees() -> [TreeName; 16] {
    [
        schema::compare_exchange(),
        schema::compare_exchange_changes(),
        schema::compare_exchange_deleted(),
        schema::compare_exchange_due(),
        schema::identities(),
        schema::transactions(),
        schema::requests(),
        schema::requests_by_index(),
        schema::subscriptions(),
        schema::subscription_names(),
        schema::subscription_progress(),
        schema::counts(),
        schema::deleted_databases(),
        schema::counters(),
        schema::databases(),
        schema::server_values(),
    ]
}

/// Reads an image piece by piece.
#[derive(Debug, Default)]
pub struct ImageReader {
    tree: usize,
    /// The last key that was read of the tree.
    after: Option<Vec<u8>>,
}

impl ImageReader {
    /// The next rows: as many as fit into `bytes_max`, at least one. `None` after the last row. All pieces must be read
    /// from one transaction.
    ///
    /// # Errors
    /// Storage errors.
    pub fn next_piece(
        &mut self,
        tx: &ReadTransaction,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, ClusterError> {
        let mut piece = Encoder::default();
        while let Some(name) = trees().get(self.tree) {
            let number = u8::try_from(self.tree).expect("there are few trees");
            let after = self.after.take();
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            for row in tx.tree(name)?.range(from)? {
                let (key, value) = row?;
                piece.byte(number);
                piece.bytes(&key);
                piece.bytes(value);
                if bytes_max <= piece.bytes_written() {
                    self.after = Some(key.to_vec());
                    return Ok(Some(piece.finish()));
                }
            }
            self.tree += 1;
        }
        Ok(Some(piece.finish()).filter(|piece| !piece.is_empty()))
    }
}

/// Removes the whole state. Returns what changed, for [`ClusterStore::commit`](crate::ClusterStore::commit).
///
/// # Errors
/// Storage errors. The transaction must not be committed then.
pub fn clear_state(tx: &mut WriteTransaction) -> Result<Changes, ClusterError> {
    ImageInstaller::begin(tx)?.finish(tx)
}

/// Replaces the state by an image, in one transaction.
pub struct ImageInstaller {
    trees: [TreeName; 16],
    before: BTreeMap<String, Arc<DatabaseRecord>>,
}

impl ImageInstaller {
    /// Removes the state that the image replaces.
    ///
    /// # Errors
    /// Storage errors. The transaction must not be committed then.
    pub fn begin(tx: &mut WriteTransaction) -> Result<Self, ClusterError> {
        let before = by_key(record_command::all(tx)?);
        let trees = trees();
        for name in &trees {
            tx.drop_tree(name)?;
        }
        Ok(Self { trees, before })
    }

    /// Stores the rows of a piece.
    ///
    /// # Errors
    /// Storage errors; a malformed piece. The transaction must not be committed then.
    pub fn install(&self, tx: &mut WriteTransaction, piece: &[u8]) -> Result<(), ClusterError> {
        let mut rows = Decoder::new(piece);
        while rows.end().is_err() {
            let number = usize::from(rows.byte()?);
            let unknown =
                ClusterError::Corrupt { detail: "a row of a state is of an unknown tree" };
            let name = self.trees.get(number).ok_or(unknown)?;
            let (key, value) = (rows.bytes()?, rows.bytes()?);
            tx.tree_mut(name)?.put(key, value)?;
        }
        Ok(())
    }

    /// Returns what changed, after the last piece. Files of databases that no longer exist are noted for
    /// removal.
    ///
    /// # Errors
    /// Storage errors; a damaged record. The transaction must not be committed then.
    pub fn finish(self, tx: &mut WriteTransaction) -> Result<Changes, ClusterError> {
        let index = change_index::last_index(tx)?;
        let now = by_key(record_command::all(tx)?);
        for (key, record) in &self.before {
            let is_same = now.get(key).is_some_and(|now| now.topology_id == record.topology_id);
            if !is_same {
                deletions::note_files(tx, record)?;
            }
        }
        let gone = self.before.into_keys().filter(|key| !now.contains_key(key));
        let gone = gone.map(|key| ChangedRecord { key, index, record: None });
        let mut changed: Vec<_> = gone.collect();
        changed.extend(now.into_iter().map(|(key, record)| {
            let index = record.etag;
            ChangedRecord { key, index, record: Some(record) }
        }));
        let transactions =
            changed.iter().filter_map(|one| Some(one.record.as_ref()?.topology_id)).collect();
        Ok(Changes { records: changed, transactions })
    }
}

fn by_key(records: Vec<ChangedRecord>) -> BTreeMap<String, Arc<DatabaseRecord>> {
    records.into_iter().filter_map(|one| Some((one.key, one.record?))).collect()
}
