//! The types that openraft is instantiated with.

use cluster_state::{Applied, EncodedBatch};
use openraft::BasicNode;

use crate::state_machine::StateImage;

openraft::declare_raft_types!(
    /// Batches of commands go in; one outcome per command comes out.
    pub(crate) TypeConfig:
        D = EncodedBatch,
        R = Vec<Applied>,
        NodeId = u64,
        Node = BasicNode,
        SnapshotData = StateImage,
);

pub(crate) type RaftNode = openraft::Raft<TypeConfig>;
pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Entry = openraft::Entry<TypeConfig>;
pub(crate) type Membership = openraft::Membership<u64, BasicNode>;
pub(crate) type StoredMembership = openraft::StoredMembership<u64, BasicNode>;
pub(crate) type RaftStorageError = openraft::StorageError<u64>;

/// The id of this node among the voters.
pub(crate) const THIS_NODE: u64 = 1;
