//! How many batches with scripts are executed at the same time, for all databases together.
//!
//! The scripts of each may fill the heap of its thread within milliseconds, so all of it is drawn from a budget before
//! they run. One batch at a time runs without: a script that needs little is not refused where memory is short. What
//! a thread keeps afterwards is little, and measured. More scripts at a time than there are processors would only slow
//! each other down, until they run into their limits of time.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use storage::{MemoryBudget, MemoryExhausted, MemoryShare};

/// How long a batch waits for the memory of its scripts.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(2);

/// The places. Those who wait get them in turn.
pub(crate) struct ScriptPlaces {
    state: Mutex<PlacesState>,
    changed: Condvar,
    /// Where the heaps of scripts are drawn from, and the bytes of each; from nowhere, unless set.
    heaps: OnceLock<(Arc<MemoryBudget>, u64)>,
}

struct PlacesState {
    free: usize,
    /// The number of the next one to wait, and of the one whose turn is next.
    last: u64,
    next: u64,
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
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let state = PlacesState { free: count, last: 0, next: 0, has_uncharged: false };
        let (changed, heaps) = (Condvar::new(), OnceLock::new());
        Arc::new(Self { state: Mutex::new(state), changed, heaps })
    }

    /// From now on, each place draws so many bytes from this budget. Only the first call counts.
    pub(crate) fn draw_from(&self, budget: Arc<MemoryBudget>, heap_bytes: u64) {
        drop(self.heaps.set((budget, heap_bytes)));
    }

    /// Waits for a place; the scripts of a batch are bounded in time.
    ///
    /// # Errors
    /// There is a place, but not for long enough the memory for its scripts.
    pub(crate) fn take(self: &Arc<Self>) -> Result<ScriptPlace, MemoryExhausted> {
        let mut state = self.lock();
        let own = state.last;
        state.last += 1;
        while state.next != own || state.free == 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.next += 1;
        let place = self.place_in(&mut state);
        drop(state);
        // There may be a place for the one after, too.
        self.changed.notify_all();
        place.charged(|heap, bytes| heap.grow_to_within(bytes, MEMORY_WAIT_MAX))
    }

    /// A place, if one is free that nobody waits for, and there is memory for its scripts.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<ScriptPlace> {
        let mut state = self.lock();
        if state.free == 0 || state.next != state.last {
            return None;
        }
        let place = self.place_in(&mut state);
        drop(state);
        place.charged(MemoryShare::try_grow_to).ok()
    }

    fn place_in(self: &Arc<Self>, state: &mut PlacesState) -> ScriptPlace {
        state.free -= 1;
        let is_uncharged = !std::mem::replace(&mut state.has_uncharged, true);
        ScriptPlace { places: Arc::clone(self), _heap: None, is_uncharged }
    }

    fn lock(&self) -> MutexGuard<'_, PlacesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScriptPlace {
    fn charged(
        mut self,
        grow: impl FnOnce(&mut MemoryShare, u64) -> Result<(), MemoryExhausted>,
    ) -> Result<ScriptPlace, MemoryExhausted> {
        if let Some((budget, bytes)) = self.places.heaps.get().filter(|_| !self.is_uncharged) {
            let mut heap = budget.share(0);
            grow(&mut heap, *bytes)?;
            self._heap = Some(heap);
        }
        Ok(self)
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

    use super::*;

    /// Long enough to see that something does not happen.
    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn those_who_wait_get_their_places_in_turn() {
        let places = ScriptPlaces::new(1);
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
            while places.lock().last < number + 2 {
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
        let places = ScriptPlaces::new(2);
        let held = [places.take().unwrap(), places.take().unwrap()];
        let waits = Arc::clone(&places);
        let waiting = thread::spawn(move || waits.take().unwrap());
        while places.lock().last < 3 {
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
        let places = ScriptPlaces::new(4);
        places.draw_from(Arc::clone(&budget), HEAP_BYTES);
        let first = places.try_take().unwrap();
        assert_eq!(budget.held_bytes(), 0);
        let second = places.try_take().unwrap();
        assert_eq!(budget.held_bytes(), HEAP_BYTES);
        assert!(places.try_take().is_none(), "there is a place, and no memory");
        assert!(places.take().is_err());
        drop(first);
        let again = places.try_take().unwrap();
        assert_eq!(budget.held_bytes(), HEAP_BYTES, "one runs without");
        drop((second, again));
        assert_eq!(budget.held_bytes(), 0);
        let all: Vec<_> = (0..2).map(|_| places.take().unwrap()).collect();
        assert_eq!(all.len(), 2);
    }
}
