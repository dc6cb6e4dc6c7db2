//! Time, as a trait, so that tests decide what time it is.

use std::time::Duration;

// This crate uses no other: `model::ticks` has the same numbers, and the tests of `documents` compare
// them.

/// 100-nanosecond steps between 0001-01-01 and 1970-01-01, both at midnight UTC.
const TICKS_AT_UNIX_EPOCH: i64 = 621_355_968_000_000_000;

/// The last moment of the calendar: the end of the year 9999.
const TICKS_MAX: i64 = 3_155_378_975_999_999_999;

/// A moment of UTC wall-clock time in ticks: 100-nanosecond steps since 0001-01-01T00:00:00Z, the
/// resolution in which the protocol prints dates. Invariant: it is within the calendar, the years 1
/// to 9999; anything outside is clamped to the nearer end. So a machine whose clock is wrong by
/// thousands of years still produces dates that can be printed and parsed, and adding a duration to
/// a moment cannot overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From ticks since 0001-01-01T00:00:00Z.
    pub const fn from_ticks(ticks: i64) -> Self {
        // `clamp` is not a `const fn`.
        if ticks < 0 {
            Self(0)
        } else if TICKS_MAX < ticks {
            Self(TICKS_MAX)
        } else {
            Self(ticks)
        }
    }

    /// From a duration after the Unix epoch, rounded down to ticks.
    pub fn from_unix(since_epoch: Duration) -> Self {
        Self::from_ticks(TICKS_AT_UNIX_EPOCH.saturating_add(ticks_of(since_epoch)))
    }

    /// From a duration before the Unix epoch.
    pub fn before_unix(distance: Duration) -> Self {
        Self::from_ticks(TICKS_AT_UNIX_EPOCH.saturating_sub(ticks_of(distance)))
    }

    /// This much later, rounded down to ticks.
    pub fn plus(self, time: Duration) -> Self {
        Self::from_ticks(self.0.saturating_add(ticks_of(time)))
    }

    /// Ticks since 0001-01-01T00:00:00Z.
    pub const fn ticks(self) -> i64 {
        self.0
    }
}

fn ticks_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos() / 100).unwrap_or(i64::MAX)
}

/// Where time comes from.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock. It may jump, even backwards.
    fn now(&self) -> Timestamp;
    /// Time since an arbitrary start; never goes backwards. For measuring and for deadlines.
    fn monotonic(&self) -> Duration;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_within_the_calendar() {
        let last = Timestamp::from_ticks(TICKS_MAX);
        let table = [
            (Timestamp::from_ticks(i64::MIN), 0),
            (Timestamp::from_ticks(-1), 0),
            (Timestamp::from_ticks(i64::MAX), TICKS_MAX),
            (Timestamp::from_unix(Duration::MAX), TICKS_MAX),
            (Timestamp::from_unix(Duration::ZERO), TICKS_AT_UNIX_EPOCH),
            (Timestamp::before_unix(Duration::from_secs(1)), TICKS_AT_UNIX_EPOCH - 10_000_000),
            (Timestamp::before_unix(Duration::MAX), 0),
            (last.plus(Duration::from_nanos(100)), TICKS_MAX),
            (last.plus(Duration::MAX), TICKS_MAX),
        ];
        for (moment, ticks) in table {
            assert_eq!(moment.ticks(), ticks);
        }
    }
}
