//! Counts the users of a database, so that closing it can wait for them.
//!
//! Invariant: no user enters once the gate is closed, so the count only decreases.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The highest bit is set once the gate is closed; the rest counts the users.
const CLOSED: u64 = 1 << 63;

/// A counted gate that can be closed.
#[derive(Default)]
pub(crate) struct UsageGate {
    state: AtomicU64,
    lock: Mutex<()>,
    emptied: Condvar,
}

impl UsageGate {
    /// Enters, unless the gate is closed. A caller that entered must [`leave`](UsageGate::leave).
    pub(crate) fn enter(&self) -> bool {
        let before = self.state.fetch_add(1, Ordering::AcqRel);
        if before & CLOSED == 0 {
            return true;
        }
        self.leave();
        false
    }

    /// Enters again on behalf of a user that is inside, even if the gate is closed.
    pub(crate) fn enter_again(&self) {
        self.state.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn leave(&self) {
        let before = self.state.fetch_sub(1, Ordering::AcqRel);
        if before == CLOSED | 1 {
            let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.emptied.notify_all();
        }
    }

    /// The number of users.
    pub(crate) fn users(&self) -> u64 {
        self.state.load(Ordering::Acquire) & !CLOSED
    }

    /// Whether the gate is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Lets no new users in.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Blocks until all users have left, or `timeout` has passed; `false` in the latter case.
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
    fn a_closed_gate_lets_no_user_in_and_reports_when_it_is_empty() {
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
