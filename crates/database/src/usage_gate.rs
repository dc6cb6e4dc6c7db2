//! Counts the users of a database, so that closing it can wait for them, and wakes those that would wait for something
//! else meanwhile.
//!
//! Invariant: no user enters once the gate is closed, so the count only decreases.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
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
    waiting: Mutex<Waiting>,
}

/// The tasks to be woken when the gate is closed.
#[derive(Default)]
struct Waiting {
    last_number: u64,
    wakers: BTreeMap<u64, Waker>,
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

    /// Lets no new users in, and wakes the tasks that wait for that.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        let wakers = mem::take(&mut self.waiting().wakers);
        wakers.into_values().for_each(Waker::wake);
    }

    /// Ready once the gate is closed; until then the task is woken when that happens. `number` is that of the task,
    /// `None` before its first call.
    pub(crate) fn poll_closed(&self, number: &mut Option<u64>, waker: &Waker) -> Poll<()> {
        let mut waiting = self.waiting();
        // Checked under the lock, since the gate is closed before its wakers are taken.
        if self.is_closed() {
            return Poll::Ready(());
        }
        let number = *number.get_or_insert_with(|| {
            waiting.last_number += 1;
            waiting.last_number
        });
        waiting.wakers.entry(number).or_insert_with(|| waker.clone()).clone_from(waker);
        Poll::Pending
    }

    /// The task with this number does not wait any more.
    pub(crate) fn stop_waiting(&self, number: u64) {
        self.waiting().wakers.remove(&number);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
    use std::{
        sync::{Arc, mpsc},
        task::Wake,
    };

    use super::*;

    struct Woken(mpsc::Sender<()>);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    #[test]
    fn closing_the_gate_wakes_those_that_still_wait_for_it_once() {
        let gate = UsageGate::default();
        let (sender, woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(Woken(sender)));
        let (mut stays, mut leaves) = (None, None);
        assert_eq!(gate.poll_closed(&mut stays, &waker), Poll::Pending);
        assert_eq!(gate.poll_closed(&mut stays, &waker), Poll::Pending);
        assert_eq!(gate.poll_closed(&mut leaves, &waker), Poll::Pending);
        assert_ne!(stays, leaves);
        gate.stop_waiting(leaves.unwrap());
        assert!(woken.try_recv().is_err());
        gate.close();
        assert_eq!(woken.try_iter().count(), 1);
        for number in [&mut stays, &mut None] {
            assert_eq!(gate.poll_closed(number, &waker), Poll::Ready(()));
        }
    }

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
