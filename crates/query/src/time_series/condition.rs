//! `where` of a time series query, evaluated on every entry.
//!
//! A comparison with a missing value is false except for `= null`; strings are compared byte by
//! byte. What can never be compared, such as a number with a string, is rejected before the first
//! entry.

use std::cmp::Ordering;

use blittable::Value;
use documents::FieldPath;
use rql::Comparison;

use crate::error::QueryError;
use crate::time_series::moment_text::parse_moment;

/// A value that entries are compared with, or one of an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    /// A timestamp in ticks.
    Moment(i64),
    /// An array or an object.
    Composite,
}

impl Cell {
    /// The value of a document or a parameter.
    pub(crate) fn of(value: &Value<'_>) -> Result<Cell, QueryError> {
        Ok(match value {
            Value::Null => Cell::Null,
            Value::Bool(value) => Cell::Bool(*value),
            Value::Integer(value) => Cell::Number(*value as f64),
            Value::Number(text) => text.parse().map_or(Cell::Composite, Cell::Number),
            Value::String(text) => Cell::Text(text.as_cow()?.into_owned()),
            Value::Array(_) | Value::Object(_) => Cell::Composite,
        })
    }

    /// As error messages show it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Cell::Null => "null".to_owned(),
            Cell::Bool(true) => "True".to_owned(),
            Cell::Bool(false) => "False".to_owned(),
            Cell::Number(number) => number.to_string(),
            Cell::Text(text) => text.clone(),
            Cell::Moment(moment) => model::date::format(*moment),
            Cell::Composite => "an array or object".to_owned(),
        }
    }

    fn is_same_kind(&self, other: &Cell) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn compare(&self, other: &Cell) -> Option<Ordering> {
        match (self, other) {
            (Cell::Number(left), Cell::Number(right)) => left.partial_cmp(right),
            (Cell::Text(left), Cell::Text(right)) => Some(left.cmp(right)),
            (Cell::Moment(left), Cell::Moment(right)) => Some(left.cmp(right)),
            (Cell::Bool(left), Cell::Bool(right)) => Some(left.cmp(right)),
            (Cell::Null, Cell::Null) => Some(Ordering::Equal),
            _ => None,
        }
    }
}

/// The left or right side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    /// The value at a position.
    Value(usize),
    Tag,
    Timestamp,
    /// The id of the tag's document.
    TagDocument,
    /// A field of the tag's document.
    TagField(FieldPath),
    Constant(Cell),
    /// An argument of the function.
    Argument(usize),
    /// A field of an argument that is a document.
    ArgumentField(usize, FieldPath),
    /// A name that the database may have given to a position.
    Named(String),
}

/// A condition of `where` on entries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    And(Vec<Test>),
    Or(Vec<Test>),
    Not(Box<Test>),
    Compare(Operand, Comparison, Operand),
    Between(Operand, Operand, Operand),
    In(Operand, Vec<Operand>),
}

/// What a test sees of an entry.
pub(crate) struct Seen<'e> {
    pub(crate) values: &'e [f64],
    pub(crate) tag: Option<&'e str>,
    /// In ticks, shifted by the offset.
    pub(crate) moment: i64,
}

/// The documents whose ids are in tags.
pub(crate) trait TagDocuments {
    /// A field of the tag's document, or with an empty path its id. `None` without a document.
    fn cell(&self, tag: &str, path: &FieldPath) -> Result<Option<Cell>, QueryError>;

    /// The same as JSON.
    fn json(&self, tag: &str, path: &FieldPath) -> Result<Option<Vec<u8>>, QueryError>;
}

