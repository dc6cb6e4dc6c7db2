//! How many batches with scripts are executed at the same time, for all databases together.
//!
//! The scripts of each may fill the heap of its thread, which is in no budget: their number, and what a thread keeps
//! afterwards, bound that memory. More than there are processors would only slow each other down, until they run into
//! their limits of time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The places. Those who wait get them in turn.
pub(crate) struct ScriptPlaces {
    state: Mutex<PlacesState>,
    changed: Condvar,
}

struct PlacesState {
    free: usize,
    /// The number of the next one to wait, and of the one whose turn is next.
    last: u64,
    next: u64,
}

/// A place of one batch, until this is dropped.
pub(crate) struct ScriptPlace(Arc<ScriptPlaces>);

impl ScriptPlaces {
    /// This many.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let state = PlacesState { free: count, last: 0, next: 0 };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Waits for a place; the scripts of a batch are bounded in time.
    pub(crate) fn take(self: &Arc<Self>) -> ScriptPlace {
        let mut state = self.lock();
        let own = state.last;
        state.last += 1;
        while state.next != own || state.free == 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.next += 1;
        state.free -= 1;
        drop(state);
        // There may be a place for the one after, too.
        self.changed.notify_all();
        ScriptPlace(Arc::clone(self))
    }

    /// A place, if one is free that nobody waits for.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<ScriptPlace> {
        let mut state = self.lock();
        if state.free == 0 || state.next != state.last {
            return None;
        }
        state.free -= 1;
        Some(ScriptPlace(Arc::clone(self)))
    }

    fn lock(&self) -> MutexGuard<'_, PlacesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ScriptPlace {
    fn drop(&mut self) {
        self.0.lock().free += 1;
        self.0.changed.notify_all();
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
        let held = places.take();
        assert!(places.try_take().is_none());
        let (sender, order) = mpsc::channel();
        let mut waiting = Vec::new();
        for number in 0..8 {
            let (places_of, sender) = (Arc::clone(&places), sender.clone());
            waiting.push(thread::spawn(move || {
                let _place = places_of.take();
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
        let held = [places.take(), places.take()];
        let waits = Arc::clone(&places);
        let waiting = thread::spawn(move || waits.take());
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
}
