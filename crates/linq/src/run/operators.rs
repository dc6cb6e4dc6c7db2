//! Operators on values whose types are known only now.
//!
//! Numbers of documents that are not plain integers are decimals when combined with each other and
//! on the right of an integer, but lose their fraction on the left of one: that is what .NET's
//! overload resolution results in, and what existing indexes rely on. A document's null is neutral
//! in additions, zero in multiplications, and NaN with a double.

use std::cmp::Ordering;

use dotnet::number::{decimal_of_digits, double_of_digits, integer_of_digits};
use rust_decimal::Decimal;

use crate::run::Evaluated;
use crate::run::compare::{self, numbers_equal};
use crate::run::display::display;
use crate::run::elements;
use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::syntax::ast::{BinaryOperator, UnaryOperator};
use crate::value::{Date, Value};

/// Applies an operator that evaluates both of its operands.
pub(crate) fn binary<'a>(
    operator: BinaryOperator,
    left: Value<'a>,
    right: Value<'a>,
) -> Evaluated<'a> {
    use BinaryOperator as B;
    match operator {
        B::Equal => equals(&left, &right).map(Value::Bool),
        B::NotEqual => equals(&left, &right).map(|equal| Value::Bool(!equal)),
        B::Less | B::LessOrEqual | B::Greater | B::GreaterOrEqual => {
            relation(operator, &left, &right).map(Value::Bool)
        }
        B::Add | B::Subtract | B::Multiply | B::Divide | B::Remainder => {
            arithmetic(operator, left, right)
        }
        B::ShiftLeft | B::ShiftRight | B::BitAnd | B::BitOr | B::BitXor => {
            bitwise(operator, left, right)
        }
        B::And | B::Or | B::Coalesce => Err(not_applicable(operator, &left, &right)),
    }
}

/// Joins the texts of two values.
pub(crate) fn concat(left: &Value<'_>, right: &Value<'_>) -> Result<String, Fault> {
    let mut text = display(left)?.into_owned();
    text.push_str(&display(right)?);
    Ok(text)
}

/// What a value means as a condition.
pub(crate) fn truth(value: &Value<'_>) -> Result<bool, Fault> {
    match value {
        Value::Bool(value) => Ok(*value),
        Value::Missing | Value::ExplicitNull => Ok(false),
        other => Err(not_bool(other)),
    }
}

#[cold]
pub(crate) fn not_bool(value: &Value<'_>) -> Fault {
    let message = format!("a {} is not a condition", value.type_name());
    Fault::new(EvaluationErrorKind::InvalidCast, message)
}

fn sign(operator: BinaryOperator) -> &'static str {
    use BinaryOperator as B;
    match operator {
        B::Add => "+",
        B::Subtract => "-",
        B::Multiply => "*",
        B::Divide => "/",
        B::Remainder => "%",
        B::ShiftLeft => "<<",
        B::ShiftRight => ">>",
        B::BitAnd => "&",
        B::BitOr => "|",
        B::BitXor => "^",
        B::And => "&&",
        B::Or => "||",
        B::Equal => "==",
        B::NotEqual => "!=",
        B::Less => "<",
        B::LessOrEqual => "<=",
        B::Greater => ">",
        B::GreaterOrEqual => ">=",
        B::Coalesce => "??",
    }
}

#[cold]
fn not_applicable(operator: BinaryOperator, left: &Value<'_>, right: &Value<'_>) -> Fault {
    let (left, right) = (left.type_name(), right.type_name());
    let message = format!("'{}' cannot be applied to {left} and {right}", sign(operator));
    Fault::new(EvaluationErrorKind::InvalidOperand, message)
}

#[cold]
fn ambiguous(operator: BinaryOperator) -> Fault {
    let message = format!(
        "'{}' of a number of a document and null has several meanings: cast the number",
        sign(operator)
    );
    Fault::new(EvaluationErrorKind::Ambiguous, message)
}

#[cold]
pub(crate) fn division_by_zero() -> Fault {
    Fault::new(EvaluationErrorKind::DivideByZero, "division by zero")
}

#[cold]
pub(crate) fn overflow(what: &str) -> Fault {
    Fault::new(EvaluationErrorKind::Overflow, format!("the {what} is too large or too small"))
}

