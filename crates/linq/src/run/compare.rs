//! Equality and order of values, as sets, groups, `Max` and sorting need them.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

use dotnet::number::{decimal_of_digits, double_of_decimal, double_of_digits};
use rust_decimal::Decimal;

use crate::run::fault::{EvaluationErrorKind, Fault};
use crate::value::Value;

/// How strictly texts are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    Characters,
    /// Also by origin: .NET's sets treat no text of a document as equal to a string.
    Origin,
}

/// Whether two numbers are equal; `None` when these are not two numbers that can be compared.
pub(crate) fn numbers_equal(left: &Value<'_>, right: &Value<'_>) -> Option<bool> {
    numbers(left, right).map(|ordering| ordering == Some(Ordering::Equal))
}

/// The order of two numbers; the inner `None` when one is no number at all, the outer one when they
/// have no common type.
pub(crate) fn numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Option<Ordering>> {
    let code = |value: &Value<'_>| match value {
        Value::Integer(value) => Some(*value),
        Value::Char(value) => Some(i64::from(u32::from(*value))),
        _ => None,
    };
    if let (Some(left), Some(right)) = (code(left), code(right)) {
        return Some(Some(left.cmp(&right)));
    }
    let is_double = |value: &Value<'_>| matches!(value, Value::Double(_));
    if is_double(left) || is_double(right) {
        return Some(double(left)?.partial_cmp(&double(right)?));
    }
    match (decimal(left), decimal(right)) {
        (Some(left), Some(right)) => Some(Some(left.cmp(&right))),
        // Beyond the range of decimals doubles are near enough.
        _ => Some(any_double(left)?.partial_cmp(&any_double(right)?)),
    }
}

fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Double(value) => Some(*value),
        Value::Number(digits) => Some(double_of_digits(digits)),
        Value::Char(value) => Some(f64::from(u32::from(*value))),
        _ => None,
    }
}

fn any_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Decimal(value) => Some(double_of_decimal(value)),
        other => double(other),
    }
}

fn decimal(value: &Value<'_>) -> Option<Decimal> {
    match value {
        Value::Integer(value) => Some((*value).into()),
        Value::Char(value) => Some(u32::from(*value).into()),
        Value::Number(digits) => decimal_of_digits(digits),
        Value::Decimal(value) => Some(*value),
        _ => None,
    }
}

/// Ticks of a moment in UTC.
pub(crate) fn utc_ticks(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Date(date) => Some(date.ticks),
        Value::OffsetDate(date) => Some(date.utc_ticks()),
        _ => None,
    }
}

/// Whether a set or a grouping treats two values as the same.
pub(crate) fn same(left: &Value<'_>, right: &Value<'_>, strictness: Strictness) -> bool {
    match (left, right) {
        (left, right) if left.is_null() || right.is_null() => left.is_null() && right.is_null(),
        (Value::Text(left), Value::Text(right)) => {
            let same_origin = left.is_from_document() == right.is_from_document();
            left.as_str() == right.as_str() && (strictness == Strictness::Characters || same_origin)
        }
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Span(left), Value::Span(right)) => left == right,
        (Value::DayOfWeek(left), Value::DayOfWeek(right)) => left == right,
        (Value::Date(left), Value::Date(right)) => left.ticks == right.ticks,
        (Value::OffsetDate(left), Value::OffsetDate(right)) => {
            left.utc_ticks() == right.utc_ticks()
        }
        (Value::Record(left), Value::Record(right)) => {
            left.values.len() == right.values.len()
                && left.iter().zip(right.iter()).all(|((name, value), (other_name, other))| {
                    name == other_name && same(value, other, strictness)
                })
        }
        (Value::Array(left), Value::Array(right)) => {
            blittable::equal(&blittable::Value::Array(*left), &blittable::Value::Array(*right))
                .unwrap_or(false)
        }
        (Value::List(left), Value::List(right)) => {
            let pairs = left.items.iter().zip(&right.items);
            left.items.len() == right.items.len()
                && pairs.into_iter().all(|(left, right)| same(left, right, strictness))
        }
        (left, right) => match (left.as_object(), right.as_object()) {
            (Some(left), Some(right)) => {
                blittable::equal(&blittable::Value::Object(left), &blittable::Value::Object(right))
                    .unwrap_or(false)
            }
            _ => numbers_equal(left, right).unwrap_or(false),
        },
    }
}

/// A number that is equal for values that [`same`] finds equal by their characters.
pub(crate) fn hash(value: &Value<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    add_to_hash(value, &mut hasher);
    hasher.finish()
}

