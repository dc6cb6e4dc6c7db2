//! What a node has stored and believes, for checkers that compare the nodes of a simulation.

use std::ops::Bound;

use cluster_state::{ClusterError, Decoder, ImageReader};
use openraft::ServerState;
use storage::{ReadTransaction, Transaction};

use crate::{
    cluster::Cluster,
    log_format::{read_log_id, take_vote, write_entry},
    log_store::{entries_of, last_of},
    raft_types::Entry,
    schema,
    state_machine::last_applied,
};

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedEntry {
    /// Its index.
    pub index: u64,
    /// The term of the leader that appended it.
    pub term: u64,
    /// Its encoding, which contains the term, the leader, and the commands.
    pub bytes: Vec<u8>,
}

/// What one node has stored at a moment, and whether it leads.
pub struct Inspection {
    /// The term in which this node leads; `None` if it does not.
    pub leads_in: Option<u64>,
    /// The term that is stored, with the vote.
    pub term: u64,
    /// The last entry that was removed from the log: index and term.
    pub purged: Option<(u64, u64)>,
    /// The last entry of the log: index and term.
    pub last: Option<(u64, u64)>,
    /// The last entry whose effects are in the state: index and term.
    pub applied: Option<(u64, u64)>,
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
            term: entry.log_id.leader_id.term,
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
        let position = |log_id: crate::raft_types::LogId| (log_id.index, log_id.leader_id.term);
        let last = last_of(&tx)?;
        let metrics = self.shared.raft().map(|raft| raft.metrics().borrow().clone());
        let leads_in = metrics
            .filter(|metrics| metrics.state == ServerState::Leader)
            .map(|metrics| metrics.current_term);
        Ok(Inspection {
            leads_in,
            term: vote.transpose()?.map_or(0, |vote| vote.leader_id.term),
            purged: purged.map(position),
            last: last.map(position),
            applied: last_applied(&tx)?.map(position),
            tx,
        })
    }
}