impl Test {
    /// The test with its operands bound.
    pub(crate) fn bound(
        &self,
        bind: &mut dyn FnMut(&Operand) -> Result<Operand, QueryError>,
    ) -> Result<Test, QueryError> {
        let all =
            |tests: &[Test], bind: &mut dyn FnMut(&Operand) -> Result<Operand, QueryError>| {
                tests.iter().map(|test| test.bound(bind)).collect::<Result<Vec<_>, _>>()
            };
        Ok(match self {
            Test::And(tests) => Test::And(all(tests, bind)?),
            Test::Or(tests) => Test::Or(all(tests, bind)?),
            Test::Not(test) => Test::Not(Box::new(test.bound(bind)?)),
            Test::Compare(left, comparison, right) => {
                let (left, right) = comparable(bind(left)?, bind(right)?)?;
                if !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
                    require_order(&left, &right)?;
                }
                Test::Compare(left, *comparison, right)
            }
            Test::Between(value, low, high) => {
                let (value, low) = comparable(bind(value)?, bind(low)?)?;
                let (value, high) = comparable(value, bind(high)?)?;
                require_order(&value, &low)?;
                require_order(&value, &high)?;
                Test::Between(value, low, high)
            }
            Test::In(value, list) => {
                let value = bind(value)?;
                let mut bound = Vec::with_capacity(list.len());
                for listed in list {
                    bound.push(comparable(value.clone(), bind(listed)?)?.1);
                }
                Test::In(value, bound)
            }
        })
    }

    /// Whether it reads values of entries.
    pub(crate) fn asks_for_values(&self) -> bool {
        let is_value = |operand: &Operand| matches!(operand, Operand::Value(_) | Operand::Named(_));
        match self {
            Test::And(tests) | Test::Or(tests) => tests.iter().any(Test::asks_for_values),
            Test::Not(test) => test.asks_for_values(),
            Test::Compare(left, _, right) => is_value(left) || is_value(right),
            Test::Between(value, low, high) => [value, low, high].into_iter().any(is_value),
            Test::In(value, list) => is_value(value) || list.iter().any(is_value),
        }
    }

    /// Whether an entry passes.
    pub(crate) fn passes(
        &self,
        entry: &Seen<'_>,
        tags: &dyn TagDocuments,
    ) -> Result<bool, QueryError> {
        match self {
            Test::And(tests) => {
                for test in tests {
                    if !test.passes(entry, tags)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Test::Or(tests) => {
                for test in tests {
                    if test.passes(entry, tags)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Test::Not(test) => Ok(!test.passes(entry, tags)?),
            // The common case, without copying anything.
            Test::Compare(
                Operand::Value(position),
                comparison,
                Operand::Constant(Cell::Number(right)),
            ) => {
                let Some(left) = entry.values.get(*position) else {
                    return Ok(*comparison == Comparison::NotEqual);
                };
                Ok(holds(left.partial_cmp(right), *comparison))
            }
            Test::Compare(left, comparison, right) => {
                let (left, right) = (left.cell(entry, tags)?, right.cell(entry, tags)?);
                let order = left.compare(&right);
                let is_ordering = !matches!(comparison, Comparison::Equal | Comparison::NotEqual);
                let is_null = left == Cell::Null || right == Cell::Null;
                Ok(!(is_ordering && is_null) && holds(order, *comparison))
            }
            Test::Between(value, low, high) => {
                let value = value.cell(entry, tags)?;
                if value == Cell::Null {
                    return Ok(false);
                }
                let low = low.cell(entry, tags)?.compare(&value);
                let high = high.cell(entry, tags)?.compare(&value);
                Ok(holds(low, Comparison::LessOrEqual) && holds(high, Comparison::GreaterOrEqual))
            }
            Test::In(value, list) => {
                let value = value.cell(entry, tags)?;
                for listed in list {
                    if value.compare(&listed.cell(entry, tags)?) == Some(Ordering::Equal) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

fn holds(order: Option<Ordering>, comparison: Comparison) -> bool {
    match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}

impl Operand {
    fn cell(&self, entry: &Seen<'_>, tags: &dyn TagDocuments) -> Result<Cell, QueryError> {
        Ok(match self {
            Operand::Value(position) => {
                entry.values.get(*position).map_or(Cell::Null, |value| Cell::Number(*value))
            }
            Operand::Tag => entry.tag.map_or(Cell::Null, |tag| Cell::Text(tag.to_owned())),
            Operand::Timestamp => Cell::Moment(entry.moment),
            Operand::TagDocument => of_tag(entry.tag, &FieldPath::new(Vec::new()), tags)?,
            Operand::TagField(path) => of_tag(entry.tag, path, tags)?,
            Operand::Constant(cell) => cell.clone(),
            // Bound before the first entry.
            Operand::Argument(_) | Operand::ArgumentField(..) | Operand::Named(_) => Cell::Null,
        })
    }
}

fn of_tag(
    tag: Option<&str>,
    path: &FieldPath,
    tags: &dyn TagDocuments,
) -> Result<Cell, QueryError> {
    let cell = tag.map(|tag| tags.cell(tag, path)).transpose()?.flatten();
    Ok(cell.unwrap_or(Cell::Null))
}

/// Parses a string as a timestamp when it is compared with one.
fn comparable(left: Operand, right: Operand) -> Result<(Operand, Operand), QueryError> {
    let moment = |constant: Operand| match constant {
        Operand::Constant(Cell::Text(text)) => match parse_moment(&text) {
            Some(moment) => Ok(Operand::Constant(Cell::Moment(moment))),
            None => Err(incomparable("Timestamp", &text)),
        },
        other => Ok(other),
    };
    match (left, right) {
        (Operand::Timestamp, right) => Ok((Operand::Timestamp, moment(right)?)),
        (left, Operand::Timestamp) => Ok((moment(left)?, Operand::Timestamp)),
        both => Ok(both),
    }
}

/// Rejects an order comparison of operands that have no order.
fn require_order(left: &Operand, right: &Operand) -> Result<(), QueryError> {
    let example = |operand: &Operand| match operand {
        Operand::Value(_) => Some(("Value", Cell::Number(0.0))),
        Operand::Tag => Some(("Tag", Cell::Text(String::new()))),
        Operand::Timestamp => Some(("Timestamp", Cell::Moment(0))),
        _ => None,
    };
    for (operand, other) in [(left, right), (right, left)] {
        let (Some((name, example)), Operand::Constant(constant)) = (example(operand), other) else {
            continue;
        };
        if *constant != Cell::Null && !example.is_same_kind(constant) {
            return Err(incomparable(name, &constant.shown()));
        }
    }
    Ok(())
}

fn incomparable(name: &str, value: &str) -> QueryError {
    let message = format!("A time series query cannot compare '{name}' of entries with '{value}'");
    QueryError::TimeSeries { message }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// No tag has a document.
    pub(crate) struct NoDocuments;

    impl TagDocuments for NoDocuments {
        fn cell(&self, _: &str, _: &FieldPath) -> Result<Option<Cell>, QueryError> {
            Ok(None)
        }

        fn json(&self, _: &str, _: &FieldPath) -> Result<Option<Vec<u8>>, QueryError> {
            Ok(None)
        }
    }

    fn number(number: f64) -> Operand {
        Operand::Constant(Cell::Number(number))
    }

    fn text(text: &str) -> Operand {
        Operand::Constant(Cell::Text(text.to_owned()))
    }

    fn passing(test: Test) -> Result<Vec<usize>, String> {
        let test = test.bound(&mut |operand| Ok(operand.clone())).map_err(|e| e.to_string())?;
        let entries = [
            Seen { values: &[1.0], tag: None, moment: parse_moment("2020").unwrap() },
            Seen { values: &[2.0, 1.0], tag: Some("a"), moment: parse_moment("2021").unwrap() },
            Seen { values: &[3.0, 5.0], tag: Some("b"), moment: parse_moment("2022").unwrap() },
        ];
        let passing = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| test.passes(entry, &NoDocuments).unwrap());
        Ok(passing.map(|(place, _)| place).collect())
    }

    #[test]
    fn entries_are_compared_by_value_tag_and_moment() {
        use Comparison::{Equal, Greater, Less, LessOrEqual, NotEqual};
        let null = || Operand::Constant(Cell::Null);
        let compare = Test::Compare;
        for (test, expected) in [
            (compare(Operand::Value(0), Greater, number(1.5)), &[1, 2][..]),
            (compare(Operand::Value(1), Less, number(9.0)), &[1, 2]),
            (compare(Operand::Value(1), NotEqual, number(5.0)), &[0, 1]),
            (compare(Operand::Value(1), Equal, null()), &[0]),
            (compare(Operand::Value(1), Greater, null()), &[]),
            (compare(Operand::Value(0), Greater, Operand::Value(1)), &[1]),
            (compare(Operand::Value(0), Equal, text("1")), &[]),
            (compare(Operand::Tag, Equal, null()), &[0]),
            (compare(Operand::Tag, NotEqual, null()), &[1, 2]),
            (compare(Operand::Tag, LessOrEqual, text("a")), &[1]),
            (compare(Operand::Timestamp, Equal, text("2021-01-01T00:00")), &[1]),
            (compare(text("2021"), Less, Operand::Timestamp), &[2]),
            (compare(Operand::TagDocument, Equal, null()), &[0, 1, 2]),
            (Test::Between(Operand::Value(0), number(2.0), number(2.5)), &[1]),
            (Test::Between(Operand::Value(0), number(2.0), null()), &[]),
            (Test::Between(Operand::Timestamp, text("2020"), text("2021")), &[0, 1]),
            (Test::In(Operand::Tag, vec![text("b"), null()]), &[0, 2]),
            (Test::In(Operand::Value(0), Vec::new()), &[]),
            (
                Test::Not(Box::new(Test::Or(vec![
                    compare(Operand::Value(0), Equal, number(1.0)),
                    compare(Operand::Tag, Equal, text("b")),
                ]))),
                &[1],
            ),
        ] {
            assert_eq!(passing(test.clone()).as_deref(), Ok(expected), "{test:?}");
        }
        for (test, message) in [
            (compare(Operand::Value(0), Less, text("x")), "'Value' of entries with 'x'"),
            (compare(Operand::Tag, Less, number(5.0)), "'Tag' of entries with '5'"),
            (compare(Operand::Timestamp, Equal, text("x")), "'Timestamp' of entries with 'x'"),
            (
                Test::Between(Operand::Value(0), number(1.0), text("x")),
                "'Value' of entries with 'x'",
            ),
        ] {
            let refused = passing(test).unwrap_err();
            assert_eq!(refused, format!("A time series query cannot compare {message}"));
        }
    }
}
