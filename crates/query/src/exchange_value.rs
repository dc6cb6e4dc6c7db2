//! `cmpxchg()`: a compare exchange value on the right side of a comparison, or in the results.
//!
//! A query reads all values from one snapshot. A missing value is null.

use blittable::{BlittableBuf, Object, Value, write_json};
use cluster_state::DatabaseValues;
use documents::{FieldPath, Found};
use rql::{Comparison, Expression, Literal, MethodCall, Query};
use storage::WorkingMemory;

use crate::document_path::document_path;
use crate::error::QueryError;
use crate::parameters::{QueryContext, QueryValue, place_of};
use crate::row_script::script_bytes;
use crate::sought_value::Sought;

/// Whether this is `cmpxchg()`.
pub(crate) fn is_exchange(expression: &Expression) -> bool {
    matches!(expression, Expression::Method(call) if call.is("cmpxchg"))
}

/// Whether the query refers to compare exchange, whose values change independently of documents.
pub(crate) fn names_values(query: &Query) -> bool {
    query.text.as_str().to_ascii_lowercase().contains("cmpxchg")
}

/// A number that changes whenever the compare exchange values that the query reads may have
/// changed; `None` when it reads none.
pub(crate) fn version_of_values(
    query: &Query,
    values: Option<&DatabaseValues>,
) -> Result<Option<u64>, QueryError> {
    match values {
        Some(values) if names_values(query) => Ok(Some(values.last_change()?)),
        Some(_) | None => Ok(None),
    }
}

impl<'a> QueryContext<'a> {
    /// The value on the right side of a comparison, which may be a compare exchange value.
    pub(crate) fn compared(
        &self,
        comparison: Comparison,
        right: &'a Expression,
    ) -> Result<Sought, QueryError> {
        let Expression::Method(call) = right else { return self.sought(right) };
        if !is_exchange(right) {
            return self.sought(right);
        }
        let value = self.sought_exchange(call)?;
        Ok(match comparison {
            Comparison::Equal | Comparison::NotEqual => value.into_text(),
            Comparison::Less
            | Comparison::LessOrEqual
            | Comparison::Greater
            | Comparison::GreaterOrEqual => value,
        })
    }

    /// The value that the call evaluates to in a comparison.
    pub(crate) fn sought_exchange(&self, call: &'a MethodCall) -> Result<Sought, QueryError> {
        let [argument] = call.arguments.as_slice() else {
            return Err(self.invalid("Method cmpxchg() expects only one argument to be provided"));
        };
        let Expression::Literal(literal) = argument else {
            let got = match argument {
                Expression::Field(path) => format!("<Field>: {}", path.text()),
                other => other.to_string(),
            };
            let expected = "Method cmpxchg() expects value token as second argument";
            return Err(self.invalid(format!("{expected}, got {got} type")));
        };
        let refused =
            |kind: &str| self.invalid(format!("Expected value of type string, but got: {kind}"));
        let key = match self.resolve_single(literal)? {
            QueryValue::Literal(Literal::String(key)) => key.clone(),
            QueryValue::Parameter(Value::String(key)) => key.as_cow()?.into_owned(),
            // Compared as strings here.
            QueryValue::Literal(Literal::Bool(value)) => value.to_string(),
            QueryValue::Parameter(Value::Object(_)) => return Err(refused("Parameter")),
            value => return Err(refused(Sought::of_query_value(&value)?.type_name())),
        };
        let Some(values) = self.values else { return Ok(Sought::Null) };
        match values.get(&key)? {
            Some(entry) => {
                Ok(entry.object()?.map_or(Ok(Sought::Null), |value| Sought::of_value(&value))?)
            }
            None => Ok(Sought::Null),
        }
    }

