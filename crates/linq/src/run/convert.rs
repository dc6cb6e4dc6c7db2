//! Casts, `is`, and `TryConvert`.

use dotnet::date::{Recognised, parse_date};
use dotnet::number::{
    decimal_of_double, double_of_decimal, double_of_digits, integer_of_digits, integer_of_double,
};

use crate::compile::constant::range;
use crate::compile::names::NetType;
use crate::compile::plan::CastType;
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::operators::{decimal, overflow};
use crate::run::{Evaluated, elements};
use crate::value::{Date, DateKind, OffsetDate, Value};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

/// `(to)value`
pub(crate) fn cast<'a>(value: Value<'a>, to: CastType) -> Evaluated<'a> {
    let CastType { to: net_type, nullable } = to;
    if matches!(net_type, NetType::Dynamic | NetType::Object) {
        return Ok(value);
    }
    if value.is_null() {
        return match nullable || is_reference(net_type) {
            true if net_type == NetType::Sequence && value.is_dynamic_null() => Ok(value),
            true => Ok(Value::Null),
            false if matches!(value, Value::Null) => {
                let message = "null has no value of this type";
                Err(Fault::new(EvaluationErrorKind::NullReference, message))
            }
            false => default_of_null(net_type),
        };
    }
    let name = value.type_name();
    convert(value, net_type)?.ok_or_else(|| {
        let message = format!("a {name} cannot be converted to {}", word(net_type));
        Fault::new(EvaluationErrorKind::InvalidCast, message)
    })
}

fn is_reference(net_type: NetType) -> bool {
    matches!(
        net_type,
        NetType::String | NetType::Sequence | NetType::Dictionary | NetType::DocumentObject
    )
}

/// What a document's null becomes in a type that has no null.
fn default_of_null<'a>(net_type: NetType) -> Evaluated<'a> {
    Ok(match net_type {
        NetType::Double => Value::Double(f64::NAN),
        NetType::Float => return Err(overflow("float")),
        NetType::DateTimeOffset => {
            Value::OffsetDate(OffsetDate { clock_ticks: 0, offset_minutes: 0 })
        }
        NetType::Bool => Value::Bool(false),
        NetType::Char => Value::Char('\0'),
        NetType::Integer { .. } => Value::Integer(0),
        NetType::Decimal => Value::Decimal(Decimal::ZERO),
        NetType::DateTime => Value::Date(Date::MIN),
        NetType::TimeSpan => Value::Span(0),
        NetType::DayOfWeek => Value::DayOfWeek(0),
        NetType::Guid
        | NetType::Dynamic
        | NetType::Object
        | NetType::String
        | NetType::Sequence
        | NetType::Dictionary
        | NetType::DocumentObject => Value::Null,
    })
}

fn word(net_type: NetType) -> &'static str {
    match net_type {
        NetType::Dynamic => "dynamic",
        NetType::Object => "object",
        NetType::Bool => "bool",
        NetType::Char => "char",
        NetType::Integer { .. } => "an integer",
        NetType::Float => "float",
        NetType::Double => "double",
        NetType::Decimal => "decimal",
        NetType::String => "string",
        NetType::DateTime => "DateTime",
        NetType::DateTimeOffset => "DateTimeOffset",
        NetType::TimeSpan => "TimeSpan",
        NetType::Guid => "Guid",
        NetType::DayOfWeek => "DayOfWeek",
        NetType::Sequence => "a sequence",
        NetType::Dictionary => "a dictionary",
        NetType::DocumentObject => "an object",
    }
}

/// `None` when there is no such conversion.
fn convert<'a>(value: Value<'a>, to: NetType) -> Result<Option<Value<'a>>, Fault> {
    Ok(match to {
        NetType::Integer { bits, signed } => {
            integer(&value)?.map(|value| Value::Integer(wrap(value, bits, signed)))
        }
        NetType::Double => double(&value)?.map(Value::Double),
        NetType::Float => double(&value)?.map(|value| Value::Double(shorten(value))),
        NetType::Decimal => to_decimal(&value)?.map(Value::Decimal),
        NetType::Char => match value {
            Value::Char(_) => Some(value),
            Value::Integer(code) => {
                u32::try_from(code).ok().and_then(char::from_u32).map(Value::Char)
            }
            _ => None,
        },
        NetType::String | NetType::Guid => match value {
            Value::Text(text) => Some(Value::Text(text.into_string())),
            _ => None,
        },
        NetType::Bool => matches!(value, Value::Bool(_)).then_some(value),
        NetType::DateTime => date(value),
        NetType::DateTimeOffset => offset_date(value),
        NetType::TimeSpan => matches!(value, Value::Span(_)).then_some(value),
        NetType::DayOfWeek => match value {
            Value::Integer(day) => u8::try_from(day).ok().map(Value::DayOfWeek),
            Value::DayOfWeek(_) => Some(value),
            _ => None,
        },
        NetType::Sequence => elements::Elements::of(&value).is_ok().then_some(value),
        NetType::Dictionary | NetType::DocumentObject => is_object(&value).then_some(value),
        NetType::Dynamic | NetType::Object => Some(value),
    })
}

fn is_object(value: &Value<'_>) -> bool {
    value.as_object().is_some() || matches!(value, Value::Dictionary(_))
}

/// A float's digits in a double, so that it is written as .NET writes the float.
fn shorten(value: f64) -> f64 {
    (value as f32).to_string().parse().unwrap_or(value)
}

fn wrap(value: i64, bits: u8, signed: bool) -> i64 {
    match (bits, signed) {
        (64.., _) => value,
        (bits, true) => value << (64 - bits) >> (64 - bits),
        (bits, false) => value & range(bits, false).1,
    }
}

