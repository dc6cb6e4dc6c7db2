//! Changing the nodes of the cluster, which its leader does, and showing them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use cluster_state::ClusterError;
use model::NodeTag;
use openraft::{
    ChangeMembers,
    error::{ChangeMembershipError, ClientWriteError},
};

use crate::{
    membership_change::MembershipChange,
    message::Request,
    network::CallError,
    node_id::{id_of, tag_of},
    raft_types::{LogId, Member, Membership, Metrics, RaftNode},
    refusal::Refusal,
    runtime::{Moment, sleep, timeout},
    shared::{Leader, Shared},
    state_machine::stored_membership,
};

/// Nodes of a cluster.
pub const NODES_MAX: usize = 64;

/// How long a new node may take to accept that it joins.
const JOIN_TIME_MAX: Duration = Duration::from_secs(15);
/// How long a majority may take to agree on a change.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(15);
/// How long adding a node waits until the node votes. Later it is promoted without anybody waiting.
const PROMOTION_WAIT_MAX: Duration = Duration::from_secs(5);
/// A node that is at most this many entries behind may vote.
const PROMOTION_LAG_MAX: u64 = 256;
const CHANGE_IN_PROGRESS: &str =
    "another change of the nodes of the cluster is in progress: try again when it has ended";
const PROMOTION_INTERVAL: Duration = Duration::from_millis(50);

/// The part that a node has in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It votes.
    Member,
    /// It will vote as soon as it has caught up.
    Promotable,
    /// It follows and never votes.
    Watcher,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its tag.
    pub tag: NodeTag,
    /// Where it is reached; empty for a node that has always been alone.
    pub url: String,
    /// Its part.
    pub role: Role,
}

/// The nodes of the cluster, as this node knows them.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The id of the cluster.
    pub cluster: [u8; 16],
    /// This node.
    pub this: NodeTag,
    /// The nodes, by id.
    pub nodes: Vec<ClusterNode>,
    /// The node that leads; `None` if there is none, or this node cannot reach it.
    pub leader: Option<NodeTag>,
    /// The term of the consensus.
    pub term: u64,
    /// The index of the log entry that made these the nodes.
    pub index: u64,
}

impl Topology {
    /// The URL of a node.
    pub fn url_of(&self, tag: NodeTag) -> Option<&str> {
        self.nodes.iter().find(|node| node.tag == tag).map(|node| node.url.as_str())
    }
}

impl Shared {
    /// The nodes of the cluster.
    pub(crate) fn topology(&self) -> Result<Topology, ClusterError> {
        let identity = self.identity.get();
        let this = identity.tag();
        let metrics = self.raft().map(|raft| raft.metrics().borrow().clone());
        let (membership, leader, term) = match &metrics {
            Some(metrics) => (
                (*metrics.membership_config).clone(),
                match self.leader(metrics) {
                    Leader::This => Some(this),
                    Leader::Other { id, .. } => tag_of(id),
                    Leader::Unknown => None,
                },
                metrics.current_term,
            ),
            None => (stored_membership(&self.store.environment().read())?, None, 0),
        };
        let index = membership.log_id().as_ref().map_or(0, |log_id| log_id.index);
        let nodes = nodes_of(membership.membership());
        Ok(Topology { cluster: identity.cluster, this, nodes, leader, term, index })
    }
}

fn nodes_of(membership: &Membership) -> Vec<ClusterNode> {
    let nodes = membership.nodes().filter_map(|(id, member)| {
        let role = match membership.voter_ids().any(|voter| voter == *id) {
            true => Role::Member,
            false if member.is_watcher => Role::Watcher,
            false => Role::Promotable,
        };
        Some(ClusterNode { tag: tag_of(*id)?, url: member.url.clone(), role })
    });
    nodes.collect()
}

