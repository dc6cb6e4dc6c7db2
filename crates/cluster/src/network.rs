//! The network to other nodes. There is none yet: this node is the only voter, so nothing is ever sent, and
//! every attempt to send is refused.

use std::{future::Future, io};

use openraft::{
    BasicNode, RaftNetwork, RaftNetworkFactory, Snapshot, Vote,
    error::{Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError},
    network::RPCOption,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
    },
};

use crate::raft_types::TypeConfig;

/// Refuses to reach other nodes.
pub(crate) struct NoNetwork;

fn unreachable_node() -> NetworkError {
    NetworkError::new(&io::Error::new(
        io::ErrorKind::Unsupported,
        "this server is the only node of its cluster and cannot reach others",
    ))
}

impl RaftNetworkFactory<TypeConfig> for NoNetwork {
    type Network = Self;

    async fn new_client(&mut self, _target: u64, _node: &BasicNode) -> Self {
        Self
    }
}

impl RaftNetwork<TypeConfig> for NoNetwork {
    async fn append_entries(
        &mut self,
        _request: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        Err(RPCError::Network(unreachable_node()))
    }

    async fn vote(
        &mut self,
        _request: VoteRequest<u64>,
        _option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        Err(RPCError::Network(unreachable_node()))
    }

    async fn full_snapshot(
        &mut self,
        _vote: Vote<u64>,
        _snapshot: Snapshot<TypeConfig>,
        _cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<TypeConfig, Fatal<u64>>> {
        Err(StreamingError::Network(unreachable_node()))
    }
}
