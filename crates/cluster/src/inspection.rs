//! What a node has stored and believes, for checkers that compare the nodes of a simulation.

use std::{fmt, ops::Bound};

use cluster_state::{ClusterError, Decoder, ImageReader};
use openraft::ServerState;
use storage::{ReadTransaction, Transaction};

use crate::{
    cluster::Cluster,
    log_format::{read_log_id, take_vote, write_entry},
    log_store::{entries_of, last_of},
    raft_types::{Entry, LogId},
    schema,
    state_machine::last_applied,
};

/// Which leader it was. openraft orders leaders by term and then by node: two nodes may lead in one term, one after the other,
/// as if the terms were different ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ballot {
    /// The term.
    pub term: u64,
    /// The number of the node that leads, or stands for election.
    pub node: u64,
}

impl fmt::Display for Ballot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.term, self.node)
    }
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedEntry {
    /// Its index.
    pub index: u64,
    /// The leader that appended it.
    pub ballot: Ballot,
    /// Its encoding, which contains the leader and the commands.
    pub bytes: Vec<u8>,
}

/// What one node has stored at a moment, and whether it leads.
pub struct Inspection {
    /// As what this node leads; `None` if it does not.
    pub leads_as: Option<Ballot>,
    /// The vote that is stored.
    pub vote: Ballot,
    /// The last entry that was removed from the log, and its leader.
    pub purged: Option<(u64, Ballot)>,
    /// The last entry of the log, and its leader.
    pub last: Option<(u64, Ballot)>,
    /// The last entry whose effects are in the state, and its leader.
    pub applied: Option<(u64, Ballot)>,
    tx: ReadTransaction,
}

impl Inspection {
    /// The entries of the log.
    ///
    /// # Errors
    /// Storage errors.
    pub fn log(&self) -> Result<Vec<InspectedEntry>, ClusterError> {
        let logged = |entry: Entry| InspectedEntry {
            index: entry.log_id.index,
            ballot: ballot(entry.log_id.leader_id.term, entry.log_id.leader_id.node_id),
            bytes: write_entry(&entry),
        };
        let log = entries_of(&self.tx, (Bound::<u64>::Unbounded, Bound::Unbounded))?;
        Ok(log.into_iter().map(logged).collect())
    }

    /// All rows of the state that nodes share.
    ///
    /// # Errors
    /// Storage errors.
    pub fn state(&self) -> Result<Vec<u8>, ClusterError> {
        let state = ImageReader::default().next_piece(&self.tx, usize::MAX)?;
        Ok(state.unwrap_or_default())
    }
}

impl Cluster {
    /// What this node has stored and believes.
    ///
    /// # Errors
    /// Storage errors.
    pub fn inspect(&self) -> Result<Inspection, ClusterError> {
        let tx = self.shared.store.environment().read();
        let raft = tx.tree(&schema::raft())?;
        let vote = raft.get(schema::VOTE)?.map(|bytes| take_vote(&mut Decoder::new(bytes)));
        let purged = raft.get(schema::PURGED)?.map(read_log_id).transpose()?;
        let position = |log_id: LogId| {
            let leader = log_id.leader_id;
            (log_id.index, ballot(leader.term, leader.node_id))
        };
        let last = last_of(&tx)?;
        let metrics = self.shared.raft().map(|raft| raft.metrics().borrow().clone());
        let leads_as = metrics
            .filter(|metrics| metrics.state == ServerState::Leader)
            .map(|metrics| ballot(metrics.vote.leader_id.term, metrics.vote.leader_id.node_id));
        let vote = vote.transpose()?.map(|vote| vote.leader_id);
        Ok(Inspection {
            leads_as,
            vote: vote.map_or_else(Ballot::default, |vote| ballot(vote.term, vote.node_id)),
            purged: purged.map(position),
            last: last.map(position),
            applied: last_applied(&tx)?.map(position),
            tx,
        })
    }
}

fn ballot(term: u64, node: u64) -> Ballot {
    Ballot { term, node }
}