/// Changes the nodes of the cluster that this node leads. Returns the tag of the node concerned.
pub(crate) async fn change(
    shared: &Arc<Shared>,
    raft: &RaftNode,
    change: MembershipChange,
) -> Result<NodeTag, Refusal> {
    let changing = timeout(CHANGE_TIME_MAX, shared.changing.lock()).await;
    let _changing = changing.map_err(|_| Refusal::Reason(CHANGE_IN_PROGRESS.to_owned()))?;
    match change {
        MembershipChange::Add { url, tag, is_watcher } => {
            add(shared, raft, url, tag, is_watcher).await
        }
        MembershipChange::Remove { tag } => {
            let (id, is_voter) = existing(raft, tag)?;
            let ids = [id].into();
            let change = match is_voter {
                true => ChangeMembers::RemoveVoters(ids),
                false => ChangeMembers::RemoveNodes(ids),
            };
            let voters = members(raft).voter_ids().count();
            if is_voter && voters == 1 {
                let reason = "the last node that votes cannot be removed";
                return Err(Refusal::Reason(reason.to_owned()));
            }
            agree(raft, change, false).await?;
            Ok(tag)
        }
        MembershipChange::Promote { tag } => {
            let (id, _) = existing(raft, tag)?;
            set_member(raft, id, |member| Member { is_watcher: false, ..member }).await?;
            agree(raft, ChangeMembers::AddVoterIds([id].into()), true).await?;
            Ok(tag)
        }
        MembershipChange::Demote { tag } => {
            let (id, is_voter) = existing(raft, tag)?;
            if is_voter && members(raft).voter_ids().count() == 1 {
                let reason = "the last node that votes cannot be made a watcher";
                return Err(Refusal::Reason(reason.to_owned()));
            }
            set_member(raft, id, |member| Member { is_watcher: true, ..member }).await?;
            if is_voter {
                agree(raft, ChangeMembers::RemoveVoters([id].into()), true).await?;
            }
            Ok(tag)
        }
    }
}

async fn add(
    shared: &Arc<Shared>,
    raft: &RaftNode,
    url: String,
    tag: Option<NodeTag>,
    is_watcher: bool,
) -> Result<NodeTag, Refusal> {
    let members = members(raft);
    let own = (shared.identity.get().node, shared.url());
    if own.1.is_empty() {
        let reason =
            "this node does not know the URL at which others reach it: set PublicServerUrl";
        return Err(Refusal::Reason(reason.to_owned()));
    }
    if url == own.1 {
        return Err(Refusal::Reason(format!("{url} is this node itself")));
    }
    if let Some((id, _)) = members.nodes().find(|(_, member)| member.url == url) {
        let tag = tag_of(*id).map_or_else(String::new, |tag| tag.to_string());
        return Err(Refusal::Reason(format!("{url} is the node {tag} of this cluster already")));
    }
    if NODES_MAX <= members.nodes().count() {
        return Err(Refusal::Reason(format!("a cluster has at most {NODES_MAX} nodes")));
    }
    let id = free_id(&members, tag)?;
    let tag = tag_of(id).expect("made of a tag");
    // The others must reach this node, which has been alone so far.
    if members.get_node(&own.0).is_some_and(|member| member.url != own.1) {
        set_member(raft, own.0, |member| Member { url: own.1, ..member }).await?;
    }
    let joined = shared.call(id, &url, &Request::Join, JOIN_TIME_MAX, |_| Ok(())).await;
    joined.map_err(|error| match error {
        CallError::Io(error) => Refusal::Reason(format!("{url} cannot be reached: {error}")),
        CallError::Refused(refusal) => Refusal::Reason(format!("{url} does not join: {refusal}")),
    })?;
    purge_log(raft).await?;
    let member = Member { url, is_watcher };
    agree(raft, ChangeMembers::AddNodes(BTreeMap::from([(id, member)])), true).await?;
    if !is_watcher {
        let began = Moment::now();
        while began.elapsed() < PROMOTION_WAIT_MAX && !promote_if_ready(raft, id).await? {
            sleep(PROMOTION_INTERVAL).await;
        }
    }
    Ok(tag)
}

/// Removes the applied entries of the log, so that the new node is sent the state as a whole: builds before format 3 changed
/// it outside of the log, which therefore may not have all of it.
async fn purge_log(raft: &RaftNode) -> Result<(), Refusal> {
    let applied = raft.metrics().borrow().last_applied;
    let stopped = |error: &dyn std::fmt::Display| {
        Refusal::Reason(format!("the state could not be prepared for the new node: {error}"))
    };
    raft.trigger().snapshot().await.map_err(|error| stopped(&error))?;
    let wait = raft.wait(Some(CHANGE_TIME_MAX));
    let is_purged = |metrics: &Metrics| applied <= metrics.purged;
    let purged = wait.metrics(is_purged, "the log is purged before a node is added");
    purged.await.map(drop).map_err(|error| stopped(&error))
}

