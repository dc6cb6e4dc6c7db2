//! The policies of time series: how long entries are kept, and over which time spans they are aggregated.

use std::cmp::Ordering;

const SECONDS_PER_DAY: i64 = 24 * 3600;

/// A time span in a policy: seconds, which have a fixed length, or months, which do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeValue {
    /// Unlimited.
    ForEver,
    /// A number of seconds.
    Seconds(i64),
    /// A number of months.
    Months(i64),
}

/// A policy: entries of a time span are aggregated into one, which is kept for a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSeriesPolicy {
    /// Its name.
    pub name: String,
    /// The time span aggregated into one entry.
    pub aggregation: TimeValue,
    /// How long the aggregated entries are kept.
    pub retention: TimeValue,
}

/// The policies of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionPolicies {
    /// The collection.
    pub collection: String,
    /// Whether they are disabled.
    pub is_disabled: bool,
    /// How long the entries written by clients are kept.
    pub raw_retention: TimeValue,
    /// The policies, ordered by aggregation time, shortest first.
    pub policies: Vec<TimeSeriesPolicy>,
}

impl TimeValue {
    /// Compares two spans; `None` if the result depends on the month.
    pub fn compare(self, other: Self) -> Option<Ordering> {
        if let (Self::Months(own), Self::Months(other)) = (self, other) {
            return Some(own.cmp(&other));
        }
        let ((own_min, own_max), (min, max)) = (self.seconds(), other.seconds());
        if own_max < min {
            return Some(Ordering::Less);
        }
        if max < own_min {
            return Some(Ordering::Greater);
        }
        match (self, other) {
            (Self::Months(_), _) | (_, Self::Months(_)) => None,
            (Self::ForEver | Self::Seconds(_), Self::ForEver | Self::Seconds(_)) => {
                Some(own_min.cmp(&min))
            }
        }
    }

    /// Whether the other span is a whole multiple of this one, which must be positive.
    pub fn divides(self, other: Self) -> bool {
        match (self, other) {
            (Self::Seconds(own), Self::Seconds(other))
            | (Self::Months(own), Self::Months(other)) => other % own == 0,
            // Months begin at the start of a day.
            (Self::Seconds(own), Self::Months(_)) => SECONDS_PER_DAY % own == 0,
            _ => false,
        }
    }

    /// Whether it is longer than nothing.
    pub fn is_positive(self) -> bool {
        match self {
            Self::ForEver => true,
            Self::Seconds(value) | Self::Months(value) => 0 < value,
        }
    }

    /// Its minimum and maximum length in seconds, because months and years differ.
    fn seconds(self) -> (i64, i64) {
        let of_days = |days: i64| days.saturating_mul(SECONDS_PER_DAY);
        match self {
            Self::ForEver => (i64::MAX, i64::MAX),
            Self::Seconds(seconds) => (seconds, seconds),
            Self::Months(months) => {
                let (years, months) = (months / 12, months % 12);
                (of_days(years * 365 + months * 28), of_days(years * 366 + months * 31))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{Equal, Greater, Less};

    use super::{TimeValue::*, *};

    #[test]
    fn months_are_compared_with_seconds_where_every_month_is_the_same() {
        let days = |days: i64| Seconds(days * SECONDS_PER_DAY);
        for (left, right, expected) in [
            (Seconds(60), Seconds(60), Some(Equal)),
            (Months(1), days(27), Some(Greater)),
            (Months(1), days(28), None),
            (days(31), Months(1), None),
            (days(32), Months(1), Some(Greater)),
            (Months(12), days(367), Some(Less)),
            (Months(3), Months(2), Some(Greater)),
            (ForEver, Months(24), Some(Greater)),
            (ForEver, ForEver, Some(Equal)),
        ] {
            assert_eq!(left.compare(right), expected, "{left:?} {right:?}");
        }
    }

    #[test]
    fn a_month_is_a_multiple_of_what_divides_a_day() {
        assert!(Seconds(3600).divides(Months(1)) && Seconds(60).divides(Seconds(120)));
        assert!(!Seconds(7).divides(Months(1)) && !Seconds(60).divides(Seconds(90)));
        assert!(Months(1).divides(Months(12)) && !Months(1).divides(Seconds(60)));
        assert!(!Seconds(1).divides(ForEver));
    }
}
