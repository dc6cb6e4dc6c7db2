//! How a document's value is indexed: the text of its term, and its number.
//!
//! The same rules make the terms of documents and those of queries, so that a value matches itself:
//!
//! | value | text | number |
//! |---|---|---|
//! | `5`, `1.0`, `1.10`, `1E5` | `5`, `1`, `1.1`, `1E5` | as integer (cut) and as double |
//! | `true` | `true` | |
//! | a date with a time | seven digits after the point, in UTC where it has a zone | ticks, apart |
//! | a date alone | as it is | ticks of its midnight, apart |
//! | a duration, `hh:mm:ss` | as .NET writes it: `1.01:00:00` | ticks |
//! | any other text | as it is | |
//! | an object | its JSON | |
//!
//! An array is its elements, those of arrays inside it too.

use std::borrow::Cow;

use blittable::{Array, Corrupt, Value, write_json};
use dotnet::date::{Recognised, recognise};
use model::{TimeSpan, date};

/// The maximum depth of nested arrays; deeper elements are not indexed.
const NESTED_ARRAYS_MAX: u32 = 64;

/// One value, ready to become terms.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexValue<'a> {
    /// `null`.
    Null,
    /// A text that a field's analyzer splits into terms.
    Text(Cow<'a, str>),
    /// A text that is never analyzed: `true`, `false`.
    Word(&'static str),
    /// A number.
    Number {
        /// Without trailing zeros.
        text: Cow<'a, str>,
        /// Truncated to an integer, saturating at the limits of the type.
        long: i64,
        /// The nearest double.
        double: f64,
    },
    /// A date.
    Time {
        /// Its text form.
        text: Cow<'a, str>,
        /// The moment, in UTC.
        ticks: i64,
    },
    /// An object, as JSON.
    Object(String),
}

impl<'a> IndexValue<'a> {
    /// The value of a string.
    pub fn of_text(text: Cow<'a, str>) -> Self {
        if let Some(parsed) = date::parse(&text) {
            return Self::of_date(parsed);
        }
        if let Some(ticks) = midnight_of(&text) {
            return Self::Time { text, ticks };
        }
        match recognise(&text) {
            Some(Recognised::Span(ticks)) => Self::of_span(ticks),
            _ => Self::Text(text),
        }
    }

    /// The value of a duration: ticks, with the duration's text as its term.
    pub fn of_span(ticks: i64) -> Self {
        let text = TimeSpan { ticks }.to_string().into();
        Self::Number { text, long: ticks, double: ticks as f64 }
    }

    fn of_date(parsed: date::ParsedDate) -> Self {
        let ticks = parsed.utc_ticks();
        let mut text = date::format(ticks);
        if parsed.zone == date::Zone::Unspecified {
            text.pop();
        }
        Self::Time { text: Cow::Owned(text), ticks }
    }

    /// The value of a boolean.
    pub fn of_bool(value: bool) -> Self {
        Self::Word(if value { "true" } else { "false" })
    }

    /// The value of an integer.
    pub fn of_long(value: i64) -> Self {
        Self::Number { text: Cow::Owned(value.to_string()), long: value, double: value as f64 }
    }

    /// The value of a number with these digits, as written in JSON or a query. `None` when it is
    /// not a number.
    pub fn of_digits(digits: &'a str) -> Option<Self> {
        let double: f64 = digits.parse().ok()?;
        // The cast truncates and saturates.
        let long = digits.parse().unwrap_or(double as i64);
        Some(Self::Number { text: Cow::Borrowed(without_trailing_zeros(digits)), long, double })
    }

    /// The value of a double without known digits.
    pub fn of_double(value: f64) -> Self {
        let text = value.to_string();
        let text = without_trailing_zeros(&text).to_owned();
        Self::Number { text: Cow::Owned(text), long: value as i64, double: value }
    }
}

fn without_trailing_zeros(digits: &str) -> &str {
    if !digits.contains('.') || digits.contains(['e', 'E']) {
        return digits;
    }
    digits.trim_end_matches('0').trim_end_matches('.')
}

/// The ticks of the beginning of a day, `2020-01-02`.
fn midnight_of(text: &str) -> Option<i64> {
    const DAY_BYTES: usize = "2020-01-02".len();
    if text.len() != DAY_BYTES {
        return None;
    }
    date::parse(&format!("{text}T00:00:00")).map(date::ParsedDate::utc_ticks)
}

/// Calls `each` with each value that a document's value stands for.
///
/// # Errors
///
/// [`Corrupt`] when the document is damaged.
pub fn for_each_value<'a>(
    value: &Value<'a>,
    each: &mut dyn FnMut(IndexValue<'a>),
) -> Result<(), Corrupt> {
    for_each_at(value, 0, each)
}

fn for_each_at<'a>(
    value: &Value<'a>,
    depth: u32,
    each: &mut dyn FnMut(IndexValue<'a>),
) -> Result<(), Corrupt> {
    each(match value {
        Value::Null => IndexValue::Null,
        Value::Bool(value) => IndexValue::of_bool(*value),
        Value::Integer(value) => IndexValue::of_long(*value),
        Value::Number(digits) => {
            IndexValue::of_digits(digits).unwrap_or(IndexValue::Text(Cow::Borrowed(digits)))
        }
        Value::String(text) => IndexValue::of_text(text.as_cow()?),
        Value::Array(array) => return for_each_element(array, depth, each),
        Value::Object(_) => IndexValue::Object(json_of(value)?),
    });
    Ok(())
}

fn for_each_element<'a>(
    array: &Array<'a>,
    depth: u32,
    each: &mut dyn FnMut(IndexValue<'a>),
) -> Result<(), Corrupt> {
    if depth == NESTED_ARRAYS_MAX {
        return Ok(());
    }
    array.iter().try_for_each(|element| for_each_at(&element?, depth + 1, each))
}

/// The text that an object is indexed as.
pub(crate) fn json_of(value: &Value<'_>) -> Result<String, Corrupt> {
    let mut json = Vec::new();
    write_json(value, &mut json)?;
    Ok(String::from_utf8_lossy(&json).into_owned())
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    fn shown(value: IndexValue<'_>) -> String {
        match value {
            IndexValue::Null => "null".to_owned(),
            IndexValue::Text(text) => format!("{text:?}"),
            IndexValue::Word(word) => word.to_owned(),
            IndexValue::Object(json) => format!("object {json}"),
            IndexValue::Number { text, long, double } => format!("{text}/{long}/{double}"),
            IndexValue::Time { text, ticks } => format!("{text}@{ticks}"),
        }
    }

    fn values_of(json: &str) -> Vec<String> {
        let document = format!(r#"{{"F":{json}}}"#);
        let document = parse_document(document.as_bytes(), &ParseLimits::default()).unwrap();
        let value = document.as_view().root().get("F").unwrap().unwrap();
        let mut values = Vec::new();
        for_each_value(&value, &mut |value| values.push(shown(value))).unwrap();
        values
    }

    #[test]
    fn values_have_the_terms_that_were_measured() {
        for (json, expected) in [
            ("null", "null"),
            (r#""Hello World""#, r#""Hello World""#),
            (r#""""#, r#""""#),
            (r#""08:00:00""#, "08:00:00/288000000000/288000000000"),
            (r#""25:00:00""#, "1.01:00:00/900000000000/900000000000"),
            (r#""-01:00:00""#, "-01:00:00/-36000000000/-36000000000"),
            (r#""12:30""#, r#""12:30""#),
            ("5", "5/5/5"),
            ("-5", "-5/-5/-5"),
            ("1.5", "1.5/1/1.5"),
            ("-1.5", "-1.5/-1/-1.5"),
            ("1.0", "1/1/1"),
            ("1.10", "1.1/1/1.1"),
            ("1e2", "1e2/100/100"),
            ("1E5", "1E5/100000/100000"),
            ("0.00000001", "0.00000001/0/0.00000001"),
            ("123456789.123456789123", "123456789.123456789123/123456789/123456789.12345679"),
            ("-0.0", "-0/0/-0"),
            ("9223372036854775807", "9223372036854775807/9223372036854775807/9223372036854776000"),
            (
                "12345678901234567890",
                "12345678901234567890/9223372036854775807/12345678901234567000",
            ),
            ("true", "true"),
            (
                r#""2020-01-02T03:04:05.1234567Z""#,
                "2020-01-02T03:04:05.1234567Z@637135310451234567",
            ),
            (r#""2020-01-02T03:04:05.123Z""#, "2020-01-02T03:04:05.1230000Z@637135310451230000"),
            (r#""2020-01-02T03:04:05""#, "2020-01-02T03:04:05.0000000@637135310450000000"),
            (r#""2020-01-02""#, "2020-01-02@637135200000000000"),
            (
                r#""2020-01-02T03:04:05.0000000+02:00""#,
                "2020-01-02T01:04:05.0000000Z@637135238450000000",
            ),
            (r#""01:02:03""#, "01:02:03/37230000000/37230000000"),
            (r#"{"A":1}"#, r#"object {"A":1}"#),
        ] {
            assert_eq!(values_of(json), [expected], "{json}");
        }
    }

    #[test]
    fn an_array_is_its_elements_however_deep() {
        assert_eq!(values_of("[]"), Vec::<String>::new());
        assert_eq!(values_of(r#"["X", null, "", 3]"#), [r#""X""#, "null", r#""""#, "3/3/3"]);
        assert_eq!(values_of(r#"[["a"], ["b", ["c"]]]"#), [r#""a""#, r#""b""#, r#""c""#]);
    }
}
