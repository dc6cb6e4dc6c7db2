//! Applying the log to the state.
//!
//! ```text
//! tree Cluster/Raft
//!   LastApplied       log id: term 8, node 8, index 8
//!   Membership        whether it has a log id 1, log id 24, then as in the log
//! ```
//!
//! The effects of entries and the id of the last of them change in one transaction: after a crash the
//! entries behind it are applied again, the others are not. The stored state is itself the snapshot of
//! the machine, so throwing away the log costs nothing but the deletion.

use std::sync::Arc;

use openraft::{
    EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot, SnapshotMeta,
    storage::RaftStateMachine,
};
use storage::{Environment, Transaction, WriteTransaction};

use crate::{
    change_index,
    command::{Applied, EncodedBatch, apply_encoded},
    encoding::{Decoder, Encoder},
    error::ClusterError,
    failure::LastFailure,
    log_store::{read_log_id, read_membership, write_log_id, write_membership},
    raft_types::{Entry, LogId, Membership, RaftStorageError, StoredMembership, TypeConfig},
    schema,
};

/// Stands for the stored state as a whole. Another node would be sent what a read transaction sees;
/// there is no other node yet.
#[derive(Clone, Debug)]
pub(crate) struct StateImage;

/// The state in the server's environment.
#[derive(Clone)]
pub(crate) struct StateMachine {
    environment: Arc<Environment>,
    failure: LastFailure,
}

impl StateMachine {
    pub(crate) fn new(environment: Arc<Environment>, failure: LastFailure) -> Self {
        Self { environment, failure }
    }

    fn stored(&self) -> Result<(Option<LogId>, StoredMembership), ClusterError> {
        let tx = self.environment.read();
        let tree = tx.tree(&schema::raft())?;
        let last = tree.get(schema::LAST_APPLIED)?.map(read_log_id).transpose()?;
        let Some(bytes) = tree.get(schema::MEMBERSHIP)? else {
            return Ok((last, StoredMembership::default()));
        };
        let mut decoder = Decoder::new(bytes);
        let log_id = decoder.optional(|decoder| read_log_id(&decoder.fixed::<24>()?))?;
        let membership = read_membership(&mut decoder)?;
        Ok((last, StoredMembership::new(log_id, membership)))
    }

    fn apply_all(
        &self,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<Vec<Vec<Applied>>, ClusterError> {
        let mut tx = self.environment.write()?;
        let mut index = change_index::last_index(&tx)?;
        let mut outcomes = Vec::new();
        for entry in entries {
            outcomes.push(match &entry.payload {
                EntryPayload::Blank => Vec::new(),
                EntryPayload::Membership(membership) => {
                    store_membership(&mut tx, &entry.log_id, membership)?;
                    Vec::new()
                }
                EntryPayload::Normal(batch) => apply_batch(&mut tx, &mut index, batch)?,
            });
            let log_id = write_log_id(&entry.log_id);
            tx.tree_mut(&schema::raft())?.put(schema::LAST_APPLIED, &log_id)?;
        }
        change_index::store(&mut tx, index)?;
        tx.commit()?;
        Ok(outcomes)
    }

    fn snapshot(&self) -> Result<Snapshot<TypeConfig>, ClusterError> {
        let (last_log_id, last_membership) = self.stored()?;
        let snapshot_id = last_log_id.map_or_else(String::new, |last| last.to_string());
        let meta = SnapshotMeta { last_log_id, last_membership, snapshot_id };
        Ok(Snapshot { meta, snapshot: Box::new(StateImage) })
    }
}

fn apply_batch(
    tx: &mut WriteTransaction,
    index: &mut u64,
    batch: &EncodedBatch,
) -> Result<Vec<Applied>, ClusterError> {
    let mut applied = Vec::new();
    batch.each(|command| {
        *index += 1;
        applied.push(apply_encoded(tx, *index, command)?);
        Ok(())
    })?;
    Ok(applied)
}

fn store_membership(
    tx: &mut WriteTransaction,
    log_id: &LogId,
    membership: &Membership,
) -> Result<(), ClusterError> {
    let mut encoder = Encoder::default();
    encoder.optional(Some(log_id), |encoder, log_id| encoder.raw(&write_log_id(log_id)));
    write_membership(membership, &mut encoder);
    tx.tree_mut(&schema::raft())?.put(schema::MEMBERSHIP, &encoder.finish())?;
    Ok(())
}

fn no_other_node() -> ClusterError {
    ClusterError::Corrupt { detail: "no other node can send its state to this one" }
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
        self.stored().map_err(|error| self.failure.in_state(error))
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
        Err(self.failure.in_state(no_other_node()))
    }

    async fn install_snapshot(
        &mut self,
        _meta: &SnapshotMeta<u64, openraft::BasicNode>,
        _snapshot: Box<StateImage>,
    ) -> Result<(), RaftStorageError> {
        Err(self.failure.in_state(no_other_node()))
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<TypeConfig>>, RaftStorageError> {
        let snapshot = self.snapshot().map_err(|error| self.failure.in_state(error))?;
        Ok(snapshot.meta.last_log_id.is_some().then_some(snapshot))
    }
}
