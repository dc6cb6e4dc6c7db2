//! Moments and the calendar. A moment is a number of ticks since the beginning of the year 1.

use model::date;

use crate::error::QueryError;

/// The last moment there is.
pub(crate) const MOMENT_MAX: i64 = date::TICKS_MAX;

const MONTHS_MAX: i64 = 9999 * 12 - 1;

/// The forms in which queries may write a moment; a longer text is no moment.
const FORMS: [&str; 9] = [
    "yyyy",
    "yyyy-MM",
    "yyyy-MM-dd",
    "yyyy-MM-ddTHH:mm",
    "yyyy-MM-ddTHH:mm:ss",
    "yyyy-MM-ddTHH:mm:ss.fff",
    "yyyy-MM-ddTHH:mm:ss.fffZ",
    "yyyy-MM-ddTHH:mm:ss.fffffff",
    "yyyy-MM-ddTHH:mm:ss.fffffffZ",
];

/// What a text in a shorter form lacks.
const REST: &str = "0001-01-01T00:00:00.0000000";

/// Reads a moment in one of the forms that queries over time series know; all are UTC.
pub(crate) fn parse_moment(text: &str) -> Option<i64> {
    let form = FORMS.iter().find(|form| form.len() == text.len())?;
    let follows = text.bytes().zip(form.bytes()).all(|(byte, expected)| match expected {
        b'-' | b':' | b'.' | b'T' | b'Z' => byte == expected,
        _ => byte.is_ascii_digit(),
    });
    if !follows {
        return None;
    }
    let digits = text.trim_end_matches('Z');
    let whole = format!("{digits}{}Z", &REST[digits.len()..]);
    date::parse(&whole).map(date::ParsedDate::utc_ticks)
}

/// The refusal of a text that is no moment.
pub(crate) fn no_moment(text: &str) -> QueryError {
    let message = format!(
        "Unable to parse timeseries from/to values. Got: {text}\nThe supported time formats are:\n{}",
        FORMS.join("\n")
    );
    QueryError::Argument { message }
}

/// The year and the month, both from 1.
pub(crate) fn year_and_month(moment: i64) -> (i64, i64) {
    let text = date::text(moment.clamp(0, MOMENT_MAX));
    let number =
        |digits: &[u8]| digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    (number(&text[..4]), number(&text[5..7]))
}

/// The first moment of a month, counted from the first one of the year 1.
fn start_of(months: i64) -> i64 {
    let months = months.clamp(0, MONTHS_MAX);
    let text = format!("{:04}-{:02}-01T00:00:00.0000000Z", months / 12 + 1, months % 12 + 1);
    date::parse(&text).map_or(0, date::ParsedDate::utc_ticks)
}

/// The first moment of a month; years before the first one count as that.
pub(crate) fn month_start(year: i64, month: i64) -> i64 {
    start_of(year.saturating_sub(1).max(0).saturating_mul(12).saturating_add(month - 1))
}

/// The same day and time so many months later, or the last day of that month when it is shorter.
pub(crate) fn add_months(moment: i64, months: i64) -> i64 {
    let (year, month) = year_and_month(moment);
    let months_before = (year - 1) * 12 + month - 1;
    let months = months_before.saturating_add(months);
    if months > MONTHS_MAX {
        return MOMENT_MAX;
    }
    if months < 0 {
        return 0;
    }
    let in_month = moment - start_of(months_before);
    let start = start_of(months);
    let end = if months == MONTHS_MAX { MOMENT_MAX + 1 } else { start_of(months + 1) };
    // The time of the day is kept where the day is not there.
    let days_too_many = (start + in_month - end).div_euclid(TICKS_PER_DAY) + 1;
    start + in_month - days_too_many.max(0) * TICKS_PER_DAY
}

const TICKS_PER_DAY: i64 = 24 * 60 * 60 * 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_few_forms() {
        for (text, expected) in [
            ("2020", "2020-01-01T00:00:00.0000000Z"),
            ("2020-02", "2020-02-01T00:00:00.0000000Z"),
            ("2020-02-29", "2020-02-29T00:00:00.0000000Z"),
            ("2020-02-29T12:34", "2020-02-29T12:34:00.0000000Z"),
            ("2020-02-29T12:34:56", "2020-02-29T12:34:56.0000000Z"),
            ("2020-02-29T12:34:56.789", "2020-02-29T12:34:56.7890000Z"),
            ("2020-02-29T12:34:56.789Z", "2020-02-29T12:34:56.7890000Z"),
            ("2020-02-29T12:34:56.7891234", "2020-02-29T12:34:56.7891234Z"),
            ("2020-02-29T12:34:56.7891234Z", "2020-02-29T12:34:56.7891234Z"),
        ] {
            assert_eq!(parse_moment(text).map(date::format).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "x",
            "20200",
            "2020-13",
            "2021-02-29",
            "2020-01-01 00:00",
            "2020-01-01T00:00:00Z",
            "2020-01-01T00:00:00.00",
            "2020-01-01T02:00:00.0000000+02:00",
            "２０",
        ] {
            assert_eq!(parse_moment(text), None, "{text}");
        }
    }

    #[test]
    fn months_are_added_as_the_calendar_has_them() {
        for (text, months, expected) in [
            ("2020-01-31T12:00", 1, "2020-02-29T12:00:00.0000000Z"),
            ("2020-01-31T12:00", 13, "2021-02-28T12:00:00.0000000Z"),
            ("2020-01-31T12:00", 2, "2020-03-31T12:00:00.0000000Z"),
            ("2020-03-31T23:59", -1, "2020-02-29T23:59:00.0000000Z"),
            ("2020-01-01", -12, "2019-01-01T00:00:00.0000000Z"),
            ("9999-12-01", 1, "9999-12-31T23:59:59.9999999Z"),
            ("0001-01-01", -1, "0001-01-01T00:00:00.0000000Z"),
            ("2020-12-31", 0, "2020-12-31T00:00:00.0000000Z"),
        ] {
            let moment = add_months(parse_moment(text).unwrap(), months);
            assert_eq!(date::format(moment), expected, "{text} {months}");
        }
    }
}
