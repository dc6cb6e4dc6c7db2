//! The values that conditions compare fields with, as terms of an index.

use std::borrow::Cow;

use blittable::{Corrupt, Value, write_json};
use indexing::IndexValue;
use model::lower_case;
use rql::{Expression, Literal, NumberValue};
use search::TermValue;

use crate::error::QueryError;
use crate::exchange_value::is_exchange;
use crate::parameters::{Elements, QueryContext, QueryValue};
use crate::searched_fields::{MatchMode, SearchedField};

/// One value of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sought {
    Null,
    Bool(bool),
    Long(i64),
    Double {
        value: f64,
        /// As written in the query.
        digits: String,
    },
    Text(String),
    /// An object, as JSON.
    Object(String),
}

impl Sought {
    pub(crate) fn of_query_value(value: &QueryValue<'_>) -> Result<Self, Corrupt> {
        Ok(match value {
            QueryValue::Literal(literal) => Self::of_literal(literal),
            QueryValue::Parameter(value) => Self::of_value(value)?,
        })
    }

    fn of_literal(literal: &Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::String(text) | Literal::Parameter(text) => Self::Text(text.clone()),
            Literal::Number(number) => match number.value() {
                NumberValue::Long(value) => Self::Long(value),
                NumberValue::Double(value) => {
                    Self::Double { value, digits: number.text().to_owned() }
                }
                NumberValue::TooLarge => Self::of_digits(number.text()),
            },
        }
    }

    pub(crate) fn of_value(value: &Value<'_>) -> Result<Self, Corrupt> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Integer(value) => Self::Long(*value),
            Value::Number(digits) => Self::of_digits(digits),
            Value::String(text) => Self::Text(text.as_cow()?.into_owned()),
            Value::Array(_) | Value::Object(_) => {
                let mut json = Vec::new();
                write_json(value, &mut json)?;
                Self::Object(String::from_utf8_lossy(&json).into_owned())
            }
        })
    }

    /// A number that is not a 64-bit integer.
    fn of_digits(digits: &str) -> Self {
        Self::Double { value: digits.parse().unwrap_or(f64::NAN), digits: digits.to_owned() }
    }

    /// The name of its type in error messages.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "Null",
            Self::Bool(true) => "True",
            Self::Bool(false) => "False",
            Self::Long(_) => "Long",
            Self::Double { .. } => "Double",
            Self::Text(_) => "String",
            Self::Object(_) => "Object",
        }
    }

    /// The timestamp, when the string is a date.
    pub(crate) fn ticks(&self) -> Option<i64> {
        let Self::Text(text) = self else { return None };
        match IndexValue::of_text(Cow::Borrowed(text)) {
            IndexValue::Time { ticks, .. } => Some(ticks),
            IndexValue::Null
            | IndexValue::Text(_)
            | IndexValue::Word(_)
            | IndexValue::Object(_)
            | IndexValue::Number { .. } => None,
        }
    }

    /// The value as a single term of the field.
    pub(crate) fn term_text(&self, field: &SearchedField, mode: MatchMode) -> Option<String> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(value) => value.to_string(),
            Self::Long(value) => value.to_string(),
            Self::Double { digits, .. } => match IndexValue::of_digits(digits) {
                Some(IndexValue::Number { text, .. }) => text.into_owned(),
                _ => digits.clone(),
            },
            Self::Object(json) if !field.options.has_words() => json.clone(),
            Self::Object(json) => in_the_case_of(field, mode, json),
            Self::Text(text) => match IndexValue::of_text(Cow::Borrowed(text)) {
                IndexValue::Time { text, .. } | IndexValue::Number { text, .. }
                    if !field.options.has_words() =>
                {
                    text.into_owned()
                }
                _ => in_the_case_of(field, mode, text),
            },
        })
    }

    /// The value as a term that is found by its text, or null.
    pub(crate) fn text_term(&self, field: &SearchedField, mode: MatchMode) -> TermValue {
        self.term_text(field, mode).map_or(TermValue::Null, TermValue::Text)
    }
}

/// Strings are compared in lower case unless the field preserves case. In an analyzed field only
/// `exact()` preserves it.
pub(crate) fn in_the_case_of(field: &SearchedField, mode: MatchMode, text: &str) -> String {
    let keeps_case = field.options.indexing == search::Indexing::Exact || mode == MatchMode::Exact;
    if keeps_case { text.to_owned() } else { lower_case(text).into_owned() }
}

impl<'a> QueryContext<'a> {
    /// The value on the right side of a comparison.
    pub(crate) fn sought(&self, expression: &'a Expression) -> Result<Sought, QueryError> {
        match expression {
            Expression::Literal(literal) => {
                Ok(Sought::of_query_value(&self.resolve_single(literal)?)?)
            }
            Expression::Field(path) => {
                Err(self.invalid(format!("Expected value, but got: <Field>: {}", path.text())))
            }
            Expression::Method(_) if is_exchange(expression) => {
                Err(self.invalid(format!("Expected value, but got: {expression}")))
            }
            Expression::Method(call) => {
                Err(QueryError::Argument { message: format!("Unknown method {}", call.name) })
            }
            _ => Err(self.invalid(format!("Expected value, but got: {expression}"))),
        }
    }

    /// The values of a list; an array in a parameter stands for its elements, at any depth.
    /// Literals must be of one type, and so must the elements of one parameter.
    pub(crate) fn sought_list(
        &self,
        list: &'a [Expression],
        of: &str,
    ) -> Result<Vec<Sought>, QueryError> {
        let mut values = Vec::with_capacity(list.len());
        let mut first_literal = None;
        for item in list {
            let Expression::Literal(literal) = item else {
                return Err(self.sought(item).err().unwrap_or_else(|| self.invalid("no value")));
            };
            match self.resolve(literal)? {
                QueryValue::Parameter(value) => self.add_elements(value, &mut values)?,
                value => {
                    let value = Sought::of_query_value(&value)?;
                    let kind = value.type_name();
                    if value != Sought::Null && *first_literal.get_or_insert(kind) != kind {
                        return Err(self.mixed_types(of));
                    }
                    values.push(value);
                }
            }
            self.require_listable(values.len(), "values")?;
        }
        Ok(values)
    }

    pub(crate) fn mixed_types(&self, of: &str) -> QueryError {
        self.invalid(format!(
            "Incompatible types of variables in WHERE clause on '{of}' field. It got values of the \
             following types: Value,Value"
        ))
    }

    fn add_elements(&self, value: Value<'_>, values: &mut Vec<Sought>) -> Result<(), QueryError> {
        let mut expected = None;
        for value in Elements::of(value) {
            let value = value?;
            let element = Sought::of_value(&value)?;
            let kind = element.type_name();
            let expected = *expected.get_or_insert(kind);
            if element != Sought::Null && kind != expected {
                return Err(self.unexpected_type(&value, expected, kind)?);
            }
            values.push(element);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    #[test]
    fn a_parameter_cannot_multiply_without_end() {
        let list = vec!["$p"; 201].join(",");
        let query = rql::parse(&format!("from B where Name in ({list})")).unwrap();
        let parameters = format!(r#"{{"p":[{}]}}"#, vec!["[1]"; 5_000].join(","));
        let parameters = parse_document(parameters.as_bytes(), &ParseLimits::default()).unwrap();
        let context = QueryContext::new(&query, Some(parameters.as_view().root()));
        let Some(Expression::In { list, .. }) = &query.condition else { panic!("no list") };
        let refused = context.sought_list(list, "Name").unwrap_err().to_string();
        let expected = "A list may have at most 1000000 values";
        assert!(refused.starts_with(expected), "{refused}");
    }
}
