//! Applying the log to the state.
//!
//! ```text
//! tree Cluster/Raft
//!   LastApplied       log id: term 8, node 8, index 8
//!   Membership        whether it has a log id 1, log id 24, then as in the log
//!   Members           the same, with watchers; takes the place of Membership
//! ```
//!
//! The effects of entries and the id of the last applied entry change in one transaction: after a crash, only
//! the entries after it are applied again. The stored state is itself the snapshot of the machine, so purging
//! the log costs nothing but the deletion.
//!
//! An entry appended by the only voter is committed at once. Its effects are therefore part of the
//! transaction that appends it, and reach stable storage with one write instead of two. openraft asks for the
//! outcomes a moment later and receives those kept for it, see [`AppliedEarly`].

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cluster_state::{
    Applied, Changes, ClusterError, ClusterStore, Decoder, Effects, Encoder, apply_batch,
};
use openraft::{
    EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot, storage::RaftStateMachine,
};
use storage::{StorageError, Transaction, WriteTransaction};

use crate::{
    failure::LastFailure,
    log_format::{read_log_id, read_membership, write_log_id, write_membership},
    node_id::tag_of,
    raft_types::{
        Entry, LogId, Membership, RaftStorageError, SnapshotMeta, StoredMembership, TypeConfig,
    },
    schema,
    snapshot::install_staged,
    state_image::StateImage,
};

/// The outcomes of entries that were applied while being appended, until openraft asks for them. The log and
/// the state machine share it.
#[derive(Clone, Default)]
pub(crate) struct AppliedEarly(Arc<Mutex<VecDeque<Outcomes>>>);

/// An entry and the outcomes of its commands.
type Outcomes = (LogId, Vec<Applied>);

impl AppliedEarly {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Outcomes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the outcomes of entries that are now durable.
    pub(crate) fn keep(&self, outcomes: Vec<Outcomes>) {
        self.lock().extend(outcomes);
    }

    /// The outcomes of an entry, if it was applied early.
    fn take(&self, log_id: &LogId) -> Option<Vec<Applied>> {
        let mut waiting = self.lock();
        let is_next = waiting.front().is_some_and(|(next, _)| next == log_id);
        is_next.then(|| waiting.pop_front()).flatten().map(|(_, outcomes)| outcomes)
    }
}

/// The state in the server's environment.
#[derive(Clone)]
pub(crate) struct StateMachine {
    store: ClusterStore,
    /// The id of this node.
    node: u64,
    early: AppliedEarly,
    failure: LastFailure,
    /// The last entry that openraft knows to be applied; later ones may be applied already.
    last_reported: Option<LogId>,
}

impl StateMachine {
    pub(crate) fn new(
        store: ClusterStore,
        node: u64,
        early: AppliedEarly,
        failure: LastFailure,
    ) -> Self {
        Self { store, node, early, failure, last_reported: None }
    }

    fn stored(&self) -> Result<(Option<LogId>, StoredMembership), ClusterError> {
        let tx = self.store.environment().read();
        Ok((last_applied(&tx)?, stored_membership(&tx)?))
    }

