//! Which nodes of the cluster have a database.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use cluster::Topology;
use database::{Decision, WrittenRecord};
use model::{DatabaseRecord, DatabaseTopology, NodeTag};
use wire::RecordBody;

use crate::{departures::Departure, engine::Engine, error::EngineError};

/// What a client asks of the nodes of a new database.
#[derive(Clone, Debug, Default)]
pub struct WantedNodes {
    /// These nodes, in this order; empty if it leaves the choice to the server.
    pub members: Vec<String>,
    /// How many nodes; 1 if it is `None`.
    pub replication_factor: Option<u32>,
    /// Whether a node that stays away is to be replaced.
    pub is_dynamic: bool,
}

impl Engine {
    /// Refuses if a node is the only one that has some database: removed from the cluster, it would take that along.
    ///
    /// # Errors
    /// The refusal, which names the database.
    pub fn check_others_have_databases_of(&self, node: NodeTag) -> Result<(), EngineError> {
        let is_last = |record: &&Arc<DatabaseRecord>| record.topology.nodes().eq([node]);
        let records = self.records();
        match records.iter().find(is_last) {
            None => Ok(()),
            Some(record) => Err(EngineError::Refused {
                message: format!(
                    "The node {node} cannot be removed: no other node has the database '{}'. Add another node to it, or \
                     delete it, first",
                    record.name.as_str()
                ),
            }),
        }
    }

    /// Takes the databases that others have, too, from a node that is no longer in the cluster. What fails is tried again by
    /// the observer. Blocks.
    pub fn take_databases_of(&self, node: NodeTag) {
        for record in self.records().into_iter().filter(|record| record.topology.has(node)) {
            let database = record.name.as_str();
            let departure = Departure {
                database: database.to_owned(),
                group: record.topology_id,
                node,
                removes_files: false,
            };
            if let Err(error) = self.leave_record(&departure) {
                tracing::debug!(database, %error, "a database is taken from a removed node later");
            }
        }
    }

    /// The nodes for a new database: those that were asked for, or this one and those with the fewest databases.
    ///
    /// # Errors
    /// A node is not part of the cluster; there are fewer nodes than were asked for.
    pub fn choose_nodes(&self, wanted: &WantedNodes) -> Result<DatabaseTopology, EngineError> {
        let cluster = self.cluster_topology()?;
        let mut members = Vec::new();
        for name in &wanted.members {
            let tag = node_named(&cluster, name).ok_or_else(|| EngineError::Refused {
                message: format!(
                    "Node {name} is not part of the cluster, so it cannot have a database."
                ),
            })?;
            if !members.contains(&tag) {
                members.push(tag);
            }
        }
        let factor = match wanted.replication_factor {
            Some(factor) if members.is_empty() => factor.max(1) as usize,
            Some(_) | None => members.len().max(1),
        };
        let nodes = cluster.nodes.len().max(1);
        if nodes < factor {
            return Err(EngineError::Refused {
                message: format!(
                    "A database on {factor} nodes was asked for, but the cluster has {nodes}. Add nodes first, or ask \
                     for a lower replication factor."
                ),
            });
        }
        if members.is_empty() {
            members = self.least_loaded(&cluster, factor);
        }
        let mut topology = DatabaseTopology::of(members);
        topology.is_dynamic = wanted.is_dynamic;
        Ok(topology)
    }

    /// All nodes, those with the fewest databases first.
    pub(crate) fn by_load(&self, cluster: &Topology) -> Vec<NodeTag> {
        let mut databases: BTreeMap<NodeTag, usize> = BTreeMap::new();
        for record in self.records() {
            record.topology.nodes().for_each(|node| *databases.entry(node).or_default() += 1);
        }
        let mut nodes: Vec<NodeTag> = cluster.nodes.iter().map(|node| node.tag).collect();
        nodes.sort_by_key(|node| (databases.get(node).copied().unwrap_or(0), *node));
        nodes
    }

    /// This node, then those with the fewest databases.
    fn least_loaded(&self, cluster: &Topology, count: usize) -> Vec<NodeTag> {
        let mut nodes = self.by_load(cluster);
        if nodes.is_empty() {
            nodes.push(cluster.this);
        }
        nodes.sort_by_key(|node| Reverse(*node == cluster.this));
        nodes.truncate(count);
        nodes
    }