/// `-x`, `!x`, `+x`, `~x`
pub(crate) fn unary<'a>(operator: UnaryOperator, operand: Value<'a>) -> Evaluated<'a> {
    use UnaryOperator as U;
    Ok(match (operator, operand) {
        (U::Not, Value::Bool(value)) => Value::Bool(!value),
        (U::Not, null @ (Value::Missing | Value::ExplicitNull)) => null,
        (U::Negate | U::Plus | U::Complement, Value::Null) => Value::Null,
        (U::Negate, Value::Missing | Value::ExplicitNull) => Value::Integer(0),
        (U::Plus, Value::Missing | Value::ExplicitNull) => Value::Integer(0),
        (U::Complement, Value::Missing | Value::ExplicitNull) => Value::Integer(-1),
        (U::Negate, Value::Integer(value)) => Value::Integer(value.wrapping_neg()),
        (U::Negate, Value::Double(value)) => Value::Double(-value),
        (U::Negate, Value::Decimal(value)) => Value::Decimal(-value),
        (U::Negate, Value::Number(digits)) => Value::Decimal(-decimal(digits)?),
        (U::Negate, Value::Span(ticks)) => Value::Span(ticks.wrapping_neg()),
        (U::Plus, Value::Number(digits)) => Value::Decimal(decimal(digits)?),
        (
            U::Plus,
            value @ (Value::Integer(_) | Value::Double(_) | Value::Decimal(_) | Value::Span(_)),
        ) => value,
        (U::Complement, Value::Integer(value)) => Value::Integer(!value),
        (U::Complement, Value::Number(digits)) => Value::Integer(!integer(digits)?),
        (operator, operand) => {
            let sign = match operator {
                U::Not => "!",
                U::Negate => "-",
                U::Plus => "+",
                U::Complement => "~",
            };
            let message = format!("'{sign}' cannot be applied to {}", operand.type_name());
            return Err(Fault::new(EvaluationErrorKind::InvalidOperand, message));
        }
    })
}

pub(crate) fn decimal(digits: &str) -> Result<Decimal, Fault> {
    decimal_of_digits(digits).ok_or_else(|| overflow("decimal"))
}

pub(crate) fn integer(digits: &str) -> Result<i64, Fault> {
    integer_of_digits(digits).ok_or_else(|| overflow("integer"))
}

fn arithmetic<'a>(operator: BinaryOperator, left: Value<'a>, right: Value<'a>) -> Evaluated<'a> {
    if let (Value::Integer(left), Value::Integer(right)) = (&left, &right) {
        return integers(operator, *left, *right).map(Value::Integer);
    }
    if left.is_dynamic_null() {
        return Ok(with_null_on_the_left(operator, left, right));
    }
    if right.is_dynamic_null() {
        return with_null_on_the_right(operator, left, right);
    }
    let has_text = matches!(left, Value::Text(_)) || matches!(right, Value::Text(_));
    if operator == BinaryOperator::Add && has_text {
        return concat(&left, &right).map(Value::text);
    }
    match (Operand::of(&left), Operand::of(&right)) {
        (Some(Operand::Null), Some(_)) | (Some(_), Some(Operand::Null)) => Ok(Value::Null),
        (Some(left_number), Some(right_number)) => {
            match numbers(operator, left_number, right_number)? {
                Some(value) => Ok(value),
                None => Err(not_applicable(operator, &left, &right)),
            }
        }
        // The number of a document can always become a text.
        _ if operator == BinaryOperator::Add && is_joined(&left, &right) => {
            concat(&left, &right).map(Value::text)
        }
        _ => moments(operator, &left, &right)
            .unwrap_or_else(|| Err(not_applicable(operator, &left, &right))),
    }
}

fn is_joined(left: &Value<'_>, right: &Value<'_>) -> bool {
    let is_number = |value: &Value<'_>| matches!(value, Value::Number(_));
    is_number(left) || is_number(right)
}

/// Null stays null, except that joining it to a text yields the text.
fn with_null_on_the_left<'a>(
    operator: BinaryOperator,
    left: Value<'a>,
    right: Value<'a>,
) -> Value<'a> {
    match (operator, right) {
        (BinaryOperator::Add, text @ Value::Text(_)) => text,
        (_, Value::Number(_)) => Value::Missing,
        (_, _) => left,
    }
}

fn with_null_on_the_right<'a>(
    operator: BinaryOperator,
    left: Value<'a>,
    right: Value<'a>,
) -> Evaluated<'a> {
    use BinaryOperator as B;
    let divides = matches!(operator, B::Divide | B::Remainder);
    Ok(match left {
        Value::Null => Value::Null,
        Value::Integer(_) | Value::Decimal(_) | Value::Number(_) if divides => {
            return Err(division_by_zero());
        }
        Value::Number(_) if operator == B::Add => return Err(ambiguous(operator)),
        Value::Number(_) if operator == B::Multiply => Value::Integer(0),
        Value::Number(digits) => Value::Integer(integer(digits)?),
        Value::Integer(_) if operator == B::Multiply => Value::Integer(0),
        Value::Decimal(value) if operator == B::Multiply => {
            Value::Decimal(decimals(operator, value, Decimal::ZERO)?)
        }
        Value::Double(_) => Value::Double(f64::NAN),
        value @ (Value::Integer(_) | Value::Decimal(_)) => value,
        value if operator == B::Add && joins_null(&value) => {
            Value::text(display(&value)?.into_owned())
        }
        value => return Err(not_applicable(operator, &value, &right)),
    })
}

