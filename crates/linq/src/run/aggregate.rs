//! `Sum`, `Average`, `Min`, `Max` and `Aggregate`.
//!
//! The type in which a sum is computed depends on the known type of the lambda: decimals for values
//! of documents, so that no digit is lost, and the type of the cast where there is one.

use rust_decimal::Decimal;

use std::cmp::Ordering;

use crate::compile::names::Method;
use crate::compile::plan::{Known, Lambda, MethodCall, Op, Style};
use crate::run::convert::to_decimal;
use crate::run::elements::Elements;
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::run::methods::{as_double, empty_sequence, lambda};
use crate::run::operators::{decimals, overflow};
use crate::run::{Evaluated, Machine, compare, wrong_arguments};
use crate::syntax::ast::BinaryOperator;
use crate::value::{ListKind, Value};

impl<'a> Machine<'a, '_> {
    pub(super) fn aggregated(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        elements: Elements<'a>,
        target: &Value<'a>,
    ) -> Evaluated<'a> {
        let lambda = lambda(&call.arguments, 0);
        match (method, lambda) {
            (Method::Aggregate, _) => self.folded(call, elements),
            (Method::Min | Method::Max, _) => self.extreme(call, method, elements, lambda),
            (_, Some(lambda)) => {
                let values = self.values(elements, Some(lambda))?;
                total(method, &values, lambda.body.known)
            }
            (_, None) => {
                // A document's array has no such method without a lambda.
                let is_dynamic = match target {
                    Value::List(list) => list.kind == ListKind::Dynamic,
                    _ => true,
                };
                if is_dynamic && call.style == Style::Instance {
                    return Err(wrong_arguments());
                }
                let values = self.values(elements, None)?;
                total(method, &values, known_of_all(&values))
            }
        }
    }

    fn values(
        &mut self,
        elements: Elements<'a>,
        lambda: Option<&'a Lambda>,
    ) -> Result<Vec<Value<'a>>, Fault> {
        self.check_length(elements.remaining())?;
        let mut values = Vec::with_capacity(elements.remaining());
        for element in elements {
            values.push(match lambda {
                Some(lambda) => self.call(lambda, [element?])?,
                None => element?,
            });
        }
        Ok(values)
    }

    fn extreme(
        &mut self,
        call: &'a MethodCall,
        method: Method,
        elements: Elements<'a>,
        lambda: Option<&'a Lambda>,
    ) -> Evaluated<'a> {
        let wanted = if method == Method::Max { Ordering::Greater } else { Ordering::Less };
        let is_empty = elements.remaining() == 0;
        let mut best: Option<Value<'a>> = None;
        for value in self.values(elements, lambda)? {
            if value.is_null() {
                continue;
            }
            let is_better = match &best {
                Some(best) => compare::order(&value, best)? == wanted,
                None => true,
            };
            if is_better {
                best = Some(value);
            }
        }
        let is_typed = lambda.is_some_and(|lambda| {
            !matches!(lambda.body.known, Known::Dynamic | Known::Nullable | Known::Text)
        });
        match best {
            Some(best) => Ok(best),
            None if is_empty && is_typed => Err(empty_sequence()),
            None if call.style != Style::Instance => Ok(Value::Null),
            // The result of a call is a .NET sequence, whose maximum is null; an array's is
            // missing.
            None if lambda.is_none() && matches!(call.target.op, Op::Method(_)) => Ok(Value::Null),
            None => Ok(Value::Missing),
        }
    }

    fn folded(&mut self, call: &'a MethodCall, mut elements: Elements<'a>) -> Evaluated<'a> {
        let arguments = &*call.arguments;
        let (mut state, step, last) = match lambda(arguments, 0) {
            Some(step) => match elements.next() {
                Some(first) => (first?, step, None),
                None => return Err(empty_sequence()),
            },
            None => {
                let step = lambda(arguments, 1).ok_or_else(wrong_arguments)?;
                (self.argument(arguments, 0)?, step, lambda(arguments, 2))
            }
        };
        for element in elements {
            state = self.call(step, [state, element?])?;
        }
        match last {
            Some(last) => self.call(last, [state]),
            None => Ok(state),
        }
    }
}

/// The common type of values without a lambda that determines one.
fn known_of_all(values: &[Value<'_>]) -> Known {
    let all = |fits: fn(&Value<'_>) -> bool| values.iter().all(fits);
    if all(|value| matches!(value, Value::Integer(_))) {
        Known::Integer
    } else if all(|value| matches!(value, Value::Integer(_) | Value::Double(_))) {
        Known::Double
    } else {
        Known::Dynamic
    }
}

fn total<'a>(method: Method, values: &[Value<'a>], known: Known) -> Evaluated<'a> {
    let present: Vec<&Value<'a>> = values.iter().filter(|value| !value.is_null()).collect();
    let counts_null = known != Known::Nullable;
    let known = match known {
        Known::Nullable => match known_of_present(&present) {
            Some(known) => known,
            // Nothing to add up, and null is what .NET's average of nothing turns into here.
            None if method == Method::Average => return Ok(Value::Double(f64::NAN)),
            None => return Ok(Value::Integer(0)),
        },
        known => known,
    };
    if method == Method::Average && values.is_empty() {
        return Err(empty_sequence());
    }
    let count = if counts_null { values.len() } else { present.len() };
    match known {
        Known::Integer | Known::Char => {
            let sum = integer_sum(&present)?;
            Ok(match method {
                Method::Sum => Value::Integer(sum),
                _ => Value::Double(sum as f64 / count as f64),
            })
        }
        Known::Double => {
            let sum = double_sum(values);
            Ok(Value::Double(if method == Method::Sum { sum } else { sum / count as f64 }))
        }
        _ => {
            let sum = decimal_sum(&present)?;
            if method == Method::Sum {
                return Ok(Value::Decimal(sum));
            }
            let count = Decimal::from(count as u64);
            decimals(BinaryOperator::Divide, sum, count).map(Value::Decimal)
        }
    }
}

fn known_of_present(present: &[&Value<'_>]) -> Option<Known> {
    Some(match present.first()? {
        Value::Integer(_) => Known::Integer,
        Value::Double(_) => Known::Double,
        _ => Known::Decimal,
    })
}

fn integer_sum(values: &[&Value<'_>]) -> Result<i64, Fault> {
    let mut sum = 0_i64;
    for value in values {
        let Value::Integer(value) = value else { return Err(not_a_summand(value)) };
        sum = sum.checked_add(*value).ok_or_else(|| overflow("sum"))?;
    }
    Ok(sum)
}

fn double_sum(values: &[Value<'_>]) -> f64 {
    values.iter().filter_map(as_double).fold(0.0, |sum, value| sum + value)
}

fn decimal_sum(values: &[&Value<'_>]) -> Result<Decimal, Fault> {
    let mut sum = Decimal::ZERO;
    for value in values {
        let summand = match value {
            Value::Text(_) => None,
            value => to_decimal(value)?,
        };
        let summand = summand.ok_or_else(|| not_a_summand(value))?;
        sum = decimals(BinaryOperator::Add, sum, summand)?;
    }
    Ok(sum)
}

#[cold]
fn not_a_summand(value: &Value<'_>) -> Fault {
    let message = format!("a {} cannot be added up", value.type_name());
    Fault::new(EvaluationErrorKind::InvalidCast, message)
}