    /// Adds a node to a database: the named one, or the one with the fewest databases that does not have it. It becomes a
    /// member when it has caught up. Blocks.
    ///
    /// # Errors
    /// The database does not exist; the node has it, or is not part of the cluster; no node is left.
    pub fn add_database_node(
        &self,
        database: &str,
        node: Option<&str>,
    ) -> Result<WrittenRecord, EngineError> {
        let cluster = self.cluster_topology()?;
        let not_there = |node: &str| EngineError::Refused {
            message: format!(
                "Can't add node {node} to database '{database}' topology, because node {node} (which is in the new \
                 topology) is not part of the cluster"
            ),
        };
        let named = node.map(|node| node_named(&cluster, node).ok_or_else(|| not_there(node)));
        let named = named.transpose()?;
        let order = self.least_loaded(&cluster, cluster.nodes.len());
        self.decide_record(database, |record, draft| {
            let name = record.name.as_str();
            let node = match named {
                Some(node) if record.topology.has(node) => {
                    return Err(EngineError::Refused {
                        message: format!(
                            "Can't add node {node} to {name} topology because it is already part of it"
                        ),
                    });
                }
                Some(node) => Some(node),
                None => order.iter().copied().find(|node| !record.topology.has(*node)),
            };
            let node = node.ok_or_else(|| EngineError::Refused {
                message: format!("Database {name} already exists on all the nodes of the cluster"),
            })?;
            let mut topology = record.topology.clone();
            topology.promotables.push(node);
            topology.replication_factor = count_of(&topology);
            draft.topology = Some(topology);
            Ok(Decision::Replace)
        })
    }

    /// Sets the order in which clients choose the members of a database; `is_fixed` if it holds whatever happens to
    /// the nodes. Blocks.
    ///
    /// # Errors
    /// The nodes are not the members of the database; it does not exist; the record cannot be written.
    pub fn reorder_nodes(
        &self,
        database: &str,
        nodes: &[String],
        is_fixed: bool,
    ) -> Result<WrittenRecord, EngineError> {
        self.decide_record(database, |record, draft| {
            let known = |list: &[NodeTag]| -> BTreeSet<String> {
                list.iter().map(NodeTag::to_string).collect()
            };
            let wanted: BTreeSet<String> = nodes.iter().cloned().collect();
            if wanted != known(&record.topology.members) || wanted.len() != nodes.len() {
                return Err(EngineError::OtherNodes);
            }
            let mut body = RecordBody::of_record(record);
            let order: Vec<&str> = nodes.iter().map(String::as_str).collect();
            body.set_node_order(if is_fixed { &order } else { &[] });
            draft.body = body.to_json();
            let mut topology = record.topology.clone();
            topology.members = nodes.iter().filter_map(|node| node.parse().ok()).collect();
            draft.topology = Some(topology);
            draft.changes_topology = true;
            Ok(Decision::Replace)
        })
    }

    /// Sets whether a node of a database that stays away is replaced by another one. Blocks.
    ///
    /// # Errors
    /// The database does not exist; the record cannot be written.
    pub fn set_dynamic_nodes(
        &self,
        database: &str,
        is_dynamic: bool,
    ) -> Result<WrittenRecord, EngineError> {
        self.decide_record(database, |record, draft| {
            if record.topology.is_dynamic == is_dynamic {
                return Ok(Decision::Keep);
            }
            let mut topology = record.topology.clone();
            topology.is_dynamic = is_dynamic;
            draft.topology = Some(topology);
            Ok(Decision::Replace)
        })
    }

    /// Has a database be on as many nodes as it is now, and no more. Blocks.
    pub(crate) fn lower_replication_factor(&self, database: &str) -> Result<(), EngineError> {
        let written = self.decide_record(database, |record, draft| {
            let factor = count_of(&record.topology);
            if record.topology.replication_factor <= factor {
                return Ok(Decision::Keep);
            }
            let topology =
                DatabaseTopology { replication_factor: factor, ..record.topology.clone() };
            draft.topology = Some(topology);
            Ok(Decision::Replace)
        });
        written.map(drop)
    }

    /// Makes a node of a database a member at once. The record is written even if it is one, which gives the request an
    /// index. Blocks.
    ///
    /// # Errors
    /// The database does not exist or is not on that node; the record cannot be written.
    pub fn promote_node(&self, database: &str, node: &str) -> Result<WrittenRecord, EngineError> {
        self.decide_record(database, |record, draft| {
            let tag = node.parse::<NodeTag>().ok().filter(|tag| record.topology.has(*tag));
            let tag = tag.ok_or_else(|| EngineError::Refused {
                message: format!("Node {node} is not part of the topology of database {database}"),
            })?;
            if !record.topology.members.contains(&tag) {
                draft.topology = Some(promoted(record, tag));
            }
            Ok(Decision::Replace)
        })
    }

    /// Whether this node is to do for a database what one node does for all of them.
    pub(crate) fn is_responsible_for(&self, record: &DatabaseRecord) -> bool {
        record.topology.responsible() == Some(self.node_tag())
    }
}

/// The node of the cluster with this tag.
fn node_named(cluster: &Topology, name: &str) -> Option<NodeTag> {
    let known =
        |tag: &NodeTag| cluster.nodes.iter().any(|node| node.tag == *tag) || *tag == cluster.this;
    name.parse::<NodeTag>().ok().filter(known)
}

/// The nodes of a database, one of which is a member from now on.
pub(crate) fn promoted(record: &DatabaseRecord, node: NodeTag) -> DatabaseTopology {
    let mut topology = record.topology.clone();
    topology.remove(node);
    topology.members.push(node);
    topology
}

fn count_of(topology: &DatabaseTopology) -> u16 {
    u16::try_from(topology.nodes().count()).unwrap_or(u16::MAX)
}
