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

    /// The node that runs a task: its mentor, if that is a member; nobody while a mentor to which it is pinned is not;
    /// otherwise the member that ran it last, so that it moves only when it has to, or else the one that its number
    /// chooses. Which member a number chooses does not change when others come and go.
    pub fn node_of_task(&self, task: &NodeTask<'_>) -> Option<NodeTag> {
        let member = |tag: Option<&str>| {
            let tag = tag.and_then(|tag| tag.parse::<NodeTag>().ok());
            tag.filter(|tag| self.members.contains(tag))
        };
        let mentor = task.mentor.filter(|mentor| !mentor.is_empty());
        if let Some(mentor) = member(mentor) {
            return Some(mentor);
        }
        if task.is_pinned && mentor.is_some() {
            return None;
        }
        let chosen = self.members.iter().copied().max_by_key(|node| weight(*node, task.number));
        member(task.last).or(chosen).or_else(|| self.responsible())
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

/// A task that one node of a database runs at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeTask<'t> {
    /// Its number within the database.
    pub number: u64,
    /// The tag of the node that should run it.
    pub mentor: Option<&'t str>,
    /// Whether no other node may.
    pub is_pinned: bool,
    /// The tag of the node that ran it last.
    pub last: Option<&'t str>,
}

/// Of all nodes, the one with the highest weight is chosen.
fn weight(node: NodeTag, number: u64) -> u64 {
    // FNV-1a, whose last bits are mixed into the first ones.
    let bytes = node.as_str().bytes().chain(number.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(tags: &[&str]) -> Vec<NodeTag> {
        tags.iter().map(|tag| tag.parse().unwrap()).collect()
    }

    fn node_of(members: &[&str], task: NodeTask<'_>) -> Option<String> {
        let topology = DatabaseTopology::of(nodes(members));
        topology.node_of_task(&task).map(|node| node.to_string())
    }

    #[test]
    fn a_task_runs_on_its_mentor_and_otherwise_where_it_ran_last() {
        let on = |tag: &str| Some(tag.to_owned());
        let task = NodeTask { number: 7, mentor: Some("B"), last: Some("A"), is_pinned: false };
        assert_eq!(node_of(&["A", "B", "C"], task), on("B"));
        assert_eq!(node_of(&["A", "C"], task), on("A"));
        assert_eq!(node_of(&["C"], task), on("C"));
        let pinned = NodeTask { is_pinned: true, ..task };
        assert_eq!(node_of(&["A", "B", "C"], pinned), on("B"));
        assert_eq!(node_of(&["A", "C"], pinned), None);
        // One that is pinned to nothing runs anywhere.
        assert_eq!(node_of(&["C"], NodeTask { mentor: None, last: None, ..pinned }), on("C"));
    }

    #[test]
    fn tasks_are_spread_and_stay_where_they_are_when_another_node_goes() {
        let mut counts = std::collections::BTreeMap::new();
        for number in 0..300 {
            let task = NodeTask { number, ..NodeTask::default() };
            let before = node_of(&["A", "B", "C"], task).unwrap();
            let after = node_of(&["C", "A"], task).unwrap();
            assert!(before == "B" || before == after, "{number}: {before} {after}");
            *counts.entry(before).or_insert(0) += 1;
        }
        assert!(counts.len() == 3 && counts.values().all(|count| 60 < *count), "{counts:?}");
    }

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
