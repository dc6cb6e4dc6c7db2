//! Follows what other nodes changed in the state that all agree on: open databases follow their records, execute the
//! transactions of the cluster, and are closed and removed when this node is no longer to have them.
//!
//! The thread that applies changes must not wait for databases, so it only notes which of them are concerned.

use std::{
    collections::BTreeSet,
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use cluster_state::{Changes, ClusterStore};
use model::DatabaseId;

use crate::{deletion, engine::Engine};

/// What is still to be followed.
#[derive(Default)]
pub(crate) struct FollowedChanges {
    pending: Mutex<Pending>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
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
        drop(pending);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Calls `wake` after each change of the shared state: [`Engine::follow_changes`] is to be called then. It must not
    /// block. The first call counts.
    pub fn on_change(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.followed.wake.get_or_init(|| Box::new(wake));
    }

    /// Follows the changes since the last call. To be called by one thread at a time. Blocks.
    pub fn follow_changes(self: &Arc<Self>) {
        let pending = mem::take(&mut *self.followed.lock());
        // On its own, this node has done everything in the request that made the change.
        if !self.has_company() {
            return;
        }
        for key in pending.records {
            self.follow_record(&key);
        }
        self.follow_database_groups();
        let databases = self.registry.open_leases();
        for database in databases {
            let record = database.record();
            if pending.transactions.contains(&record.topology_id.0) {
                self.execute_stored_transactions(&database, record.topology_id);
            }
        }
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
