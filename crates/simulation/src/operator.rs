//! What is done to a simulated cluster: faults, and changes of its nodes.

use std::{rc::Rc, sync::Arc, time::Duration};

use cluster::{Cluster, MembershipChange};
use cluster_state::ClusterError;
use model::NodeTag;
use platform::simulated::{FaultSpan, Survival};

use crate::{
    network::{Sender, url_of},
    plan::Action,
    world::World,
};

/// How long a change of the nodes may take until nobody waits for it any longer.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(40);
/// The space that a full disk has.
const FULL_DISK_BYTES: u64 = 0;

/// Does something to a cluster, and undoes it when its time is over.
pub(crate) async fn carry_out(world: Rc<World>, action: Action) {
    world.log(format!("{action:?}"));
    match action {
        Action::CutPower { node, operation, survival, off } => {
            cut_power(&world, node, operation, survival, off).await;
        }
        Action::Pause { node, time } => {
            let group = world.nodes.borrow()[node].group;
            world.scheduler.pause(group);
            let pause = world.sleep(time);
            pause.await;
            world.scheduler.resume(group);
            world.log(format!("node {node} goes on"));
        }
        Action::Partition { pairs, time } => {
            world.network.cut(&pairs);
            let pause = world.sleep(time);
            pause.await;
            world.network.mend(&pairs);
            world.log("a partition ends".to_owned());
        }
        Action::FailDisk { node, filter, operation, kind } => {
            let nodes = world.nodes.borrow();
            nodes[node].machine.disk.fail_operation(operation, filter, kind, FaultSpan::Once);
        }
        Action::FillDisk { node, time } => {
            let disk = Arc::clone(&world.nodes.borrow()[node].machine.disk);
            disk.space_limit(Some(FULL_DISK_BYTES));
            let pause = world.sleep(time);
            pause.await;
            disk.space_limit(None);
            world.log(format!("node {node} has space again"));
        }
        Action::SetClock { node, skew_milliseconds } => {
            world.nodes.borrow()[node].clock.set_skew(skew_milliseconds);
        }
        Action::Add { node, is_watcher } => {
            if add(&world, node, is_watcher).await {
                world.set_member(node, true);
            }
        }
        Action::Remove { node } => remove(&world, node).await,
        Action::Promote { node } => {
            change_existing(&world, node, |tag| MembershipChange::Promote { tag }).await;
        }
        Action::Demote { node } => {
            change_existing(&world, node, |tag| MembershipChange::Demote { tag }).await;
        }
    }
}

async fn cut_power(
    world: &Rc<World>,
    node: usize,
    operation: Option<u64>,
    survival: Survival,
    off: Duration,
) {
    if let Some(operation) = operation {
        // The operator starts it again.
        let nodes = world.nodes.borrow();
        return nodes[node].machine.disk.cut_power_at_operation(operation, survival);
    }
    if !world.take_down(node) {
        return;
    }
    world.crash(node, survival);
    let pause = world.sleep(off);
    pause.await;
    world.start(node).await;
}

/// Has the cluster change its nodes, by a node that clients know. Returns whether that was done.
async fn change(world: &World, change: MembershipChange) -> bool {
    let members: Vec<usize> =
        (0..world.plan.machines).filter(|node| world.is_member(*node)).collect();
    let asked = members[world.random_below(members.len() as u64) as usize];
    let sent = change.clone();
    let ask = move |cluster: Arc<Cluster>| {
        let change = sent.clone();
        async move { cluster.change_nodes(change).await }
    };
    let answer = world.network.ask(Sender::Client, asked, ask);
    let answer: Option<std::io::Result<Result<NodeTag, ClusterError>>> =
        world.within(CHANGE_TIME_MAX, answer).await;
    world.log(format!("{change:?} at node {asked} -> {answer:?}"));
    matches!(answer, Some(Ok(Ok(_))))
}

/// Adds a node to the cluster.
pub(crate) async fn add(world: &World, node: usize, is_watcher: bool) -> bool {
    change(world, MembershipChange::Add { url: url_of(node), tag: None, is_watcher }).await
}

/// The tag of a node, as other nodes know it.
fn tag_of(world: &World, node: usize) -> Option<NodeTag> {
    let url = url_of(node);
    world.processes().into_iter().find_map(|(_, process)| {
        let topology = process.cluster.topology().ok()?;
        topology.nodes.iter().find(|node| node.url == url).map(|node| node.tag)
    })
}

async fn change_existing(
    world: &World,
    node: usize,
    make: impl FnOnce(NodeTag) -> MembershipChange,
) -> bool {
    match tag_of(world, node) {
        Some(tag) => change(world, make(tag)).await,
        None => false,
    }
}

async fn remove(world: &Rc<World>, node: usize) {
    if !change_existing(world, node, |tag| MembershipChange::Remove { tag }).await {
        return;
    }
    world.set_member(node, false);
    world.wait_and_take_down(node).await;
    world.crash(node, Survival::Everything);
    {
        let mut random = world.random.borrow_mut();
        world.nodes.borrow_mut()[node].wipe(&mut random);
    }
    world.checks.borrow_mut().forget(node);
    world.log(format!("node {node} has an empty disk"));
    world.start(node).await;
}
