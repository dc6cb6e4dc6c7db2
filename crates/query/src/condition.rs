//! Conditions on document ids: those that need no index.

use blittable::Value;
use model::lower_case;
use rql::{Comparison, Expression, Literal, MethodCall};

use crate::error::QueryError;
use crate::exchange_value::{is_exchange, stands_on_the_left};
use crate::id_selection::IdSelection;
use crate::parameters::{Elements, QueryContext, QueryValue, place_of};
use crate::sought_value::Sought;

/// What a condition selects.
pub(crate) struct Chosen {
    pub(crate) ids: IdSelection,
    /// Whether the condition is a single `startsWith`. The total of such a query is not counted,
    /// because counting would read every matching document.
    pub(crate) is_single_prefix: bool,
}

impl<'a> QueryContext<'a> {
    /// The ids that `condition` selects.
    pub(crate) fn chosen(&self, condition: Option<&'a Expression>) -> Result<Chosen, QueryError> {
        let Some(condition) = condition else {
            return Ok(Chosen { ids: IdSelection::Everything, is_single_prefix: false });
        };
        let ids = self.selection(condition)?;
        let is_prefix = matches!(condition, Expression::Method(call) if call.is("startsWith"));
        let is_single_prefix = is_prefix && ids != IdSelection::nothing();
        Ok(Chosen { ids, is_single_prefix })
    }

    /// The parser's nesting limit bounds the recursion.
    fn selection(&self, condition: &'a Expression) -> Result<IdSelection, QueryError> {
        match condition {
            Expression::And(parts) => {
                parts.iter().try_fold(IdSelection::Everything, |chosen, part| {
                    Ok(chosen.and(self.selection(part)?))
                })
            }
            Expression::Or(parts) => {
                parts.iter().try_fold(IdSelection::nothing(), |chosen, part| {
                    Ok(chosen.or(self.selection(part)?))
                })
            }
            Expression::Literal(Literal::Bool(true)) => Ok(IdSelection::Everything),
            Expression::Literal(_) => Ok(IdSelection::nothing()),
            Expression::Compare { left, comparison: Comparison::Equal, right } if is_id(left) => {
                self.equal(right)
            }
            Expression::In { value, list, all } if is_id(value) => self.one_of(list, *all),
            Expression::Method(call) if call.is("startsWith") => self.starts_with(call),
            Expression::Not(_)
            | Expression::Compare { .. }
            | Expression::Between { .. }
            | Expression::In { .. }
            | Expression::Method(_)
            | Expression::Field(_)
            | Expression::TimeSeries(_) => Err(self.condition_needs_index(condition)),
        }
    }

    fn condition_needs_index(&self, condition: &Expression) -> QueryError {
        if let Expression::Compare { left, .. } = condition
            && is_exchange(left)
        {
            return stands_on_the_left();
        }
        if let Expression::Compare { right, .. } = condition
            && let Expression::Field(path) = right.as_ref()
        {
            return self.invalid(format!("Expected value, but got: <Field>: {}", path.text()));
        }
        let offset = place_of(condition).unwrap_or_default();
        self.needs_index(format!("the condition '{condition}'"), offset)
    }

    fn equal(&self, right: &'a Expression) -> Result<IdSelection, QueryError> {
        match right {
            Expression::Literal(literal) => {
                let value = self.resolve_single(literal)?;
                Ok(IdSelection::ids(id_text(&value)?))
            }
            Expression::Field(path) => {
                Err(self.invalid(format!("Expected value, but got: <Field>: {}", path.text())))
            }
            Expression::Method(call) if is_exchange(right) => match self.sought_exchange(call)? {
                Sought::Text(text) => Ok(IdSelection::ids([lower_case(&text).into_owned()])),
                _ => Ok(IdSelection::nothing()),
            },
            _ => Err(self.condition_needs_index(right)),
        }
    }