    fn apply_all(
        &mut self,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<Vec<Vec<Applied>>, ClusterError> {
        let (mut outcomes, mut changes) = (Vec::new(), Changes::default());
        let mut tx = None;
        for entry in entries {
            self.last_reported = Some(entry.log_id);
            outcomes.push(match self.early.take(&entry.log_id) {
                Some(early) => early,
                None => {
                    let tx = match &mut tx {
                        Some(tx) => tx,
                        None => tx.insert(self.store.environment().write()?),
                    };
                    // The state that another node sent may be newer than that node reported.
                    if last_applied(tx)?.is_some_and(|last| entry.log_id.index <= last.index) {
                        outcomes.push(Vec::new());
                        continue;
                    }
                    let effects = apply(tx, &entry, self.node)?;
                    changes.extend(effects.changes);
                    effects.applied
                }
            });
        }
        if let Some(tx) = tx {
            self.store.commit(tx, &changes)?;
        }
        Ok(outcomes)
    }

    fn snapshot(&self) -> Result<Snapshot<TypeConfig>, ClusterError> {
        let tx = self.store.environment().read();
        let (last_stored, last_membership) = (last_applied(&tx)?, stored_membership(&tx)?);
        // openraft must not learn of an entry from here before it has been notified that the entry is
        // applied.
        let last_log_id = self.last_reported.or(last_stored);
        let snapshot_id = last_log_id.map_or_else(String::new, |last| last.to_string());
        let meta = SnapshotMeta { last_log_id, last_membership, snapshot_id };
        Ok(Snapshot { meta, snapshot: Box::new(StateImage::Stored(Arc::new(tx))) })
    }
}

/// Whether an entry that is being appended may be applied in the same transaction: this node is the only
/// voter, so appending commits, and all earlier entries are applied.
pub(crate) fn is_decided_by_appending(
    tx: &impl Transaction,
    entry: &Entry,
    node: u64,
) -> Result<bool, ClusterError> {
    // The new members have a say in whether a change of the membership is committed.
    if matches!(entry.payload, EntryPayload::Membership(_)) {
        return Ok(false);
    }
    let is_next = last_applied(tx)?.is_some_and(|last| last.index + 1 == entry.log_id.index);
    Ok(is_next && is_only_voter(stored_membership(tx)?.membership(), node))
}

/// Whether no node but this one has a vote.
pub(crate) fn is_only_voter(membership: &Membership, node: u64) -> bool {
    membership.get_joint_config().as_slice() == [BTreeSet::from([node])]
}

/// Applies an entry; returns the effects of its commands.
pub(crate) fn apply(
    tx: &mut WriteTransaction,
    entry: &Entry,
    node: u64,
) -> Result<Effects, ClusterError> {
    let effects = match &entry.payload {
        EntryPayload::Blank => Effects::default(),
        EntryPayload::Membership(membership) => {
            store_membership(tx, Some(&entry.log_id), membership)?;
            Effects::default()
        }
        EntryPayload::Normal(batch) => {
            let invalid = ClusterError::Corrupt { detail: "the id of this node is no tag" };
            apply_batch(tx, batch, tag_of(node).ok_or(invalid)?)?
        }
    };
    store_applied(tx, &entry.log_id)?;
    Ok(effects)
}

pub(crate) fn store_applied(tx: &mut WriteTransaction, log_id: &LogId) -> Result<(), StorageError> {
    tx.tree_mut(&schema::raft())?.put(schema::LAST_APPLIED, &write_log_id(log_id))?;
    Ok(())
}

pub(crate) fn last_applied(tx: &impl Transaction) -> Result<Option<LogId>, ClusterError> {
    let tree = tx.tree(&schema::raft())?;
    Ok(tree.get(schema::LAST_APPLIED)?.map(read_log_id).transpose()?)
}

pub(crate) fn store_membership(
    tx: &mut WriteTransaction,
    log_id: Option<&LogId>,
    membership: &Membership,
) -> Result<(), ClusterError> {
    let mut encoder = Encoder::default();
    encoder.optional(log_id, |encoder, log_id| encoder.raw(&write_log_id(log_id)));
    write_membership(membership, &mut encoder);
    let mut tree = tx.tree_mut(&schema::raft())?;
    tree.put(schema::MEMBERS, &encoder.finish())?;
    tree.delete(schema::MEMBERSHIP)?;
    Ok(())
}

/// The nodes of the cluster, as of the last applied entry.
pub(crate) fn stored_membership(tx: &impl Transaction) -> Result<StoredMembership, ClusterError> {
    let tree = tx.tree(&schema::raft())?;
    let read = |bytes, has_watchers| {
        let mut decoder = Decoder::new(bytes);
        let log_id = decoder.optional(|decoder| read_log_id(&decoder.fixed::<24>()?))?;
        let membership = read_membership(&mut decoder, has_watchers)?;
        Ok(StoredMembership::new(log_id, membership))
    };
    match tree.get(schema::MEMBERS)? {
        Some(bytes) => read(bytes, true),
        None => match tree.get(schema::MEMBERSHIP)? {
            Some(bytes) => read(bytes, false),
            None => Ok(StoredMembership::default()),
        },
    }
}

impl RaftSnapshotBuilder<TypeConfig> for StateMachine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, RaftStorageError> {
        self.snapshot().map_err(|error| self.failure.in_state(error))
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId>, StoredMembership), RaftStorageError> {
        let stored = self.stored().map_err(|error| self.failure.in_state(error))?;
        self.last_reported = stored.0;
        Ok(stored)
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Vec<Applied>>, RaftStorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.apply_all(entries).map_err(|error| self.failure.in_state(error))
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<StateImage>, RaftStorageError> {
        Ok(Box::new(StateImage::Staged))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        _staged: Box<StateImage>,
    ) -> Result<(), RaftStorageError> {
        install_staged(&self.store, meta).map_err(|error| self.failure.in_state(error))?;
        self.last_reported = meta.last_log_id;
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<TypeConfig>>, RaftStorageError> {
        let snapshot = self.snapshot().map_err(|error| self.failure.in_state(error))?;
        Ok(snapshot.meta.last_log_id.is_some().then_some(snapshot))
    }
}