    /// What `cmpxchg(key)` in `select` returns.
    pub(crate) fn planned_value(&self, call: &'a MethodCall) -> Result<PlannedValue, QueryError> {
        match call.arguments.as_slice() {
            [Expression::Literal(literal)] => match self.resolve_single(literal)? {
                QueryValue::Literal(Literal::String(key)) => Ok(PlannedValue::Key(key.clone())),
                QueryValue::Parameter(Value::String(key)) => {
                    Ok(PlannedValue::Key(key.as_cow()?.into_owned()))
                }
                QueryValue::Literal(_) | QueryValue::Parameter(_) => Err(no_text()),
            },
            [Expression::Field(path)] => {
                self.require_known_alias(path)?;
                match path.without_alias(self.alias()) {
                    Some(inner) => Ok(PlannedValue::Path(document_path(&inner))),
                    None => Err(no_text()),
                }
            }
            [other] => Err(self.not_yet("an expression as a key", place_of(other))),
            arguments => Err(self.invalid(format!(
                "There is no overload of method 'cmpxchg' that takes {} arguments. Supported \
                 overloads are : cmpxchg(name).",
                arguments.len()
            ))),
        }
    }
}

/// The error for a call on the left side of a comparison.
pub(crate) fn stands_on_the_left() -> QueryError {
    let message =
        "The method CompareExchange on the left side inside the WHERE clause is not supported.";
    QueryError::Argument { message: message.to_owned() }
}

fn no_text() -> QueryError {
    let message = "cmpxchg(key) must be called with a single string argument".to_owned();
    QueryError::InvalidOperation { message }
}

impl Sought {
    /// The same value as a string. Whatever equals a compare exchange value equals its string form,
    /// so 5 is found both as a number and as a string.
    fn into_text(self) -> Self {
        match self {
            Self::Null | Self::Text(_) => self,
            Self::Bool(true) => Self::Text("True".to_owned()),
            Self::Bool(false) => Self::Text("False".to_owned()),
            Self::Long(value) => Self::Text(value.to_string()),
            Self::Double { digits, .. } => Self::Text(digits),
            Self::Object(json) => Self::Text(json),
        }
    }
}

/// A value to read for each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlannedValue {
    /// The value of this key.
    Key(String),
    /// The value of the key in a field of the row.
    Path(FieldPath),
}

impl PlannedValue {
    /// Reads the value; the stored object wraps it under a property name.
    pub(crate) fn find(
        &self,
        values: Option<&DatabaseValues>,
        row: Object<'_>,
        memory: &WorkingMemory,
    ) -> Result<Option<BlittableBuf>, QueryError> {
        match self {
            Self::Key(key) => read_value(values, key, memory),
            Self::Path(path) => match path.find(row)? {
                Found::One(Value::String(key)) => read_value(values, &key.as_cow()?, memory),
                _ => Err(no_text()),
            },
        }
    }
}

/// The object stored under a key. The copy and its text are charged.
pub(crate) fn read_value(
    values: Option<&DatabaseValues>,
    key: &str,
    memory: &WorkingMemory,
) -> Result<Option<BlittableBuf>, QueryError> {
    let entry = values.map(|values| values.get(key)).transpose()?.flatten();
    let Some(entry) = entry else { return Ok(None) };
    memory.take(script_bytes(&entry.value)?)?;
    Ok(Some(entry.value.to_buf()))
}

/// The value inside the object stored for a key.
fn object_of(stored: Option<&BlittableBuf>) -> Result<Value<'_>, QueryError> {
    let object = stored.map(|stored| stored.as_view().root().get("Object")).transpose()?;
    Ok(object.flatten().unwrap_or(Value::Null))
}

/// Appends the value inside the object stored for a key; `null` when there is none.
pub(crate) fn write_value(
    stored: Option<&BlittableBuf>,
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    Ok(write_json(&object_of(stored)?, out)?)
}

/// Appends the members of a value that is the entire row, each followed by a comma.
pub(crate) fn write_members(
    stored: Option<&BlittableBuf>,
    out: &mut Vec<u8>,
) -> Result<(), QueryError> {
    let value = object_of(stored)?;
    let Value::Object(object) = value else {
        let mut shown = Vec::new();
        write_json(&value, &mut shown)?;
        let shown = String::from_utf8_lossy(&shown);
        let message = format!(
            "Query returning a single function call result must return an object, but got: {shown}"
        );
        return Err(QueryError::InvalidOperation { message });
    };
    for member in object.iter() {
        let (name, value) = member?;
        if name == "@metadata" {
            continue;
        }
        blittable::write_json_string(name, out);
        out.push(b':');
        write_json(&value, out)?;
        out.push(b',');
    }
    Ok(())
}
