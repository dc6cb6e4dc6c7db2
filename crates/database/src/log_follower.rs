//! Those who read the document log and want to know when it has grown.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::changes::Wake;

/// The followers of one log. Without any, telling them costs nothing.
#[derive(Default)]
pub struct LogFollowers {
    count: AtomicUsize,
    wakes: Mutex<Wakes>,
}

#[derive(Default)]
struct Wakes {
    last: u64,
    by_number: BTreeMap<u64, Wake>,
}

/// One who follows a log, until it is dropped.
pub struct LogFollower {
    followers: Arc<LogFollowers>,
    number: u64,
}

impl LogFollowers {
    fn lock(&self) -> MutexGuard<'_, Wakes> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `wake` called after every transaction that becomes visible from now on, on the thread that
    /// made it so, and when the database is closed. Whoever then reads the log finds what there was
    /// before, too.
    pub fn follow(self: &Arc<Self>, wake: Wake) -> LogFollower {
        let mut wakes = self.lock();
        wakes.last += 1;
        let number = wakes.last;
        wakes.by_number.insert(number, wake);
        self.count.store(wakes.by_number.len(), Ordering::SeqCst);
        LogFollower { followers: Arc::clone(self), number }
    }

    /// The log may have grown, or has ended.
    pub(crate) fn wake(&self) {
        if self.count.load(Ordering::SeqCst) != 0 {
            self.lock().by_number.values().for_each(|wake| wake());
        }
    }
}

impl Drop for LogFollower {
    fn drop(&mut self) {
        let mut wakes = self.followers.lock();
        wakes.by_number.remove(&self.number);
        self.followers.count.store(wakes.by_number.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_woken_until_they_are_dropped() {
        let followers = Arc::new(LogFollowers::default());
        let woken = Arc::new(AtomicUsize::new(0));
        let follow = |by: usize| {
            let woken = Arc::clone(&woken);
            followers.follow(Box::new(move || {
                woken.fetch_add(by, Ordering::Relaxed);
            }))
        };
        let (one, ten) = (follow(1), follow(10));
        followers.wake();
        drop(one);
        followers.wake();
        drop(ten);
        followers.wake();
        assert_eq!(woken.load(Ordering::Relaxed), 21);
    }
}
