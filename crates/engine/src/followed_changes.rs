//! Follows what other nodes changed in the state that all agree on: open databases follow their records, execute the
//! transactions of the cluster, and are closed and removed when this node is no longer to have them.
//!
//! The thread that applies changes must not wait for databases, so it only notes which of them are concerned.

use std::{
    collections::BTreeSet,
    mem,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cluster_state::{Changes, ClusterStore};
use model::DatabaseId;

use crate::{deletion, engine::Engine};

/// What is still to be followed.
#[derive(Default)]
pub(crate) struct FollowedChanges {
    pending: Mutex<Pending>,
    wakes: Condvar,
    is_closing: AtomicBool,
}

#[derive(Default)]
struct Pending {
    /// The lower-case names of databases whose records changed.
    records: BTreeSet<String>,
    /// The databases that have transactions to execute.
    transactions: BTreeSet<[u8; 16]>,
}

impl FollowedChanges {
    /// Notes all changes of a state from now on.
    pub(crate) fn of(store: &ClusterStore) -> Arc<Self> {
        let followed = Arc::new(Self::default());
        let noting = Arc::clone(&followed);
        store.on_change(Box::new(move |changes| noting.note(changes)));
        followed
    }

    fn note(&self, changes: &Changes) {
        let mut pending = self.lock();
        pending.records.extend(changes.records.iter().map(|record| record.key.clone()));
        pending.transactions.extend(changes.transactions.iter().map(|database| database.0));
        self.wakes.notify_one();
    }

    /// What was noted since the last call, after a wait of at most `time_max`; `None` once the server is closing.
    fn take(&self, time_max: Duration) -> Option<Pending> {
        let is_idle = |pending: &mut Pending| {
            pending.records.is_empty()
                && pending.transactions.is_empty()
                && !self.is_closing.load(Ordering::Acquire)
        };
        let waited = self.wakes.wait_timeout_while(self.lock(), time_max, is_idle);
        let (mut pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!self.is_closing.load(Ordering::Acquire)).then(|| mem::take(&mut *pending))
    }

    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        // A thread between its check and its wait has the lock.
        drop(self.lock());
        self.wakes.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Follows the changes since the last call, after a wait of at most `time_max` for the first. Returns whether to call
    /// it again: not once the engine is closing. To be called by one thread. Blocks.
    pub fn follow_changes(&self, time_max: Duration) -> bool {
        let Some(pending) = self.followed.take(time_max) else { return false };
        // On its own, this node has done everything in the request that made the change.
        if !self.has_company() {
            return true;
        }
        for key in pending.records {
            self.follow_record(&key);
        }
        let databases = self.registry.open_leases();
        for database in databases {
            let record = database.record();
            if pending.transactions.contains(&record.topology_id.0) {
                self.execute_stored_transactions(&database, record.topology_id);
            }
        }
        true
    }

    fn execute_stored_transactions(
        &self,
        database: &database::DatabaseLease,
        topology_id: DatabaseId,
    ) {
        let last = self.cluster_state().last_transaction(topology_id);
        match last {
            Ok(0) => {}
            Ok(last) => database.execute_transaction(self.cluster.store(), last, |outcome| {
                if let Err(error) = outcome {
                    tracing::warn!(%error, "a transaction of the cluster is executed later");
                }
            }),
            Err(error) => {
                tracing::error!(%error, "transactions of the cluster could not be read");
            }
        }
    }

    pub(crate) fn follow_record(&self, key: &str) {
        let own = self.node_tag();
        match self.catalog.record(key) {
            Some(record) if record.topology.has(own) => self.registry.follow(key),
            Some(_) | None => {
                self.registry.with_closed(key, || deletion::finish_files_of(self, key))
            }
        }
    }

    /// Whether the cluster has other nodes.
    pub(crate) fn has_company(&self) -> bool {
        self.cluster.topology().is_ok_and(|topology| 1 < topology.nodes.len())
    }
}
