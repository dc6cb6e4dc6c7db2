//! Which node of which cluster this server is.
//!
//! ```text
//! tree Cluster/Raft
//!   Identity    node 8, cluster 16
//! ```
//!
//! The row is written when a server joins a cluster. A server without it is the first node of its own.

use std::sync::{PoisonError, RwLock};

use cluster_state::{ClusterError, Decoder, Encoder};
use model::NodeTag;
use storage::{Environment, StorageError, Transaction, WriteTransaction};

use crate::{
    node_id::{id_of, tag_of},
    schema,
};

/// A node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) node: u64,
    pub(crate) cluster: [u8; 16],
}

impl Identity {
    /// The first node of a cluster.
    pub(crate) fn first_of(cluster: [u8; 16]) -> Self {
        Self { node: id_of(NodeTag::A), cluster }
    }

    /// The stored identity; `None` if this server has not joined a cluster.
    pub(crate) fn stored(environment: &Environment) -> Result<Option<Self>, ClusterError> {
        let tx = environment.read();
        let Some(bytes) = tx.tree(&schema::raft())?.get(schema::IDENTITY)? else { return Ok(None) };
        let mut decoder = Decoder::new(bytes);
        let identity = Self { node: decoder.u64()?, cluster: decoder.fixed()? };
        decoder.end()?;
        match tag_of(identity.node) {
            Some(_) => Ok(Some(identity)),
            None => Err(ClusterError::Corrupt { detail: "the id of this node is no tag" }),
        }
    }

    pub(crate) fn store(self, tx: &mut WriteTransaction) -> Result<(), StorageError> {
        let mut encoder = Encoder::default();
        encoder.u64(self.node);
        encoder.raw(&self.cluster);
        tx.tree_mut(&schema::raft())?.put(schema::IDENTITY, &encoder.finish())?;
        Ok(())
    }

    pub(crate) fn tag(self) -> NodeTag {
        tag_of(self.node).expect("checked when it was made or read")
    }
}

/// The identity at this moment.
pub(crate) struct CurrentIdentity(RwLock<Identity>);

impl CurrentIdentity {
    pub(crate) fn new(identity: Identity) -> Self {
        Self(RwLock::new(identity))
    }

    pub(crate) fn get(&self) -> Identity {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, identity: Identity) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = identity;
    }
}
