//! Methods of moments and durations.

use dotnet::culture::Culture;
use dotnet::date_format;
use model::ticks::{
    TICKS_PER_DAY, TICKS_PER_HOUR, TICKS_PER_MILLISECOND, TICKS_PER_MINUTE, TICKS_PER_SECOND,
};

use crate::compile::names::Method;
use crate::compile::plan::MethodCall;
use crate::run::fault::Fault;
use crate::run::operators::{self, overflow};
use crate::run::property::no_such;
use crate::run::{Evaluated, Machine};
use crate::syntax::ast::BinaryOperator;
use crate::value::{Date, DateKind, OffsetDate, Value};

impl<'a> Machine<'a, '_> {
    #[inline(never)]
    pub(super) fn moment_method(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        target: Value<'a>,
    ) -> Evaluated<'a> {
        let (clock, offset) = match &target {
            Value::OffsetDate(date) => {
                let clock = Date { ticks: date.clock_ticks, kind: DateKind::Unspecified };
                (clock, Some(date.offset_minutes))
            }
            Value::Date(date) => (*date, None),
            other => return Err(no_such(other, &call.name)),
        };
        let moved = match method {
            Method::AddYears => clock.plus_months(12 * self.months(call)?),
            Method::AddMonths => clock.plus_months(self.months(call)?),
            Method::AddTicks => clock.plus(self.integer_argument(&call.arguments, 0)?),
            _ => match unit(method) {
                Some(unit) => clock.plus(self.ticks(call, unit)?),
                None => return self.still_moment(call, method, target, clock),
            },
        };
        let moved = moved.ok_or_else(|| overflow("date"))?;
        Ok(with_offset(moved, offset))
    }

    fn months(&mut self, call: &'a MethodCall) -> Result<i64, Fault> {
        // More than the calendar has is out of range anyway; less cannot overflow.
        Ok(self.integer_argument(&call.arguments, 0)?.clamp(-200_000, 200_000))
    }

    fn ticks(&mut self, call: &'a MethodCall, unit: i64) -> Result<i64, Fault> {
        let ticks = self.double_argument(&call.arguments, 0)? * unit as f64;
        match ticks.is_finite() && ticks.abs() < i64::MAX as f64 {
            true => Ok(ticks.round() as i64),
            false => Err(overflow("date")),
        }
    }

    fn still_moment(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        target: Value<'a>,
        clock: Date,
    ) -> Evaluated<'a> {
        let formatted = |format: &str| {
            Ok(Value::text(
                date_format::format_date(clock, format, Culture::Invariant).unwrap_or_default(),
            ))
        };
        match method {
            Method::Add | Method::Subtract => {
                let other = self.argument(&call.arguments, 0)?;
                let operator = match method {
                    Method::Add => BinaryOperator::Add,
                    _ => BinaryOperator::Subtract,
                };
                operators::binary(operator, target, other)
            }
            Method::ToUniversalTime => Ok(match target {
                Value::OffsetDate(date) => with_offset(
                    Date { ticks: date.utc_ticks(), kind: DateKind::Unspecified },
                    Some(0),
                ),
                _ => Value::Date(Date { kind: DateKind::Utc, ..clock }),
            }),
            // The server's zone is UTC, so that all nodes index alike.
            Method::ToLocalTime => Ok(Value::Date(Date { kind: DateKind::Unspecified, ..clock })),
            Method::ToShortDateString => formatted("d"),
            Method::ToLongDateString => formatted("D"),
            Method::ToShortTimeString => formatted("t"),
            Method::ToLongTimeString => formatted("T"),
            _ => self.scalar_method(call, method, target),
        }
    }

    pub(super) fn span_method(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        ticks: i64,
    ) -> Evaluated<'a> {
        let target = Value::Span(ticks);
        match method {
            Method::Add | Method::Subtract => {
                let other = self.argument(&call.arguments, 0)?;
                let operator = match method {
                    Method::Add => BinaryOperator::Add,
                    _ => BinaryOperator::Subtract,
                };
                operators::binary(operator, target, other)
            }
            Method::Negate => Ok(Value::Span(ticks.wrapping_neg())),
            Method::Duration => Ok(Value::Span(ticks.saturating_abs())),
            _ => self.scalar_method(call, method, target),
        }
    }
}

fn unit(method: Method) -> Option<i64> {
    Some(match method {
        Method::AddDays => TICKS_PER_DAY,
        Method::AddHours => TICKS_PER_HOUR,
        Method::AddMinutes => TICKS_PER_MINUTE,
        Method::AddSeconds => TICKS_PER_SECOND,
        Method::AddMilliseconds => TICKS_PER_MILLISECOND,
        _ => return None,
    })
}

fn with_offset<'a>(date: Date, offset: Option<i16>) -> Value<'a> {
    match offset {
        Some(offset_minutes) => {
            Value::OffsetDate(OffsetDate { clock_ticks: date.ticks, offset_minutes })
        }
        None => Value::Date(date),
    }
}
