//! Answers the requests of other nodes.

use std::{sync::Arc, time::Duration};

use cluster_state::{ClusterError, EncodedBatch, Encoder};
use openraft::error::ClientWriteError;
use tokio::sync::{mpsc, oneshot};

use crate::{
    elections::would_grant,
    identity::Identity,
    log_format::{put_log_id, put_vote},
    membership::{self, NODES_MAX},
    message::{Envelope, Request, encode_answer, put_append_answer, put_vote_answer},
    node_id::tag_of,
    raft_types::RaftNode,
    refusal::Refusal,
    runtime::spawn,
    shared::{Leader, Shared},
    snapshot::Piece,
};

/// A request to join a cluster, for the thread of the consensus.
pub(crate) struct Joining {
    pub(crate) identity: Identity,
    pub(crate) reply: oneshot::Sender<Result<(), Refusal>>,
}

/// How long a node that is asked to wait until it has applied an entry waits for that.
const FOLLOW_TIME_MAX: Duration = Duration::from_secs(15);

type Write = Box<dyn FnOnce(&mut Encoder) + Send>;

/// The answer to a request of another node.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    joining: &mpsc::Sender<Joining>,
    request: &[u8],
) -> Vec<u8> {
    let answer = match Request::decode(request) {
        Ok((envelope, Request::Join)) => join(shared, joining, envelope).await,
        Ok((envelope, request)) => match check(shared, envelope) {
            Ok(raft) => carry_out(shared, &raft, envelope, request).await,
            Err(refusal) => Err(refusal),
        },
        Err(malformed) => Err(Refusal::Reason(malformed.to_string())),
    };
    encode_answer(answer)
}

fn check(shared: &Shared, envelope: Envelope) -> Result<RaftNode, Refusal> {
    let identity = shared.identity.get();
    if envelope.cluster != identity.cluster {
        return Err(Refusal::OtherCluster);
    }
    if envelope.to != identity.node {
        return Err(Refusal::OtherNode);
    }
    shared.raft().ok_or(Refusal::Stopped)
}

fn stopped(error: &dyn std::fmt::Display) -> Refusal {
    tracing::debug!(%error, "a request of another node was not carried out");
    Refusal::Stopped
}

async fn carry_out(
    shared: &Arc<Shared>,
    raft: &RaftNode,
    envelope: Envelope,
    request: Request,
) -> Result<Write, Refusal> {
    match request {
        Request::Append(append) => {
            let vote = append.vote;
            let answer = raft.append_entries(append).await.map_err(|error| stopped(&error))?;
            // A leader that was deposed is not a sign of life.
            if vote >= raft.metrics().borrow().vote {
                shared.heard_leader();
            }
            Ok(Box::new(move |encoder| put_append_answer(encoder, &answer)))
        }
        Request::Vote(vote) => {
            let answer = raft.vote(vote).await.map_err(|error| stopped(&error))?;
            if answer.vote_granted {
                // Gives the new leader the time to make itself heard.
                shared.heard_leader();
            }
            Ok(Box::new(move |encoder| put_vote_answer(encoder, &answer)))
        }
        Request::Ballot { term, last } => {
            let granted = would_grant(shared, raft, term, last);
            Ok(Box::new(move |encoder| encoder.flag(granted)))
        }
        Request::Snapshot(piece) => receive_state(shared, raft, envelope.from, piece).await,
        Request::Commands(batch) => apply_commands(shared, raft, batch).await,
        Request::Read => {
            let read = raft.ensure_linearizable().await.map_err(|_| Refusal::NotLeader)?;
            Ok(Box::new(move |encoder| put_log_id(encoder, read)))
        }
        Request::Change(change) => {
            demand_leader(shared, raft)?;
            let tag = membership::change(shared, raft, change).await?;
            Ok(Box::new(move |encoder| encoder.text(tag.as_str())))
        }
        Request::Follow { index } => {
            let followed = raft.wait(Some(FOLLOW_TIME_MAX));
            let followed = followed.applied_index_at_least(Some(index), "another node").await;
            followed.map_err(|error| Refusal::Unfinished(error.to_string()))?;
            Ok(Box::new(|_| ()))
        }
        Request::Join => Err(Refusal::OtherNode),
    }
}

fn demand_leader(shared: &Shared, raft: &RaftNode) -> Result<(), Refusal> {
    match shared.leader(&raft.metrics().borrow()) {
        Leader::This => Ok(()),
        Leader::Other { .. } | Leader::Unknown => Err(Refusal::NotLeader),
    }
}

