//! Concurrent queries that need the same automatic index: the first one creates it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use database::DatabaseLease;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Lets the queries of a database create indexes one after the other.
#[derive(Default)]
pub(crate) struct IndexesInMaking {
    turns: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl IndexesInMaking {
    pub(crate) async fn turn_of(&self, database: &DatabaseLease) -> OwnedMutexGuard<()> {
        self.of(database.record().name.lower_cased()).lock_owned().await
    }

    fn of(&self, database: &str) -> Arc<AsyncMutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(database).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(database.to_owned(), Arc::downgrade(&turn));
        turn
    }
}
