//! The types that openraft is instantiated with.

use cluster_state::{Applied, EncodedBatch};

use crate::{runtime::Runtime, state_image::StateImage};

/// What the log records of each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// Where the other nodes reach it; empty for a node that has always been alone.
    pub(crate) url: String,
    /// Whether it is never to vote.
    pub(crate) is_watcher: bool,
}

openraft::declare_raft_types!(
    /// Batches of commands go in; one outcome per command comes out.
    pub(crate) TypeConfig:
        D = EncodedBatch,
        R = Vec<Applied>,
        NodeId = u64,
        Node = Member,
        SnapshotData = StateImage,
        AsyncRuntime = Runtime,
);

pub(crate) type RaftNode = openraft::Raft<TypeConfig>;
pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Entry = openraft::Entry<TypeConfig>;
pub(crate) type Membership = openraft::Membership<u64, Member>;
pub(crate) type Metrics = openraft::RaftMetrics<u64, Member>;
pub(crate) type StoredMembership = openraft::StoredMembership<u64, Member>;
pub(crate) type RaftStorageError = openraft::StorageError<u64>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<u64, Member>;