/// Stages a piece of a state; takes the state over after the last one. The answer has the vote of this node if there are
/// to be no more pieces.
async fn receive_state(
    shared: &Arc<Shared>,
    raft: &RaftNode,
    sender: u64,
    piece: Piece,
) -> Result<Write, Refusal> {
    let own_vote = raft.metrics().borrow().vote;
    if piece.vote < own_vote {
        return Ok(Box::new(move |encoder| {
            encoder.optional(Some(own_vote), |encoder, vote| put_vote(encoder, &vote));
        }));
    }
    shared.heard_leader();
    let staged = shared.staging.stage(&shared.store, sender, &piece);
    let staged = staged.map_err(|error| Refusal::Reason(error.to_string()))?;
    let vote = match staged {
        None => None,
        Some(snapshot) => {
            let (shared, raft) = (Arc::clone(shared), raft.clone());
            // Goes on when the sender no longer waits: the next state must not be staged before.
            let installed = spawn(async move {
                let installed = raft.install_full_snapshot(piece.vote, snapshot).await;
                shared.staging.end();
                shared.heard_leader();
                installed
            });
            let installed = installed.await.map_err(|error| stopped(&error))?;
            Some(installed.map_err(|error| stopped(&error))?.vote)
        }
    };
    Ok(Box::new(move |encoder| encoder.optional(vote, |encoder, vote| put_vote(encoder, &vote))))
}

/// Has the cluster agree on commands of a node that does not lead. The answer is the index of the log entry, then the
/// outcome of each command.
async fn apply_commands(
    shared: &Shared,
    raft: &RaftNode,
    batch: EncodedBatch,
) -> Result<Write, Refusal> {
    demand_leader(shared, raft)?;
    batch.check().map_err(|error| Refusal::Reason(error.to_string()))?;
    let written = raft.client_write(batch).await.map_err(|error| match error.api_error() {
        // The leader was deposed after it appended the entry: its successor may have it.
        Some(ClientWriteError::ForwardToLeader(_)) => {
            Refusal::Unfinished("the leader of the cluster changed".to_owned())
        }
        _ => Refusal::Unfinished(error.to_string()),
    })?;
    Ok(Box::new(move |encoder| {
        encoder.u64(written.log_id.index);
        encoder.list(&written.data, |encoder, applied| applied.encode(encoder));
    }))
}

/// Joins the cluster of a leader, if this server has nothing to lose by that.
async fn join(
    shared: &Shared,
    joining: &mpsc::Sender<Joining>,
    envelope: Envelope,
) -> Result<Write, Refusal> {
    let identity = Identity { node: envelope.to, cluster: envelope.cluster };
    if tag_of(identity.node).is_none() {
        return Err(Refusal::Reason("the new node has no tag".to_owned()));
    }
    let own = shared.identity.get();
    if own != identity {
        check_is_free(shared, identity)?;
        let (reply, joined) = oneshot::channel();
        let sent = joining.send(Joining { identity, reply }).await;
        sent.map_err(|_| Refusal::Stopped)?;
        joined.await.map_err(|_| Refusal::Stopped)??;
    }
    Ok(Box::new(|_| ()))
}

/// Refuses if this server has other nodes, or databases that it would lose by becoming the node `identity`.
pub(crate) fn check_is_free(shared: &Shared, identity: Identity) -> Result<(), Refusal> {
    let failed = |error: ClusterError| Refusal::Reason(error.to_string());
    let topology = shared.topology().map_err(failed)?;
    let joined = Identity::stored(shared.store.environment()).map_err(failed)?;
    // One that has accepted to join a cluster, which has not sent its state yet, may be another node of that.
    let waits_for = joined.filter(|_| topology.nodes.is_empty()).map(|joined| joined.cluster);
    if waits_for.is_some_and(|cluster| cluster != identity.cluster) {
        let reason = "it is joining another cluster; if that has given up, start it with an empty data directory";
        return Err(Refusal::Reason(reason.to_owned()));
    }
    // A node that adds itself under another URL must not forget what it has.
    if topology.cluster == identity.cluster && waits_for.is_none() {
        let reason = format!("it is the node {} of this cluster already", topology.this);
        return Err(Refusal::Reason(reason));
    }
    let others = topology.nodes.iter().filter(|node| node.tag != topology.this);
    let others: Vec<_> = others.map(|node| node.tag.to_string()).take(NODES_MAX).collect();
    if !others.is_empty() {
        return Err(Refusal::Reason(format!(
            "it belongs to a cluster with the nodes {}; remove it there first, and start it with an empty data \
             directory",
            others.join(", ")
        )));
    }
    let databases: Vec<_> = shared.store.records();
    if let Some(first) = databases.first() {
        return Err(Refusal::Reason(format!(
            "it has {} databases, such as '{}', which joining would remove; export and delete them first, or let \
             the other server join this one",
            databases.len(),
            first.name
        )));
    }
    match cluster_state::pending_deletions(&shared.store.environment().read()) {
        Ok(pending) if pending.is_empty() => Ok(()),
        Ok(_) => Err(Refusal::Reason("it is still removing files of deleted databases".to_owned())),
        Err(error) => Err(Refusal::Reason(error.to_string())),
    }
}
