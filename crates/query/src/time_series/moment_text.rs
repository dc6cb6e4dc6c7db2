//! Timestamps as time series queries write them. A timestamp is a number of ticks since the
//! beginning of the year 1.

use model::date;

use crate::error::QueryError;

/// The accepted formats of a timestamp; longer strings are rejected.
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

/// The default of the part that a shorter format lacks.
const REST: &str = "0001-01-01T00:00:00.0000000";

/// Parses a timestamp in one of the formats that time series queries accept; all are UTC.
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

/// The error for a string that is not a timestamp.
pub(crate) fn no_moment(text: &str) -> QueryError {
    let message = format!(
        "Unable to parse timeseries from/to values. Got: {text}\nThe supported time formats are:\n{}",
        FORMS.join("\n")
    );
    QueryError::Argument { message }
}

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
}
