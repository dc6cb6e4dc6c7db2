//! Snapshots held for clients, so that several requests of one unit of work see the same state.
//!
//! A snapshot has a token, an expiry time, and the state of a database's documents and index entries when it
//! was opened. The space it keeps from being reused is bounded: it ends early when memory for page versions
//! runs out, or when the journal has grown by [`JOURNAL_GROWTH_MAX`] since. Invariant: a token never stands
//! for any other state than the one it was issued for; when that state is gone, the token is invalid.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use indexing::Index;
use storage::{Environment, ReadTransaction};

use crate::open_database::Database;

/// How many bytes of journal files, written since it was opened, the oldest snapshot may keep: of the
/// documents and all indexes together.
const JOURNAL_GROWTH_MAX: u64 = 1 << 30;
/// All snapshots end when this many of the [`SHARES`] of page version memory are taken.
const SHARES_MAX: u64 = 7;
const SHARES: u64 = 8;
/// Ended snapshots that are remembered with their reason.
const REMEMBERED_MAX: usize = 256;

/// Why a snapshot has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotEnd {
    /// Its lifetime has expired.
    Time,
    /// Its client released it.
    Released,
    /// It retained too much memory or journal.
    Space,
    /// No snapshot with that token is known.
    Unknown,
}

/// The limit of held snapshots is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySnapshots;

/// A state of a database held for a client.
pub struct HeldSnapshot {
    token: String,
    /// When it expires, on the monotonic clock.
    ends: Duration,
    documents: ReadTransaction,
    entries: Vec<(Weak<Index>, ReadTransaction)>,
    journal_bytes: u64,
}

impl HeldSnapshot {
    /// The token by which the client refers to it.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The documents as they were when the snapshot was opened.
    pub fn documents(&self) -> &ReadTransaction {
        &self.documents
    }

    /// The entries of an index; `None` if it was not open at that moment.
    pub fn entries(&self, index: &Arc<Index>) -> Option<&ReadTransaction> {
        let held = self.entries.iter().find(|(held, _)| held.as_ptr() == Arc::as_ptr(index));
        held.map(|(_, entries)| entries)
    }
}

#[derive(Default)]
struct State {
    open: Vec<Arc<HeldSnapshot>>,
    ended: VecDeque<(String, SnapshotEnd)>,
    is_closed: bool,
}

impl State {
    /// Ends the snapshots for which `why` returns a reason.
    fn end(&mut self, why: impl Fn(&HeldSnapshot) -> Option<SnapshotEnd>) {
        let ended = &mut self.ended;
        self.open.retain(|snapshot| match why(snapshot) {
            None => true,
            Some(reason) => {
                if ended.len() == REMEMBERED_MAX {
                    ended.pop_front();
                }
                ended.push_back((snapshot.token.clone(), reason));
                false
            }
        });
    }

    fn end_overdue(&mut self, now: Duration) {
        self.end(|snapshot| (snapshot.ends <= now).then_some(SnapshotEnd::Time));
    }
}

/// The snapshots of one database held for clients.
#[derive(Default)]
pub(crate) struct HeldSnapshots {
    state: Mutex<State>,
}

impl HeldSnapshots {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all of them, because memory is low.
    pub(crate) fn make_room(&self) {
        self.lock().end(|_| Some(SnapshotEnd::Space));
    }

    /// Ends all of them and accepts no more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.open.clear();
    }
}

impl Database {
    /// Holds the newest durable state under a token until `ends`. At most `open_max` are held at once.
    ///
    /// # Errors
    /// That many are held already, or the database is being closed.
    pub fn hold_snapshot(
        &self,
        token: String,
        ends: Duration,
        now: Duration,
        open_max: usize,
    ) -> Result<Arc<HeldSnapshot>, TooManySnapshots> {
        let journal_bytes = self.journal_bytes();
        let mut state = self.held_snapshots().lock();
        state.end_overdue(now);
        if state.is_closed || open_max <= state.open.len() {
            return Err(TooManySnapshots);
        }
        // Entries first: the document of an entry then exists, or has been deleted since.
        let indexes = self.indexes().all();
        let entries = indexes.iter().map(|index| (Arc::downgrade(index), index.read())).collect();
        let documents = self.read();
        let held = Arc::new(HeldSnapshot { token, ends, documents, entries, journal_bytes });
        state.open.push(Arc::clone(&held));
        Ok(held)
    }

    /// The snapshot with that token.
    ///
    /// # Errors
    /// Why it has ended.
    pub fn held_snapshot(
        &self,
        token: &str,
        now: Duration,
    ) -> Result<Arc<HeldSnapshot>, SnapshotEnd> {
        let mut state = self.held_snapshots().lock();
        state.end_overdue(now);
        if let Some(held) = state.open.iter().find(|snapshot| snapshot.token == token) {
            return Ok(Arc::clone(held));
        }
        let ended = state.ended.iter().find(|(ended, _)| ended == token);
        Err(ended.map_or(SnapshotEnd::Unknown, |(_, reason)| *reason))
    }

    /// Ends the snapshot with that token; `false` if there is none.
    pub fn release_snapshot(&self, token: &str) -> bool {
        let mut state = self.held_snapshots().lock();
        let before = state.open.len();
        state.end(|snapshot| (snapshot.token == token).then_some(SnapshotEnd::Released));
        state.open.len() < before
    }

    /// Ends the snapshots that have expired or keep too much space.
    pub(crate) fn look_at_snapshots(&self, now: Duration) {
        if self.held_snapshots().lock().open.is_empty() {
            return;
        }
        let journal_bytes = self.journal_bytes();
        let mut state = self.held_snapshots().lock();
        state.end_overdue(now);
        let budget = &self.environment().options().memory_budget;
        if budget.bytes_max() / SHARES * SHARES_MAX < budget.held_bytes() {
            state.end(|_| Some(SnapshotEnd::Space));
        }
        state.end(|snapshot| {
            let grown = journal_bytes.saturating_sub(snapshot.journal_bytes);
            (JOURNAL_GROWTH_MAX < grown).then_some(SnapshotEnd::Space)
        });
    }

    fn journal_bytes(&self) -> u64 {
        let of = |environment: &Environment| environment.statistics().journal_bytes;
        let indexes = self.indexes().all();
        indexes.iter().map(|index| of(index.environment())).sum::<u64>() + of(self.environment())
    }
}