fn joins_null(value: &Value<'_>) -> bool {
    !matches!(value, Value::Char(_) | Value::Field(_) | Value::Spatial(_) | Value::Boosted(_))
}

/// A number on one side of an operator.
#[derive(Clone, Copy)]
enum Operand<'v> {
    Null,
    Integer(i64),
    Double(f64),
    Number(&'v str),
    Decimal(Decimal),
}

impl<'v> Operand<'v> {
    fn of(value: &'v Value<'_>) -> Option<Operand<'v>> {
        Some(match value {
            Value::Null => Operand::Null,
            Value::Integer(value) => Operand::Integer(*value),
            Value::Char(value) => Operand::Integer(i64::from(u32::from(*value))),
            Value::Double(value) => Operand::Double(*value),
            Value::Number(digits) => Operand::Number(digits),
            Value::Decimal(value) => Operand::Decimal(*value),
            _ => return None,
        })
    }

    fn double(self) -> Option<f64> {
        match self {
            Operand::Integer(value) => Some(value as f64),
            Operand::Double(value) => Some(value),
            Operand::Number(digits) => Some(double_of_digits(digits)),
            Operand::Null | Operand::Decimal(_) => None,
        }
    }

    fn decimal(self) -> Result<Option<Decimal>, Fault> {
        Ok(match self {
            Operand::Integer(value) => Some(value.into()),
            Operand::Number(digits) => Some(decimal(digits)?),
            Operand::Decimal(value) => Some(value),
            Operand::Null | Operand::Double(_) => None,
        })
    }
}

/// `None` when a double meets a decimal.
fn numbers<'a>(
    operator: BinaryOperator,
    left: Operand<'_>,
    right: Operand<'_>,
) -> Result<Option<Value<'a>>, Fault> {
    if let Operand::Integer(right) = right {
        let left = match left {
            Operand::Integer(left) => Some(left),
            Operand::Number(digits) => Some(integer(digits)?),
            Operand::Null | Operand::Double(_) | Operand::Decimal(_) => None,
        };
        if let Some(left) = left {
            return integers(operator, left, right).map(|value| Some(Value::Integer(value)));
        }
    }
    let is_double = |operand| matches!(operand, Operand::Double(_));
    if is_double(left) || is_double(right) {
        let (Some(left), Some(right)) = (left.double(), right.double()) else { return Ok(None) };
        return Ok(Some(Value::Double(doubles(operator, left, right))));
    }
    match (left.decimal()?, right.decimal()?) {
        (Some(left), Some(right)) => {
            decimals(operator, left, right).map(|value| Some(Value::Decimal(value)))
        }
        _ => Ok(None),
    }
}

/// Integers wrap around, as they do in C# by default.
fn integers(operator: BinaryOperator, left: i64, right: i64) -> Result<i64, Fault> {
    use BinaryOperator as B;
    let divides = matches!(operator, B::Divide | B::Remainder);
    if divides && right == 0 {
        return Err(division_by_zero());
    }
    if divides && right == -1 && left == i64::MIN {
        return Err(overflow("result"));
    }
    Ok(match operator {
        B::Add => left.wrapping_add(right),
        B::Subtract => left.wrapping_sub(right),
        B::Multiply => left.wrapping_mul(right),
        B::Divide => left / right,
        _ => left % right,
    })
}

fn doubles(operator: BinaryOperator, left: f64, right: f64) -> f64 {
    use BinaryOperator as B;
    match operator {
        B::Add => left + right,
        B::Subtract => left - right,
        B::Multiply => left * right,
        B::Divide => left / right,
        _ => left % right,
    }
}

pub(crate) fn decimals(
    operator: BinaryOperator,
    left: Decimal,
    right: Decimal,
) -> Result<Decimal, Fault> {
    use BinaryOperator as B;
    if matches!(operator, B::Divide | B::Remainder) && right.is_zero() {
        return Err(division_by_zero());
    }
    let result = match operator {
        B::Add => left.checked_add(right),
        B::Subtract => left.checked_sub(right),
        B::Multiply => multiply(left, right),
        B::Divide => divide(left, right),
        _ => remainder(left, right),
    };
    result.ok_or_else(|| overflow("decimal"))
}

