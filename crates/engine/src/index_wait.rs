//! Waiting for indexes after a write.
//!
//! The write is complete already, so an index that is late does not undo it. The wait is begun, and ended when the
//! indexes have caught up or the time is over. Only how the time between is spent differs between a caller that
//! blocks ([`Engine::wait_for_indexes`]) and one that awaits.

use std::{
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use commands::BatchOutcome;
use database::DatabaseLease;
use indexing::Index;
use model::{Etag, IndexState};
use platform::Clock;

use crate::{engine::Engine, error::EngineError, indexes_behind::IndexesBehind};

/// What a caller expects of the indexes after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexWait {
    /// The maximum time, for all indexes together.
    pub timeout: Duration,
    /// Whether it is an error if indexes are still behind then.
    pub is_required: bool,
    /// Only indexes of these names, in any case; if there are none, all that follow a changed collection.
    pub names: Vec<String>,
}

/// The indexes that a caller waits for: a future that is ready when each of them has caught up, or will not.
/// Pass it to [`PendingIndexes::end`] then, or when [`PendingIndexes::time_left`] is over.
pub struct PendingIndexes {
    indexes: Vec<Arc<Index>>,
    arrivals: Arc<Arrivals>,
    clock: Arc<dyn Clock>,
    /// On the monotonic clock.
    began: Duration,
    timeout: Duration,
    is_required: bool,
    /// The last change that the indexes are to contain.
    etag: Etag,
}

/// Which indexes have replied.
struct Arrivals {
    state: Mutex<ArrivalState>,
    changed: Condvar,
}

struct ArrivalState {
    /// Of each index, in their order: whether it has caught up.
    caught_up: Vec<bool>,
    /// How many have not replied yet.
    pending: usize,
    /// Of the task that polls.
    waker: Option<Waker>,
}

impl Engine {
    /// Waits until the indexes of the collections that a write changed contain the write. Blocks.
    ///
    /// # Errors
    /// Some are still behind after the timeout, unless the caller does not mind
    /// ([`EngineError::IndexesBehind`]); the documents cannot be read.
    pub fn wait_for_indexes(
        &self,
        database: &DatabaseLease,
        wait: &IndexWait,
        written: &BatchOutcome,
    ) -> Result<(), EngineError> {
        let pending = self.begin_index_wait(database, wait, written)?;
        pending.arrivals.wait(pending.time_left());
        pending.end()
    }

    /// Begins to wait as [`Engine::wait_for_indexes`]. The time counts from now. Never blocks.
    ///
    /// # Errors
    /// The documents cannot be read.
    pub fn begin_index_wait(
        &self,
        database: &DatabaseLease,
        wait: &IndexWait,
        written: &BatchOutcome,
    ) -> Result<PendingIndexes, EngineError> {
        let clock = Arc::clone(self.clock());
        let began = clock.monotonic();
        let indexes = wait.relevant(database, written);
        let arrivals = Arrivals::of(indexes.len());
        let documents = database.read();
        for (place, index) in indexes.iter().enumerate() {
            // Not every change of the database is one that the index follows.
            let last = index.last_etag_in(&documents)?.min(written.last_etag);
            let arrivals = Arc::clone(&arrivals);
            index.when_indexed(last, Box::new(move |reached| arrivals.arrive(place, reached)));
        }
        let IndexWait { timeout, is_required, .. } = *wait;
        let etag = written.last_etag;
        Ok(PendingIndexes { indexes, arrivals, clock, began, timeout, is_required, etag })
    }
}

impl IndexWait {
    /// The indexes that the changes of a batch affect.
    fn relevant(&self, database: &DatabaseLease, written: &BatchOutcome) -> Vec<Arc<Index>> {
        if written.collections.is_empty() {
            return Vec::new();
        }
        let is_named = |index: &Index| {
            self.names.is_empty()
                || self.names.iter().any(|name| name.eq_ignore_ascii_case(index.name()))
        };
        let mut indexes = database.indexes().all();
        indexes.retain(|index| {
            let is_on = index.state() != IndexState::Disabled;
            is_on && is_named(index) && index.follows(&written.collections)
        });
        indexes
    }
}

impl PendingIndexes {
    /// How much of the timeout is left.
    pub fn time_left(&self) -> Duration {
        self.timeout.saturating_sub(self.elapsed())
    }

    /// Ends the wait, whether it is over or not.
    ///
    /// # Errors
    /// Some indexes are behind, and the caller requires them ([`EngineError::IndexesBehind`]).
    pub fn end(self) -> Result<(), EngineError> {
        let stale = self.stale();
        if stale.is_empty() || !self.is_required {
            return Ok(());
        }
        let names = |is_listed: &dyn Fn(&Index) -> bool| {
            let listed = stale.iter().filter(|index| is_listed(index));
            listed.map(|index| index.name().to_owned()).collect()
        };
        Err(EngineError::IndexesBehind(Box::new(IndexesBehind {
            elapsed: self.elapsed(),
            etag: self.etag,
            relevant: self.indexes.len(),
            stale: names(&|_| true),
            paused: names(&Index::is_paused),
            errored: names(&|index| index.state() == IndexState::Error),
        })))
    }

    fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.began)
    }

    fn stale(&self) -> Vec<&Index> {
        let state = self.arrivals.lock();
        let indexes = self.indexes.iter().zip(&state.caught_up);
        indexes.filter(|(_, caught_up)| !**caught_up).map(|(index, _)| &**index).collect()
    }
}

impl Future for PendingIndexes {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.arrivals.lock();
        if state.pending == 0 {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Arrivals {
    fn of(count: usize) -> Arc<Arrivals> {
        let state = ArrivalState { caught_up: vec![false; count], pending: count, waker: None };
        Arc::new(Arrivals { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, ArrivalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the reply of an index: it has caught up, or it will not.
    fn arrive(&self, place: usize, reached: bool) {
        let mut state = self.lock();
        state.caught_up[place] = reached;
        state.pending -= 1;
        let waker = if state.pending == 0 { state.waker.take() } else { None };
        drop(state);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until all have replied, or the time is over.
    fn wait(&self, time: Duration) {
        let is_pending = |state: &mut ArrivalState| state.pending != 0;
        drop(self.changed.wait_timeout_while(self.lock(), time, is_pending));
    }
}
