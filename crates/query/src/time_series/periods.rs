//! Which period an entry belongs to.
//!
//! Periods of days and less follow each other without gaps from the start of the range, truncated
//! to a whole unit; without a range, from the beginning of time. Periods of months follow the
//! calendar: each begins in a year and a month that are multiples of the length.

use model::date::{add_months, month_start, year_and_month};
use model::ticks::TICKS_MAX;

use crate::time_series::length::TimeLength;

/// A period; the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) start: i64,
    pub(crate) end: i64,
}

impl Stretch {
    pub(crate) fn contains(&self, moment: i64) -> bool {
        (self.start..self.end).contains(&moment)
    }
}

/// Divides time into periods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periods {
    length: TimeLength,
    origin: i64,
}

impl Periods {
    /// Periods of `length`, which is not zero, for a range that begins at `from`.
    pub(crate) fn new(length: TimeLength, from: Option<i64>) -> Periods {
        let from = from.unwrap_or(0).clamp(0, TICKS_MAX);
        let origin = match length {
            TimeLength::Ticks { unit, .. } => from - from % unit,
            TimeLength::Months(_) => 0,
        };
        Periods { length, origin }
    }

    /// The period that contains `moment`.
    pub(crate) fn around(&self, moment: i64) -> Stretch {
        match self.length {
            TimeLength::Ticks { length, .. } => {
                let start = moment - (moment - self.origin).rem_euclid(length);
                Stretch { start: start.max(0), end: start.saturating_add(length).min(TICKS_MAX) }
            }
            TimeLength::Months(length) => {
                let (year, month) = year_and_month(moment);
                let (years, months) = (length / 12, length % 12);
                let year = if years == 0 { year } else { year - year % years };
                let month = if months == 0 { 1 } else { month - (month - 1) % months };
                let start = month_start(year, month);
                Stretch { start, end: add_months(start, length) }
            }
        }
    }

    /// The period after another one.
    pub(crate) fn behind(&self, stretch: Stretch) -> Stretch {
        Stretch { start: stretch.end, end: self.length.after(stretch.end) }
    }
}

#[cfg(test)]
mod tests {
    use model::date;

    use super::*;
    use crate::time_series::moment_text::parse_moment;

    fn stretch(length: &str, from: &str, moment: &str) -> String {
        let periods = Periods::new(TimeLength::parse(length).unwrap(), parse_moment(from));
        let stretch = periods.around(parse_moment(moment).unwrap());
        let short = |moment| date::format(moment).replace(":00.0000000Z", "").replace("T00:00", "");
        format!("{} {}", short(stretch.start), short(stretch.end))
    }

    /// What the real server returned.
    #[test]
    fn stretches_are_those_of_clock_and_calendar() {
        for (length, from, moment, expected) in [
            ("7h", "", "2020-01-30", "2020-01-29T22:00 2020-01-30T05:00"),
            ("5h", "", "2020-01-30", "2020-01-29T22:00 2020-01-30T03:00"),
            ("36 h", "", "2020-01-30", "2020-01-29T12:00 2020-01-31"),
            ("7 d", "", "2020-01-30", "2020-01-27 2020-02-03"),
            ("31 d", "", "2020-01-30", "2020-01-05 2020-02-05"),
            ("1000 min", "", "2020-01-30", "2020-01-29T18:40 2020-01-30T11:20"),
            ("2h", "2020-01-30T01:00", "2020-01-30T01:00", "2020-01-30T01:00 2020-01-30T03:00"),
            ("5h", "2020-01-30T01:00", "2020-01-30T13:59", "2020-01-30T11:00 2020-01-30T16:00"),
            ("1h", "2020-01-30T00:30", "2020-01-30T01:00", "2020-01-30T01:00 2020-01-30T02:00"),
            (
                "90 min",
                "2019-02-14T10:20:30.123",
                "2019-03-15T10:20:30.400",
                "2019-03-15T10:20 2019-03-15T11:50",
            ),
            ("7 d", "2019-02-14T10:20:30.123", "2019-03-15T10:20", "2019-03-14 2019-03-21"),
            (
                "36 h",
                "2019-02-14T10:20:30.123",
                "2019-03-15T10:20",
                "2019-03-14T22:00 2019-03-16T10:00",
            ),
            ("5 months", "", "2018-03-15", "2018-01-01 2018-06-01"),
            ("5 months", "", "2018-12-15", "2018-11-01 2019-04-01"),
            ("5 months", "", "2019-04-15", "2019-01-01 2019-06-01"),
            ("1 q", "2019-02-15", "2019-02-15", "2019-01-01 2019-04-01"),
            ("3q", "", "2018-12-15", "2018-10-01 2019-07-01"),
            ("14 months", "", "2022-10-15", "2022-09-01 2023-11-01"),
            ("18 months", "", "2022-10-15", "2022-07-01 2024-01-01"),
            ("25 months", "", "2022-10-15", "2022-10-01 2024-11-01"),
            ("30 months", "", "2020-07-15", "2020-07-01 2023-01-01"),
            ("3y", "", "2018-01-15", "2016-01-01 2019-01-01"),
            ("300 years", "", "2020-01-15", "1800-01-01 2100-01-01"),
            ("10000 years", "", "2020-01-15", "0001-01-01 9999-12-31T23:59:59.9999999Z"),
        ] {
            assert_eq!(stretch(length, from, moment), expected, "{length} from {from} at {moment}");
        }
    }
}
