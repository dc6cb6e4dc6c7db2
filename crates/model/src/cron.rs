//! Times that repeat, as cron writes them: `0 2 * * 1-5` is two o'clock in the morning of each working day.
//!
//! Five fields: minute, hour, day of the month, month, day of the week, each a list of numbers, ranges and
//! steps; months and days of the week have names, too. Invariant: all five fields must fit a moment (unlike
//! the program cron, which takes either kind of day).

use std::fmt;

use crate::date::{TICKS_MAX, calendar_date, days_in_month};

const TICKS_PER_MINUTE: i64 = 600_000_000;
const MINUTES_PER_DAY: i64 = 24 * 60;
/// The calendar repeats after so many days, so that what has not come until then never comes.
const DAYS_LOOKED_AT: i64 = 146_097;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A time that repeats.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CronExpression {
    /// One bit for each number that fits, in all fields.
    minutes: u64,
    hours: u64,
    days: u64,
    is_last_day: bool,
    months: u64,
    weekdays: u64,
}

/// Why a text is no such time. The messages are part of the protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InvalidCron {
    /// Fewer than five fields.
    TooFew(String),
    /// More than five fields.
    TooMany(String),
    /// A field that cannot be read.
    Field {
        /// Which.
        name: &'static str,
        /// Its text.
        text: String,
    },
    /// No month has such a day.
    Never,
}

impl fmt::Display for InvalidCron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew(text) => {
                write!(f, "The provided cron string <{text}> has too few parameters")
            }
            Self::TooMany(text) => {
                write!(f, "The provided cron string <{text}> has too many parameters")
            }
            Self::Field { name, text } => {
                write!(f, "There was an error parsing '{text}' for the {name} field")
            }
            Self::Never => f.write_str("No month that was asked for has a day that was asked for"),
        }
    }
}

impl std::error::Error for InvalidCron {}

impl CronExpression {
    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<CronExpression, InvalidCron> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minute, hour, day, month, weekday] = fields.as_slice() else {
            let text = text.trim().to_owned();
            let is_short = fields.len() < 5;
            return Err(if is_short {
                InvalidCron::TooFew(text)
            } else {
                InvalidCron::TooMany(text)
            });
        };
        let is_last_day = day.eq_ignore_ascii_case("L");
        let days = if is_last_day { "*" } else { day };
        let expression = CronExpression {
            minutes: Field { name: "Minute", min: 0, max: 59, words: &[] }.read(minute)?,
            hours: Field { name: "Hour", min: 0, max: 23, words: &[] }.read(hour)?,
            days: Field { name: "Day", min: 1, max: 31, words: &[] }.read(days)?,
            is_last_day,
            months: Field { name: "Month", min: 1, max: 12, words: &MONTHS }.read(month)?,
            // Sunday is 0 and 7.
            weekdays: {
                let bits = Field { name: "DayOfWeek", min: 0, max: 7, words: &WEEKDAYS };
                let bits = bits.read(weekday)?;
                (bits | bits >> 7) & 0x7F
            },
        };
        let has_day = |month: &i64| {
            const LEAP_YEAR: i64 = 2000;
            let is_month = has(expression.months, *month);
            is_month && (1..=days_in_month(LEAP_YEAR, *month)).any(|day| has(expression.days, day))
        };
        if (1..=12).any(|month| has_day(&month)) { Ok(expression) } else { Err(InvalidCron::Never) }
    }

    /// The first moment that fits and lies behind this one, in ticks; `None` at the end of the calendar.
    pub fn next_after(&self, ticks: i64) -> Option<i64> {
        let first_minute = ticks.max(0) / TICKS_PER_MINUTE + 1;
        let first_day = first_minute / MINUTES_PER_DAY;
        for day in first_day..=first_day + DAYS_LOOKED_AT {
            if !self.fits_day(day) {
                continue;
            }
            let begin = if day == first_day { first_minute % MINUTES_PER_DAY } else { 0 };
            let fits =
                |minute: &i64| has(self.hours, minute / 60) && has(self.minutes, minute % 60);
            if let Some(minute) = (begin..MINUTES_PER_DAY).find(fits) {
                let minutes = day * MINUTES_PER_DAY + minute;
                return minutes.checked_mul(TICKS_PER_MINUTE).filter(|ticks| *ticks <= TICKS_MAX);
            }
        }
        None
    }

    fn fits_day(&self, days: i64) -> bool {
        let (year, month, day) = calendar_date(days);
        // The first day of the calendar was a Monday.
        let weekday = (days + 1) % 7;
        let is_day = !self.is_last_day || day == days_in_month(year, month);
        is_day && has(self.days, day) && has(self.months, month) && has(self.weekdays, weekday)
    }
}

