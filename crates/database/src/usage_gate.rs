//! Counts who uses a database, so that closing it can wait for them.
//!
//! Invariant: once the gate is closed nobody enters, so the count only falls.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The highest bit says that the gate is closed; the rest counts the users.
const CLOSED: u64 = 1 << 63;

/// A counted door that can be shut.
#[derive(Default)]
pub(crate) struct UsageGate {
    state: AtomicU64,
    lock: Mutex<()>,
    emptied: Condvar,
}

impl UsageGate {
    /// Enters, unless the gate is closed. Whoever entered must [`leave`](UsageGate::leave).
    pub(crate) fn enter(&self) -> bool {
        let before = self.state.fetch_add(1, Ordering::AcqRel);
        if before & CLOSED == 0 {
            return true;
        }
        self.leave();
        false
    }

    /// Enters a second time on behalf of somebody who is inside, closed or not.
    pub(crate) fn enter_again(&self) {
        self.state.fetch_add(1, Ordering::AcqRel);
    }

    /// Leaves.
    pub(crate) fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before == CLOSED | 1 {
            let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.emptied.notify_all();
        }
    }

    /// How many are inside.
    pub(crate) fn users(&self) -> u64 {
        self.state.load(Ordering::Acquire) & !CLOSED
    }

    /// Whether the gate is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Blocks until everybody has left, or `timeout` is over; `false` means it is over.
    pub(crate) fn wait_until_empty(&self, timeout: Duration) -> bool {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let (_lock, result) = self
            .emptied
            .wait_timeout_while(lock, timeout, |()| self.users() != 0)
            .unwrap_or_else(PoisonError::into_inner);
        !result.timed_out()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_closed_gate_lets_nobody_in_and_tells_when_it_is_empty() {
        let gate = Arc::new(UsageGate::default());
        assert!(gate.enter());
        gate.close();
        assert!(!gate.enter());
        assert_eq!(gate.users(), 1);
        assert!(!gate.wait_until_empty(Duration::ZERO));
        let leaver = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || gate.leave())
        };
        assert!(gate.wait_until_empty(Duration::from_secs(60)));
        leaver.join().unwrap();
    }
}
