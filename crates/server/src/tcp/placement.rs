//! Which node serves a subscription, and the answer to a worker that has connected to another one.

use cluster_state::SubscriptionRecord;
use engine::{Engine, node_of_subscription};
use model::{DatabaseRecord, NodeTag};
use wire::{ErrorKind, tcp_shapes::ConnectionStatus};

use crate::tcp::session_end::End;

/// Sends a worker to the node that serves the subscription, if that is not this one.
pub(super) fn require_here(
    engine: &Engine,
    database: &DatabaseRecord,
    subscription: &SubscriptionRecord,
) -> Result<(), End> {
    let node = node_of_subscription(database, subscription);
    if node == Some(engine.node_tag()) {
        return Ok(());
    }
    let (id, name, here) = (subscription.id, &subscription.name, engine.node_tag());
    let message = match node {
        Some(node) => format!(
            "Subscription with id '{id}' and name '{name}' can't be processed on current node ({here}), because it \
             belongs to {node}"
        ),
        None => format!(
            "Subscription with id '{id}' and name '{name}' can't be processed on current node ({here}), because no \
             node serves it: the one that it is pinned to is not a member"
        ),
    };
    Err(redirect(engine, (database, subscription), node, message))
}

/// The same for a worker that has begun here.
pub(super) fn require_still_here(
    engine: &Engine,
    database: &DatabaseRecord,
    subscription: &SubscriptionRecord,
) -> Result<(), End> {
    match node_of_subscription(database, subscription) {
        Some(node) if node == engine.node_tag() => Ok(()),
        node => Err(moved(engine, (database, subscription), node)),
    }
}

/// The end of a worker on a node that no longer serves the subscription.
pub(super) fn moved(
    engine: &Engine,
    served: (&DatabaseRecord, &SubscriptionRecord),
    node: Option<NodeTag>,
) -> End {
    let here = engine.node_tag();
    let message = match node {
        Some(node) => format!(
            "Subscription operation was stopped on '{here}', because it's now under node '{node}' responsibility"
        ),
        None => {
            format!("Subscription operation was stopped on '{here}', because no node serves it now")
        }
    };
    redirect(engine, served, node, message)
}

fn redirect(
    engine: &Engine,
    (database, subscription): (&DatabaseRecord, &SubscriptionRecord),
    node: Option<NodeTag>,
    message: String,
) -> End {
    let status = ConnectionStatus::Redirect {
        to: node.map(|node| node.to_string()),
        from: engine.node_tag().to_string(),
        reasons: reasons(engine, database, subscription, node),
    };
    End::refused(status, ErrorKind::SubscriptionDoesNotBelongToNode, message)
}

fn reasons(
    engine: &Engine,
    database: &DatabaseRecord,
    subscription: &SubscriptionRecord,
    chosen: Option<NodeTag>,
) -> Vec<(String, String)> {
    let is_leader =
        engine.cluster_topology().is_ok_and(|cluster| cluster.leader == Some(cluster.this));
    let state = if is_leader { "Leader" } else { "Follower" };
    let mut reasons = vec![("NodeState".to_owned(), state.to_owned())];
    let topology = &database.topology;
    reasons.extend(topology.nodes().map(|node| {
        let is_mentor = subscription.settings.mentor_node.as_deref() == Some(node.as_str());
        let text = match () {
            () if chosen == Some(node) && is_mentor => {
                "Is the mentor node and a valid member of the topology, it should be the mentor node"
            }
            () if chosen == Some(node) => {
                "Is a valid member of the topology and is chosen to be the node running the subscription"
            }
            () if topology.members.contains(&node) => {
                "Is a valid member of the topology, but not chosen to be the node running the subscription"
            }
            () if topology.promotables.contains(&node) => {
                "Is in the topology, but is promotable and cannot run the subscription"
            }
            () => "Is in the topology, but is in rehab and cannot run the subscription",
        };
        (node.to_string(), text.to_owned())
    }));
    reasons
}
