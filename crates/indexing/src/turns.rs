//! Turns: only so many threads do something at a time, and the others wait for a limited time.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A number of turns.
#[derive(Debug)]
pub struct Turns {
    taken_max: usize,
    taken: Mutex<usize>,
    ended: Condvar,
}

/// One of the turns, until it is dropped.
pub struct Turn<'t>(&'t Turns);

impl Turns {
    /// As many turns at a time.
    pub fn new(taken_max: usize) -> Turns {
        Turns { taken_max, taken: Mutex::default(), ended: Condvar::new() }
    }

    /// A turn, as soon as there is one; `None` if there is none within that time. Blocks.
    pub fn take(&self, wait_max: Duration) -> Option<Turn<'_>> {
        let is_full = |taken: &mut usize| self.taken_max <= *taken;
        let waited = self.ended.wait_timeout_while(self.taken(), wait_max, is_full);
        let (mut taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if is_full(&mut taken) {
            return None;
        }
        *taken += 1;
        Some(Turn(self))
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.taken() -= 1;
        self.0.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_have_a_turn_and_others_get_the_next_one() {
        let turns = Turns::new(4);
        let mut taken: Vec<_> = (0..4).map(|_| turns.take(Duration::ZERO).unwrap()).collect();
        assert!(turns.take(Duration::ZERO).is_none());
        assert!(turns.take(Duration::from_millis(1)).is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| turns.take(Duration::MAX).is_some());
            taken.pop();
            assert!(waits.join().unwrap());
        });
        assert!(turns.take(Duration::ZERO).is_some());
    }
}
