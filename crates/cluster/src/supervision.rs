//! What runs beside the consensus while this node has company: signs of life, elections, promotions.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use openraft::ServerState;

use crate::{
    elections,
    membership::promote_ready,
    node_id::tag_of,
    raft_types::RaftNode,
    runtime::{Moment, sleep},
    shared::{Leader, Shared},
};

/// How often a leader looks for nodes that have caught up and may vote.
const PROMOTION_INTERVAL: Duration = Duration::from_secs(1);

/// Supervises the consensus until it is aborted. A node that is alone leads, and needs
/// nothing else.
pub(crate) async fn run(shared: Arc<Shared>, raft: RaftNode) {
    let mut nodes = raft.server_metrics();
    loop {
        let has_company = 1 < nodes.borrow_and_update().membership_config.nodes().count();
        shared.has_company.store(has_company, Ordering::Release);
        raft.runtime_config().tick(has_company);
        raft.runtime_config().heartbeat(has_company);
        if !has_company {
            elections::lead_alone(&shared, &raft).await;
            if nodes.changed().await.is_err() {
                return;
            }
            continue;
        }
        let becomes_alone = nodes.wait_for(|nodes| nodes.membership_config.nodes().count() <= 1);
        tokio::select! {
            biased;
            alone = becomes_alone => if alone.is_err() { return },
            () = elections::run(Arc::clone(&shared), raft.clone()) => return,
            () = promote(&shared, &raft) => {}
            () = log_leaders(&shared, &raft) => return,
        }
    }
}

/// Logs who leads, each time that changes.
async fn log_leaders(shared: &Shared, raft: &RaftNode) {
    let mut server = raft.server_metrics();
    let (mut logged, mut noted) = (None, None);
    loop {
        let (leader, leads) = {
            let server = server.borrow_and_update();
            (server.current_leader, server.state == ServerState::Leader)
        };
        if leader != noted {
            noted = leader;
            let term = raft.metrics().borrow().current_term;
            shared.contacts.note_leader(term, leader.and_then(tag_of), Moment::now());
        }
        if leader.is_some() && leader != logged {
            logged = leader;
            let node = leader.and_then(tag_of).map(|tag| tag.to_string());
            match leads {
                true => tracing::info!("this node leads the cluster"),
                false => tracing::info!(node, "another node leads the cluster"),
            }
        }
        if server.changed().await.is_err() {
            return;
        }
    }
}

async fn promote(shared: &Shared, raft: &RaftNode) {
    loop {
        sleep(PROMOTION_INTERVAL).await;
        let members = raft.metrics().borrow().membership_config.membership().clone();
        shared.contacts.retain(|node| members.get_node(&node).is_some());
        if shared.leader(&raft.metrics().borrow()) == Leader::This {
            promote_ready(raft).await;
        }
    }
}
