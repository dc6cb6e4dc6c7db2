//! Waiting until indexes have caught up.
//!
//! The wait is begun, and ended when each index has replied, the time is over, or the database is being closed. Only
//! how the time between is spent differs between a caller that blocks and one that awaits.

use std::{
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use database::{Closing, DatabaseLease};
use indexing::{Index, Position};
use platform::Clock;

use crate::{engine::Engine, error::EngineError};

/// Indexes that a caller waits for: a future that is ready when each of them has caught up, or will not, or when the
/// database is being closed. Pass it to [`CatchUp::end`] then, or when [`CatchUp::time_left`] is over.
pub struct CatchUp {
    indexes: Vec<Arc<Index>>,
    arrivals: Arc<Arrivals>,
    closing: Closing,
    clock: Arc<dyn Clock>,
    /// On the monotonic clock.
    began: Duration,
    timeout: Duration,
}

/// Which indexes have replied.
struct Arrivals(Mutex<ArrivalState>);

struct ArrivalState {
    /// Of each index, in their order: whether it has caught up.
    caught_up: Vec<bool>,
    /// How many have not replied yet.
    pending: usize,
    /// Of the task that polls.
    waker: Option<Waker>,
}

impl Engine {
    /// Begins to wait until an index contains everything that is stored now. The time counts from now. Never blocks.
    ///
    /// # Errors
    /// The position of the newest change cannot be read.
    pub fn begin_catch_up(
        &self,
        database: &DatabaseLease,
        index: &Arc<Index>,
        timeout: Duration,
    ) -> Result<CatchUp, EngineError> {
        let position = index.last_position_in(&database.read())?;
        let indexes = vec![(Arc::clone(index), position)];
        Ok(CatchUp::begin(database, Arc::clone(self.clock()), indexes, timeout))
    }
}

impl CatchUp {
    /// Waits until each of these indexes has reached its position, for `timeout` in total.
    pub(crate) fn begin(
        database: &DatabaseLease,
        clock: Arc<dyn Clock>,
        positions: Vec<(Arc<Index>, Position)>,
        timeout: Duration,
    ) -> CatchUp {
        let began = clock.monotonic();
        let arrivals = Arrivals::of(positions.len());
        let begin = |(place, (index, position)): (usize, (Arc<Index>, Position))| {
            let arrivals = Arc::clone(&arrivals);
            index.when_indexed(position, Box::new(move |reached| arrivals.arrive(place, reached)));
            index
        };
        let indexes = positions.into_iter().enumerate().map(begin).collect();
        CatchUp { indexes, arrivals, closing: Closing::of(database), clock, began, timeout }
    }

    /// How much of the timeout is left.
    pub fn time_left(&self) -> Duration {
        self.timeout.saturating_sub(self.elapsed())
    }

    /// Ends the wait, whether it is over or not. Returns whether all indexes have caught up.
    ///
    /// # Errors
    /// Some have not, and the database is being closed ([`EngineError::DatabaseClosing`]).
    pub fn end(self) -> Result<bool, EngineError> {
        match self.late().is_empty() {
            false if self.closing.is_closing() => {
                Err(EngineError::DatabaseClosing { is_written: false })
            }
            have_caught_up => Ok(have_caught_up),
        }
    }

    /// Blocks until the wait is over, but not for longer than `time_max`; whether it is over.
    pub(crate) fn block(&mut self, time_max: Duration) -> bool {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        loop {
            let is_ready = Pin::new(&mut *self).poll(&mut Context::from_waker(&waker)).is_ready();
            if is_ready || self.time_left().is_zero() {
                return true;
            }
            if !bell.wait(self.time_left().min(time_max)) {
                return self.time_left().is_zero();
            }
        }
    }

    /// Whether the database is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_closing()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.began)
    }

    pub(crate) fn indexes(&self) -> &[Arc<Index>] {
        &self.indexes
    }

    /// The indexes that have not caught up.
    pub(crate) fn late(&self) -> Vec<&Index> {
        let state = self.arrivals.lock();
        let indexes = self.indexes.iter().zip(&state.caught_up);
        indexes.filter(|(_, caught_up)| !**caught_up).map(|(index, _)| &**index).collect()
    }
}

impl Future for CatchUp {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.arrivals.poll(context.waker()).is_ready() {
            return Poll::Ready(());
        }
        Pin::new(&mut self.closing).poll(context)
    }
}

impl Arrivals {
    fn of(count: usize) -> Arc<Arrivals> {
        let state = ArrivalState { caught_up: vec![false; count], pending: count, waker: None };
        Arc::new(Arrivals(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, ArrivalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the reply of an index: it has caught up, or it will not.
    fn arrive(&self, place: usize, reached: bool) {
        let mut state = self.lock();
        state.caught_up[place] = reached;
        state.pending -= 1;
        let waker = if state.pending == 0 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready when all have replied.
    fn poll(&self, waker: &Waker) -> Poll<()> {
        let mut state = self.lock();
        if state.pending == 0 {
            return Poll::Ready(());
        }
        state.waker = Some(waker.clone());
        Poll::Pending
    }
}

/// Wakes a thread that blocks.
#[derive(Default)]
struct Bell {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    /// Waits until it rings, and resets it; `false` if that takes longer.
    fn wait(&self, time: Duration) -> bool {
        let has_rung = self.has_rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.rings.wait_timeout_while(has_rung, time, |has_rung| !*has_rung);
        let (mut has_rung, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *has_rung)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.has_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rings.notify_one();
    }
}
