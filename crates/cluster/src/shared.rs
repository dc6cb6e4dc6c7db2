//! What the thread of the consensus shares with those that call it.

use std::{
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicBool},
    time::Duration,
};

use cluster_state::{ClusterError, ClusterStore};
use openraft::ServerState;
use platform::{Clock, Entropy};

use crate::{
    contacts::Contacts,
    identity::CurrentIdentity,
    limits::Limits,
    peers::Peers,
    raft_types::{Member, Metrics, RaftNode},
    runtime::Moment,
    snapshot::Staging,
    state_machine::{is_only_voter, stored_membership},
};

/// How often a leader sends a sign of life.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(100);
/// A node that has not heard of a leader for so long, or up to [`ELECTION_TIMEOUT_MAX`], stands for election.
pub(crate) const ELECTION_TIMEOUT_MIN: Duration = Duration::from_millis(400);
/// See [`ELECTION_TIMEOUT_MIN`]. A node votes for no other while it has heard of its leader for less than this.
pub(crate) const ELECTION_TIMEOUT_MAX: Duration = Duration::from_millis(800);
/// A node that has known no leader for so long, or a leader that has not reached a majority for so long, refuses
/// commands at once.
pub(crate) const LEADERLESS_MAX: Duration = Duration::from_secs(3);

/// The pause before a leader is looked for again.
pub(crate) const LEADER_PAUSE: Duration = Duration::from_millis(20);

/// See the module.
pub(crate) struct Shared {
    pub(crate) store: ClusterStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) peers: Arc<dyn Peers>,
    pub(crate) identity: CurrentIdentity,
    pub(crate) limits: Limits,
    /// Where other nodes reach this one; empty until it is known.
    pub(crate) url: RwLock<String>,
    /// The running consensus; `None` while it is stopped.
    pub(crate) raft: RwLock<Option<RaftNode>>,
    pub(crate) staging: Arc<Staging>,
    pub(crate) contacts: Contacts,
    /// Held while this node, which leads, changes the nodes of the cluster.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Until when this node, which leads, lets another one be elected.
    resigned_until: Mutex<Option<Moment>>,
    /// Whether the cluster has other nodes.
    pub(crate) has_company: AtomicBool,
    /// When this node last heard of a leader, or of itself as one.
    heard: Mutex<Option<Moment>>,
}

/// Who leads, as far as this node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leader {
    /// This node, and a majority follows it, or it has the only vote.
    This,
    /// Another node, at this URL.
    Other { id: u64, url: String },
    /// Nobody; an election may be on its way.
    Unknown,
}

impl Shared {
    pub(crate) fn new(
        store: ClusterStore,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        peers: Arc<dyn Peers>,
        identity: CurrentIdentity,
        limits: Limits,
    ) -> Self {
        Self {
            store,
            clock,
            entropy,
            peers,
            identity,
            limits,
            url: RwLock::default(),
            raft: RwLock::default(),
            staging: Arc::default(),
            contacts: Contacts::default(),
            changing: tokio::sync::Mutex::default(),
            resigned_until: Mutex::default(),
            has_company: AtomicBool::default(),
            heard: Mutex::default(),
        }
    }

    pub(crate) fn raft(&self) -> Option<RaftNode> {
        self.raft.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_raft(&self, raft: Option<RaftNode>) {
        *self.raft.write().unwrap_or_else(PoisonError::into_inner) = raft;
    }

    pub(crate) fn url(&self) -> String {
        self.url.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a sign of life of a leader.
    pub(crate) fn heard_leader(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Moment::now());
    }

    /// Has this node stand for election as if it had not heard of a leader for long.
    pub(crate) fn forget_leader(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Has this node lead nobody for some time, or again.
    pub(crate) fn resign_until(&self, until: Option<Moment>) {
        *self.resigned_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    fn has_resigned(&self) -> bool {
        let until = *self.resigned_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Moment::now() < until)
    }

    /// How long ago this node heard of a leader; the longest time if never.
    pub(crate) fn silence(&self) -> Duration {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.map_or(Duration::MAX, |heard| heard.elapsed())
    }

    /// Whether no other node has a vote.
    pub(crate) fn has_only_vote(&self, raft: &RaftNode) -> bool {
        let metrics = raft.metrics();
        let metrics = metrics.borrow();
        is_only_voter(metrics.membership_config.membership(), self.identity.get().node)
    }

    /// Refuses unless no other node has a vote. For a node whose consensus does not run, such as on a full disk: what it
    /// acknowledged is in its state.
    pub(crate) fn check_is_alone(&self) -> Result<(), ClusterError> {
        let members = stored_membership(&self.store.environment().read())?;
        match is_only_voter(members.membership(), self.identity.get().node) {
            true => Ok(()),
            false => Err(ClusterError::NoLeader { reason: "this node is starting".to_owned() }),
        }
    }

    /// Whether this node has known of no leader for long, so that there will hardly be one in a moment.
    pub(crate) fn is_leaderless(&self, raft: &RaftNode) -> bool {
        let node = self.identity.get().node;
        let metrics = raft.metrics();
        let metrics = metrics.borrow();
        match metrics.state {
            ServerState::Leader => has_lost_majority(&metrics, node),
            _ => LEADERLESS_MAX <= self.silence(),
        }
    }

    pub(crate) fn leader(&self, metrics: &Metrics) -> Leader {
        let node = self.identity.get().node;
        match metrics.current_leader {
            Some(id) if id == node => match metrics.state {
                ServerState::Leader
                    if !has_lost_majority(metrics, node) && !self.has_resigned() =>
                {
                    Leader::This
                }
                _ => Leader::Unknown,
            },
            Some(id) if self.silence() < LEADERLESS_MAX => {
                match metrics.membership_config.membership().get_node(&id) {
                    Some(Member { url, .. }) => Leader::Other { id, url: url.clone() },
                    None => Leader::Unknown,
                }
            }
            Some(_) | None => Leader::Unknown,
        }
    }
}

/// Whether this node leads other voters of which it has not reached a majority for long.
fn has_lost_majority(metrics: &Metrics, node: u64) -> bool {
    let since = metrics.millis_since_quorum_ack.map(Duration::from_millis);
    !is_only_voter(metrics.membership_config.membership(), node)
        && since.is_some_and(|since| LEADERLESS_MAX <= since)
}