    fn one_of(&self, list: &'a [Expression], all: bool) -> Result<IdSelection, QueryError> {
        self.require_one_type(list)?;
        let mut ids = Vec::new();
        for item in list {
            let Expression::Literal(literal) = item else {
                return Err(self.condition_needs_index(item));
            };
            match self.resolve(literal)? {
                QueryValue::Parameter(value) => self.add_ids(value, &mut ids)?,
                value => ids.extend(id_text(&value)?),
            }
            self.require_listable(ids.len(), "ids")?;
        }
        ids.sort();
        ids.dedup();
        // A document has one id, so it can match several only when they are equal.
        let is_impossible = all && ids.len() != 1;
        Ok(if is_impossible { IdSelection::nothing() } else { IdSelection::ids(ids) })
    }

    fn require_one_type(&self, list: &[Expression]) -> Result<(), QueryError> {
        let mut kinds = list.iter().filter_map(|item| match item {
            Expression::Literal(literal @ (Literal::Number(_) | Literal::String(_))) => {
                Some(std::mem::discriminant(literal))
            }
            _ => None,
        });
        let first = kinds.next();
        match kinds.all(|kind| Some(kind) == first) {
            true => Ok(()),
            false => Err(self.invalid(
                "Incompatible types of variables in WHERE clause on 'id()' field. \
                 It got values of the following types: Value,Value",
            )),
        }
    }

    fn starts_with(&self, call: &'a MethodCall) -> Result<IdSelection, QueryError> {
        match call.arguments.first() {
            Some(field) if is_id(field) => {}
            Some(_) => return Err(self.needs_index(format!("'{call}'"), call.offset)),
            None => {
                let message = "Method startsWith() expects a field name as its first argument";
                return Err(self.invalid(message));
            }
        }
        let prefix = match call.arguments.get(1) {
            Some(Expression::Literal(literal)) => id_text(&self.resolve_single(literal)?)?,
            Some(other) => return Err(self.condition_needs_index(other)),
            None => {
                let message = "Method startsWith() expects second argument to be provided";
                return Err(self.invalid(message));
            }
        };
        Ok(prefix.map_or_else(IdSelection::nothing, IdSelection::prefix))
    }

    /// Adds the ids of a parameter, which may be an array of arrays; all its values must have the
    /// type of the first.
    fn add_ids(&self, parameter: Value<'_>, ids: &mut Vec<String>) -> Result<(), QueryError> {
        let mut expected = None;
        for value in Elements::of(parameter) {
            let value = value?;
            let Some(name) = type_name_of(&value) else { continue };
            let expected = *expected.get_or_insert(name);
            if name != expected {
                return Err(self.unexpected_type(&value, expected, name)?);
            }
            ids.extend(id_text(&QueryValue::Parameter(value))?);
        }
        Ok(())
    }
}

/// Whether this is `id()` or `id(alias)`.
pub(crate) fn is_id(expression: &Expression) -> bool {
    matches!(expression, Expression::Method(call) if call.is("id") && call.arguments.len() <= 1)
}

/// The name of a parameter's type in error messages; `None` for null, which is compatible with
/// every type.
fn type_name_of(value: &Value<'_>) -> Option<&'static str> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some("Boolean"),
        Value::Integer(_) => Some("Long"),
        Value::Number(_) => Some("Double"),
        Value::String(_) => Some("String"),
        Value::Array(_) => Some("Array"),
        Value::Object(_) => Some("Object"),
    }
}

/// The lower-cased form of a value that is compared with ids; `None` for a value that no id can
/// equal.
fn id_text(value: &QueryValue<'_>) -> Result<Option<String>, blittable::Corrupt> {
    let text = match value {
        QueryValue::Literal(Literal::String(text)) => lower_case(text).into_owned(),
        QueryValue::Parameter(Value::String(text)) => lower_case(&text.as_cow()?).into_owned(),
        QueryValue::Literal(_) | QueryValue::Parameter(_) => return Ok(None),
    };
    Ok(Some(text))
}
