//! The nodes that have a database.

use crate::NodeTag;

/// The nodes that have a database, its *database group*. A node is in one of the lists at most; at least one node is in
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseTopology {
    /// Nodes that are up to date and take part in everything, in the order in which clients prefer them.
    pub members: Vec<NodeTag>,
    /// Nodes that were added and are catching up.
    pub promotables: Vec<NodeTag>,
    /// Former members that do not answer, or are catching up after that.
    pub rehabs: Vec<NodeTag>,
    /// How many nodes should have it.
    pub replication_factor: u16,
    /// Whether a node that stays away is replaced by another one.
    pub is_dynamic: bool,
}

impl DatabaseTopology {
    /// A database that one node has.
    pub fn only(node: NodeTag) -> Self {
        Self::of(vec![node])
    }

    /// A database that these nodes have as members.
    pub fn of(members: Vec<NodeTag>) -> Self {
        let replication_factor = u16::try_from(members.len()).unwrap_or(u16::MAX);
        let (promotables, rehabs) = (Vec::new(), Vec::new());
        Self { members, promotables, rehabs, replication_factor, is_dynamic: false }
    }

    /// All nodes that have the database: members, then promotables, then rehabs.
    pub fn nodes(&self) -> impl Iterator<Item = NodeTag> {
        self.members.iter().chain(&self.promotables).chain(&self.rehabs).copied()
    }

    /// Whether a node has the database.
    pub fn has(&self, node: NodeTag) -> bool {
        self.nodes().any(|other| other == node)
    }

    /// Removes a node from all lists.
    pub fn remove(&mut self, node: NodeTag) {
        for list in [&mut self.members, &mut self.promotables, &mut self.rehabs] {
            list.retain(|other| *other != node);
        }
    }

    /// The node that does what one node is to do for all, such as deleting expired documents: the first member, or the
    /// first of the others if there is none.
    pub fn responsible(&self) -> Option<NodeTag> {
        self.nodes().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_removed_is_in_no_list_and_another_is_responsible() {
        let [a, b, c] = ["A", "B", "C"].map(|tag| tag.parse::<NodeTag>().unwrap());
        let mut topology = DatabaseTopology::of(vec![b, c]);
        topology.rehabs.push(a);
        assert_eq!(topology.replication_factor, 2);
        assert_eq!(topology.responsible(), Some(b));
        topology.remove(b);
        topology.remove(c);
        assert_eq!((topology.responsible(), topology.has(c)), (Some(a), false));
        assert_eq!(topology.nodes().collect::<Vec<_>>(), [a]);
    }
}
