//! Time, as a trait, so that tests decide what time it is.

use std::time::Duration;

/// 100-nanosecond steps between 0001-01-01 and 1970-01-01, both at midnight UTC.
const TICKS_AT_UNIX_EPOCH: i64 = 621_355_968_000_000_000;

/// A moment of UTC wall-clock time in ticks: 100-nanosecond steps since 0001-01-01T00:00:00Z, the
/// resolution in which the protocol prints dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From ticks since 0001-01-01T00:00:00Z.
    pub const fn from_ticks(ticks: i64) -> Self {
        Self(ticks)
    }

    /// From a distance after the Unix epoch, rounded down to ticks.
    pub fn from_unix(since_epoch: Duration) -> Self {
        let ticks = i64::try_from(since_epoch.as_nanos() / 100).unwrap_or(i64::MAX);
        Self(TICKS_AT_UNIX_EPOCH.saturating_add(ticks))
    }

    /// This much later, rounded down to ticks.
    pub fn plus(self, time: Duration) -> Self {
        let ticks = i64::try_from(time.as_nanos() / 100).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(ticks))
    }

    /// Ticks since 0001-01-01T00:00:00Z.
    pub const fn ticks(self) -> i64 {
        self.0
    }
}

/// Where time comes from.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock. It may jump, also backwards.
    fn now(&self) -> Timestamp;
    /// Time since an arbitrary start; never goes backwards. For measuring and for deadlines.
    fn monotonic(&self) -> Duration;
}