/// Lets nodes vote that have caught up. Those that were added wait for it.
pub(crate) async fn promote_ready(raft: &RaftNode) {
    let members = members(raft);
    let voters: Vec<u64> = members.voter_ids().collect();
    let waiting = members.nodes().filter(|(id, member)| !member.is_watcher && !voters.contains(id));
    for (id, _) in waiting {
        if let Err(refusal) = promote_if_ready(raft, *id).await {
            tracing::debug!(%refusal, "a node that has caught up could not be promoted yet");
        }
    }
}

/// Whether the node votes.
async fn promote_if_ready(raft: &RaftNode, id: u64) -> Result<bool, Refusal> {
    let metrics = raft.metrics().borrow().clone();
    let members = metrics.membership_config.membership();
    if members.voter_ids().any(|voter| voter == id) {
        return Ok(true);
    }
    if !has_caught_up(&metrics, id) {
        return Ok(false);
    }
    agree(raft, ChangeMembers::AddVoterIds([id].into()), true).await?;
    Ok(true)
}

fn has_caught_up(metrics: &Metrics, id: u64) -> bool {
    let matched: Option<LogId> =
        metrics.replication.as_ref().and_then(|replication| *replication.get(&id)?);
    let last = metrics.last_log_index.unwrap_or(0);
    matched.is_some_and(|matched| last <= matched.index + PROMOTION_LAG_MAX)
}

fn members(raft: &RaftNode) -> Membership {
    raft.metrics().borrow().membership_config.membership().clone()
}

/// The id of a node, and whether it votes.
fn existing(raft: &RaftNode, tag: NodeTag) -> Result<(u64, bool), Refusal> {
    let (id, members) = (id_of(tag), members(raft));
    match members.get_node(&id) {
        Some(_) => Ok((id, members.voter_ids().any(|voter| voter == id))),
        None => Err(Refusal::Reason(format!("the cluster has no node {tag}"))),
    }
}

fn free_id(members: &Membership, tag: Option<NodeTag>) -> Result<u64, Refusal> {
    let is_free = |id: &u64| tag_of(*id).is_some() && members.get_node(id).is_none();
    match tag {
        Some(tag) => Some(id_of(tag)).filter(is_free).ok_or_else(|| {
            Refusal::Reason(format!("the cluster has a node {tag} already: choose another tag"))
        }),
        None => (1..).find(is_free).ok_or(Refusal::OtherNode),
    }
}

async fn set_member(
    raft: &RaftNode,
    id: u64,
    change: impl FnOnce(Member) -> Member,
) -> Result<(), Refusal> {
    let Some(member) = members(raft).get_node(&id).cloned() else { return Ok(()) };
    let changed = change(member.clone());
    if changed == member {
        return Ok(());
    }
    agree(raft, ChangeMembers::SetNodes(BTreeMap::from([(id, changed)])), true).await
}

/// Has the cluster agree on a change. `retains` is whether a voter that is removed still follows.
async fn agree(
    raft: &RaftNode,
    change: ChangeMembers<u64, Member>,
    retains: bool,
) -> Result<(), Refusal> {
    let agreed = timeout(CHANGE_TIME_MAX, raft.change_membership(change, retains)).await;
    let seconds = CHANGE_TIME_MAX.as_secs();
    let agreed = agreed.map_err(|_| {
        Refusal::Unfinished(format!("no majority agreed on the change within {seconds} seconds"))
    })?;
    agreed.map(drop).map_err(|error| match error.api_error() {
        Some(ClientWriteError::ForwardToLeader(_)) => Refusal::NotLeader,
        Some(ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_))) => {
            Refusal::Reason(CHANGE_IN_PROGRESS.to_owned())
        }
        Some(ClientWriteError::ChangeMembershipError(error)) => {
            Refusal::Reason(format!("the nodes of the cluster were not changed: {error}"))
        }
        None => Refusal::Unfinished(error.to_string()),
    })
}
