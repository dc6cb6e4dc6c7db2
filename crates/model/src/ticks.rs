//! Ticks: steps of 100 ns, in which moments and durations are counted.

use std::time::Duration;

/// In a millisecond.
pub const TICKS_PER_MILLISECOND: i64 = 10_000;
/// In a second.
pub const TICKS_PER_SECOND: i64 = 1_000 * TICKS_PER_MILLISECOND;
/// In a minute.
pub const TICKS_PER_MINUTE: i64 = 60 * TICKS_PER_SECOND;
/// In an hour.
pub const TICKS_PER_HOUR: i64 = 60 * TICKS_PER_MINUTE;
/// In a day of 24 hours.
pub const TICKS_PER_DAY: i64 = 24 * TICKS_PER_HOUR;
/// The last moment, the end of the year 9999.
pub const TICKS_MAX: i64 = 3_155_378_975_999_999_999;
/// The first of January 1970.
pub const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;

const NANOS_PER_TICK: u64 = 100;

/// A duration in ticks, rounded down; one that is too long is the longest.
pub fn of_duration(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos() / u128::from(NANOS_PER_TICK)).unwrap_or(i64::MAX)
}

/// Ticks as a duration; a negative number of them counts as zero.
pub fn to_duration(ticks: i64) -> Duration {
    let ticks = u64::try_from(ticks).unwrap_or(0);
    Duration::from_nanos(ticks.saturating_mul(NANOS_PER_TICK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_down_to_ticks() {
        for (duration, ticks) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(199), 1),
            (Duration::from_millis(1), TICKS_PER_MILLISECOND),
            (Duration::from_secs(24 * 60 * 60), TICKS_PER_DAY),
            (Duration::MAX, i64::MAX),
        ] {
            assert_eq!(of_duration(duration), ticks);
        }
        assert_eq!(to_duration(-1), Duration::ZERO);
        assert_eq!(to_duration(TICKS_PER_SECOND), Duration::from_secs(1));
    }
}
