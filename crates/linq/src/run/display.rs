//! Values as texts: string concatenation, `ToString()` and formats.

use std::borrow::Cow;

use blittable::{Corrupt, write_json};
use dotnet::culture::Culture;
use dotnet::date_format;
use dotnet::number::{double_of_digits, double_text};
use dotnet::number_format::{Formatted, format_number};
use dotnet::span_format::format_span;

use crate::run::elements::from_document;
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::value::{Record, Value};

/// What .NET writes for a document's array, which does not override `ToString()`.
const ARRAY_TEXT: &str = "Raven.Server.Documents.Indexes.Static.DynamicArray";

/// The text of a value; that of nulls is empty.
pub(crate) fn display<'v>(value: &'v Value<'_>) -> Result<Cow<'v, str>, Corrupt> {
    Ok(match value {
        Value::Missing | Value::ExplicitNull | Value::Null => Cow::Borrowed(""),
        Value::Bool(true) => Cow::Borrowed("True"),
        Value::Bool(false) => Cow::Borrowed("False"),
        Value::Integer(value) => Cow::Owned(value.to_string()),
        Value::Double(value) => Cow::Owned(double_text(*value)),
        Value::Number(digits) => Cow::Borrowed(digits),
        Value::Decimal(value) => Cow::Owned(value.to_string()),
        Value::Char(value) => Cow::Owned(value.to_string()),
        Value::Text(text) => Cow::Borrowed(text),
        Value::Date(date) => {
            Cow::Owned(date_format::format_date(*date, "", Culture::Invariant).unwrap_or_default())
        }
        Value::OffsetDate(date) => {
            Cow::Owned(date_format::format_offset_date(*date, "").unwrap_or_default())
        }
        Value::Span(ticks) => Cow::Owned(model::TimeSpan { ticks: *ticks }.to_string()),
        Value::DayOfWeek(day) => Cow::Borrowed(date_format::day_name(i64::from(*day))),
        Value::Array(_) | Value::List(_) | Value::Group(_) => Cow::Borrowed(ARRAY_TEXT),
        Value::Object(_) | Value::Document(_) | Value::Metadata(_) => Cow::Owned(json(value)?),
        Value::Record(record) => Cow::Owned(record_text(record)?),
        Value::Dictionary(_) => Cow::Borrowed("Dictionary"),
        Value::Field(field) => display(&field.value)?,
        Value::Boosted(boosted) => display(&boosted.value)?,
        Value::Spatial(_) => Cow::Borrowed(""),
    })
}

fn json(value: &Value<'_>) -> Result<String, Corrupt> {
    let Some(object) = value.as_object() else { return Ok("{}".to_owned()) };
    let mut bytes = Vec::new();
    write_json(&blittable::Value::Object(object), &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn record_text(record: &Record<'_>) -> Result<String, Corrupt> {
    let mut text = "{".to_owned();
    for (index, (name, value)) in record.iter().enumerate() {
        text.push_str(if index == 0 { " " } else { ", " });
        text.push_str(name);
        text.push_str(" = ");
        text.push_str(&display(value)?);
    }
    text.push_str(" }");
    Ok(text)
}

/// The text of a value in a format. The numbers of documents do not know formats in holes of
/// strings, only in `ToString`, which passes `is_method`.
pub(crate) fn format<'v>(
    value: &'v Value<'_>,
    format: &str,
    is_method: bool,
) -> Result<Cow<'v, str>, Fault> {
    let formatted = match value {
        Value::Integer(value) => {
            format_number(Formatted::Integer(*value), format, Culture::Invariant)
        }
        Value::Double(value) => {
            format_number(Formatted::Double(*value), format, Culture::Invariant)
        }
        Value::Decimal(value) => {
            format_number(Formatted::Decimal(value), format, Culture::Invariant)
        }
        Value::Number(digits) if is_method => {
            format_number(Formatted::Double(double_of_digits(digits)), format, Culture::Invariant)
        }
        Value::Date(date) => date_format::format_date(*date, format, Culture::Invariant),
        Value::OffsetDate(date) => date_format::format_offset_date(*date, format),
        Value::Span(ticks) => format_span(*ticks, format),
        _ => return Ok(display(value)?),
    };
    match formatted {
        Some(text) => Ok(Cow::Owned(text)),
        None => {
            let message = format!("a {} cannot be written as '{format}'", value.type_name());
            Err(Fault::new(EvaluationErrorKind::Format, message))
        }
    }
}

/// The text of a document's value in a format of .NET, as a hole of a string writes it; the empty
/// format is the usual one. `None` for arrays, damaged values and invalid formats.
pub fn formatted(value: blittable::Value<'_>, in_format: &str) -> Option<String> {
    let value = from_document(value).ok()?;
    let text = match (&value, in_format) {
        (Value::Array(_), _) => return None,
        (value, "") => display(value).ok()?,
        (value, in_format) => format(value, in_format, false).ok()?,
    };
    Some(text.into_owned())
}

/// Pads on the left for positive widths, on the right for negative ones.
pub(crate) fn push_aligned(text: &str, alignment: i32, out: &mut String) {
    let width = alignment.unsigned_abs() as usize;
    let padding = width.saturating_sub(text.chars().count());
    if 0 < alignment {
        out.extend(std::iter::repeat_n(' ', padding));
    }
    out.push_str(text);
    if alignment < 0 {
        out.extend(std::iter::repeat_n(' ', padding));
    }
}
