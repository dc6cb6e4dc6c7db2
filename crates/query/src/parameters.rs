//! The parameters of a query, and the refusals that repeat its text and parameters.

use blittable::{Corrupt, Object, Value, write_json};
use cluster_state::DatabaseValues;
use rql::{Expression, Literal, NumberValue, Offset, Query};

use crate::error::QueryError;

/// How many values one `in (…)` may list. A parameter may stand in it many times, so the size of the
/// request alone does not bound them.
pub(crate) const LISTED_VALUES_MAX: usize = 1_000_000;

/// A query together with what was sent along; the place where planning asks for values.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) query: &'a Query,
    pub(crate) parameters: Option<Object<'a>>,
    /// What `cmpxchg()` reads; nothing is there before the query runs.
    pub(crate) values: Option<&'a DatabaseValues>,
}

/// What a literal or a parameter is worth.
#[derive(Clone, Copy)]
pub(crate) enum Worth<'a> {
    Literal(&'a Literal),
    Parameter(Value<'a>),
}

impl<'a> Asked<'a> {
    /// A query that is looked at before it runs.
    pub(crate) fn new(query: &'a Query, parameters: Option<Object<'a>>) -> Self {
        Self { query, parameters, values: None }
    }

    /// The same query where it runs.
    pub(crate) fn reading(self, values: Option<&'a DatabaseValues>) -> Self {
        Self { values, ..self }
    }

    /// Resolves a literal or parameter.
    pub(crate) fn worth(&self, literal: &'a Literal) -> Result<Worth<'a>, QueryError> {
        let Literal::Parameter(name) = literal else { return Ok(Worth::Literal(literal)) };
        let Some(parameters) = self.parameters else {
            let message =
                "The query is parametrized but the actual values of parameters were not provided";
            return Err(self.invalid(message));
        };
        match parameters.get(name)? {
            Some(value) => Ok(Worth::Parameter(value)),
            None => Err(self.invalid(format!("Value of parameter '{name}' was not provided"))),
        }
    }

    /// Resolves a whole number that must not be negative; `null` stands for none.
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

    /// Resolves a whole number; `null` stands for none.
    pub(crate) fn long(&self, literal: &'a Literal) -> Result<Option<i64>, QueryError> {
        Ok(Some(match self.worth(literal)? {
            Worth::Literal(Literal::Null) | Worth::Parameter(Value::Null) => return Ok(None),
            Worth::Literal(Literal::Number(number)) => match number.value() {
                NumberValue::Long(value) => value,
                NumberValue::TooLarge => i64::MAX,
                NumberValue::Double(_) => return Err(not_a_long("Double")),
            },
            Worth::Parameter(Value::Integer(value)) => value,
            Worth::Parameter(Value::Number(_)) => return Err(not_a_long("Double")),
            Worth::Literal(_) | Worth::Parameter(_) => return Err(not_a_long("String")),
        }))
    }

    /// As [`Asked::worth`], but refuses an array where one value is compared.
    pub(crate) fn single_worth(&self, literal: &'a Literal) -> Result<Worth<'a>, QueryError> {
        let worth = self.worth(literal)?;
        let Worth::Parameter(value @ Value::Array(_)) = worth else { return Ok(worth) };
        let (json, kind) = (shown(&value), "Sparrow.Json.BlittableJsonReaderArray");
        Err(self.invalid(format!("Parameter value '{json}' of type {kind} is not supported")))
    }

    /// Refuses a list that has grown too long.
    pub(crate) fn require_listable(&self, count: usize, of: &str) -> Result<(), QueryError> {
        match count <= LISTED_VALUES_MAX {
            true => Ok(()),
            false => Err(self
                .invalid(format!("A list of more than {LISTED_VALUES_MAX} {of} is not looked up"))),
        }
    }

    /// The refusal of a value of another type than the first one of the same parameter.
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

/// The values of a parameter that stands in a list: those of an array, however deep, in order; else
/// the value itself.
pub(crate) struct Elements<'v> {
    /// What is still to come, the next one last.
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

/// A parameter as refusals repeat it.
pub(crate) fn shown(value: &Value<'_>) -> String {
    let mut json = Vec::new();
    // Parameters come from a parsed request; a damaged one is shown as far as it goes.
    let _ = write_json(value, &mut json);
    String::from_utf8_lossy(&json).into_owned()
}

fn not_a_long(kind: &str) -> QueryError {
    let message = format!("Value should be a 'Long' but was '{kind}'.");
    QueryError::InvalidOperation { message }
}

/// Where an expression stands: the place of the first field or call in it.
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
