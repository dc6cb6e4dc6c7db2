//! What runs beside the consensus while this node has company: signs of life, elections, promotions.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::{
    elections,
    membership::promote_ready,
    raft_types::RaftNode,
    shared::{Leader, Shared},
};

/// How often a leader looks for nodes that have caught up and may vote.
const PROMOTION_INTERVAL: Duration = Duration::from_secs(1);

/// Supervises the consensus until it is aborted. A node that is alone needs nothing and is left in peace.
pub(crate) async fn run(shared: Arc<Shared>, raft: RaftNode) {
    let mut nodes = raft.server_metrics();
    loop {
        let has_company = 1 < nodes.borrow_and_update().membership_config.nodes().count();
        raft.runtime_config().tick(has_company);
        raft.runtime_config().heartbeat(has_company);
        if !has_company {
            if nodes.changed().await.is_err() {
                return;
            }
            continue;
        }
        let becomes_alone = nodes.wait_for(|nodes| nodes.membership_config.nodes().count() <= 1);
        tokio::select! {
            alone = becomes_alone => if alone.is_err() { return },
            () = elections::run(Arc::clone(&shared), raft.clone()) => return,
            () = promote(&shared, &raft) => {}
        }
    }
}

async fn promote(shared: &Shared, raft: &RaftNode) {
    loop {
        sleep(PROMOTION_INTERVAL).await;
        if shared.leader(&raft.metrics().borrow()) == Leader::This {
            promote_ready(raft).await;
        }
    }
}
