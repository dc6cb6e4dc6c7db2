//! What a `filter` clause means: values compared as JavaScript compares them.
#![expect(clippy::unwrap_used, reason = "a value that cannot be made should stop the test")]

use crate::naive::{Document, Literal, Value};

/// A condition over the fields `A` and `B`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Filter {
    Compare(char, &'static str, Literal),
    In(char, Vec<Literal>),
    Between(char, Literal, Literal),
    StartsWith(char, &'static str),
    Exists(char),
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    Not(Box<Filter>),
}

/// A value of JavaScript.
#[derive(Clone, Debug, PartialEq)]
enum Js {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    Array(String),
}

impl Js {
    fn of(value: Option<&Value>) -> Js {
        match value {
            None => Js::Undefined,
            Some(Value::Null) => Js::Null,
            Some(Value::Bool(value)) => Js::Bool(*value),
            Some(Value::Number(digits)) => Js::Number(digits.parse().unwrap()),
            Some(Value::Text(text) | Value::Date(text, ..)) => Js::Text((*text).to_owned()),
            Some(Value::Array(values)) => {
                let texts = values.iter().map(|value| Js::of(Some(value)).text());
                Js::Array(texts.collect::<Vec<_>>().join(","))
            }
        }
    }

    fn of_literal(literal: &Literal) -> Js {
        match literal {
            Literal::Null => Js::Null,
            Literal::Bool(value) => Js::Bool(*value),
            Literal::Long(value) => Js::Number(*value as f64),
            Literal::Double(digits) => Js::Number(digits.parse().unwrap()),
            Literal::Text(text) | Literal::Date(text, ..) => Js::Text((*text).to_owned()),
        }
    }

    /// As a part of an array.
    fn text(self) -> String {
        match self {
            Js::Undefined | Js::Null => String::new(),
            Js::Bool(value) => value.to_string(),
            Js::Number(number) => number.to_string(),
            Js::Text(text) | Js::Array(text) => text,
        }
    }

    fn number(&self) -> f64 {
        match self {
            Js::Undefined => f64::NAN,
            Js::Null => 0.0,
            Js::Bool(value) => f64::from(u8::from(*value)),
            Js::Number(number) => *number,
            Js::Text(text) | Js::Array(text) if text.is_empty() => 0.0,
            Js::Text(text) | Js::Array(text) => text.parse().unwrap_or(f64::NAN),
        }
    }

    fn is_strictly(&self, other: &Js) -> bool {
        self == other && !matches!(self, Js::Array(_))
    }

    fn compare(&self, sign: &str, other: &Js) -> bool {
        let order = match (self, other) {
            (Js::Text(left) | Js::Array(left), Js::Text(right) | Js::Array(right)) => {
                Some(left.cmp(right))
            }
            _ => self.number().partial_cmp(&other.number()),
        };
        match sign {
            "=" => self.is_strictly(other),
            "!=" => !self.is_strictly(other),
            "<" => order.is_some_and(std::cmp::Ordering::is_lt),
            "<=" => order.is_some_and(std::cmp::Ordering::is_le),
            ">" => order.is_some_and(std::cmp::Ordering::is_gt),
            _ => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

impl Filter {
    pub(crate) fn rql(&self) -> String {
        match self {
            Filter::Compare(field, sign, value) => format!("{field} {sign} {}", value.rql()),
            Filter::In(field, values) => {
                let values: Vec<_> = values.iter().map(Literal::rql).collect();
                format!("{field} in ({})", values.join(", "))
            }
            Filter::Between(field, low, high) => {
                format!("{field} between {} and {}", low.rql(), high.rql())
            }
            Filter::StartsWith(field, text) => format!("startsWith({field}, '{text}')"),
            Filter::Exists(field) => format!("exists({field})"),
            Filter::And(left, right) => format!("({} and {})", left.rql(), right.rql()),
            Filter::Or(left, right) => format!("({} or {})", left.rql(), right.rql()),
            Filter::Not(inner) => format!("(true and not ({}))", inner.rql()),
        }
    }

    pub(crate) fn passes(&self, document: &Document) -> bool {
        let value = |field: char| Js::of(document.value(field));
        match self {
            Filter::Compare(field, sign, literal) => {
                value(*field).compare(sign, &Js::of_literal(literal))
            }
            Filter::In(field, list) => {
                list.iter().any(|literal| value(*field).is_strictly(&Js::of_literal(literal)))
            }
            Filter::Between(field, low, high) => {
                value(*field).compare(">=", &Js::of_literal(low))
                    && value(*field).compare("<=", &Js::of_literal(high))
            }
            Filter::StartsWith(field, start) => match value(*field) {
                Js::Text(text) => text.to_lowercase().starts_with(&start.to_lowercase()),
                _ => false,
            },
            Filter::Exists(field) => value(*field) != Js::Undefined,
            Filter::And(left, right) => left.passes(document) && right.passes(document),
            Filter::Or(left, right) => left.passes(document) || right.passes(document),
            Filter::Not(inner) => !inner.passes(document),
        }
    }
}
