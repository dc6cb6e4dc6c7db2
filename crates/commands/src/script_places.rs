//! How many batches with scripts are executed at the same time, for all databases together.
//!
//! The scripts of each may fill the heap of its thread within milliseconds, so all of it is drawn from a budget before
//! they run. One batch at a time runs without, and further ones wait for that turn, or for memory, whichever comes first.
//! A client must be answered before it gives up, so a batch that has waited for some seconds is refused where there is a
//! place, but no memory. What a thread keeps afterwards is little, and measured. More scripts at a time than there are
//! processors would only slow each other down, until they run into their limits of time.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use platform::Clock;
use storage::{MemoryBudget, MemoryExhausted, MemoryShare};

/// A batch that has waited so long for its turn does not wait for memory any more.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How often the first of those who wait looks whether there is memory for its scripts.
const MEMORY_INTERVAL: Duration = Duration::from_millis(20);

/// The places. Those who wait get them in turn.
pub(crate) struct ScriptPlaces {
    state: Mutex<PlacesState>,
    changed: Condvar,
    /// Where the heaps of scripts are drawn from, and the bytes of each; from nowhere, unless set.
    heaps: OnceLock<(Arc<MemoryBudget>, u64)>,
    clock: Arc<dyn Clock>,
}

struct PlacesState {
    free: usize,
    /// Each one that waits takes a ticket, and is served in their order.
    next_ticket: u64,
    now_serving: u64,
    /// Whether a batch runs whose scripts draw from no budget.
    has_uncharged: bool,
}

/// A place of one batch, until this is dropped.
pub(crate) struct ScriptPlace {
    places: Arc<ScriptPlaces>,
    /// `None` for the one that draws from no budget.
    _heap: Option<MemoryShare>,
    is_uncharged: bool,
}

impl ScriptPlaces {
    /// This many.
    pub(crate) fn new(count: usize, clock: Arc<dyn Clock>) -> Arc<Self> {
        let state =
            PlacesState { free: count, next_ticket: 0, now_serving: 0, has_uncharged: false };
        let (changed, heaps) = (Condvar::new(), OnceLock::new());
        Arc::new(Self { state: Mutex::new(state), changed, heaps, clock })
    }

    /// From now on, each place draws so many bytes from this budget. Only the first call counts.
    pub(crate) fn draw_from(&self, budget: Arc<MemoryBudget>, heap_bytes: u64) {
        drop(self.heaps.set((budget, heap_bytes)));
    }