fn integer(value: &Value<'_>) -> Result<Option<i64>, Fault> {
    Ok(match value {
        Value::Integer(value) => Some(*value),
        Value::Char(value) => Some(i64::from(u32::from(*value))),
        Value::DayOfWeek(day) => Some(i64::from(*day)),
        Value::Double(value) => Some(*value as i64),
        Value::Number(digits) => {
            Some(integer_of_digits(digits).ok_or_else(|| overflow("integer"))?)
        }
        Value::Decimal(value) => Some(value.trunc().to_i64().ok_or_else(|| overflow("integer"))?),
        Value::Text(text) if text.is_from_document() => {
            Some(text.trim().parse().map_err(|_| not_a_number(text))?)
        }
        _ => None,
    })
}

#[cold]
pub(crate) fn not_a_number(text: &str) -> Fault {
    let short = crate::definition_error::excerpt(text);
    Fault::new(EvaluationErrorKind::Format, format!("'{short}' is not a number"))
}

fn double(value: &Value<'_>) -> Result<Option<f64>, Fault> {
    Ok(match value {
        Value::Double(value) => Some(*value),
        Value::Integer(value) => Some(*value as f64),
        Value::Char(value) => Some(f64::from(u32::from(*value))),
        Value::Number(digits) => Some(double_of_digits(digits)),
        Value::Decimal(value) => Some(double_of_decimal(value)),
        Value::Text(text) if text.is_from_document() => {
            Some(text.trim().parse().map_err(|_| not_a_number(text))?)
        }
        _ => None,
    })
}

pub(crate) fn to_decimal(value: &Value<'_>) -> Result<Option<Decimal>, Fault> {
    Ok(match value {
        Value::Decimal(value) => Some(*value),
        Value::Integer(value) => Some((*value).into()),
        Value::Char(value) => Some(u32::from(*value).into()),
        Value::Number(digits) => Some(decimal(digits)?),
        Value::Double(value) => Some(decimal_of_double(*value).ok_or_else(|| overflow("decimal"))?),
        Value::Text(text) if text.is_from_document() => {
            Some(text.trim().parse().map_err(|_| not_a_number(text))?)
        }
        _ => None,
    })
}

fn date(value: Value<'_>) -> Option<Value<'_>> {
    match value {
        Value::Date(_) => Some(value),
        Value::OffsetDate(date) => {
            Some(Value::Date(Date { ticks: date.clock_ticks, kind: DateKind::Unspecified }))
        }
        Value::Text(text) if text.is_from_document() => match parse_date(&text)? {
            Recognised::Date(date) => Some(Value::Date(date)),
            Recognised::OffsetDate(date) => {
                Some(Value::Date(Date { ticks: date.utc_ticks(), kind: DateKind::Utc }))
            }
            Recognised::Span(_) => None,
        },
        _ => None,
    }
}

fn offset_date(value: Value<'_>) -> Option<Value<'_>> {
    match value {
        Value::OffsetDate(_) => Some(value),
        Value::Date(date) => {
            Some(Value::OffsetDate(OffsetDate { clock_ticks: date.ticks, offset_minutes: 0 }))
        }
        _ => None,
    }
}

/// `value is to`. Integers of documents have 64 bits, texts of documents are no strings, and nulls
/// are of no type.
pub(crate) fn is_of(value: &Value<'_>, to: CastType) -> bool {
    match (to.to, value) {
        (_, value) if value.is_null() => false,
        (NetType::Dynamic | NetType::Object, _) => true,
        (NetType::Bool, Value::Bool(_))
        | (NetType::Char, Value::Char(_))
        | (NetType::Integer { bits: 64, signed: true }, Value::Integer(_))
        | (NetType::Double, Value::Double(_))
        | (NetType::Decimal, Value::Decimal(_))
        | (NetType::DateTime, Value::Date(_))
        | (NetType::DateTimeOffset, Value::OffsetDate(_))
        | (NetType::TimeSpan, Value::Span(_))
        | (NetType::DayOfWeek, Value::DayOfWeek(_))
        | (NetType::Dictionary, Value::Dictionary(_)) => true,
        (NetType::Sequence, Value::Array(_) | Value::List(_) | Value::Group(_)) => true,
        (NetType::String, Value::Text(text)) => !text.is_from_document(),
        (NetType::DocumentObject, value) => value.as_object().is_some(),
        _ => false,
    }
}

/// `TryConvert<to>(value)`: what cannot be converted is as if it were missing.
pub(crate) fn try_convert<'a>(value: &Value<'a>, to: CastType) -> Evaluated<'a> {
    Ok(match to.to {
        NetType::Integer { bits, signed } => match lenient_integer(value) {
            Some(integer) => {
                let (least, most) = range(bits, signed);
                if !(least..=most).contains(&integer) {
                    return Err(overflow("integer"));
                }
                Value::Integer(integer)
            }
            None => Value::Missing,
        },
        NetType::Double | NetType::Float => {
            lenient_double(value).map_or(Value::Missing, Value::Double)
        }
        // RavenDB does not try decimals.
        _ => Value::Missing,
    })
}

fn lenient_integer(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Integer(value) => Some(*value),
        Value::Number(digits) => integer_of_digits(digits),
        Value::Double(value) => integer_of_double(*value),
        Value::Decimal(value) => value.trunc().to_i64(),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn lenient_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(digits) => Some(double_of_digits(digits)),
        Value::Double(value) => Some(*value),
        Value::Decimal(value) => Some(double_of_decimal(value)),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}
