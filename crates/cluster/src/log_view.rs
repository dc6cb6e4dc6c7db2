//! What is in the log of a node, for operators.

use std::ops::Bound;

use cluster_state::ClusterError;
use openraft::EntryPayload;
use storage::{Environment, Transaction};

use crate::{
    log_format::read_entry,
    log_store::{index_of, log_state},
    schema,
};

/// How far the log of a node goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogExtent {
    /// The last entry that was removed, because it was applied; 0 if none was.
    pub purged: u64,
    /// The last entry.
    pub last: u64,
    /// The term of the last entry.
    pub term: u64,
    /// The last entry that was applied.
    pub applied: u64,
    /// How many entries there are.
    pub count: u64,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedEntry {
    /// Its index.
    pub index: u64,
    /// The term of the leader that made it.
    pub term: u64,
    /// Its bytes.
    pub bytes: u64,
    /// What it changes, in words: `Noop` if nothing, `Topology` if the nodes of the cluster.
    pub kinds: Vec<&'static str>,
}

pub(crate) fn extent(environment: &Environment, applied: u64) -> Result<LogExtent, ClusterError> {
    let log = log_state(environment)?;
    let purged = log.last_purged_log_id.map_or(0, |log_id| log_id.index);
    let (last, term) =
        log.last_log_id.map_or((0, 0), |log_id| (log_id.index, log_id.leader_id.term));
    let tx = environment.read();
    let tree = tx.tree(&schema::log())?;
    let first = tree.range(Bound::Unbounded)?.next().transpose()?;
    let first = first.map(|(key, _)| index_of(&key)).transpose()?;
    let count = first.map_or(0, |first| last.saturating_sub(first) + 1);
    Ok(LogExtent { purged, last, term, applied, count })
}

/// The entries from an index downwards, the latest first.
pub(crate) fn entries(
    environment: &Environment,
    to: u64,
    take: usize,
) -> Result<Vec<LoggedEntry>, ClusterError> {
    let tx = environment.read();
    let to = to.to_be_bytes();
    let rows = tx.tree(&schema::log())?;
    let rows = rows.range_back(Bound::Included(&to))?;
    let entries = rows.take(take).map(|row| {
        let (key, bytes) = row?;
        let entry = read_entry(index_of(&key)?, bytes)?;
        let kinds = match entry.payload {
            EntryPayload::Blank => vec!["Noop"],
            EntryPayload::Normal(batch) => batch.kinds()?,
            EntryPayload::Membership(_) => vec!["Topology"],
        };
        let (index, term) = (entry.log_id.index, entry.log_id.leader_id.term);
        Ok(LoggedEntry { index, term, bytes: bytes.len() as u64, kinds })
    });
    entries.collect()
}
