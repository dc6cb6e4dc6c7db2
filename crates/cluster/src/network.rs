//! Sends openraft's requests to other nodes.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use cluster_state::{Decoder, Malformed};
use openraft::{
    AnyError, RaftNetwork, RaftNetworkFactory, Snapshot, Vote,
    error::{
        Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
    },
    network::RPCOption,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
    },
};

use crate::{
    log_format::take_vote,
    message::{Envelope, Request, decode_answer, take_append_answer, take_vote_answer},
    raft_types::{Member, Metrics, RaftNode, TypeConfig},
    refusal::Refusal,
    runtime::{Moment, timeout},
    shared::Shared,
    snapshot::Pieces,
    state_image::StateImage,
};

/// How long a node may take to store a piece of a state. Until then nothing else is sent to it, so a piece that was lost
/// must not be waited for any longer.
const PIECE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a node may take to take the whole state over after the last piece.
const TAKE_OVER_TIME_MAX: Duration = Duration::from_secs(60);

/// Makes the connections of one node.
pub(crate) struct Network {
    shared: Arc<Shared>,
}

/// The way to another node.
pub(crate) struct PeerConnection {
    shared: Arc<Shared>,
    target: u64,
    url: String,
}

/// Why a request brought no answer.
pub(crate) enum CallError {
    /// The node cannot be reached, or did not answer in time.
    Io(io::Error),
    /// It answered with a refusal.
    Refused(Refusal),
}

impl From<Malformed> for CallError {
    fn from(malformed: Malformed) -> Self {
        Self::Io(io::Error::new(io::ErrorKind::InvalidData, malformed))
    }
}

impl Shared {
    /// Sends a request to a node and reads its answer.
    pub(crate) async fn call<T>(
        &self,
        target: u64,
        url: &str,
        request: &Request,
        time_max: Duration,
        read: impl FnOnce(&mut Decoder<'_>) -> Result<T, Malformed>,
    ) -> Result<T, CallError> {
        let bytes = request.encode(Envelope::new(self.identity.get(), target));
        let answer = timeout(time_max, self.peers.call(url, bytes)).await;
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("{url} did not answer"));
        let answer = answer.map_err(|_| CallError::Io(late()))?.map_err(CallError::Io)?;
        decode_answer(&answer, read)?.map_err(CallError::Refused)
    }

    /// Sends a request to the node that leads. Ends as soon as another node leads: a node that is paused or cut off
    /// neither answers nor breaks the connection.
    pub(crate) async fn call_leader<T>(
        &self,
        raft: &RaftNode,
        (leader, url): (u64, &str),
        request: &Request,
        time_max: Duration,
        read: impl FnOnce(&mut Decoder<'_>) -> Result<T, Malformed>,
    ) -> Result<T, CallError> {
        let mut metrics = raft.metrics();
        let mut deposed = pin!(async move {
            let is_other =
                |metrics: &Metrics| metrics.current_leader.is_some_and(|other| other != leader);
            if metrics.wait_for(is_other).await.is_err() {
                // The consensus of this node has stopped; the call ends by itself.
                std::future::pending::<()>().await;
            }
        });
        tokio::select! {
            biased;
            answer = self.call(leader, url, request, time_max, read) => answer,
            () = &mut deposed => {
                let reason = format!("{url} no longer leads the cluster, and did not answer");
                Err(CallError::Io(io::Error::new(io::ErrorKind::TimedOut, reason)))
            }
        }
    }
}

impl Network {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = PeerConnection;

