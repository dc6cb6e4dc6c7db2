//! When a node stands for election.
//!
//! openraft's own timer is switched off: a node that was cut off would come back with a higher term and depose a leader
//! that everybody else follows. Here a node first asks the others whether they would vote for it (the *pre-vote* of
//! Ongaro, "Consensus: Bridging Theory and Practice", 2014, §9.6) and stands only if a majority would. A node would
//! vote for another whose log is as new as its own, unless it has heard of a leader recently.

use std::{sync::Arc, time::Duration};

use openraft::ServerState;
use tokio::sync::mpsc;

use crate::{
    log_store::log_state,
    membership::NODES_MAX,
    message::Request,
    raft_types::{LogId, Membership, RaftNode},
    runtime::{sleep, spawn},
    shared::{ELECTION_TIMEOUT_MAX, ELECTION_TIMEOUT_MIN, HEARTBEAT_INTERVAL, Shared},
    state_machine::is_only_voter,
};

/// How long the others may take to answer.
const BALLOT_TIME_MAX: Duration = ELECTION_TIMEOUT_MIN;

/// Stands for election whenever that is due, until it is aborted.
pub(crate) async fn run(shared: Arc<Shared>, raft: RaftNode) {
    loop {
        let patience = random_timeout(&shared);
        // Looks often enough to notice the end of its patience in time.
        loop {
            if leads(&raft) {
                shared.heard_leader();
            }
            if patience <= shared.silence() {
                break;
            }
            sleep(HEARTBEAT_INTERVAL).await;
        }
        if would_be_elected(&shared, &raft).await && raft.trigger().elect().await.is_err() {
            return;
        }
        sleep(random_timeout(&shared)).await;
    }
}

fn leads(raft: &RaftNode) -> bool {
    raft.metrics().borrow().state == ServerState::Leader
}

/// Has this node lead where it has the only vote and does not lead: the others voted no more when they were removed, by
/// a leader that removed itself or before this node had heard that the change was final.
pub(crate) async fn lead_alone(shared: &Shared, raft: &RaftNode) {
    let metrics = raft.metrics().borrow().clone();
    let membership = metrics.membership_config.membership();
    let is_due = metrics.state != ServerState::Leader && metrics.state != ServerState::Candidate;
    if is_due && is_only_voter(membership, shared.identity.get().node) {
        // It fails when the consensus has ended, which is noticed by those who wait for a command.
        let _ = raft.trigger().elect().await;
    }
}

fn random_timeout(shared: &Shared) -> Duration {
    let mut bytes = [0; 4];
    shared.entropy.fill(&mut bytes);
    let range = ELECTION_TIMEOUT_MAX.saturating_sub(ELECTION_TIMEOUT_MIN);
    ELECTION_TIMEOUT_MIN + range.mul_f64(f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}

async fn would_be_elected(shared: &Arc<Shared>, raft: &RaftNode) -> bool {
    let metrics = raft.metrics().borrow().clone();
    let (node, term) = (shared.identity.get().node, metrics.current_term + 1);
    let Ok(log) = log_state(shared.store.environment()) else { return false };
    let last = log.last_log_id;
    let membership = metrics.membership_config.membership().clone();
    if !membership.voter_ids().any(|voter| voter == node) {
        return false;
    }
    let mut votes = vec![node];
    if is_majority(&membership, &votes) {
        return true;
    }
    let (sender, mut ballots) = mpsc::channel(NODES_MAX);
    for voter in membership.voter_ids().filter(|voter| *voter != node) {
        let Some(member) = membership.get_node(&voter) else { continue };
        let (shared, url, sender) = (Arc::clone(shared), member.url.clone(), sender.clone());
        spawn(async move {
            let request = Request::Ballot { term, last };
            let granted =
                shared.call(voter, &url, &request, BALLOT_TIME_MAX, |decoder| decoder.flag()).await;
            // After enough votes nobody counts.
            let _ = sender.send((voter, matches!(granted, Ok(true)))).await;
        });
    }
    drop(sender);
    while let Some((voter, is_granted)) = ballots.recv().await {
        if is_granted {
            votes.push(voter);
        }
        if is_majority(&membership, &votes) {
            return true;
        }
    }
    false
}

/// Whether these are a majority in each set of voters.
fn is_majority(membership: &Membership, votes: &[u64]) -> bool {
    membership.get_joint_config().iter().all(|voters| {
        let granted = votes.iter().filter(|vote| voters.contains(vote)).count();
        voters.len() < granted * 2
    })
}

/// Whether this node would vote for a node with such a log in that term.
pub(crate) fn would_grant(
    shared: &Shared,
    raft: &RaftNode,
    term: u64,
    last: Option<LogId>,
) -> bool {
    if shared.silence() < ELECTION_TIMEOUT_MIN {
        return false;
    }
    let own_term = raft.metrics().borrow().current_term;
    let log = log_state(shared.store.environment());
    own_term <= term && log.is_ok_and(|log| log.last_log_id <= last)
}
