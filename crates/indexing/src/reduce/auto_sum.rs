//! Sums of automatic indexes. Longs sum to a long; a double among them makes the sum a double. A
//! value that is not a number is carried along until the reduce rejects it, so that the error names
//! the key.

use blittable::{Corrupt, Item, ObjectBuilder, Value};
use documents::Found;

use super::auto_rows::double_text;

/// A sum, or a value that cannot be added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum<'d> {
    long: i64,
    /// The doubles among the numbers.
    double: Option<f64>,
    has_overflown: bool,
    /// The first value that is not a number.
    other: Option<Value<'d>>,
}

impl<'d> Sum<'d> {
    pub(super) const ZERO: Self = Self { long: 0, double: None, has_overflown: false, other: None };

    /// The sum of the values at a path; null and missing values add nothing, an array adds its
    /// elements.
    pub(super) fn of(found: &Found<'d>) -> Result<Self, Corrupt> {
        let mut sum = Self::ZERO;
        sum.add_found(found)?;
        Ok(sum)
    }

    fn add_found(&mut self, found: &Found<'d>) -> Result<(), Corrupt> {
        match found {
            Found::Missing => Ok(()),
            Found::One(value) => self.add(value),
            Found::Length(length) => {
                self.add_long(i64::try_from(*length).unwrap_or(i64::MAX));
                Ok(())
            }
            Found::List(list) => list.iter().try_for_each(|found| self.add_found(found)),
        }
    }

    /// Adds a value; an array adds its elements. Arrays are nested no more deeply than a document
    /// allows.
    pub(super) fn add(&mut self, value: &Value<'d>) -> Result<(), Corrupt> {
        match value {
            Value::Null => {}
            Value::Integer(value) => self.add_long(*value),
            Value::Number(digits) => match digits.parse::<f64>() {
                Ok(value) => self.double = Some(self.double.unwrap_or_default() + value),
                Err(_) => self.other = self.other.or(Some(*value)),
            },
            Value::Array(array) => {
                return array.iter().try_for_each(|element| self.add(&element?));
            }
            Value::Bool(_) | Value::String(_) | Value::Object(_) => {
                self.other = self.other.or(Some(*value));
            }
        }
        Ok(())
    }

    fn add_long(&mut self, value: i64) {
        match self.long.checked_add(value) {
            Some(sum) => self.long = sum,
            None => self.has_overflown = true,
        }
    }

    /// Why there is no sum, as a message.
    pub(super) fn failure(&self, name: &str) -> Option<String> {
        if let Some(other) = &self.other {
            let kind = match other {
                Value::Bool(_) => "a boolean",
                Value::String(_) => "a text",
                Value::Object(_) => "an object",
                Value::Null | Value::Integer(_) | Value::Number(_) | Value::Array(_) => "no number",
            };
            return Some(format!("A value of '{name}' is {kind} and cannot be added up"));
        }
        let is_long = self.double.is_none();
        (is_long && self.has_overflown)
            .then(|| format!("The sum of '{name}' is larger than a long can be"))
    }

    /// Adds the sum, or the value that is not a number.
    pub(super) fn put(&self, name: &str, builder: &mut ObjectBuilder) {
        match (&self.other, self.double) {
            (Some(other), _) => builder.put(name, Item::Copy(*other)),
            (None, Some(double)) => {
                let sum = double + self.long as f64;
                match sum.is_finite() {
                    true => builder.put(name, Item::Number(&double_text(sum))),
                    false => builder.put(name, Item::Double(sum)),
                }
            }
            (None, None) => builder.put(name, self.long),
        };
    }
}
