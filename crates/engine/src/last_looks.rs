//! What was last looked at, or said, of each database that several nodes have.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use model::{DatabaseId, Etag, NodeTag};

/// How far a database was when a node of its group was last looked at: a node that has everything up to there has caught
/// up.
#[derive(Default)]
pub(crate) struct LastLooks(Mutex<HashMap<(DatabaseId, NodeTag), Etag>>);

impl LastLooks {
    /// Notes the last etag of a database now, and returns that of the last look.
    pub(crate) fn look(&self, database: DatabaseId, node: NodeTag, last: Etag) -> Option<Etag> {
        self.lock().insert((database, node), last)
    }

    pub(crate) fn forget(&self, database: DatabaseId, node: NodeTag) {
        self.lock().remove(&(database, node));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(DatabaseId, NodeTag), Etag>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was last looked at in each database: the last version in conflict, and the record. What nobody could decide is
/// looked at again when one of them changes.
#[derive(Default)]
pub(crate) struct ConflictLooks(Mutex<HashMap<DatabaseId, (Etag, u64)>>);

impl ConflictLooks {
    pub(crate) fn is_last(&self, database: DatabaseId, look: (Etag, u64)) -> bool {
        self.lock().get(&database) == Some(&look)
    }

    pub(crate) fn note(&self, database: DatabaseId, look: (Etag, u64)) {
        self.lock().insert(database, look);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DatabaseId, (Etag, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Databases that execute transactions of the cluster later, because they cannot do it now.
#[derive(Default)]
pub(crate) struct PostponedTransactions(Mutex<HashSet<DatabaseId>>);

impl PostponedTransactions {
    /// Notes whether a database is one of them; returns whether that has changed.
    pub(crate) fn changes(&self, database: DatabaseId, is_postponed: bool) -> bool {
        let mut postponed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_postponed { postponed.insert(database) } else { postponed.remove(&database) }
    }
}

/// A node says at most so often how far it is with a database.
const EXECUTED_INTERVAL: Duration = Duration::from_secs(5);

/// When this node last said how far it is with each database.
#[derive(Default)]
pub(crate) struct ExecutedNotes(Mutex<HashMap<DatabaseId, Duration>>);

impl ExecutedNotes {
    pub(crate) fn is_due(&self, database: DatabaseId, now: Duration) -> bool {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = notes.get(&database).is_none_or(|last| *last + EXECUTED_INTERVAL <= now);
        if is_due {
            notes.insert(database, now);
        }
        is_due
    }
}
