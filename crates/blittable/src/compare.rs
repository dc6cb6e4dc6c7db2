//! Deep equality of values, including values of different documents.
//!
//! The order of properties does not matter, that of elements does. Numbers are equal when their text
//! is: `1` and `1.0` differ, because they print differently.

use crate::error::Corrupt;
use crate::view::{Array, Object, Value};

/// Whether `a` and `b` have the same contents; see the module for what counts.
pub fn equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool, Corrupt> {
    // Pairs of objects or arrays of equal length that are still to be compared.
    let mut pending = Vec::new();
    if !equal_or_pending(a, b, &mut pending)? {
        return Ok(false);
    }
    // Each entry takes separate bytes in a sound document; in a corrupt one, shared values would
    // otherwise be compared over and over.
    let mut entries_left = pending.first().map_or(0, |pair| pair.bytes_of_a());
    while let Some(pair) = pending.pop() {
        let (same, entries) = match pair {
            Pair::Objects(a, b) => (equal_members(&a, &b, &mut pending)?, a.len()),
            Pair::Arrays(a, b) => (equal_elements(&a, &b, &mut pending)?, a.len()),
        };
        entries_left = match entries_left.checked_sub(entries + 1) {
            Some(left) => left,
            None => return Err(Corrupt::new("values are shared", 0)),
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

enum Pair<'a, 'b> {
    Objects(Object<'a>, Object<'b>),
    Arrays(Array<'a>, Array<'b>),
}

impl Pair<'_, '_> {
    fn bytes_of_a(&self) -> usize {
        match self {
            Pair::Objects(a, _) => a.bytes.len(),
            Pair::Arrays(a, _) => a.bytes.len(),
        }
    }
}

fn equal_or_pending<'a, 'b>(
    a: &Value<'a>,
    b: &Value<'b>,
    pending: &mut Vec<Pair<'a, 'b>>,
) -> Result<bool, Corrupt> {
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Integer(a), Value::Integer(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => a == b,
        (Value::String(a), Value::String(b)) => a.equals_text(b)?,
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            pending.push(Pair::Arrays(*a, *b));
            true
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            pending.push(Pair::Objects(*a, *b));
            true
        }
        _ => false,
    })
}

fn equal_members<'a, 'b>(
    a: &Object<'a>,
    b: &Object<'b>,
    pending: &mut Vec<Pair<'a, 'b>>,
) -> Result<bool, Corrupt> {
    for (index, property) in a.iter().enumerate() {
        let (name, value) = property?;
        // Documents of the same shape have the property at the same index.
        let other = match b.at(index)? {
            Some((other_name, other)) if other_name == name => Some(other),
            Some(_) | None => b.get(name)?,
        };
        let Some(other) = other else { return Ok(false) };
        if !equal_or_pending(&value, &other, pending)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_elements<'a, 'b>(
    a: &Array<'a>,
    b: &Array<'b>,
    pending: &mut Vec<Pair<'a, 'b>>,
) -> Result<bool, Corrupt> {
    for (value, other) in a.iter().zip(b.iter()) {
        if !equal_or_pending(&value?, &other?, pending)? {
            return Ok(false);
        }
    }
    Ok(true)
}
