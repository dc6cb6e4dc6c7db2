//! Lengths of time as queries write them: `1 hour`, `7d`, `2 quarters`.

use model::date::add_months;
use model::ticks::{
    TICKS_MAX, TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
};

use crate::error::QueryError;

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeLength {
    /// This many ticks, requested in a unit of `unit` ticks.
    Ticks { length: i64, unit: i64 },
    /// This many calendar months.
    Months(i64),
}

/// The units, with their names and lengths.
const UNITS: [(&[&str], TimeLength); 8] = [
    (
        &["ms", "milli", "millisecond", "milliseconds"],
        TimeLength::Ticks { length: 1, unit: TICKS_PER_MILLISECOND },
    ),
    (&["s", "second", "seconds"], TimeLength::Ticks { length: 1, unit: TICKS_PER_SECOND }),
    (&["m", "min", "minute", "minutes"], TimeLength::Ticks { length: 1, unit: TICKS_PER_MINUTE }),
    (&["h", "hour", "hours"], TimeLength::Ticks { length: 1, unit: TICKS_PER_HOUR }),
    (&["d", "day", "days"], TimeLength::Ticks { length: 1, unit: TICKS_PER_DAY }),
    (&["mo", "mon", "month", "months"], TimeLength::Months(1)),
    (&["q", "quarter", "quarters"], TimeLength::Months(3)),
    (&["y", "year", "years"], TimeLength::Months(12)),
];

/// The length of `number` units; `None` when there is no such unit.
pub(crate) fn length_of_unit(number: i64, unit: &str) -> Option<TimeLength> {
    let is_named = |names: &[&str]| names.iter().any(|name| unit.eq_ignore_ascii_case(name));
    let (_, one) = UNITS.iter().find(|(names, _)| is_named(names))?;
    Some(match *one {
        TimeLength::Ticks { unit, .. } => {
            TimeLength::Ticks { length: number.saturating_mul(unit), unit }
        }
        TimeLength::Months(months) => TimeLength::Months(number.saturating_mul(months)),
    })
}

impl TimeLength {
    /// Parses a length: a whole number and a unit.
    pub(crate) fn parse(text: &str) -> Result<TimeLength, QueryError> {
        let refused = |message: String| QueryError::Argument { message };
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = trimmed.split_at(digits);
        let Ok(number) = number.parse::<i64>() else {
            return Err(refused(format!("Unable to parse: '{text}' as a number")));
        };
        let unit = unit.trim();
        let letters = unit.bytes().take_while(u8::is_ascii_alphabetic).count();
        if letters < unit.len() && letters > 0 {
            let message =
                format!("After range specification, found additional unknown data: {text}");
            return Err(refused(message));
        }
        length_of_unit(number, unit)
            .ok_or_else(|| refused(format!("Unable to understand time range: '{text}'")))
    }

    pub(crate) fn is_zero(self) -> bool {
        matches!(self, TimeLength::Ticks { length: 0, .. } | TimeLength::Months(0))
    }

    /// Whether it was given in milliseconds.
    pub(crate) fn is_in_milliseconds(self) -> bool {
        matches!(self, TimeLength::Ticks { unit: TICKS_PER_MILLISECOND, .. })
    }

    /// The moment that much later, or the maximum.
    pub(crate) fn after(self, moment: i64) -> i64 {
        match self {
            TimeLength::Ticks { length, .. } => moment.saturating_add(length).min(TICKS_MAX),
            TimeLength::Months(months) => add_months(moment, months),
        }
    }

    /// The moment that much earlier, or the minimum.
    pub(crate) fn before(self, moment: i64) -> i64 {
        match self {
            TimeLength::Ticks { length, .. } => moment.saturating_sub(length).max(0),
            TimeLength::Months(months) => add_months(moment, months.saturating_neg()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_numbers_and_units() {
        let ticks = |length: i64, unit: i64| TimeLength::Ticks { length: length * unit, unit };
        for (text, expected) in [
            ("1h", ticks(1, TICKS_PER_HOUR)),
            ("1 hour", ticks(1, TICKS_PER_HOUR)),
            (" 90  Minutes ", ticks(90, TICKS_PER_MINUTE)),
            ("1M", ticks(1, TICKS_PER_MINUTE)),
            ("2 quarters", TimeLength::Months(6)),
            ("3y", TimeLength::Months(36)),
            ("1mo", TimeLength::Months(1)),
            ("7 ms", ticks(7, TICKS_PER_MILLISECOND)),
            ("0 h", ticks(0, TICKS_PER_HOUR)),
        ] {
            assert_eq!(TimeLength::parse(text).unwrap(), expected, "{text}");
        }
        for (text, message) in [
            ("", "Unable to parse: '' as a number"),
            ("-1 h", "Unable to parse: '-1 h' as a number"),
            ("99999999999999999999 h", "Unable to parse: '99999999999999999999 h' as a number"),
            ("1", "Unable to understand time range: '1'"),
            ("1 week", "Unable to understand time range: '1 week'"),
            ("1h 2m", "After range specification, found additional unknown data: 1h 2m"),
        ] {
            assert_eq!(TimeLength::parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn lengths_end_at_the_ends_of_time() {
        let far = TimeLength::parse("99999 years").unwrap();
        assert_eq!((far.after(0), far.before(TICKS_MAX)), (TICKS_MAX, 0));
        let far = TimeLength::parse("9999999999999 h").unwrap();
        assert_eq!((far.after(5), far.before(5)), (TICKS_MAX, 0));
    }
}
