//! The log of the machine, its vote, and the point up to which the log was purged.
//!
//! ```text
//! tree Cluster/Log    index of the entry, 8 bytes big-endian -> entry
//!                     see log_format.rs
//! tree Cluster/Raft
//!   Version           u32
//!   Vote              term 8, node 8, committed 1
//!   Purged            log id: term 8, node 8, index 8
//! ```
//!
//! Appending is the durable write of a command: one transaction, one write to the journal. Entries that are
//! committed by being appended are applied in the same transaction, see `state_machine`.

use std::{
    fmt::Debug,
    io,
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use cluster_state::{Changes, ClusterError, ClusterStore, Decoder, Encoder, Malformed};
use openraft::{
    LogState, OptionalSend, RaftLogReader, Vote,
    storage::{LogFlushed, RaftLogStorage},
};
use storage::{Environment, Transaction, WriteTransaction};

use crate::{
    failure::LastFailure,
    log_format::{put_vote, read_entry, read_log_id, take_vote, write_entry, write_log_id},
    raft_types::{Entry, LogId, RaftStorageError, TypeConfig},
    schema,
    snapshot::{Staging, install_staged},
    state_machine::{AppliedEarly, apply, is_decided_by_appending},
};

/// The log in the server's environment.
#[derive(Clone)]
pub(crate) struct LogStore {
    store: ClusterStore,
    /// The id of this node.
    node: u64,
    early: AppliedEarly,
    failure: LastFailure,
    staging: Arc<Staging>,
}

impl LogStore {
    pub(crate) fn new(
        store: ClusterStore,
        node: u64,
        early: AppliedEarly,
        failure: LastFailure,
        staging: Arc<Staging>,
    ) -> Self {
        Self { store, node, early, failure, staging }
    }

    fn entries(&self, range: impl RangeBounds<u64>) -> Result<Vec<Entry>, ClusterError> {
        entries_of(&self.store.environment().read(), range)
    }

    fn write(&self, entries: impl IntoIterator<Item = Entry>) -> Result<(), ClusterError> {
        let mut tx = self.store.environment().write()?;
        let (mut early, mut changes) = (Vec::new(), Changes::default());
        for entry in entries {
            let key = entry.log_id.index.to_be_bytes();
            tx.tree_mut(&schema::log())?.put(&key, &write_entry(&entry))?;
            if is_decided_by_appending(&tx, &entry, self.node)? {
                let effects = apply(&mut tx, &entry, self.node)?;
                early.push((entry.log_id, effects.applied));
                changes.extend(effects.changes);
            }
        }
        self.store.commit(tx, &changes)?;
        self.early.keep(early);
        Ok(())
    }

    fn truncate_from(&self, index: u64) -> Result<(), ClusterError> {
        let mut tx = self.store.environment().write()?;
        remove_entries(&mut tx, index..)?;
        Ok(tx.commit()?)
    }

    /// Removes the entries up to this one. Their effects are in the stored state, or in the staged one that is being taken
    /// over: openraft removes the entries first, and a power cut in between would leave neither them nor their effects. So
    /// the staged state is taken over here, in the same transaction.
    fn purge_up_to(&self, log_id: &LogId) -> Result<(), ClusterError> {
        if let Some(meta) = self.staging.ending_with(log_id) {
            return install_staged(&self.store, &meta);
        }
        let mut tx = self.store.environment().write()?;
        remove_entries(&mut tx, ..=log_id.index)?;
        store_purged(&mut tx, log_id)?;
        Ok(tx.commit()?)
    }

    fn vote(&self) -> Result<Option<Vote<u64>>, ClusterError> {
        let tx = self.store.environment().read();
        let Some(bytes) = tx.tree(&schema::raft())?.get(schema::VOTE)? else { return Ok(None) };
        Ok(Some(take_vote(&mut Decoder::new(bytes))?))
    }

    fn put_vote(&self, vote: &Vote<u64>) -> Result<(), ClusterError> {
        let mut encoder = Encoder::default();
        put_vote(&mut encoder, vote);
        let mut tx = self.store.environment().write()?;
        tx.tree_mut(&schema::raft())?.put(schema::VOTE, &encoder.finish())?;
        Ok(tx.commit()?)
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, RaftStorageError> {
        self.entries(range).map_err(|error| self.failure.in_log(error))
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, RaftStorageError> {
        log_state(self.store.environment()).map_err(|error| self.failure.in_log(error))
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<(), RaftStorageError> {
        self.put_vote(vote).map_err(|error| self.failure.in_vote(error))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>, RaftStorageError> {
        self.vote().map_err(|error| self.failure.in_vote(error))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), RaftStorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        match self.write(entries) {
            Ok(()) => {
                callback.log_io_completed(Ok(()));
                Ok(())
            }
            Err(error) => {
                callback.log_io_completed(Err(io::Error::other(error.clone())));
                Err(self.failure.appending(error))
            }
        }
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), RaftStorageError> {
        self.truncate_from(log_id.index).map_err(|error| self.failure.in_log(error))
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), RaftStorageError> {
        self.purge_up_to(&log_id).map_err(|error| self.failure.in_log(error))
    }
}

/// Removes entries from the start of a log up to an index, or from an index to its end.
pub(crate) fn remove_entries(
    tx: &mut WriteTransaction,
    range: impl RangeBounds<u64>,
) -> Result<(), ClusterError> {
    let mut keys = Vec::new();
    for row in tx.tree(&schema::log())?.range(Bound::Unbounded)? {
        let (key, _) = row?;
        if range.contains(&index_of(&key)?) {
            keys.push(key);
        } else if !keys.is_empty() {
            break;
        }
    }
    let mut log = tx.tree_mut(&schema::log())?;
    for key in keys {
        log.delete(&key)?;
    }
    Ok(())
}

/// Stores that the log begins after this entry.
pub(crate) fn store_purged(tx: &mut WriteTransaction, log_id: &LogId) -> Result<(), ClusterError> {
    tx.tree_mut(&schema::raft())?.put(schema::PURGED, &write_log_id(log_id))?;
    Ok(())
}

/// The entries of a log with these indexes.
pub(crate) fn entries_of(
    tx: &impl Transaction,
    range: impl RangeBounds<u64>,
) -> Result<Vec<Entry>, ClusterError> {
    let from = match range.start_bound() {
        Bound::Included(index) => *index,
        Bound::Excluded(index) => index.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let mut entries = Vec::new();
    for row in tx.tree(&schema::log())?.range(Bound::Included(&from.to_be_bytes()))? {
        let (key, row) = row?;
        let index = index_of(&key)?;
        if !range.contains(&index) {
            break;
        }
        entries.push(read_entry(index, row)?);
    }
    Ok(entries)
}

/// The last entry of the log, and the last one that was purged.
pub(crate) fn log_state(environment: &Environment) -> Result<LogState<TypeConfig>, ClusterError> {
    let tx = environment.read();
    let purged = tx.tree(&schema::raft())?.get(schema::PURGED)?;
    let last_purged_log_id = purged.map(read_log_id).transpose()?;
    let last_log_id = last_of(&tx)?.or(last_purged_log_id);
    Ok(LogState { last_purged_log_id, last_log_id })
}

/// The last entry of a log.
pub(crate) fn last_of(tx: &impl Transaction) -> Result<Option<LogId>, ClusterError> {
    let last = tx.tree(&schema::log())?.range_back(Bound::Unbounded)?.next().transpose()?;
    let last = last.map(|(key, row)| read_entry(index_of(&key)?, row)).transpose()?;
    Ok(last.map(|entry| entry.log_id))
}

pub(crate) fn index_of(key: &[u8]) -> Result<u64, Malformed> {
    let index = <[u8; 8]>::try_from(key);
    index.map(u64::from_be_bytes).map_err(|_| Malformed("a log key is not an index"))
}
