//! The log of the machine, its vote, and the point up to which the log was purged.
//!
//! ```text
//! tree Cluster/Log    index of the entry, 8 bytes big-endian -> entry
//!   entry             version 1 (= 1), kind 1, term 8, node 8, then by kind
//!     kind 0 blank    nothing
//!     kind 1 batch    see command.rs
//!     kind 2 members  see below, of builds that knew no watchers
//!     kind 3 members  see below
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
};

use cluster_state::{
    Changes, ClusterError, ClusterStore, Decoder, EncodedBatch, Encoder, Malformed,
};
use openraft::{
    CommittedLeaderId, EntryPayload, LogState, OptionalSend, RaftLogReader, Vote,
    storage::{LogFlushed, RaftLogStorage},
};
use storage::{Environment, Transaction};

use crate::{
    failure::LastFailure,
    message::{put_vote, take_vote},
    raft_types::{Entry, LogId, Member, Membership, RaftStorageError, TypeConfig},
    schema,
    state_machine::{AppliedEarly, apply, is_decided_by_appending},
};

const ENTRY_VERSION: u8 = 1;
const BLANK: u8 = 0;
const BATCH: u8 = 1;
const MEMBERS_WITHOUT_WATCHERS: u8 = 2;
const MEMBERS: u8 = 3;

/// The log in the server's environment.
#[derive(Clone)]
pub(crate) struct LogStore {
    store: ClusterStore,
    /// The id of this node.
    node: u64,
    early: AppliedEarly,
    failure: LastFailure,
}

impl LogStore {
    pub(crate) fn new(
        store: ClusterStore,
        node: u64,
        early: AppliedEarly,
        failure: LastFailure,
    ) -> Self {
        Self { store, node, early, failure }
    }

    fn entries(&self, range: impl RangeBounds<u64>) -> Result<Vec<Entry>, ClusterError> {
        let from = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let tx = self.store.environment().read();
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

    /// Removes entries from the start of the log up to an index, or from an index to its end.
    fn remove(
        &self,
        range: impl RangeBounds<u64>,
        purged: Option<LogId>,
    ) -> Result<(), ClusterError> {
        let mut tx = self.store.environment().write()?;
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
        if let Some(purged) = purged {
            tx.tree_mut(&schema::raft())?.put(schema::PURGED, &write_log_id(&purged))?;
        }
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
        self.remove(log_id.index.., None).map_err(|error| self.failure.in_log(error))
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), RaftStorageError> {
        self.remove(..=log_id.index, Some(log_id)).map_err(|error| self.failure.in_log(error))
    }
}

/// The last entry of the log, and the last one that was purged.
pub(crate) fn log_state(environment: &Environment) -> Result<LogState<TypeConfig>, ClusterError> {
    let tx = environment.read();
    let purged = tx.tree(&schema::raft())?.get(schema::PURGED)?;
    let last_purged_log_id = purged.map(read_log_id).transpose()?;
    let last = tx.tree(&schema::log())?.range_back(Bound::Unbounded)?.next().transpose()?;
    let last = last.map(|(key, row)| read_entry(index_of(&key)?, row)).transpose()?;
    let last_log_id = last.map(|entry| entry.log_id).or(last_purged_log_id);
    Ok(LogState { last_purged_log_id, last_log_id })
}

fn index_of(key: &[u8]) -> Result<u64, Malformed> {
    let index = <[u8; 8]>::try_from(key);
    index.map(u64::from_be_bytes).map_err(|_| Malformed("a log key is not an index"))
}

pub(crate) fn write_entry(entry: &Entry) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.byte(ENTRY_VERSION);
    let kind = match entry.payload {
        EntryPayload::Blank => BLANK,
        EntryPayload::Normal(_) => BATCH,
        EntryPayload::Membership(_) => MEMBERS,
    };
    encoder.byte(kind);
    encoder.u64(entry.log_id.leader_id.term);
    encoder.u64(entry.log_id.leader_id.node_id);
    match &entry.payload {
        EntryPayload::Blank => {}
        EntryPayload::Normal(EncodedBatch(bytes)) => encoder.raw(bytes),
        EntryPayload::Membership(membership) => write_membership(membership, &mut encoder),
    }
    encoder.finish()
}

pub(crate) fn read_entry(index: u64, bytes: &[u8]) -> Result<Entry, Malformed> {
    let mut decoder = Decoder::new(bytes);
    if decoder.byte()? != ENTRY_VERSION {
        return Err(Malformed("a log entry has an unknown version"));
    }
    let kind = decoder.byte()?;
    let leader_id = CommittedLeaderId::new(decoder.u64()?, decoder.u64()?);
    let payload = match kind {
        BLANK => EntryPayload::Blank,
        BATCH => EntryPayload::Normal(EncodedBatch(decoder.rest().to_vec())),
        MEMBERS_WITHOUT_WATCHERS => EntryPayload::Membership(read_membership(&mut decoder, false)?),
        MEMBERS => EntryPayload::Membership(read_membership(&mut decoder, true)?),
        _ => return Err(Malformed("a log entry is of an unknown kind")),
    };
    decoder.end()?;
    Ok(Entry { log_id: LogId { leader_id, index }, payload })
}

/// ```text
/// number of sets of voters 4, each: number of its nodes 4, their ids 8
/// number of nodes 4, each: id 8, address after its length 4, whether it is a watcher 1
/// ```
pub(crate) fn write_membership(membership: &Membership, encoder: &mut Encoder) {
    let number = |count: usize| u32::try_from(count).expect("a cluster has few nodes");
    let sets = membership.get_joint_config();
    encoder.u32(number(sets.len()));
    for set in sets {
        encoder.u32(number(set.len()));
        set.iter().for_each(|node| encoder.u64(*node));
    }
    encoder.u32(number(membership.nodes().count()));
    for (id, member) in membership.nodes() {
        encoder.u64(*id);
        encoder.text(&member.url);
        encoder.flag(member.is_watcher);
    }
}

/// Older builds wrote no watchers.
pub(crate) fn read_membership(
    decoder: &mut Decoder<'_>,
    has_watchers: bool,
) -> Result<Membership, Malformed> {
    let mut sets = Vec::new();
    for _ in 0..decoder.u32()? {
        let nodes = decoder.u32()?;
        sets.push((0..nodes).map(|_| decoder.u64()).collect::<Result<_, _>>()?);
    }
    let mut nodes = std::collections::BTreeMap::new();
    for _ in 0..decoder.u32()? {
        let (id, url) = (decoder.u64()?, decoder.text()?.to_owned());
        let is_watcher = has_watchers && decoder.flag()?;
        nodes.insert(id, Member { url, is_watcher });
    }
    Ok(Membership::new(sets, nodes))
}

pub(crate) fn write_log_id(log_id: &LogId) -> Vec<u8> {
    let mut encoder = Encoder::default();
    encoder.u64(log_id.leader_id.term);
    encoder.u64(log_id.leader_id.node_id);
    encoder.u64(log_id.index);
    encoder.finish()
}

pub(crate) fn read_log_id(bytes: &[u8]) -> Result<LogId, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let leader_id = CommittedLeaderId::new(decoder.u64()?, decoder.u64()?);
    let log_id = LogId { leader_id, index: decoder.u64()? };
    decoder.end()?;
    Ok(log_id)
}