/// The scales add up, also when the product is zero.
fn multiply(left: Decimal, right: Decimal) -> Option<Decimal> {
    let product = left.checked_mul(right)?;
    match product.is_zero() {
        true => Some(Decimal::new(0, (left.scale() + right.scale()).min(Decimal::MAX_SCALE))),
        false => Some(product),
    }
}

/// A remainder of nothing keeps the longer scale.
fn remainder(left: Decimal, right: Decimal) -> Option<Decimal> {
    let remainder = left.checked_rem(right)?;
    match remainder.is_zero() {
        true => Some(Decimal::new(0, left.scale().max(right.scale()))),
        false => Some(remainder),
    }
}

/// No more digits than the quotient needs, and no fewer than the difference of the scales.
fn divide(left: Decimal, right: Decimal) -> Option<Decimal> {
    let mut quotient = left.checked_div(right)?.normalize();
    let scale = left.scale().saturating_sub(right.scale());
    if quotient.scale() < scale {
        quotient.rescale(scale);
    }
    Some(quotient)
}

/// Moments and durations; `None` when these two have no such operator.
fn moments<'a>(
    operator: BinaryOperator,
    left: &Value<'a>,
    right: &Value<'a>,
) -> Option<Evaluated<'a>> {
    let is_subtraction = match operator {
        BinaryOperator::Add => false,
        BinaryOperator::Subtract => true,
        _ => return None,
    };
    let signed = |ticks: i64| if is_subtraction { ticks.wrapping_neg() } else { ticks };
    Some(match (left, right) {
        (Value::Span(left), Value::Span(right)) => {
            left.checked_add(signed(*right)).map(Value::Span).ok_or_else(|| overflow("duration"))
        }
        (Value::Date(date), Value::Span(ticks)) => plus(*date, signed(*ticks)),
        (Value::OffsetDate(date), Value::Span(ticks)) => {
            let mut later = *date;
            later.clock_ticks = later.clock_ticks.wrapping_add(signed(*ticks));
            Ok(Value::OffsetDate(later))
        }
        (Value::Date(left), Value::Date(right)) if is_subtraction => {
            Ok(Value::Span(left.ticks - right.ticks))
        }
        (Value::Date(_) | Value::OffsetDate(_), Value::Date(_) | Value::OffsetDate(_))
            if is_subtraction =>
        {
            let (left, right) = (compare::utc_ticks(left)?, compare::utc_ticks(right)?);
            Ok(Value::Span(left - right))
        }
        _ => return None,
    })
}

pub(crate) fn plus<'a>(date: Date, ticks: i64) -> Evaluated<'a> {
    date.plus(ticks).map(Value::Date).ok_or_else(|| overflow("date"))
}

fn bitwise<'a>(operator: BinaryOperator, left: Value<'a>, right: Value<'a>) -> Evaluated<'a> {
    use BinaryOperator as B;
    let is_shift = matches!(operator, B::ShiftLeft | B::ShiftRight);
    if left.is_dynamic_null() {
        return Ok(if is_shift { Value::Integer(0) } else { left });
    }
    let integral = |value: &Value<'_>| match value {
        Value::Integer(value) => Some(*value),
        Value::Char(value) => Some(i64::from(u32::from(*value))),
        Value::Number(digits) => integer_of_digits(digits),
        Value::Missing | Value::ExplicitNull => Some(0),
        _ => None,
    };
    match (&left, &right) {
        (Value::Bool(left), Value::Bool(right)) if !is_shift => Ok(Value::Bool(match operator {
            B::BitAnd => left & right,
            B::BitOr => left | right,
            _ => left ^ right,
        })),
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        _ => {
            let (Some(a), Some(b)) = (integral(&left), integral(&right)) else {
                return Err(not_applicable(operator, &left, &right));
            };
            Ok(Value::Integer(match operator {
                B::ShiftLeft => a.wrapping_shl(b as u32),
                B::ShiftRight => a.wrapping_shr(b as u32),
                B::BitAnd => a & b,
                B::BitOr => a | b,
                _ => a ^ b,
            }))
        }
    }
}

