//! `Math`.

use rust_decimal::{Decimal, RoundingStrategy};

use crate::compile::call::options_of;
use crate::compile::names::{Function, StaticOption};
use crate::compile::plan::{Argument, FunctionCall};
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::operators::{integer, overflow};
use crate::run::{Evaluated, Machine, overflow_index, wrong_arguments};
use crate::value::Value;

/// Digits that a double can be rounded to.
const DOUBLE_DIGITS_MAX: i64 = 15;
/// Digits that a decimal can be rounded to.
const DECIMAL_DIGITS_MAX: i64 = 28;

/// A number as the overloads of `Math` see it: a document's number loses its fraction, because .NET
/// finds the overload for integers first; null is zero.
enum Overload {
    Integer(i64),
    Double(f64),
    Decimal(Decimal),
}

impl<'a> Machine<'a, '_> {
    pub(super) fn math_function(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let arguments = &*call.arguments;
        match call.function {
            Function::MathAbs => Ok(match self.overload(arguments, 0)? {
                Overload::Integer(value) => {
                    Value::Integer(value.checked_abs().ok_or_else(|| overflow("result"))?)
                }
                Overload::Double(value) => Value::Double(value.abs()),
                Overload::Decimal(value) => Value::Decimal(value.abs()),
            }),
            Function::MathSign => Ok(Value::Integer(match self.overload(arguments, 0)? {
                Overload::Integer(value) => value.signum(),
                Overload::Double(value) if value.is_nan() => return Err(overflow("result")),
                Overload::Double(value) => i64::from(value > 0.0) - i64::from(value < 0.0),
                Overload::Decimal(value) => {
                    i64::from(value > Decimal::ZERO) - i64::from(value < Decimal::ZERO)
                }
            })),
            Function::MathMax | Function::MathMin => self.max_or_min(call),
            Function::MathRound
            | Function::MathFloor
            | Function::MathCeiling
            | Function::MathTruncate => self.rounded(call),
            function => self.of_doubles(function, arguments),
        }
    }

    fn overload(&mut self, arguments: &'a [Argument], index: usize) -> Result<Overload, Fault> {
        Ok(match self.argument(arguments, index)? {
            Value::Integer(value) => Overload::Integer(value),
            Value::Number(digits) => Overload::Integer(integer(digits)?),
            Value::Double(value) => Overload::Double(value),
            Value::Decimal(value) => Overload::Decimal(value),
            null if null.is_dynamic_null() => Overload::Integer(0),
            _ => return Err(wrong_arguments()),
        })
    }

    fn max_or_min(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let arguments = &*call.arguments;
        let is_max = call.function == Function::MathMax;
        let left = self.argument(arguments, 0)?;
        let right = self.argument(arguments, 1)?;
        let is_double = |value: &Value<'_>| matches!(value, Value::Double(_));
        let is_decimal = |value: &Value<'_>| matches!(value, Value::Decimal(_));
        if is_double(&left) || is_double(&right) {
            if is_decimal(&left) || is_decimal(&right) {
                return Err(wrong_arguments());
            }
            let (left, right) =
                (self.double_argument(arguments, 0)?, self.double_argument(arguments, 1)?);
            let either = if left.is_nan() || right.is_nan() {
                f64::NAN
            } else if is_max {
                left.max(right)
            } else {
                left.min(right)
            };
            return Ok(Value::Double(either));
        }
        if is_decimal(&left) || is_decimal(&right) {
            let decimal = |value: &Value<'_>| {
                crate::run::convert::to_decimal(value)?.ok_or_else(wrong_arguments)
            };
            let (left, right) = (decimal(&left)?, decimal(&right)?);
            return Ok(Value::Decimal(if is_max { left.max(right) } else { left.min(right) }));
        }
        match (self.overload(arguments, 0)?, self.overload(arguments, 1)?) {
            (Overload::Integer(left), Overload::Integer(right)) => {
                Ok(Value::Integer(if is_max { left.max(right) } else { left.min(right) }))
            }
            _ => Err(wrong_arguments()),
        }
    }

    fn rounded(&mut self, call: &'a FunctionCall) -> Evaluated<'a> {
        let arguments = &*call.arguments;
        let digits = match arguments.get(1) {
            Some(Argument::Value(_)) => self.integer_argument(arguments, 1)?,
            _ => 0,
        };
        let away = options_of(arguments) == Some(StaticOption::AwayFromZero);
        match self.argument(arguments, 0)? {
            Value::Double(value) => {
                if !(0..=DOUBLE_DIGITS_MAX).contains(&digits) {
                    return Err(overflow_index());
                }
                Ok(Value::Double(round_double(call.function, value, digits as i32, away)))
            }
            Value::Decimal(value) => {
                if !(0..=DECIMAL_DIGITS_MAX).contains(&digits) {
                    return Err(overflow_index());
                }
                let strategy = strategy(call.function, away);
                Ok(Value::Decimal(value.round_dp_with_strategy(digits as u32, strategy)))
            }
            Value::Integer(_) | Value::Number(_) | Value::Missing | Value::ExplicitNull => {
                let message = "rounding takes a double or a decimal: cast the value to one of them";
                Err(Fault::new(EvaluationErrorKind::Ambiguous, message))
            }
            _ => Err(wrong_arguments()),
        }
    }

    fn of_doubles(&mut self, function: Function, arguments: &'a [Argument]) -> Evaluated<'a> {
        let value = self.double_argument(arguments, 0)?;
        let second = match arguments.get(1) {
            Some(_) => Some(self.double_argument(arguments, 1)?),
            None => None,
        };
        Ok(Value::Double(match (function, second) {
            (Function::MathPow, Some(exponent)) => value.powf(exponent),
            (Function::MathAtan2, Some(other)) => value.atan2(other),
            (Function::MathLog, Some(base)) => value.log(base),
            (Function::MathLog, None) => value.ln(),
            (Function::MathSqrt, None) => value.sqrt(),
            (Function::MathCbrt, None) => value.cbrt(),
            (Function::MathLog10, None) => value.log10(),
            (Function::MathExp, None) => value.exp(),
            (Function::MathSin, None) => value.sin(),
            (Function::MathCos, None) => value.cos(),
            (Function::MathTan, None) => value.tan(),
            (Function::MathAsin, None) => value.asin(),
            (Function::MathAcos, None) => value.acos(),
            (Function::MathAtan, None) => value.atan(),
            _ => return Err(wrong_arguments()),
        }))
    }
}

fn round_double(function: Function, value: f64, digits: i32, away: bool) -> f64 {
    let factor = 10_f64.powi(digits);
    match function {
        Function::MathFloor => value.floor(),
        Function::MathCeiling => value.ceil(),
        Function::MathTruncate => value.trunc(),
        _ if away => (value * factor).round() / factor,
        _ => (value * factor).round_ties_even() / factor,
    }
}

fn strategy(function: Function, away: bool) -> RoundingStrategy {
    match function {
        Function::MathFloor => RoundingStrategy::ToNegativeInfinity,
        Function::MathCeiling => RoundingStrategy::ToPositiveInfinity,
        Function::MathTruncate => RoundingStrategy::ToZero,
        _ if away => RoundingStrategy::MidpointAwayFromZero,
        _ => RoundingStrategy::MidpointNearestEven,
    }
}
