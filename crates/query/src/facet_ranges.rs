//! The ranges of a facet: what they select, and how the response names them.

use std::ops::Bound;

use blittable::Value;
use rql::{Comparison, Expression, Literal};
use search::TermRange;

use crate::error::QueryError;
use crate::facet_plan::{FacetBy, PlannedRange};
use crate::index_condition::Conditions;
use crate::parameters::{QueryContext, QueryValue, shown};
use crate::searched_fields::{MatchMode, SearchedFields};
use crate::sought_value::Sought;

/// Plans ranges. They select what the same conditions select in `where`, except for whole numbers.
pub(crate) struct RangePlanner<'s, 'a> {
    pub(crate) context: &'s QueryContext<'a>,
    pub(crate) fields: &'s dyn SearchedFields,
}

impl<'a> RangePlanner<'_, 'a> {
    /// The field of the ranges, and what they select.
    pub(crate) fn plan(&self, ranges: &[&'a Expression]) -> Result<(String, FacetBy), QueryError> {
        let mut field: Option<String> = None;
        let mut planned = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut text = String::new();
            self.describe(range, &mut field, &mut text)?;
            let is_known = field.as_ref().is_some_and(|name| self.fields.options(name).is_some());
            let query = match is_known {
                true => self.query(range)?,
                false => search::Query::None,
            };
            planned.push(PlannedRange { text, query });
        }
        Ok((field.unwrap_or_default(), FacetBy::Ranges(planned)))
    }

    /// What a range selects. Unlike in `where`, comparison with a whole number does not truncate
    /// values. The parser bounds the recursion.
    fn query(&self, range: &'a Expression) -> Result<search::Query, QueryError> {
        let (value, low, high) = match range {
            Expression::And(parts) => {
                let parts = parts.iter().map(|part| self.query(part));
                return Ok(search::Query::And(parts.collect::<Result<_, _>>()?));
            }
            Expression::Compare { left, comparison, right } => {
                let end = self.number(right)?;
                match comparison {
                    Comparison::Less => (left, Some(Bound::Unbounded), end.map(Bound::Excluded)),
                    Comparison::LessOrEqual => {
                        (left, Some(Bound::Unbounded), end.map(Bound::Included))
                    }
                    Comparison::Greater => (left, end.map(Bound::Excluded), Some(Bound::Unbounded)),
                    Comparison::GreaterOrEqual => {
                        (left, end.map(Bound::Included), Some(Bound::Unbounded))
                    }
                    Comparison::Equal | Comparison::NotEqual => (left, None, None),
                }
            }
            Expression::Between { value, low, high } => {
                let (low, high) = (self.number(low)?, self.number(high)?);
                (value, low.map(Bound::Included), high.map(Bound::Included))
            }
            other => return Err(self.context.unexpected_in_facet(other)),
        };
        if let (Expression::Field(path), Some(low), Some(high)) = (value.as_ref(), low, high) {
            let field = self.context.field_text(path)?;
            return Ok(search::Query::range(&field, TermRange::Double(low, high)));
        }
        Conditions { context: self.context, fields: self.fields }.query(range, MatchMode::Default)
    }

    fn number(&self, value: &'a Expression) -> Result<Option<f64>, QueryError> {
        Ok(match self.context.sought(value)? {
            Sought::Long(number) => Some(number as f64),
            Sought::Double { value, .. } => Some(value),
            Sought::Null | Sought::Bool(_) | Sought::Text(_) | Sought::Object(_) => None,
        })
    }

    /// Formats a range as the response repeats it. The parser bounds the recursion.
    fn describe(
        &self,
        range: &'a Expression,
        field: &mut Option<String>,
        out: &mut String,
    ) -> Result<(), QueryError> {
        match range {
            Expression::And(parts) => {
                for (number, part) in parts.iter().enumerate() {
                    if 0 < number {
                        out.push_str(" and ");
                    }
                    self.describe(part, field, out)?;
                }
                Ok(())
            }
            Expression::Compare { left, comparison, right } => {
                let sign =
                    sign_of(*comparison).ok_or_else(|| self.context.unexpected_in_facet(range))?;
                let name = self.range_field(left, field)?;
                out.push_str(&format!("{name} {sign} {}", self.value_text(right)?));
                Ok(())
            }
            Expression::Between { value, low, high } => {
                let name = self.range_field(value, field)?;
                let (low, high) = (self.value_text(low)?, self.value_text(high)?);
                out.push_str(&format!("{name} between {low} and {high}"));
                Ok(())
            }
            other => Err(self.context.unexpected_in_facet(other)),
        }
    }

    /// All ranges of a facet must be on one field.
    fn range_field(
        &self,
        value: &Expression,
        field: &mut Option<String>,
    ) -> Result<String, QueryError> {
        let Expression::Field(path) = value else {
            return Err(self.context.unexpected_in_facet(value));
        };
        let name = self.context.field_text(path)?;
        let first = field.get_or_insert_with(|| name.clone());
        if *first != name {
            return Err(self.context.invalid(format!(
                "The ranges of a facet must be of one field, but there are '{first}' and '{name}'"
            )));
        }
        Ok(name)
    }

    fn value_text(&self, value: &'a Expression) -> Result<String, QueryError> {
        let Expression::Literal(literal) = value else {
            return Err(self.context.unexpected_in_facet(value));
        };
        Ok(match self.context.resolve(literal)? {
            QueryValue::Literal(Literal::String(text)) => text.clone(),
            QueryValue::Literal(other) => other.to_string(),
            QueryValue::Parameter(Value::String(text)) => text.as_cow()?.into_owned(),
            QueryValue::Parameter(other) => shown(&other),
        })
    }
}

impl QueryContext<'_> {
    /// The error for an invalid argument of `facet()`.
    pub(crate) fn unexpected_in_facet(&self, argument: &Expression) -> QueryError {
        self.invalid(format!(
            "'{argument}' is not a valid argument of facet(). It takes a field, or ranges of one field by <, \
             <=, >, >= and between, then sum(), avg(), min(), max() of fields, and options"
        ))
    }
}

fn sign_of(comparison: Comparison) -> Option<&'static str> {
    match comparison {
        Comparison::Less => Some("<"),
        Comparison::LessOrEqual => Some("<="),
        Comparison::Greater => Some(">"),
        Comparison::GreaterOrEqual => Some(">="),
        Comparison::Equal | Comparison::NotEqual => None,
    }
}
