//! Times that repeat, as cron writes them: `0 2 * * 1-5` is two o'clock in the morning of each working day.
//!
//! Five fields: minute, hour, day of the month, month, day of the week. The library parses them and
//! finds the next moment; this module has the protocol's rules and messages. Invariant: all five
//! fields must match (unlike in the program cron, where either kind of day suffices).

use std::fmt;

use chrono::{DateTime, Utc};
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use model::ticks::{TICKS_PER_SECOND, UNIX_EPOCH_TICKS};

/// The names of the fields in messages.
const FIELDS: [&str; 5] = ["Minute", "Hour", "Day", "Month", "DayOfWeek"];
/// Seconds between 0001-01-01 and 1970-01-01.
const SECONDS_BEFORE_1970: i64 = UNIX_EPOCH_TICKS / TICKS_PER_SECOND;

/// A time that repeats.
pub struct CronExpression(Cron);

/// Why a text is not valid. The messages are part of the protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InvalidCron {
    /// Fewer than five fields.
    TooFew(String),
    /// More than five fields.
    TooMany(String),
    /// A field that cannot be parsed.
    Field {
        /// The name of the field.
        name: &'static str,
        /// Its text.
        text: String,
    },
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
        }
    }
}

impl std::error::Error for InvalidCron {}

impl CronExpression {
    /// Parses a text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<CronExpression, InvalidCron> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        if fields.len() < FIELDS.len() {
            return Err(InvalidCron::TooFew(text.trim().to_owned()));
        }
        if FIELDS.len() < fields.len() {
            return Err(InvalidCron::TooMany(text.trim().to_owned()));
        }
        parse_fields(&fields).map(CronExpression).ok_or_else(|| unreadable(&fields))
    }

    /// The first moment after this one that matches, in ticks of UTC; `None` when there is none
    /// before the year 5000.
    pub fn next_after(&self, ticks: i64) -> Option<i64> {
        let seconds = ticks.div_euclid(TICKS_PER_SECOND) - SECONDS_BEFORE_1970;
        let now = DateTime::<Utc>::from_timestamp(seconds, 0)?;
        let next = self.0.find_next_occurrence(&now, false).ok()?;
        (next.timestamp() + SECONDS_BEFORE_1970).checked_mul(TICKS_PER_SECOND)
    }
}

fn parse_fields(fields: &[&str]) -> Option<Cron> {
    // The library accepts an empty element between two commas.
    if fields.iter().any(|field| field.split(',').any(str::is_empty)) {
        return None;
    }
    // `2/3` is every third one from the second on.
    let parser = CronParser::builder().sloppy_ranges(true).dom_and_dow(true);
    let parser = parser.seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    parser.parse(&fields.join(" ")).ok()
}

/// Names the first field that cannot be parsed.
fn unreadable(fields: &[&str]) -> InvalidCron {
    let is_unreadable = |position: &usize| {
        let mut alone = ["*"; FIELDS.len()];
        alone[*position] = fields[*position];
        parse_fields(&alone).is_none()
    };
    let position = (0..FIELDS.len()).find(is_unreadable).unwrap_or_default();
    InvalidCron::Field { name: FIELDS[position], text: fields[position].to_owned() }
}

#[cfg(test)]
mod tests {
    use model::date;

    use super::*;

    fn next(expression: &str, now: &str) -> Option<String> {
        let now = date::parse(now).unwrap().utc_ticks();
        CronExpression::parse(expression).unwrap().next_after(now).map(date::format)
    }

    #[test]
    fn the_next_occurrence_is_the_first_moment_that_fits_all_fields() {
        // All but the last three are RavenDB's.
        for (text, expected) in [
            ("0 2 * * *", "2026-11-24T02:00"),
            ("* * * * *", "2026-11-23T12:45"),
            ("*/5 * * * *", "2026-11-23T12:45"),
            ("2/3 * * * *", "2026-11-23T12:47"),
            ("1-5/2 * * * *", "2026-11-23T13:01"),
            ("05 00 * * *", "2026-11-24T00:05"),
            ("0 0 1 1 MON", "2029-01-01T00:00"),
            ("0 0 15 * MON", "2027-02-15T00:00"),
            ("0 0 * * MON-FRI/2", "2026-11-25T00:00"),
            ("0 0 * * 5-7", "2026-11-27T00:00"),
            ("0 0 * jan-mar,DEC *", "2026-12-01T00:00"),
            ("0 0 L * *", "2026-11-30T00:00"),
            ("0 0 L,15 * *", "2026-11-30T00:00"),
            ("0 0 LW * *", "2026-11-30T00:00"),
            ("0 0 15W * *", "2026-12-15T00:00"),
            ("0 0 * * 5L", "2026-11-27T00:00"),
            ("0 0 * * 5#3", "2026-12-18T00:00"),
            ("0 0 * * THU#2", "2026-12-10T00:00"),
            ("0 2 * * *  ", "2026-11-24T02:00"),
            ("0 0 ? * 1", "2026-11-30T00:00"),
            ("0 0 29 2 *", "2028-02-29T00:00"),
            ("44 12 * * *", "2026-11-24T12:44"),
        ] {
            let next = next(text, "2026-11-23T12:44:39.1234567Z");
            assert_eq!(next, Some(format!("{expected}:00.0000000Z")), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_the_reason() {
        for (text, message) in [
            ("x", "The provided cron string <x> has too few parameters"),
            ("", "The provided cron string <> has too few parameters"),
            ("@daily", "The provided cron string <@daily> has too few parameters"),
            ("0 2 * * * *", "The provided cron string <0 2 * * * *> has too many parameters"),
            ("0 25 * * *", "There was an error parsing '25' for the Hour field"),
            ("a 2 * * *", "There was an error parsing 'a' for the Minute field"),
            ("5-1 * * * *", "There was an error parsing '5-1' for the Minute field"),
            ("1,,2 * * * *", "There was an error parsing '1,,2' for the Minute field"),
            ("*/0 * * * *", "There was an error parsing '*/0' for the Minute field"),
            ("? * * * *", "There was an error parsing '?' for the Minute field"),
            ("0 0 0 * *", "There was an error parsing '0' for the Day field"),
            ("0 0 * 13 *", "There was an error parsing '13' for the Month field"),
            ("0 0 * * 8", "There was an error parsing '8' for the DayOfWeek field"),
        ] {
            let error = CronExpression::parse(text).err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), Some(message), "{text}");
        }
    }

    #[test]
    fn a_time_that_never_comes_has_no_next() {
        for text in ["0 0 30 2 *", "0 0 31 2,4 *"] {
            assert_eq!(next(text, "2026-11-23T12:44:39Z"), None, "{text}");
        }
        let leap_day = CronExpression::parse("0 0 29 2 *").unwrap();
        assert_eq!(leap_day.next_after(model::ticks::TICKS_MAX), None);
        assert_eq!(leap_day.next_after(i64::MAX), None);
    }
}
