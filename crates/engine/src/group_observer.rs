//! Watches the nodes of databases: links lead to all other nodes of a group, a node that has caught up becomes a member,
//! a member that does not answer is set aside, and one that stays away is replaced where that is wanted.
//!
//! Whether a node has caught up is seen by the links of the others: the first member that answers acts on it. Whether a
//! node answers is seen by the leader of the cluster, which reaches for all of them all the time, and by links that have
//! something to send. Two nodes may act at once; the record changes in one version only, and a node that is cut off from
//! the majority changes nothing.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use cluster::Topology;
use database::Decision;
use model::{DatabaseRecord, DatabaseTopology, NodeTag, ticks};
use wire::RecordBody;

use crate::{
    database_groups::promoted,
    departures::Departure,
    engine::Engine,
    error::EngineError,
    last_looks::Look,
    observer_log::ObserverDecision,
    replication::{DestinationKey, InternalDestination, LinkState, LinkStatistics},
};

/// What is to change about the nodes of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It has caught up.
    Member(NodeTag),
    /// It does not answer.
    SetAside(NodeTag),
    /// This one is to take the place of one that stays away.
    Replace { absent: NodeTag, by: NodeTag },
    /// It is no longer in the cluster.
    Leave(NodeTag),
}

/// What is known of the nodes of the cluster.
struct Observed {
    cluster: Topology,
    /// If this node leads: for how long other nodes have not answered.
    silent: Option<BTreeMap<NodeTag, Duration>>,
    /// The nodes with the fewest databases first.
    by_load: Vec<NodeTag>,
}

impl Observed {
    fn is_silent_for(&self, node: NodeTag, time: Duration) -> bool {
        let silent = self.silent.as_ref().and_then(|silent| silent.get(&node));
        silent.is_some_and(|silent| time <= *silent)
    }
}

impl Engine {
    /// Has links lead to the other nodes of all databases that this node has, and changes the nodes of databases for
    /// which it is time. To be called about once a second. Blocks.
    pub fn follow_database_groups(self: &Arc<Self>) {
        if !self.cluster.has_company() && !self.replication.has_members() {
            return;
        }
        let Ok(cluster) = self.cluster_topology() else { return };
        self.note_executed_transactions();
        let decides = self.observer_log.begin() && cluster.leader.is_some();
        let observed = self.observed(cluster);
        for record in self.records() {
            self.set_internal_destinations(
                record.topology_id,
                others_of(&record, &observed.cluster),
            );
            if !decides || record.topology.nodes().count() <= 1 {
                continue;
            }
            if left_over(&record.topology) == Some(observed.cluster.this) {
                self.depart_in_background(Departure {
                    database: record.name.as_str().to_owned(),
                    group: record.topology_id,
                    node: observed.cluster.this,
                    removes_files: self.settings().groups.removes_replaced,
                });
                continue;
            }
            if let Some(verdict) = self.verdict_on(&record, &observed)
                && let Err(error) = self.enforce_verdict(&record, verdict)
            {
                // It is tried again in a moment.
                let database = record.name.as_str();
                tracing::debug!(database, %error, "the nodes of a database could not be changed");
            }
        }
    }

    /// What was decided about the nodes of databases on this node, the latest at the end, and how often it has looked.
    pub fn observer_decisions(&self) -> (u64, Vec<ObserverDecision>) {
        (self.observer_log.iteration(), self.observer_log.decisions())
    }

    /// Whether this node decides nothing about the nodes of databases.
    pub fn is_observer_suspended(&self) -> bool {
        self.observer_log.is_suspended()
    }

    /// Has this node decide nothing about the nodes of databases, or decide again.
    pub fn suspend_observer(&self, is_suspended: bool) {
        self.observer_log.suspend(is_suspended);
    }

    fn observed(&self, cluster: Topology) -> Observed {
        let leads = cluster.leader == Some(cluster.this);
        let silent = leads.then(|| {
            let contacts = self.cluster.contacts().into_iter();
            contacts.filter_map(|contact| Some((contact.tag, contact.silent_for()?))).collect()
        });
        let by_load = if leads { self.by_load(&cluster) } else { Vec::new() };
        Observed { cluster, silent, by_load }
    }

    fn verdict_on(&self, record: &DatabaseRecord, observed: &Observed) -> Option<Verdict> {
        self.verdict_of_leader(record, observed)
            .or_else(|| self.verdict_of_links(record, observed.cluster.this))
    }

    /// What the leader of the cluster sees, whether or not it has the database.
    fn verdict_of_leader(&self, record: &DatabaseRecord, observed: &Observed) -> Option<Verdict> {
        let (topology, groups) = (&record.topology, self.settings().groups);
        let is_gone = |node: &NodeTag| observed.cluster.url_of(*node).is_none();
        if let Some(gone) = topology.nodes().find(is_gone).filter(|_| observed.silent.is_some()) {
            return Some(Verdict::Leave(gone));
        }
        let mut members = topology.members.iter().copied();
        let silent = members.find(|node| observed.is_silent_for(*node, groups.silence_max));
        if let Some(silent) = silent.filter(|_| 1 < topology.members.len()) {
            return Some(Verdict::SetAside(silent));
        }
        if !topology.is_dynamic || observed.silent.is_none() {
            return None;
        }
        let wanted = usize::from(topology.replication_factor);
        if wanted <= topology.members.len() + topology.promotables.len() {
            return None;
        }
        let mut rehabs = topology.rehabs.iter().copied();
        let absent = rehabs.find(|node| observed.is_silent_for(*node, groups.absence_max))?;
        let mut others = observed.by_load.iter().copied().filter(|node| !topology.has(*node));
        let by = others.find(|node| !observed.is_silent_for(*node, Duration::ZERO))?;
        Some(Verdict::Replace { absent, by })
    }