    /// Waits for a place and for memory; the scripts of a batch are bounded in time.
    ///
    /// # Errors
    /// There is a place, but no memory, and it has waited for long enough.
    pub(crate) fn take(self: &Arc<Self>) -> Result<ScriptPlace, MemoryExhausted> {
        let due = self.clock.monotonic().saturating_add(WAIT_MAX);
        let mut state = self.lock();
        let own = state.next_ticket;
        state.next_ticket += 1;
        loop {
            if state.now_serving != own || state.free == 0 {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let place = self.place_in(&mut state);
            if place.is_ok() || due <= self.clock.monotonic() {
                state.now_serving += 1;
                drop(state);
                // There may be a place for the next one, too.
                self.changed.notify_all();
                return place;
            }
            let waited = self.changed.wait_timeout(state, MEMORY_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A place, if one is free that nobody waits for, and there is memory for its scripts.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<ScriptPlace> {
        let mut state = self.lock();
        let is_free = 0 < state.free && state.now_serving == state.next_ticket;
        is_free.then(|| self.place_in(&mut state).ok()).flatten()
    }

    /// One of the free places, if no scripts run that draw from no budget, or there is memory for these.
    fn place_in(self: &Arc<Self>, state: &mut PlacesState) -> Result<ScriptPlace, MemoryExhausted> {
        let is_uncharged = !state.has_uncharged;
        let heap = match self.heaps.get().filter(|_| !is_uncharged) {
            Some((budget, bytes)) => {
                let mut heap = budget.share(0);
                heap.try_grow_to(*bytes)?;
                Some(heap)
            }
            None => None,
        };
        state.free -= 1;
        state.has_uncharged = true;
        Ok(ScriptPlace { places: Arc::clone(self), _heap: heap, is_uncharged })
    }

    fn lock(&self) -> MutexGuard<'_, PlacesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ScriptPlace {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        state.free += 1;
        if self.is_uncharged {
            state.has_uncharged = false;
        }
        drop(state);
        self.places.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use platform::Platform;

    use super::*;

    fn clock() -> Arc<dyn Clock> {
        Platform::simulated(1).platform.clock
    }

    /// Long enough to see that something does not happen.
    const SHORT: Duration = Duration::from_millis(50);

    fn ends_within<T>(thread: &thread::JoinHandle<T>, time: Duration) -> bool {
        let (_kept, nothing) = mpsc::channel::<()>();
        let _ = nothing.recv_timeout(time);
        thread.is_finished()
    }

    #[test]
    fn those_who_wait_get_their_places_in_turn() {
        let places = ScriptPlaces::new(1, clock());
        let held = places.take().unwrap();
        assert!(places.try_take().is_none());
        let (sender, order) = mpsc::channel();
        let mut waiting = Vec::new();
        for number in 0..8 {
            let (places_of, sender) = (Arc::clone(&places), sender.clone());
            waiting.push(thread::spawn(move || {
                let _place = places_of.take().unwrap();
                sender.send(number).unwrap();
            }));
            while places.lock().next_ticket < number + 2 {
                thread::yield_now();
            }
        }
        assert!(order.recv_timeout(SHORT).is_err(), "the place is taken");
        drop(held);
        let got: Vec<u64> = order.iter().take(8).collect();
        assert_eq!(got, (0..8).collect::<Vec<_>>());
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(places.try_take().is_some(), "all are free again");
    }

    #[test]
    fn nobody_overtakes_one_who_waits() {
        let places = ScriptPlaces::new(2, clock());
        let held = [places.take().unwrap(), places.take().unwrap()];
        let waits = Arc::clone(&places);
        let waiting = thread::spawn(move || waits.take().unwrap());
        while places.lock().next_ticket < 3 {
            thread::yield_now();
        }
        {
            // As if a place had become free, and the one who waits had not been woken yet.
            let mut state = places.lock();
            state.free += 1;
        }
        assert!(places.try_take().is_none());
        places.changed.notify_all();
        let got = waiting.join().unwrap();
        drop((held, got));
    }

    #[test]
    fn the_heaps_of_all_but_one_are_drawn_from_the_budget() {
        const HEAP_BYTES: u64 = 16 << 20;
        let budget = MemoryBudget::new(3 * HEAP_BYTES / 2);
        let places = ScriptPlaces::new(4, clock());
        places.draw_from(Arc::clone(&budget), HEAP_BYTES);
        let first = places.try_take().unwrap();
        assert_eq!(budget.held_bytes(), 0);
        let second = places.try_take().unwrap();
        assert_eq!(budget.held_bytes(), HEAP_BYTES);
        assert!(places.try_take().is_none(), "there is a place, and no memory");
        let waits = Arc::clone(&places);
        let waiting = thread::spawn(move || waits.take().unwrap());
        while places.lock().next_ticket < 1 {
            thread::yield_now();
        }
        assert!(!ends_within(&waiting, 2 * MEMORY_INTERVAL));
        drop(first);
        let first = waiting.join().unwrap();
        assert_eq!(budget.held_bytes(), HEAP_BYTES, "it runs without, as the first did");
        drop(first);
        let again = places.try_take().unwrap();
        assert_eq!(budget.held_bytes(), HEAP_BYTES, "one runs without");
        drop((second, again));
        assert_eq!(budget.held_bytes(), 0);
        let all: Vec<_> = (0..2).map(|_| places.take().unwrap()).collect();
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn a_waiting_batch_goes_on_when_there_is_memory() {
        let budget = MemoryBudget::new(100);
        let places = ScriptPlaces::new(4, clock());
        places.draw_from(Arc::clone(&budget), 100);
        let _first = places.take().unwrap();
        let mut others = budget.share(0);
        others.try_grow_to(1).unwrap();
        let waits = Arc::clone(&places);
        let waiting = thread::spawn(move || waits.take().unwrap());
        assert!(!ends_within(&waiting, 2 * MEMORY_INTERVAL));
        drop(others);
        waiting.join().unwrap();
    }

    #[test]
    fn a_batch_that_has_waited_for_long_is_refused_where_there_is_no_memory() {
        let simulation = Platform::simulated(1);
        let places = ScriptPlaces::new(4, simulation.platform.clock.clone());
        places.draw_from(MemoryBudget::new(0), 100);
        let first = places.take().unwrap();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let waits = Arc::clone(&places);
                thread::spawn(move || waits.take().map(drop))
            })
            .collect();
        while places.lock().next_ticket < 4 {
            thread::yield_now();
        }
        assert!(!ends_within(&waiting[0], 2 * MEMORY_INTERVAL));
        simulation.clock.advance(WAIT_MAX);
        for one in waiting {
            assert!(one.join().unwrap().is_err(), "all of them: none waits anew");
        }
        drop(first);
        assert!(places.take().is_ok());
    }
}
