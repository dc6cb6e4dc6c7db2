//! The parameters of a query, and the errors that repeat its text and parameters.

use blittable::{Corrupt, Object, Value, write_json};
use cluster_state::DatabaseValues;
use rql::{Expression, Literal, NumberValue, Offset, Query};

use crate::error::QueryError;

/// Maximum number of values in one `in (…)`. A parameter may occur in it many times, so the size of
/// the request alone does not bound them.
pub(crate) const LISTED_VALUES_MAX: usize = 1_000_000;

/// A query together with its parameters: where planning resolves values.
#[derive(Clone, Copy)]
pub(crate) struct QueryContext<'a> {
    pub(crate) query: &'a Query,
    pub(crate) parameters: Option<Object<'a>>,
    /// What `cmpxchg()` reads; `None` before the query runs.
    pub(crate) values: Option<&'a DatabaseValues>,
}

/// The value that a literal or a parameter resolves to.
#[derive(Clone, Copy)]
pub(crate) enum QueryValue<'a> {
    Literal(&'a Literal),
    Parameter(Value<'a>),
}

impl<'a> QueryContext<'a> {
    /// A query that is examined before it runs.
    pub(crate) fn new(query: &'a Query, parameters: Option<Object<'a>>) -> Self {
        Self { query, parameters, values: None }
    }

    /// The same query while it runs.
    pub(crate) fn reading(self, values: Option<&'a DatabaseValues>) -> Self {
        Self { values, ..self }
    }

    /// Resolves a literal or parameter.
    pub(crate) fn resolve(&self, literal: &'a Literal) -> Result<QueryValue<'a>, QueryError> {
        let Literal::Parameter(name) = literal else { return Ok(QueryValue::Literal(literal)) };
        let Some(parameters) = self.parameters else {
            let message =
                "The query is parametrized but the actual values of parameters were not provided";
            return Err(self.invalid(message));
        };
        match parameters.get(name)? {
            Some(value) => Ok(QueryValue::Parameter(value)),
            None => Err(self.invalid(format!("Value of parameter '{name}' was not provided"))),
        }
    }

    /// Resolves a whole number that must not be negative; `null` means none.
    pub(crate) fn count(
        &self,
        literal: &'a Literal,
        name: &str,
    ) -> Result<Option<u64>, QueryError> {
        let Some(number) = self.long(literal)? else { return Ok(None) };
        match u64::try_from(number) {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err(self.invalid(format!("{name} cannot be negative, but was {number}."))),
        }
    }

    /// Resolves a whole number; `null` means none.
    pub(crate) fn long(&self, literal: &'a Literal) -> Result<Option<i64>, QueryError> {
        Ok(Some(match self.resolve(literal)? {
            QueryValue::Literal(Literal::Null) | QueryValue::Parameter(Value::Null) => {
                return Ok(None);
            }
            QueryValue::Literal(Literal::Number(number)) => match number.value() {
                NumberValue::Long(value) => value,
                NumberValue::TooLarge => i64::MAX,
                NumberValue::Double(_) => return Err(not_a_long("Double")),
            },
            QueryValue::Parameter(Value::Integer(value)) => value,
            QueryValue::Parameter(Value::Number(_)) => return Err(not_a_long("Double")),
            QueryValue::Literal(_) | QueryValue::Parameter(_) => return Err(not_a_long("String")),
        }))
    }

    /// Like [`QueryContext::resolve`], but rejects an array where one value is compared.
    pub(crate) fn resolve_single(
        &self,
        literal: &'a Literal,
    ) -> Result<QueryValue<'a>, QueryError> {
        let value = self.resolve(literal)?;
        let QueryValue::Parameter(value @ Value::Array(_)) = value else { return Ok(value) };
        let (json, kind) = (shown(&value), "Sparrow.Json.BlittableJsonReaderArray");
        Err(self.invalid(format!("Parameter value '{json}' of type {kind} is not supported")))
    }

    /// Rejects a list that has grown too long.
    pub(crate) fn require_listable(&self, count: usize, of: &str) -> Result<(), QueryError> {
        match count <= LISTED_VALUES_MAX {
            true => Ok(()),
            false => Err(self.invalid(format!("A list may have at most {LISTED_VALUES_MAX} {of}"))),
        }
    }

    /// The error for a value whose type differs from that of the first one of the same parameter.
    pub(crate) fn unexpected_type(
        &self,
        value: &Value<'_>,
        expected: &str,
        found: &str,
    ) -> Result<QueryError, QueryError> {
        let value = match value.as_text() {
            Some(text) => text.as_cow()?.into_owned(),
            None => shown(value),
        };
        let message = format!("Expected query parameter to be {expected} but was {found}: {value}");
        Ok(self.invalid(message))
    }

    pub(crate) fn invalid(&self, message: impl Into<String>) -> QueryError {
        let parameters = self.parameters.map(|parameters| shown(&Value::Object(parameters)));
        QueryError::Invalid { message: message.into(), query: self.text(), parameters }
    }

    pub(crate) fn needs_index(&self, part: impl Into<String>, offset: Offset) -> QueryError {
        let position = offset.locate(self.query.text.as_str());
        QueryError::NeedsIndex { part: part.into(), position, query: self.text() }
    }

    pub(crate) fn not_yet(&self, part: impl Into<String>, offset: Option<Offset>) -> QueryError {
        let position = offset.map(|offset| offset.locate(self.query.text.as_str()));
        QueryError::NotSupportedYet { part: part.into(), position, query: self.text() }
    }

    fn text(&self) -> String {
        self.query.text.as_str().to_owned()
    }
}

/// The values of a parameter in a list: those of an array, at any depth, in order; else the value
/// itself.
pub(crate) struct Elements<'v> {
    /// The remaining values, the next one last.
    pending: Vec<Value<'v>>,
}

impl<'v> Elements<'v> {
    pub(crate) fn of(parameter: Value<'v>) -> Self {
        Self { pending: vec![parameter] }
    }
}

impl<'v> Iterator for Elements<'v> {
    type Item = Result<Value<'v>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(value) = self.pending.pop() {
            let Value::Array(array) = value else { return Some(Ok(value)) };
            let first = self.pending.len();
            for element in array.iter() {
                match element {
                    Ok(element) => self.pending.push(element),
                    Err(error) => return Some(Err(error)),
                }
            }
            self.pending[first..].reverse();
        }
        None
    }
}

/// A parameter as error messages repeat it.
pub(crate) fn shown(value: &Value<'_>) -> String {
    let mut json = Vec::new();
    // Parameters come from a parsed request; a damaged one is printed as far as possible.
    let _ = write_json(value, &mut json);
    String::from_utf8_lossy(&json).into_owned()
}

fn not_a_long(kind: &str) -> QueryError {
    let message = format!("Value should be a 'Long' but was '{kind}'.");
    QueryError::InvalidOperation { message }
}

/// The position of an expression: that of the first field or call in it.
pub(crate) fn place_of(expression: &Expression) -> Option<Offset> {
    match expression {
        Expression::And(parts) | Expression::Or(parts) => parts.iter().find_map(place_of),
        Expression::Not(inner) => place_of(inner),
        Expression::Compare { left: inner, .. }
        | Expression::Between { value: inner, .. }
        | Expression::In { value: inner, .. } => place_of(inner),
        Expression::Method(call) => Some(call.offset),
        Expression::Field(path) => Some(path.offset),
        Expression::Literal(_) | Expression::TimeSeries(_) => None,
    }
}