    async fn new_client(&mut self, target: u64, node: &Member) -> PeerConnection {
        PeerConnection { shared: Arc::clone(&self.shared), target, url: node.url.clone() }
    }
}

type RpcError = RPCError<u64, Member, RaftError<u64>>;

impl PeerConnection {
    async fn rpc<T>(
        &mut self,
        request: Request,
        option: &RPCOption,
        read: impl FnOnce(&mut Decoder<'_>) -> Result<T, Malformed>,
    ) -> Result<T, RpcError> {
        let answer = self.shared.call(self.target, &self.url, &request, option.hard_ttl(), read);
        let answer = answer.await;
        self.note(answer.as_ref().err());
        answer.map_err(|error| self.rpc_error(error))
    }

    /// Notes whether the node answers; logs that it does not, and that it does again.
    fn note(&self, error: Option<&CallError>) {
        let reason = error.map(|error| match error {
            CallError::Io(error) => error.to_string(),
            CallError::Refused(refusal) => refusal.to_string(),
        });
        if !self.shared.contacts.note(self.target, reason, Moment::now()) {
            return;
        }
        let url = self.url.as_str();
        match error {
            Some(CallError::Io(error)) => {
                tracing::warn!(url, %error, "a node of the cluster does not answer, and is tried again");
            }
            Some(CallError::Refused(refusal)) => {
                tracing::warn!(url, %refusal, "a node of the cluster refuses requests, and is tried again");
            }
            None => tracing::info!(url, "a node of the cluster answers again"),
        }
    }

    fn rpc_error(&self, error: CallError) -> RpcError {
        match error {
            CallError::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
                RPCError::Network(NetworkError::new(&error))
            }
            // openraft tries again after a pause, also where the consensus of the node has stopped.
            CallError::Io(error) => RPCError::Unreachable(Unreachable::new(&error)),
            CallError::Refused(refusal) => RPCError::Unreachable(Unreachable::new(&refusal)),
        }
    }

    async fn send_state(
        &self,
        mut pieces: Pieces,
    ) -> Result<SnapshotResponse<u64>, StreamingError<TypeConfig, Fatal<u64>>> {
        let failed = |error| StreamingError::Unreachable(Unreachable::new(&AnyError::new(&error)));
        let mut vote = None;
        while let Some(piece) = pieces.next().map_err(failed)? {
            let time_max = if piece.is_last { TAKE_OVER_TIME_MAX } else { PIECE_TIME_MAX };
            let request = Request::Snapshot(piece);
            let read = |decoder: &mut Decoder<'_>| decoder.optional(take_vote);
            let answer = self.shared.call(self.target, &self.url, &request, time_max, read).await;
            vote = answer.map_err(|error| match error {
                CallError::Io(error) => StreamingError::Unreachable(Unreachable::new(&error)),
                CallError::Refused(error) => StreamingError::Unreachable(Unreachable::new(&error)),
            })?;
            // The other node has voted for another leader.
            if vote.is_some() {
                break;
            }
        }
        let no_vote =
            || NetworkError::new(&io::Error::other("the last piece of a state was not confirmed"));
        let vote = vote.ok_or_else(|| StreamingError::Network(no_vote()))?;
        Ok(SnapshotResponse::new(vote))
    }
}

impl RaftNetwork<TypeConfig> for PeerConnection {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RpcError> {
        self.rpc(Request::Append(request), &option, take_append_answer).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RpcError> {
        self.rpc(Request::Vote(request), &option, take_vote_answer).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote<u64>,
        snapshot: Snapshot<TypeConfig>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<TypeConfig, Fatal<u64>>> {
        let StateImage::Stored(tx) = *snapshot.snapshot else {
            let staged = io::Error::other("a state that was received is not sent on");
            return Err(StreamingError::Network(NetworkError::new(&staged)));
        };
        // A late piece of another session, even of one before this server was started, must not be taken for one of this.
        let session = self.shared.entropy.next_u64();
        let piece_bytes = self.shared.limits.piece_bytes;
        let pieces = Pieces::of(session, piece_bytes, tx, vote, snapshot.meta);
        let pieces =
            pieces.map_err(|error| StreamingError::Unreachable(Unreachable::new(&error)))?;
        tokio::select! {
            biased;
            closed = pin!(cancel) => Err(StreamingError::Closed(closed)),
            sent = self.send_state(pieces) => sent,
        }
    }
}
