//! Constructors and static methods of `DateTime`, `DateTimeOffset` and `TimeSpan`.

use dotnet::date::{Recognised, parse_date, parse_exact};
use model::date::{days_in_month, is_leap_year};
use model::ticks::{
    TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND,
};

use crate::compile::call::options_of;
use crate::compile::names::{Function, StaticOption};
use crate::compile::plan::{Argument, FunctionCall};
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::functions::text_to_parse;
use crate::run::operators::overflow;
use crate::run::{Evaluated, Machine, wrong_arguments};
use crate::value::{Date, DateKind, OffsetDate, Value};

impl<'a> Machine<'a, '_> {
    pub(super) fn moment_function(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let arguments = &*call.arguments;
        match call.function {
            Function::DateTimeNew => self.new_date(arguments),
            Function::DateTimeOffsetNew => self.new_offset_date(arguments),
            Function::TimeSpanNew => self.new_span(arguments),
            Function::DateTimeParse | Function::DateTimeOffsetParse => {
                let value = self.argument(arguments, 0)?;
                parsed(text_to_parse(&value)?, call.function)
            }
            Function::DateTimeParseExact => {
                let value = self.argument(arguments, 0)?;
                let format = self.text_argument(arguments, 1)?;
                let text = text_to_parse(&value)?;
                parse_exact(text, &format).map(Value::Date).ok_or_else(|| not_a_date(text))
            }
            Function::TimeSpanParse => {
                let value = self.argument(arguments, 0)?;
                let text = text_to_parse(&value)?;
                match text.parse::<model::TimeSpan>() {
                    Ok(span) => Ok(Value::Span(span.ticks)),
                    Err(_) => {
                        let short = crate::definition_error::excerpt(text);
                        let message = format!("'{short}' is not a duration");
                        Err(Fault::new(EvaluationErrorKind::Format, message))
                    }
                }
            }
            Function::DateTimeDaysInMonth => {
                let year = self.integer_argument(arguments, 0)?;
                let month = self.integer_argument(arguments, 1)?;
                match (1..=9999).contains(&year) && (1..=12).contains(&month) {
                    true => Ok(Value::Integer(days_in_month(year, month))),
                    false => Err(no_such_date()),
                }
            }
            Function::DateTimeIsLeapYear => {
                Ok(Value::Bool(is_leap_year(self.integer_argument(arguments, 0)?)))
            }
            Function::DateTimeSpecifyKind => match self.argument(arguments, 0)? {
                Value::Date(date) => Ok(Value::Date(Date { kind: kind_of(arguments), ..date })),
                _ => Err(wrong_arguments()),
            },
            function => self.span_from(function, arguments),
        }
    }

    fn integers(&mut self, arguments: &'a [Argument]) -> Result<Vec<i64>, Fault> {
        let mut integers = Vec::with_capacity(arguments.len());
        for (index, argument) in arguments.iter().enumerate() {
            if let Argument::Value(_) = argument {
                integers.push(self.integer_argument(arguments, index)?);
            }
        }
        Ok(integers)
    }

    fn new_date(&mut self, arguments: &'a [Argument]) -> Evaluated<'a> {
        let kind = kind_of(arguments);
        let parts = self.integers(arguments)?;
        date_of(&parts, kind).map(Value::Date)
    }

    /// `new DateTimeOffset(…)`: of a moment, or of its parts, followed by the offset from UTC.
    fn new_offset_date(&mut self, arguments: &'a [Argument]) -> Evaluated<'a> {
        let before = arguments.len().saturating_sub(1);
        let (moment, offset) = match arguments.len() {
            0 | 1 => (arguments, 0),
            _ => match self.argument(arguments, before)? {
                Value::Span(ticks) => (&arguments[..before], ticks / TICKS_PER_MINUTE),
                _ => return Err(wrong_arguments()),
            },
        };
        let date = match moment {
            [_] => match self.argument(moment, 0)? {
                Value::Date(date) => date,
                Value::Integer(ticks) => date_of(&[ticks], DateKind::Unspecified)?,
                _ => return Err(wrong_arguments()),
            },
            parts => date_of(&self.integers(parts)?, DateKind::Unspecified)?,
        };
        const OFFSET_MINUTES_MAX: i64 = 14 * 60;
        if OFFSET_MINUTES_MAX < offset.abs() {
            return Err(crate::run::overflow_index());
        }
        let offset_minutes = offset as i16;
        Ok(Value::OffsetDate(OffsetDate { clock_ticks: date.ticks, offset_minutes }))
    }

    fn new_span(&mut self, arguments: &'a [Argument]) -> Evaluated<'a> {
        let parts = self.integers(arguments)?;
        let units: &[i64] = match parts.len() {
            1 => &[1],
            3 => &[TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND],
            4 => &[TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MINUTE, TICKS_PER_SECOND],
            5 => &[
                TICKS_PER_DAY,
                TICKS_PER_HOUR,
                TICKS_PER_MINUTE,
                TICKS_PER_SECOND,
                TICKS_PER_MILLISECOND,
            ],
            _ => return Err(wrong_arguments()),
        };
        let ticks = parts
            .iter()
            .zip(units)
            .try_fold(0_i64, |sum, (part, unit)| sum.checked_add(part.checked_mul(*unit)?));
        ticks.map(Value::Span).ok_or_else(|| overflow("duration"))
    }

    fn span_from(&mut self, function: Function, arguments: &'a [Argument]) -> Evaluated<'a> {
        let unit = match function {
            Function::TimeSpanFromDays => TICKS_PER_DAY,
            Function::TimeSpanFromHours => TICKS_PER_HOUR,
            Function::TimeSpanFromMinutes => TICKS_PER_MINUTE,
            Function::TimeSpanFromSeconds => TICKS_PER_SECOND,
            Function::TimeSpanFromMilliseconds => TICKS_PER_MILLISECOND,
            _ => 1,
        };
        let ticks = self.double_argument(arguments, 0)? * unit as f64;
        match ticks.is_finite() && ticks.abs() < i64::MAX as f64 {
            true => Ok(Value::Span(ticks.round() as i64)),
            false => Err(overflow("duration")),
        }
    }
}

fn kind_of(arguments: &[Argument]) -> DateKind {
    match options_of(arguments) {
        Some(StaticOption::Utc) => DateKind::Utc,
        _ => DateKind::Unspecified,
    }
}

/// The moment of a year, month, day and so on, or just ticks.
fn date_of(parts: &[i64], kind: DateKind) -> Result<Date, Fault> {
    let date = match parts {
        [] => Some(Date::MIN),
        [ticks] => Date { ticks: 0, kind }.plus(*ticks),
        [year, month, day] => Date::from_parts([*year, *month, *day], [0; 3], kind),
        [year, month, day, hour, minute, second, rest @ ..] if rest.len() < 2 => {
            let date = Date::from_parts([*year, *month, *day], [*hour, *minute, *second], kind);
            let milliseconds = rest.first().copied().unwrap_or_default();
            let inside = (0..1000).contains(&milliseconds);
            date.filter(|_| inside).and_then(|d| d.plus(milliseconds * TICKS_PER_MILLISECOND))
        }
        _ => return Err(wrong_arguments()),
    };
    date.ok_or_else(no_such_date)
}

#[cold]
fn no_such_date() -> Fault {
    let message = "there is no such date";
    Fault::new(EvaluationErrorKind::ArgumentOutOfRange, message)
}

#[cold]
fn not_a_date(text: &str) -> Fault {
    let short = crate::definition_error::excerpt(text);
    Fault::new(EvaluationErrorKind::Format, format!("'{short}' is not a date"))
}

/// Parsing yields times in the server's zone, which is UTC.
fn parsed<'a>(text: &str, function: Function) -> Evaluated<'a> {
    let is_offset = function == Function::DateTimeOffsetParse;
    match parse_date(text) {
        Some(Recognised::Date(date)) if is_offset => {
            Ok(Value::OffsetDate(OffsetDate { clock_ticks: date.ticks, offset_minutes: 0 }))
        }
        Some(Recognised::Date(date)) => {
            Ok(Value::Date(Date { kind: DateKind::Unspecified, ..date }))
        }
        Some(Recognised::OffsetDate(date)) if is_offset => Ok(Value::OffsetDate(date)),
        Some(Recognised::OffsetDate(date)) => {
            Ok(Value::Date(Date { ticks: date.utc_ticks(), kind: DateKind::Unspecified }))
        }
        Some(Recognised::Span(_)) | None => Err(not_a_date(text)),
    }
}
