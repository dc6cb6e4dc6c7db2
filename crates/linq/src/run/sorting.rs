//! Sorting by keys that may not be comparable at all.
//!
//! Numbers of several kinds are not always in one consistent order, and some values are in none,
//! which the standard library's sorting may answer with a panic. This one yields some order, or the
//! error.

use std::cmp::Ordering;

use crate::run::compare::order_leniently;
use crate::run::fault::Fault;
use crate::value::Value;

/// The values that a row is sorted by, and the row.
pub(crate) type Keyed<'a, Row> = (Vec<Value<'a>>, Row);

/// Sorts rows by their keys, equal ones staying as they are: runs are merged, from single rows on.
pub(crate) fn sort_by_keys<'a, Row>(
    rows: Vec<Keyed<'a, Row>>,
    descending: &[bool],
) -> Result<Vec<Keyed<'a, Row>>, Fault> {
    let mut runs: Vec<Vec<Keyed<'a, Row>>> = rows.into_iter().map(|row| vec![row]).collect();
    while 1 < runs.len() {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut waiting = runs.into_iter();
        while let Some(left) = waiting.next() {
            merged.push(match waiting.next() {
                Some(right) => merge(left, right, descending)?,
                None => left,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

fn merge<'a, Row>(
    left: Vec<Keyed<'a, Row>>,
    right: Vec<Keyed<'a, Row>>,
    descending: &[bool],
) -> Result<Vec<Keyed<'a, Row>>, Fault> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some((left_keys, _)), Some((right_keys, _))) = (left.peek(), right.peek()) {
        let next = match compare(left_keys, right_keys, descending)? {
            Ordering::Greater => right.next(),
            Ordering::Less | Ordering::Equal => left.next(),
        };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}

fn compare(
    left: &[Value<'_>],
    right: &[Value<'_>],
    descending: &[bool],
) -> Result<Ordering, Fault> {
    for ((left, right), descending) in left.iter().zip(right).zip(descending) {
        let ordering = order_leniently(left, right)?;
        if ordering != Ordering::Equal {
            return Ok(if *descending { ordering.reverse() } else { ordering });
        }
    }
    Ok(Ordering::Equal)
}