/// `left == right`
pub(crate) fn equals(left: &Value<'_>, right: &Value<'_>) -> Result<bool, Fault> {
    let refuse = || not_applicable(BinaryOperator::Equal, left, right);
    Ok(match (left, right) {
        (Value::Integer(left), Value::Integer(right)) => left == right,
        (Value::Text(left), Value::Text(right)) => left.as_str() == right.as_str(),
        (Value::Missing | Value::ExplicitNull, right) => right.is_null(),
        (Value::Number(_), Value::Missing | Value::ExplicitNull) => {
            return Err(ambiguous(BinaryOperator::Equal));
        }
        (Value::Text(_) | Value::Integer(_) | Value::Double(_), right) if right.is_null() => false,
        (Value::Decimal(_) | Value::Char(_), right) if right.is_null() => false,
        (Value::Null, Value::Null) => true,
        (Value::Null, Value::Missing | Value::ExplicitNull) | (_, Value::Null) => false,
        (Value::Null, _) => false,
        (_, Value::Missing | Value::ExplicitNull) => return Err(refuse()),
        (Value::Text(_), Value::Number(_)) | (Value::Number(_), Value::Text(_)) => false,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Span(left), Value::Span(right)) => left == right,
        (Value::DayOfWeek(left), Value::DayOfWeek(right)) => left == right,
        (Value::Date(left), Value::Date(right)) => left.ticks == right.ticks,
        (Value::Date(_) | Value::OffsetDate(_), Value::Date(_) | Value::OffsetDate(_)) => {
            compare::utc_ticks(left) == compare::utc_ticks(right)
        }
        // Objects and arrays are equal only to themselves, and each access creates a new one.
        (Value::Array(_), Value::Array(_)) | (Value::List(_), Value::List(_)) => false,
        (Value::Array(_), Value::List(_)) | (Value::List(_), Value::Array(_)) => false,
        (left, right) if left.as_object().is_some() && right.as_object().is_some() => false,
        (Value::Record(left), Value::Record(right)) => std::rc::Rc::ptr_eq(left, right),
        _ => numbers_equal(left, right).ok_or_else(refuse)?,
    })
}

fn relation(operator: BinaryOperator, left: &Value<'_>, right: &Value<'_>) -> Result<bool, Fault> {
    let refuse = || not_applicable(operator, left, right);
    if left.is_dynamic_null() {
        return Ok(false);
    }
    let is_numeric = |value: &Value<'_>| Operand::of(value).is_some();
    if right.is_dynamic_null() || matches!(left, Value::Null) || matches!(right, Value::Null) {
        let fits = is_numeric(left) && (right.is_null() || is_numeric(right));
        let is_moment = |value: &Value<'_>| {
            matches!(value, Value::Date(_) | Value::OffsetDate(_) | Value::Span(_) | Value::Null)
        };
        let fits = fits || (!right.is_dynamic_null() && is_moment(left) && is_moment(right));
        return if fits { Ok(false) } else { Err(refuse()) };
    }
    let ordering = match (left, right) {
        (Value::Integer(left), Value::Integer(right)) => Some(left.cmp(right)),
        (Value::Span(left), Value::Span(right)) => Some(left.cmp(right)),
        (Value::Date(left), Value::Date(right)) => Some(left.ticks.cmp(&right.ticks)),
        (Value::Date(_) | Value::OffsetDate(_), Value::Date(_) | Value::OffsetDate(_)) => {
            compare::utc_ticks(left).partial_cmp(&compare::utc_ticks(right))
        }
        (Value::DayOfWeek(left), Value::DayOfWeek(right)) => Some(left.cmp(right)),
        _ if !is_numeric(left) || !is_numeric(right) => return Err(refuse()),
        _ => match compare::numbers(left, right) {
            Some(ordering) => ordering,
            None => return Err(refuse()),
        },
    };
    use BinaryOperator as B;
    Ok(match (operator, ordering) {
        (_, None) => false,
        (B::Less, Some(ordering)) => ordering == Ordering::Less,
        (B::LessOrEqual, Some(ordering)) => ordering != Ordering::Greater,
        (B::Greater, Some(ordering)) => ordering == Ordering::Greater,
        (_, Some(ordering)) => ordering != Ordering::Less,
    })
}

/// Whether a condition of a map's own `where` lets a row pass. Unlike everywhere else, null of a
/// document does not stop it: the row is dropped only when the condition is false.
pub(crate) fn passes(value: &Value<'_>) -> Result<bool, Fault> {
    match value {
        Value::Bool(value) => Ok(*value),
        Value::Missing | Value::ExplicitNull => Ok(true),
        other => {
            let name = other.type_name();
            let message = format!("a condition must be true or false, not a {name}");
            Err(Fault::new(EvaluationErrorKind::InvalidOperand, message))
        }
    }
}

/// The elements of the source after `from … in`.
pub(crate) fn rows_of<'a>(value: &Value<'a>) -> Result<elements::Elements<'a>, Fault> {
    elements::Elements::of(value)
}
