//! The time of a run, in UTC: for file names and for the report.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;

/// A time in UTC, to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl UtcTime {
    /// Now, by the machine's clock. A clock before 1970 counts as 1970.
    pub fn now() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_seconds(since_epoch.as_secs())
    }

    /// The time this many seconds after the start of 1970.
    pub fn from_seconds(seconds: u64) -> Self {
        // Counted in years that begin in March, so that the leap day is the last day of a year.
        let days = seconds / SECONDS_PER_DAY + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Self { year, month, day, second_of_day: seconds % SECONDS_PER_DAY }
    }

    /// `2026-11-20T15:43:03Z`.
    pub fn readable(&self) -> String {
        let (hour, minute, second) = self.clock();
        let Self { year, month, day, .. } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// `20261120T154303Z`, for file names.
    pub fn compact(&self) -> String {
        self.readable().replace(['-', ':'], "")
    }

    fn clock(&self) -> (u64, u64, u64) {
        (self.second_of_day / 3_600, self.second_of_day / 60 % 60, self.second_of_day % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_named_right() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (1_795_189_383, "2026-11-20T15:43:03Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(UtcTime::from_seconds(seconds).readable(), expected);
        }
        assert_eq!(UtcTime::from_seconds(0).compact(), "19700101T000000Z");
    }
}
