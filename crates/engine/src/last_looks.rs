//! What was last looked at, or said, of each database that several nodes have.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use model::{DatabaseId, Etag, NodeTag};

/// A look at a node of a database's group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// The last etag of the database on this node.
    pub(crate) last: Etag,
    /// When it was, in ticks of UTC.
    pub(crate) ticks: i64,
}

/// The last looks at nodes of groups: a node that has answered since, and has everything up to there, has caught up.
#[derive(Default)]
pub(crate) struct LastLooks(Mutex<HashMap<(DatabaseId, NodeTag), Look>>);

impl LastLooks {
    /// Notes a look, and returns the one before it.
    pub(crate) fn look(&self, database: DatabaseId, node: NodeTag, look: Look) -> Option<Look> {
        self.lock().insert((database, node), look)
    }

    pub(crate) fn forget(&self, database: DatabaseId, node: NodeTag) {
        self.lock().remove(&(database, node));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(DatabaseId, NodeTag), Look>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Up to where the versions in conflict of each database were looked at, and with which version of its record. What nobody
/// could decide is looked at again when another version arrives, or when the record changes.
#[derive(Default)]
pub(crate) struct ConflictLooks(Mutex<HashMap<DatabaseId, (Etag, u64)>>);

impl ConflictLooks {
    /// The etag up to which versions were looked at with this version of the record.
    pub(crate) fn looked_until(&self, database: DatabaseId, record_etag: u64) -> Etag {
        let looked = self.lock().get(&database).copied();
        looked.filter(|(_, with)| *with == record_etag).map_or(Etag::ZERO, |(until, _)| until)
    }

    pub(crate) fn note(&self, database: DatabaseId, until: Etag, record_etag: u64) {
        self.lock().insert(database, (until, record_etag));
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

/// The databases that this node is leaving by itself.
#[derive(Default)]
pub(crate) struct RunningDepartures(Mutex<HashSet<DatabaseId>>);

impl RunningDepartures {
    /// Returns whether this node was not leaving it yet.
    pub(crate) fn begin(&self, database: DatabaseId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(database)
    }

    pub(crate) fn end(&self, database: DatabaseId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&database);
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
