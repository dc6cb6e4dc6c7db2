//! Time that a test advances by hand, and seeded randomness.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    clock::{Clock, Timestamp},
    entropy::Entropy,
    simulated::random::Random,
};

/// 2026-01-01T00:00:00Z, when every simulation begins.
const START_AFTER_UNIX_EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// How far each reading of the wall clock advances time, so that no two readings are equal.
const TICK: Duration = Duration::from_micros(1);

/// A clock that starts at 2026-01-01T00:00:00Z and moves only when advanced, and by a microsecond
/// with each reading of the wall clock.
pub struct SimulatedClock {
    hands: Mutex<Hands>,
}

struct Hands {
    wall: Duration,
    monotonic: Duration,
}

impl SimulatedClock {
    /// A clock at the start.
    pub const fn new() -> Self {
        let hands = Hands { wall: START_AFTER_UNIX_EPOCH, monotonic: Duration::ZERO };
        Self { hands: Mutex::new(hands) }
    }

    /// Advances both the wall clock and the monotonic clock.
    pub fn advance(&self, time: Duration) {
        self.hands().pass(time);
    }

    /// Sets only the wall clock, possibly backwards, as an operator or a time service does.
    pub fn set_wall(&self, since_unix_epoch: Duration) {
        self.hands().wall = since_unix_epoch;
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hands {
    fn pass(&mut self, time: Duration) {
        self.wall = self.wall.saturating_add(time);
        self.monotonic = self.monotonic.saturating_add(time);
    }
}

impl Default for SimulatedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let mut hands = self.hands();
        let now = Timestamp::from_unix(hands.wall);
        hands.pass(TICK);
        now
    }

    fn monotonic(&self) -> Duration {
        self.hands().monotonic
    }
}

/// Random bytes that are the same for the same seed and the same sequence of calls.
pub struct SeededEntropy {
    random: Mutex<Random>,
}

impl SeededEntropy {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self { random: Mutex::new(Random::new(seed)) }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_moves_when_advanced_and_a_little_with_each_reading() {
        let clock = SimulatedClock::new();
        let start = clock.now();
        assert_eq!(start.ticks(), 639_028_224_000_000_000);
        assert_eq!(clock.now().ticks() - start.ticks(), 10);
        let before = clock.monotonic();
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.monotonic() - before, Duration::from_secs(5));
        assert_eq!(clock.now().ticks() - start.ticks(), 50_000_020);
    }

    #[test]
    fn the_wall_clock_may_jump_back_and_the_monotonic_one_does_not() {
        let clock = SimulatedClock::new();
        clock.advance(Duration::from_secs(9));
        clock.set_wall(Duration::from_secs(1));
        assert_eq!(clock.now(), Timestamp::from_unix(Duration::from_secs(1)));
        assert!(clock.monotonic() >= Duration::from_secs(9));
    }

    #[test]
    fn the_same_seed_yields_the_same_bytes() {
        let bytes = |seed| {
            let mut bytes = [0; 13];
            SeededEntropy::new(seed).fill(&mut bytes);
            bytes
        };
        assert_eq!(bytes(3), bytes(3));
        assert_ne!(bytes(3), bytes(4));
    }
}
