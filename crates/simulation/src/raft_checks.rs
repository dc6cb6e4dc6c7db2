//! What must always be true of the logs of all nodes together (Ongaro & Ousterhout, 2014, figure 3), and of their states.

use std::{collections::BTreeMap, hash::Hasher};

use cluster::{Ballot, InspectedEntry, Inspection};

/// What was seen of the nodes so far.
#[derive(Default)]
pub(crate) struct RaftChecks {
    leaders: BTreeMap<Ballot, usize>,
    /// By index and leader: the hash of the entry, and the leader of the one before it, if it was seen.
    entries: BTreeMap<(u64, Ballot), (u64, Option<Ballot>)>,
    /// By index: the leader of the entry, and the newest vote when it was first seen to be committed.
    committed: BTreeMap<u64, (Ballot, Ballot)>,
    /// By index of an entry: the hash of the state in which it is the last one.
    states: BTreeMap<u64, u64>,
    nodes: BTreeMap<usize, Seen>,
    /// The newest vote of any node.
    vote: Ballot,
}

/// What was seen of a node, as long as it has its disk.
#[derive(Clone, Copy, Default)]
struct Seen {
    vote: Ballot,
    applied: u64,
    /// What would be different if anything was.
    stored: Stored,
}

type Position = Option<(u64, Ballot)>;

/// As what a node leads; its purged, last and applied entries.
type Stored = (Option<Ballot>, Position, Position, Position);

fn hash(bytes: &[u8]) -> u64 {
    // Deterministic, and good enough to tell states apart.
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

impl RaftChecks {
    /// The node has an empty disk, or has left its state behind to join a cluster.
    pub(crate) fn forget(&mut self, node: usize) {
        self.nodes.remove(&node);
    }

    /// Leaders so far.
    pub(crate) fn terms(&self) -> usize {
        self.leaders.len()
    }

    /// Compares a node with everything seen so far. Returns what is wrong.
    pub(crate) fn observe(&mut self, node: usize, seen: &Inspection) -> Result<(), String> {
        self.vote = self.vote.max(seen.vote);
        let stored = (seen.leads_as, seen.purged, seen.last, seen.applied);
        let before = self.nodes.get(&node).copied().unwrap_or_default();
        if before.vote == seen.vote && before.stored == stored {
            return Ok(());
        }
        let log = seen.log().map_err(|error| format!("the log of node {node}: {error}"))?;
        self.check_growth(node, seen, stored)?;
        if let Some(ballot) = seen.leads_as {
            self.check_leader(node, ballot, seen, &log)?;
        }
        self.check_log(node, seen, &log)?;
        self.check_committed(node, seen, &log)
    }

    fn check_growth(
        &mut self,
        node: usize,
        seen: &Inspection,
        stored: Stored,
    ) -> Result<(), String> {
        let applied = seen.applied.map_or(0, |(index, _)| index);
        let before = self.nodes.entry(node).or_default();
        if seen.vote < before.vote {
            return Err(format!(
                "node {node} went back from vote {} to {}: it forgot its vote",
                before.vote, seen.vote
            ));
        }
        if applied < before.applied {
            return Err(format!(
                "node {node} went back from entry {} to {applied}",
                before.applied
            ));
        }
        *before = Seen { vote: seen.vote, applied, stored };
        Ok(())
    }

    fn check_leader(
        &mut self,
        node: usize,
        ballot: Ballot,
        seen: &Inspection,
        log: &[InspectedEntry],
    ) -> Result<(), String> {
        let leader = *self.leaders.entry(ballot).or_insert(node);
        if leader != node {
            return Err(format!("node {leader} and node {node} both lead as {ballot}"));
        }
        let purged = seen.purged.map_or(0, |(index, _)| index);
        let logged: BTreeMap<u64, Ballot> = log.iter().map(|at| (at.index, at.ballot)).collect();
        for (index, (entry_ballot, committed_before)) in self.committed.range(purged + 1..) {
            let has = logged.get(index) == Some(entry_ballot)
                || seen.applied.is_some_and(|(applied, _)| *index <= applied);
            if *committed_before < ballot && !has {
                return Err(format!(
                    "node {node} leads as {ballot} without entry {index}, which was committed before"
                ));
            }
        }
        Ok(())
    }

    fn check_log(
        &mut self,
        node: usize,
        seen: &Inspection,
        log: &[InspectedEntry],
    ) -> Result<(), String> {
        let mut before = seen.purged;
        for InspectedEntry { index, ballot, bytes } in log {
            if let Some((earlier, _)) = before
                && earlier + 1 != *index
            {
                return Err(format!(
                    "the log of node {node} has no entry between {earlier} and {index}"
                ));
            }
            let previous = before.map(|(_, ballot)| ballot);
            let this = hash(bytes);
            let known = self.entries.entry((*index, *ballot)).or_insert((this, previous));
            let is_other = known.1.is_some() && previous.is_some() && known.1 != previous;
            if known.0 != this || is_other {
                return Err(format!(
                    "entry {index} of leader {ballot} is another one at node {node} than elsewhere"
                ));
            }
            known.1 = known.1.or(previous);
            before = Some((*index, *ballot));
        }
        Ok(())
    }

    fn check_committed(
        &mut self,
        node: usize,
        seen: &Inspection,
        log: &[InspectedEntry],
    ) -> Result<(), String> {
        let Some((applied, last)) = seen.applied else { return Ok(()) };
        let logged = log.iter().take_while(|entry| entry.index <= applied);
        let committed = logged.map(|entry| (entry.index, entry.ballot)).chain([(applied, last)]);
        for (index, ballot) in committed {
            let known = *self.committed.entry(index).or_insert((ballot, self.vote));
            if known.0 != ballot {
                return Err(format!(
                    "node {node} has applied entry {index} of leader {ballot}, others that of {}",
                    known.0
                ));
            }
        }
        let state = seen.state().map_err(|error| format!("the state of node {node}: {error}"))?;
        let this = hash(&state);
        match *self.states.entry(applied).or_insert(this) {
            known if known == this => Ok(()),
            _ => Err(format!(
                "the state of node {node} after entry {applied} is another one than elsewhere"
            )),
        }
    }
}
