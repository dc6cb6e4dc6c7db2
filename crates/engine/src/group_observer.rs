//! Watches the nodes of databases: links lead to all other nodes of a group, a node that has caught up becomes a member,
//! and a member that does not answer is set aside.
//!
//! Any node would do: the links of a node show which others answer, and up to where they have everything. The first
//! member that answers acts, so that usually one node does. Two may act at once; the record changes in one version only,
//! and a node that is cut off from the majority changes nothing.

use std::{collections::BTreeMap, sync::Arc};

use cluster::Topology;
use database::Decision;
use model::{DatabaseRecord, DatabaseTopology, NodeTag, ticks};
use wire::RecordBody;

use crate::{
    database_groups::promoted,
    engine::Engine,
    error::EngineError,
    replication::{DestinationKey, InternalDestination, LinkState, LinkStatistics},
};

/// A member whose link has failed for so long is set aside.
const SILENCE_MAX_TICKS: i64 = 15 * ticks::TICKS_PER_SECOND;

/// What is to change about the nodes of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It has caught up.
    Member(NodeTag),
    /// It does not answer.
    SetAside(NodeTag),
}

impl Engine {
    /// Has links lead to the other nodes of all databases that this node has, and changes the nodes of databases whose
    /// links show that it is time. To be called about once a second. Blocks.
    pub fn follow_database_groups(self: &Arc<Self>) {
        if !self.cluster.has_company() && !self.replication.has_members() {
            return;
        }
        let Ok(cluster) = self.cluster_topology() else { return };
        for record in self.records() {
            self.set_internal_destinations(record.topology_id, others_of(&record, &cluster));
            let nodes = record.topology.nodes().count();
            if cluster.leader.is_none() || nodes <= 1 || !record.topology.has(cluster.this) {
                continue;
            }
            if let Some(verdict) = self.verdict_on(&record, cluster.this)
                && let Err(error) = self.enforce_verdict(&record, verdict)
            {
                // It is tried again in a moment.
                let database = record.name.as_str();
                tracing::debug!(database, %error, "the nodes of a database could not be changed");
            }
        }
    }

    fn verdict_on(&self, record: &DatabaseRecord, this: NodeTag) -> Option<Verdict> {
        let links = self.outgoing_links(record).into_iter();
        let links: BTreeMap<NodeTag, LinkStatistics> = links
            .filter_map(|(key, (_, statistics))| match key {
                DestinationKey::Member(tag) => Some((tag.parse().ok()?, statistics)),
                DestinationKey::Task(_) => None,
            })
            .collect();
        let now = self.clock().now().ticks();
        let is_silent = |node: NodeTag| {
            links.get(&node).is_some_and(|link| {
                link.state == LinkState::Failing && link.since_ticks + SILENCE_MAX_TICKS <= now
            })
        };
        let topology = &record.topology;
        let acting = topology.nodes().find(|node| *node == this || !is_silent(*node));
        if acting != Some(this) {
            return None;
        }
        let silent = topology.members.iter().copied().find(|node| is_silent(*node));
        if let Some(silent) = silent.filter(|_| 1 < topology.members.len()) {
            return Some(Verdict::SetAside(silent));
        }
        let catching_up = topology.promotables.iter().chain(&topology.rehabs).copied();
        let waiting: Vec<NodeTag> = catching_up.filter(|node| *node != this).collect();
        if waiting.is_empty() {
            return None;
        }
        // Only a node with something to look at costs this.
        let last = self.open_blocking(record.name.as_str()).ok().and_then(|database| {
            documents::progress(&database.read()).ok().map(|progress| progress.last_etag)
        })?;
        let caught_up = waiting.into_iter().find(|node| {
            let before = self.observer.look(record.topology_id, *node, last);
            let link = links.get(node).filter(|link| link.state == LinkState::Active);
            let accepted = link.and_then(|link| link.accepted);
            before.is_some_and(|before| accepted.is_some_and(|accepted| before <= accepted))
        });
        caught_up.map(Verdict::Member)
    }

    fn enforce_verdict(
        &self,
        observed: &DatabaseRecord,
        verdict: Verdict,
    ) -> Result<(), EngineError> {
        let name = observed.name.as_str();
        self.decide_record(name, |record, draft| {
            let is_same =
                record.topology_id == observed.topology_id && record.topology == observed.topology;
            if !is_same {
                return Ok(Decision::Keep);
            }
            draft.topology = Some(match verdict {
                Verdict::Member(node) => in_order(promoted(record, node), record),
                Verdict::SetAside(node) => {
                    let mut topology = record.topology.clone();
                    topology.remove(node);
                    topology.rehabs.push(node);
                    topology
                }
            });
            Ok(Decision::Replace)
        })?;
        match verdict {
            Verdict::Member(node) => {
                self.observer.forget(observed.topology_id, node);
                tracing::info!(database = name, %node, "a node has caught up and is a member");
            }
            Verdict::SetAside(node) => {
                tracing::warn!(database = name, %node, "a node does not answer and is set aside");
            }
        }
        Ok(())
    }
}

/// The other nodes that have a database which this node has.
fn others_of(record: &DatabaseRecord, cluster: &Topology) -> Vec<InternalDestination> {
    if !record.topology.has(cluster.this) {
        return Vec::new();
    }
    let others = record.topology.nodes().filter(|node| *node != cluster.this);
    let others = others.filter_map(|node_tag| {
        let url = cluster.url_of(node_tag)?.parse().ok()?;
        Some(InternalDestination { node_tag, url })
    });
    others.collect()
}

/// The members in the order that an administrator has fixed, if there is one.
fn in_order(mut topology: DatabaseTopology, record: &DatabaseRecord) -> DatabaseTopology {
    let order = RecordBody::of_record(record).node_order();
    let place = |node: &NodeTag| order.iter().position(|tag| *tag == node.as_str());
    topology.members.sort_by_key(|node| place(node).unwrap_or(usize::MAX));
    topology
}