fn add_to_hash(value: &Value<'_>, hasher: &mut DefaultHasher) {
    match value {
        Value::Text(text) => text.as_str().hash(hasher),
        Value::Bool(value) => value.hash(hasher),
        Value::Span(ticks) => ticks.hash(hasher),
        Value::Date(date) => date.ticks.hash(hasher),
        Value::OffsetDate(date) => date.utc_ticks().hash(hasher),
        Value::DayOfWeek(day) => day.hash(hasher),
        Value::Record(record) => {
            record.values.iter().for_each(|value| add_to_hash(value, hasher));
        }
        // Equal numbers of different types have equal doubles.
        Value::Integer(_)
        | Value::Double(_)
        | Value::Number(_)
        | Value::Decimal(_)
        | Value::Char(_) => {
            let double = any_double(value).unwrap_or_default();
            let double = if double == 0.0 { 0.0 } else { double };
            double.to_bits().hash(hasher);
        }
        Value::Array(array) => {
            add_document_value(&blittable::Value::Array(*array), hasher, 0);
        }
        Value::List(list) => list.items.iter().for_each(|value| add_to_hash(value, hasher)),
        // All nulls are one key; objects are distinguished by `same`.
        _ => match value.as_object() {
            Some(object) => {
                add_document_value(&blittable::Value::Object(object), hasher, 0);
            }
            None => 0_u8.hash(hasher),
        },
    }
}

/// Levels and elements of a document's value that its hash includes.
const HASHED_DEPTH_MAX: u32 = 4;
const HASHED_LENGTH_MAX: usize = 64;

/// Equal values of documents have the same digits, elements in the same order, and properties in any.
fn add_document_value(value: &blittable::Value<'_>, hasher: &mut DefaultHasher, depth: u32) {
    match value {
        blittable::Value::Null => 0_u8.hash(hasher),
        blittable::Value::Bool(value) => value.hash(hasher),
        blittable::Value::Integer(value) => value.hash(hasher),
        blittable::Value::Number(digits) => digits.hash(hasher),
        // A text that cannot be read is damaged: `same` finds it equal to nothing.
        blittable::Value::String(text) => text.as_bytes().unwrap_or_default().hash(hasher),
        blittable::Value::Array(array) => {
            array.len().hash(hasher);
            for element in array.iter().take(HASHED_LENGTH_MAX).flatten() {
                if depth < HASHED_DEPTH_MAX {
                    add_document_value(&element, hasher, depth + 1);
                }
            }
        }
        blittable::Value::Object(object) => {
            object.len().hash(hasher);
            if object.len() <= HASHED_LENGTH_MAX && depth < HASHED_DEPTH_MAX {
                let members = object.iter().flatten().map(|(name, value)| {
                    let mut member = DefaultHasher::new();
                    name.hash(&mut member);
                    add_document_value(&value, &mut member, depth + 1);
                    member.finish()
                });
                members.fold(0, |sum: u64, member| sum.wrapping_add(member)).hash(hasher);
            }
        }
    }
}

/// The order of two values, including numbers of any kinds: sorting compares in arbitrary order.
pub(crate) fn order_leniently(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, Fault> {
    match (left, right) {
        (Value::Integer(_) | Value::Double(_), Value::Number(_) | Value::Decimal(_)) => {
            order(right, left).map(Ordering::reverse)
        }
        _ => order(left, right),
    }
}

/// The order of two values that .NET can compare.
pub(crate) fn order(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, Fault> {
    let ordering = match (left, right) {
        // The null of C# comes first; that of a document compares only with another one.
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        (Value::Null, _) => Some(Ordering::Less),
        (_, Value::Null) => Some(Ordering::Greater),
        (left, right) if left.is_dynamic_null() && right.is_dynamic_null() => Some(Ordering::Equal),
        (Value::Text(left), Value::Text(right)) => Some(left.as_str().cmp(right.as_str())),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Span(left), Value::Span(right)) => Some(left.cmp(right)),
        (Value::DayOfWeek(left), Value::DayOfWeek(right)) => Some(left.cmp(right)),
        (Value::Date(left), Value::Date(right)) => Some(left.ticks.cmp(&right.ticks)),
        (Value::OffsetDate(left), Value::OffsetDate(right)) => {
            Some(left.utc_ticks().cmp(&right.utc_ticks()))
        }
        // An integer only compares itself with integers; a document's number with any number.
        (Value::Integer(_) | Value::Double(_), Value::Number(_) | Value::Decimal(_)) => None,
        (Value::Double(left), Value::Double(right)) => Some(nan_first(*left, *right)),
        (left, right) => numbers(left, right).flatten(),
    };
    ordering.ok_or_else(|| {
        let (left, right) = (left.type_name(), right.type_name());
        let message = format!("a {left} and a {right} cannot be put in order");
        Fault::new(EvaluationErrorKind::NotComparable, message)
    })
}

fn nan_first(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => left.total_cmp(&right),
    }
}