    /// What the links of this node show, if it is the first member that answers.
    fn verdict_of_links(&self, record: &DatabaseRecord, this: NodeTag) -> Option<Verdict> {
        if !record.topology.has(this) {
            return None;
        }
        let links = self.outgoing_links(record).into_iter();
        let links: BTreeMap<NodeTag, LinkStatistics> = links
            .filter_map(|(key, (_, statistics))| match key {
                DestinationKey::Member(tag) => Some((tag.parse().ok()?, statistics)),
                DestinationKey::Task(_) | DestinationKey::Sink(..) => None,
            })
            .collect();
        if links.values().any(|link| link.has_lost) {
            // What this node sees of the others counts no more: they have what it has lost.
            let is_other = |node: &NodeTag| *node != this;
            let is_set_aside = !record.topology.members.contains(&this)
                || !record.topology.members.iter().any(is_other);
            return (!is_set_aside).then_some(Verdict::SetAside(this));
        }
        if links.values().any(|link| link.state == LinkState::Unreadable) {
            // It is this node that does not work.
            return None;
        }
        let now = self.clock().now().ticks();
        let silence_max = ticks::of_duration(self.settings().groups.silence_max);
        let is_silent = |node: NodeTag| {
            links.get(&node).is_some_and(|link| {
                link.state == LinkState::Failing
                    && link.since_ticks.saturating_add(silence_max) <= now
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
        let senders = self.incoming_links(record);
        let has_lost = |node: NodeTag| {
            senders.iter().any(|link| link.node_tag == node && link.statistics.has_lost)
        };
        let leaves = left_over(topology);
        let may_stay = |node: &NodeTag| *node != this && Some(*node) != leaves && !has_lost(*node);
        let waiting: Vec<NodeTag> = catching_up.filter(may_stay).collect();
        if waiting.is_empty() {
            return None;
        }
        // Only a node with something to look at costs this.
        let last = self.open_blocking(record.name.as_str()).ok().and_then(|database| {
            documents::progress(&database.read()).ok().map(|progress| progress.last_etag)
        })?;
        let has_caught_up = |node: &NodeTag| {
            let before =
                self.observer.look(record.topology_id, *node, Look { last, ticks: now })?;
            let link = links.get(node).filter(|link| link.state == LinkState::Active)?;
            Some(before.last <= link.accepted? && before.ticks <= link.answered_ticks?)
        };
        for node in waiting {
            if has_caught_up(&node) == Some(true) {
                return Some(Verdict::Member(node));
            }
            self.replication.ask_member(record.topology_id, node);
        }
        None
    }

    fn enforce_verdict(
        &self,
        observed: &DatabaseRecord,
        verdict: Verdict,
    ) -> Result<(), EngineError> {
        let name = observed.name.as_str();
        let mut is_changed = false;
        if let Verdict::Leave(node) = verdict {
            let removes_files = self.settings().groups.removes_replaced;
            is_changed = self.catalog.take_from(observed, node, removes_files)?.is_some();
        } else {
            self.decide_record(name, |record, draft| {
                is_changed = record.topology_id == observed.topology_id
                    && record.topology == observed.topology;
                if !is_changed {
                    return Ok(Decision::Keep);
                }
                draft.topology = Some(changed_by(verdict, record));
                Ok(Decision::Replace)
            })?;
        }
        if is_changed {
            if let Verdict::Member(node) = verdict {
                self.observer.forget(observed.topology_id, node);
            }
            let message = message_of(verdict);
            match verdict {
                Verdict::Member(_) => tracing::info!(database = name, "{message}"),
                Verdict::SetAside(_) | Verdict::Replace { .. } | Verdict::Leave(_) => {
                    tracing::warn!(database = name, "{message}");
                }
            }
            self.observer_log.note(self.clock().now().ticks(), name, message);
        }
        Ok(())
    }
}

fn changed_by(verdict: Verdict, record: &DatabaseRecord) -> DatabaseTopology {
    let mut topology = record.topology.clone();
    match verdict {
        Verdict::Member(node) => return in_order(promoted(record, node), record),
        Verdict::SetAside(node) => {
            topology.remove(node);
            topology.rehabs.push(node);
        }
        Verdict::Replace { by, .. } => topology.promotables.push(by),
        Verdict::Leave(node) => topology.remove(node),
    }
    topology
}

fn message_of(verdict: Verdict) -> String {
    match verdict {
        Verdict::Member(node) => format!("the node {node} has caught up and is a member"),
        Verdict::SetAside(node) => format!("the node {node} does not answer and is set aside"),
        Verdict::Replace { absent, by } => {
            format!("the node {absent} stays away, and {by} is added in its place")
        }
        Verdict::Leave(node) => {
            format!(
                "the node {node} is no longer in the cluster, and the database is taken from it"
            )
        }
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

/// The node that is to leave a database, where nodes are replaced and enough others are members: one that was away, first. It
/// leaves by itself when it is there, so that nothing that it has is lost.
fn left_over(topology: &DatabaseTopology) -> Option<NodeTag> {
    let has_enough = usize::from(topology.replication_factor) <= topology.members.len();
    let left_over = topology.rehabs.first().or(topology.promotables.first()).copied();
    left_over.filter(|_| topology.is_dynamic && has_enough)
}

/// The members in the order that an administrator has fixed, if there is one.
fn in_order(mut topology: DatabaseTopology, record: &DatabaseRecord) -> DatabaseTopology {
    let order = RecordBody::of_record(record).node_order();
    let place = |node: &NodeTag| order.iter().position(|tag| *tag == node.as_str());
    topology.members.sort_by_key(|node| place(node).unwrap_or(usize::MAX));
    topology
}
