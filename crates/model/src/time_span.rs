//! Durations as the protocol writes them: `00:00:15`, `1.02:03:04.0050000`.

use std::{fmt, str::FromStr, time::Duration};

use crate::ticks::{self, TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND};

const FRACTION_DIGITS: usize = 7;

/// A signed duration in ticks of 100 ns. The text is `[-][d.]hh:mm[:ss[.fffffff]]`, or just a
/// number of whole days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan {
    /// The duration in ticks of 100 ns.
    pub ticks: i64,
}

/// The text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTimeSpan;

impl TimeSpan {
    /// The span of a duration, cut to ticks; one that is too long is the longest.
    pub fn of(duration: Duration) -> TimeSpan {
        TimeSpan { ticks: ticks::of_duration(duration) }
    }

    /// The span as a duration; a negative one counts as zero.
    pub fn to_duration(self) -> Duration {
        ticks::to_duration(self.ticks)
    }
}

impl FromStr for TimeSpan {
    type Err = InvalidTimeSpan;

    fn from_str(text: &str) -> Result<Self, InvalidTimeSpan> {
        let text = text.trim();
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let ticks = magnitude(text).ok_or(InvalidTimeSpan)?;
        Ok(Self { ticks: if is_negative { -ticks } else { ticks } })
    }
}

fn magnitude(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let (first, second, third) = (parts.next()?, parts.next(), parts.next());
    if parts.next().is_some() {
        return None;
    }
    let Some(minutes) = second else {
        return number(first)?.checked_mul(TICKS_PER_DAY);
    };
    let (days, hours) = match first.split_once('.') {
        Some((days, hours)) => (number(days)?, hours),
        None => (0, first),
    };
    let time = below(hours, 24)? * TICKS_PER_HOUR + below(minutes, 60)? * TICKS_PER_MINUTE;
    let seconds = third.map_or(Some(0), seconds)?;
    days.checked_mul(TICKS_PER_DAY)?.checked_add(time + seconds)
}

fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if FRACTION_DIGITS < fraction.len() {
        return None;
    }
    let scale = 10_i64.pow((FRACTION_DIGITS - fraction.len()) as u32);
    Some(below(whole, 60)? * TICKS_PER_SECOND + number(fraction)? * scale)
}

fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn below(text: &str, limit: i64) -> Option<i64> {
    number(text).filter(|number| *number < limit)
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ticks = self.ticks.unsigned_abs() as i128;
        let part = |unit: i64, modulus: i128| ticks / i128::from(unit) % modulus;
        if self.ticks < 0 {
            formatter.write_str("-")?;
        }
        let days = ticks / i128::from(TICKS_PER_DAY);
        if days != 0 {
            write!(formatter, "{days}.")?;
        }
        let (hours, minutes) = (part(TICKS_PER_HOUR, 24), part(TICKS_PER_MINUTE, 60));
        write!(formatter, "{hours:02}:{minutes:02}:{:02}", part(TICKS_PER_SECOND, 60))?;
        match ticks % i128::from(TICKS_PER_SECOND) {
            0 => Ok(()),
            fraction => write!(formatter, ".{fraction:07}"),
        }
    }
}

impl fmt::Display for InvalidTimeSpan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a duration of the form [-][d.]hh:mm:ss[.fffffff]")
    }
}

impl std::error::Error for InvalidTimeSpan {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_become_ticks_and_back() {
        let cases = [
            ("00:00:15", 150_000_000, "00:00:15"),
            ("1.02:03:04.0050000", 937_840_050_000, "1.02:03:04.0050000"),
            ("-00:00:01", -10_000_000, "-00:00:01"),
            ("00:30", 18_000_000_000, "00:30:00"),
            ("2", 1_728_000_000_000, "2.00:00:00"),
            ("00:00:00.5", 5_000_000, "00:00:00.5000000"),
            (" 00:00:00 ", 0, "00:00:00"),
        ];
        for (text, ticks, printed) in cases {
            assert_eq!(text.parse(), Ok(TimeSpan { ticks }), "{text}");
            assert_eq!(TimeSpan { ticks }.to_string(), printed);
        }
    }

    #[test]
    fn other_texts_are_no_durations() {
        for text in [
            "",
            "-",
            "a",
            "24:00:00",
            "00:60:00",
            "00:00:60",
            "1:2:3:4",
            "00:00:00.00000000",
            "1.5",
            "+1",
        ] {
            assert_eq!(text.parse::<TimeSpan>(), Err(InvalidTimeSpan), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_duration_survives_its_text(ticks in -i64::MAX..i64::MAX) {
            prop_assert_eq!(TimeSpan { ticks }.to_string().parse(), Ok(TimeSpan { ticks }));
        }
    }
}
