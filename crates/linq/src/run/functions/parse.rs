//! `Convert`, and `Parse` of numbers, booleans and identifiers.

use dotnet::date::{Recognised, parse_date};
use rust_decimal::Decimal;
use rust_decimal::RoundingStrategy;
use rust_decimal::prelude::ToPrimitive;

use crate::compile::constant::range;
use crate::compile::names::Function;
use crate::compile::plan::FunctionCall;
use crate::run::convert::not_a_number;
use crate::run::display::display;
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::functions::text_to_parse;
use crate::run::methods::as_double;
use crate::run::operators::overflow;
use crate::run::{Evaluated, Machine, wrong_arguments};
use crate::value::{Date, DateKind, Value};

impl<'a> Machine<'a, '_> {
    pub(super) fn convert_function(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let value = self.argument(&call.arguments, 0)?;
        if matches!(value, Value::Number(_) | Value::Missing | Value::ExplicitNull) {
            let message = "converting this value has several meanings: cast it";
            return Err(Fault::new(EvaluationErrorKind::Ambiguous, message));
        }
        match call.function {
            Function::ConvertToInt16 => rounded(&value, 16),
            Function::ConvertToInt32 => rounded(&value, 32),
            Function::ConvertToInt64 => rounded(&value, 64),
            Function::ConvertToDouble | Function::ConvertToSingle => match &value {
                Value::Text(text) => double(text).map(Value::Double),
                Value::Null => Ok(Value::Double(0.0)),
                other => as_double(other).map(Value::Double).ok_or_else(wrong_arguments),
            },
            Function::ConvertToDecimal => match &value {
                Value::Text(text) => decimal(text).map(Value::Decimal),
                Value::Null => Ok(Value::Decimal(Decimal::ZERO)),
                other => crate::run::convert::to_decimal(other)?
                    .map(Value::Decimal)
                    .ok_or_else(wrong_arguments),
            },
            Function::ConvertToBoolean => match &value {
                Value::Bool(_) => Ok(value),
                Value::Text(text) => boolean(text).map(Value::Bool),
                Value::Null => Ok(Value::Bool(false)),
                other => as_double(other)
                    .map(|number| Value::Bool(number != 0.0))
                    .ok_or_else(wrong_arguments),
            },
            Function::ConvertToDateTime => match &value {
                Value::Date(_) => Ok(value),
                Value::Text(text) => date(text),
                Value::Null => Ok(Value::Date(Date::MIN)),
                _ => Err(wrong_arguments()),
            },
            _ => Ok(Value::text(display(&value)?.into_owned())),
        }
    }

    pub(super) fn parse_function(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let value = self.argument(&call.arguments, 0)?;
        let text = text_to_parse(&value)?;
        match call.function {
            Function::IntegerParse => {
                text.trim().parse().map(Value::Integer).map_err(|_| not_a_number(text))
            }
            Function::DoubleParse | Function::FloatParse => double(text).map(Value::Double),
            Function::DecimalParse => decimal(text).map(Value::Decimal),
            Function::BoolParse => boolean(text).map(Value::Bool),
            _ => guid(text),
        }
    }
}

/// The nearest integer, halves to the even one.
fn rounded<'a>(value: &Value<'_>, bits: u8) -> Evaluated<'a> {
    let integer = match value {
        Value::Integer(value) => Some(*value),
        Value::Bool(value) => Some(i64::from(*value)),
        Value::Char(value) => Some(i64::from(u32::from(*value))),
        Value::Null => Some(0),
        Value::Text(text) => Some(text.trim().parse().map_err(|_| not_a_number(text))?),
        Value::Double(value) => dotnet::number::integer_of_double(value.round_ties_even()),
        Value::Decimal(value) => {
            value.round_dp_with_strategy(0, RoundingStrategy::MidpointNearestEven).to_i64()
        }
        _ => return Err(wrong_arguments()),
    };
    let (least, most) = range(bits, true);
    match integer {
        Some(integer) if (least..=most).contains(&integer) => Ok(Value::Integer(integer)),
        Some(_) | None => Err(overflow("integer")),
    }
}

fn double(text: &str) -> Result<f64, Fault> {
    match text.trim() {
        "Infinity" | "∞" => Ok(f64::INFINITY),
        "-Infinity" | "-∞" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        trimmed if trimmed.bytes().any(|byte| byte.is_ascii_digit()) => {
            without_commas(trimmed).parse().map_err(|_| not_a_number(text))
        }
        _ => Err(not_a_number(text)),
    }
}

fn decimal(text: &str) -> Result<Decimal, Fault> {
    without_commas(text.trim()).parse().map_err(|_| not_a_number(text))
}

/// Commas between thousands mean nothing.
fn without_commas(text: &str) -> String {
    text.chars().filter(|character| *character != ',').collect()
}

fn boolean(text: &str) -> Result<bool, Fault> {
    match text.trim() {
        word if word.eq_ignore_ascii_case("true") => Ok(true),
        word if word.eq_ignore_ascii_case("false") => Ok(false),
        _ => {
            let short = crate::definition_error::excerpt(text);
            let message = format!("'{short}' is neither true nor false");
            Err(Fault::new(EvaluationErrorKind::Format, message))
        }
    }
}

fn date<'a>(text: &str) -> Evaluated<'a> {
    match parse_date(text) {
        Some(Recognised::Date(date)) => {
            Ok(Value::Date(Date { kind: DateKind::Unspecified, ..date }))
        }
        Some(Recognised::OffsetDate(date)) => {
            Ok(Value::Date(Date { ticks: date.utc_ticks(), kind: DateKind::Unspecified }))
        }
        Some(Recognised::Span(_)) | None => {
            let short = crate::definition_error::excerpt(text);
            Err(Fault::new(EvaluationErrorKind::Format, format!("'{short}' is not a date")))
        }
    }
}

/// An identifier in its usual form, with or without hyphens and braces.
fn guid<'a>(text: &str) -> Evaluated<'a> {
    let bare = text.trim().trim_start_matches(['{', '(']).trim_end_matches(['}', ')']);
    let digits: String = bare.chars().filter(|character| *character != '-').collect();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let short = crate::definition_error::excerpt(text);
        return Err(Fault::new(EvaluationErrorKind::Format, format!("'{short}' is not a Guid")));
    }
    let lower = digits.to_ascii_lowercase();
    let parts = [&lower[..8], &lower[8..12], &lower[12..16], &lower[16..20], &lower[20..]];
    Ok(Value::text(parts.join("-")))
}
