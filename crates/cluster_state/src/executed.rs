//! Up to where each node has executed the cluster-wide transactions of a database: those that all of its nodes have
//! executed are removed.
//!
//! ```text
//! tree Cluster/Executed   database 16, tag of the node -> index 8
//! ```

use std::{collections::BTreeMap, ops::Bound};

use model::DatabaseId;
use storage::{Transaction, WriteTransaction};

use crate::{
    encoding::{Decoder, Encoder, Malformed},
    error::ClusterError,
    schema::{self, DATABASE_BYTES, key_of},
    transactions::forget_executed,
};

/// A node has executed transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedCommand {
    /// The topology id of the database.
    pub database: DatabaseId,
    /// The tag of the node.
    pub node_tag: String,
    /// The index of the last one that it has executed.
    pub executed: u64,
    /// The index up to which all nodes of the database have executed them.
    pub by_all: u64,
}

impl ExecutedCommand {
    pub(crate) fn encode(&self, encoder: &mut Encoder) {
        encoder.raw(&self.database.0);
        encoder.text(&self.node_tag);
        encoder.u64(self.executed);
        encoder.u64(self.by_all);
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            database: DatabaseId(decoder.fixed()?),
            node_tag: decoder.text()?.to_owned(),
            executed: decoder.u64()?,
            by_all: decoder.u64()?,
        })
    }

    pub(crate) fn apply(self, tx: &mut WriteTransaction) -> Result<(), ClusterError> {
        let key = key_of(self.database, self.node_tag.as_bytes());
        tx.tree_mut(&schema::executed())?.put(&key, &self.executed.to_le_bytes())?;
        forget_executed(tx, self.database, self.by_all)
    }
}

/// What each node has said, by its tag.
pub(crate) fn executed_by(
    tx: &impl Transaction,
    database: DatabaseId,
) -> Result<BTreeMap<String, u64>, ClusterError> {
    let damaged = ClusterError::Corrupt { detail: "the progress of a node is damaged" };
    let mut nodes = BTreeMap::new();
    for row in tx.tree(&schema::executed())?.range(Bound::Included(&database.0))? {
        let (key, value) = row?;
        if !key.starts_with(&database.0) {
            break;
        }
        let tag = std::str::from_utf8(&key[DATABASE_BYTES..]).map_err(|_| damaged.clone())?;
        let index = value.try_into().map(u64::from_le_bytes).map_err(|_| damaged.clone())?;
        nodes.insert(tag.to_owned(), index);
    }
    Ok(nodes)
}
