//! A database that is being opened or closed, and the requests and threads that wait for it.
//!
//! Requests leave a callback; threads that close databases block. Invariant: each callback is called exactly
//! once, outside of all locks.

use std::sync::{
    Arc, Condvar, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use crate::error::{AccessError, LoadError};

/// Requests that may wait for one database.
const WAITING_MAX: usize = 4096;

/// Passed to waiters: the transition has ended and they should ask again, or opening failed.
pub type Arrival = Result<(), Arc<LoadError>>;

type Callback = Box<dyn FnOnce(Arrival) + Send>;

#[derive(Default)]
struct State {
    arrival: Option<Arrival>,
    waiting: Vec<Callback>,
}

/// The transition of one database.
#[derive(Default)]
pub(crate) struct Transition {
    /// Why requests are refused instead of waiting, if the transition takes long.
    refusal: Option<&'static str>,
    state: Mutex<State>,
    done: Condvar,
    started: AtomicBool,
}

impl Transition {
    /// A transition that requests do not wait for: they are refused with `reason`.
    pub(crate) fn refusing(reason: &'static str) -> Transition {
        Transition { refusal: Some(reason), ..Transition::default() }
    }

    /// Why requests are refused, if they are.
    pub(crate) fn refusal(&self) -> Option<&'static str> {
        self.refusal
    }

    /// Marks that a thread has started to work on it.
    pub(crate) fn start(&self) {
        self.started.store(true, Ordering::Release);
    }

    /// Ends it and notifies all waiters.
    pub(crate) fn finish(&self, arrival: Arrival) {
        let waiting = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.arrival = Some(arrival.clone());
            std::mem::take(&mut state.waiting)
        };
        self.done.notify_all();
        for callback in waiting {
            callback(arrival.clone());
        }
    }

    /// Blocks until it has ended.
    pub(crate) fn wait(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.arrival.is_none() {
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A waiting request's handle on a transition.
pub struct Ticket(pub(crate) Arc<Transition>);

impl Ticket {
    /// Whether a thread is working on the database; otherwise it is still queued.
    pub fn has_started(&self) -> bool {
        self.0.started.load(Ordering::Acquire)
    }

    /// Calls `callback` once the transition has ended, immediately if it already has.
    pub fn on_arrival(
        &self,
        callback: impl FnOnce(Arrival) + Send + 'static,
    ) -> Result<(), AccessError> {
        let arrival = {
            let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &state.arrival {
                Some(arrival) => arrival.clone(),
                None if state.waiting.len() >= WAITING_MAX => {
                    return Err(AccessError::TooManyWaiting);
                }
                None => {
                    state.waiting.push(Box::new(callback));
                    return Ok(());
                }
            }
        };
        callback(arrival);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn callbacks_are_called_once_before_and_after_the_end() {
        let transition = Arc::new(Transition::default());
        let ticket = Ticket(Arc::clone(&transition));
        let calls = Arc::new(AtomicUsize::new(0));
        let count = |calls: &Arc<AtomicUsize>| {
            let calls = Arc::clone(calls);
            move |_| {
                calls.fetch_add(1, Ordering::SeqCst);
            }
        };
        ticket.on_arrival(count(&calls)).unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        transition.finish(Ok(()));
        ticket.on_arrival(count(&calls)).unwrap();
        transition.wait();
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn only_so_many_may_wait() {
        let ticket = Ticket(Arc::new(Transition::default()));
        for _ in 0..WAITING_MAX {
            ticket.on_arrival(|_| ()).unwrap();
        }
        assert!(matches!(ticket.on_arrival(|_| ()), Err(AccessError::TooManyWaiting)));
    }
}
