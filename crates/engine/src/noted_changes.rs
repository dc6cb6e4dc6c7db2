//! Which databases are concerned by changes of the state that all nodes agree on. The thread that applies changes notes them
//! and waits for nothing.

use std::{
    collections::BTreeSet,
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use cluster_state::{Changes, ClusterStore};

/// See the module.
#[derive(Default)]
pub(crate) struct NotedChanges {
    pending: Mutex<Pending>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What is still to be followed.
#[derive(Default)]
pub(crate) struct Pending {
    /// The lower-case names of databases whose records changed.
    pub(crate) records: BTreeSet<String>,
    /// The databases that have transactions to execute.
    pub(crate) transactions: BTreeSet<[u8; 16]>,
}

impl NotedChanges {
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

    /// Calls `wake` after each change from now on. The first call counts.
    pub(crate) fn on_change(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.wake.get_or_init(|| wake);
    }

    /// What was noted since the last call.
    pub(crate) fn take(&self) -> Pending {
        mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