fn has(bits: u64, number: i64) -> bool {
    bits >> number & 1 == 1
}

/// What one field may say.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names of the numbers from the least on.
    words: &'static [&'static str],
}

impl Field {
    fn read(&self, text: &str) -> Result<u64, InvalidCron> {
        let mut bits = 0;
        for part in text.split(',') {
            let read = self.read_part(part);
            let unread = || InvalidCron::Field { name: self.name, text: text.to_owned() };
            bits |= read.ok_or_else(unread)?;
        }
        Ok(bits)
    }

    fn read_part(&self, part: &str) -> Option<u64> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                (range, Some(step.parse::<u32>().ok().filter(|step| 0 < *step)?))
            }
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (self.min, self.max),
            Some((from, to)) => (self.number(from)?, self.number(to)?),
            // A number with a step goes on to the end.
            None if step.is_some() => (self.number(range)?, self.max),
            None => (self.number(range)?, self.number(range)?),
        };
        if to < from {
            return None;
        }
        let step = usize::try_from(step.unwrap_or(1)).ok()?;
        Some((from..=to).step_by(step).fold(0, |bits, number| bits | 1 << number))
    }

    fn number(&self, text: &str) -> Option<u32> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let number = match word {
            Some(position) => self.min + u32::try_from(position).ok()?,
            None => text.parse().ok()?,
        };
        (self.min..=self.max).contains(&number).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date;

    #[test]
    fn the_next_occurrence_is_the_first_moment_that_fits_all_fields() {
        let now = date::parse("2026-11-23T09:33:39.1234567Z").unwrap().utc_ticks();
        // All but the last two are what RavenDB says.
        let table = [
            ("0 2 * * *", "2026-11-24T02:00"),
            ("* * * * *", "2026-11-23T09:34"),
            ("*/5 * * * *", "2026-11-23T09:35"),
            ("0 0 1 1 0", "2034-01-01T00:00"),
            ("0 0 * * 7", "2026-11-29T00:00"),
            ("1-5,7 2/3 * JAN MON", "2027-01-04T02:01"),
            ("0 2 * * *  ", "2026-11-24T02:00"),
            ("0 0 L * *", "2026-11-30T00:00"),
            ("0 0 ? * 1", "2026-11-30T00:00"),
            ("0 0 29 2 *", "2028-02-29T00:00"),
            ("33 9 * * *", "2026-11-24T09:33"),
        ];
        for (text, expected) in table {
            let next = CronExpression::parse(text).unwrap().next_after(now).unwrap();
            assert_eq!(date::format(next), format!("{expected}:00.0000000Z"), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_the_reason() {
        let table = [
            ("x", "The provided cron string <x> has too few parameters"),
            ("", "The provided cron string <> has too few parameters"),
            ("0 2 * * * *", "The provided cron string <0 2 * * * *> has too many parameters"),
            ("0 25 * * *", "There was an error parsing '25' for the Hour field"),
            ("a 2 * * *", "There was an error parsing 'a' for the Minute field"),
            ("5-1 * * * *", "There was an error parsing '5-1' for the Minute field"),
            ("*/0 * * * *", "There was an error parsing '*/0' for the Minute field"),
            ("0 0 31 2,4 *", "No month that was asked for has a day that was asked for"),
        ];
        for (text, message) in table {
            assert_eq!(CronExpression::parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn times_at_the_end_of_the_calendar_have_no_next() {
        let expression = CronExpression::parse("0 0 29 2 *").unwrap();
        assert_eq!(expression.next_after(date::TICKS_MAX), None);
        assert_eq!(expression.next_after(i64::MAX), None);
    }
}
