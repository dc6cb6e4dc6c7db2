//! Conditions as index queries.
//!
//! The meaning of every comparison was measured: a long compares with values truncated to integers,
//! a double with values as they are, a string with strings, a date with timestamps; `!=` and `not`
//! select every entry that the positive condition does not, including those without the field.

use std::{mem::discriminant, ops::Bound};

use indexing::time_field_name;
use rql::{Comparison, Expression, Literal, MethodCall};
use search::{Query, TermRange, TermValue};

use crate::condition::is_id;
use crate::error::{QueryError, unknown_method};
use crate::exchange_value::{is_exchange, stands_on_the_left};
use crate::parameters::QueryContext;
use crate::search_words::words_query;
use crate::searched_fields::{ID_FIELD, MatchMode, SearchedField, SearchedFields};
use crate::sought_value::{Sought, in_the_case_of};

impl<'a> QueryContext<'a> {
    /// The index query that selects what the condition of the query selects.
    pub(crate) fn index_condition(&self, fields: &dyn SearchedFields) -> Result<Query, QueryError> {
        match &self.query.condition {
            None => Ok(Query::All),
            Some(condition) => {
                Conditions { context: self, fields }.query(condition, MatchMode::Default)
            }
        }
    }
}

/// Methods of conditions, for suggestions.
const METHODS: [&str; 20] = [
    "id",
    "exact",
    "boost",
    "search",
    "lucene",
    "startsWith",
    "endsWith",
    "regex",
    "exists",
    "fuzzy",
    "proximity",
    "intersect",
    "moreLikeThis",
    "cmpxchg",
    "spatial.within",
    "spatial.contains",
    "spatial.disjoint",
    "spatial.intersects",
    "spatial.point",
    "spatial.wkt",
];

/// The conditions of a query while they are planned for an index.
pub(crate) struct Conditions<'s, 'a> {
    pub(crate) context: &'s QueryContext<'a>,
    pub(crate) fields: &'s dyn SearchedFields,
}

impl<'a> Conditions<'_, 'a> {
    /// The index query that selects what `condition` selects. The parser bounds the recursion.
    pub(crate) fn query(
        &self,
        condition: &'a Expression,
        mode: MatchMode,
    ) -> Result<Query, QueryError> {
        let all = |parts: &'a [Expression]| {
            parts.iter().map(|part| self.query(part, mode)).collect::<Result<Vec<_>, _>>()
        };
        match condition {
            Expression::And(parts) => self.all_of(parts, mode),
            Expression::Or(parts) => Ok(Query::Or(all(parts)?)),
            Expression::Not(inner) => Ok(self.query(inner, mode)?.not()),
            Expression::Literal(Literal::Bool(true)) => Ok(Query::All),
            Expression::Literal(_) => Ok(Query::None),
            Expression::Compare { left, comparison, right } => {
                let field = self.field_of(left, mode)?;
                let value = self.context.compared(*comparison, right)?;
                self.compare(&field, *comparison, value, mode)
            }
            Expression::Between { value, low, high } => {
                let field = self.field_of(value, mode)?;
                let (low, high) = (self.context.sought(low)?, self.context.sought(high)?);
                self.between(&field, low, high, mode)
            }
            Expression::In { value, list, all } => {
                let field = self.field_of(value, mode)?;
                let values = self.context.sought_list(list, &format!("<Field>: {value}"))?;
                Ok(any_or_all(&field, &values, *all, mode))
            }
            Expression::Method(call) => self.method(call, mode),
            Expression::Field(_) | Expression::TimeSeries(_) => {
                Err(self.context.invalid("Unable to understand query"))
            }
        }
    }

    /// Two leading bounds of one field form one range: where a document has several values, one of
    /// them must lie inside.
    fn all_of(&self, parts: &'a [Expression], mode: MatchMode) -> Result<Query, QueryError> {
        let (range, rest) = match parts {
            [first, second, rest @ ..] => match self.one_range(first, second, mode)? {
                Some(range) => (Some(range), rest),
                None => (None, parts),
            },
            _ => (None, parts),
        };
        let mut queries: Vec<Query> = range.into_iter().collect();
        for part in rest {
            queries.push(self.query(part, mode)?);
        }
        Ok(match queries.len() {
            1 => queries.remove(0),
            _ => Query::And(queries),
        })
    }

    /// The range between a lower and an upper bound of the same field, in either order; `None` for
    /// anything else, or if the bounds are of two types.
    fn one_range(
        &self,
        first: &'a Expression,
        second: &'a Expression,
        mode: MatchMode,
    ) -> Result<Option<Query>, QueryError> {
        let (Some(first), Some(second)) = (bound_in(first), bound_in(second)) else {
            return Ok(None);
        };
        if first.is_lower == second.is_lower || first.value != second.value {
            return Ok(None);
        }
        let (low, high) = if first.is_lower { (first, second) } else { (second, first) };
        let from = self.context.compared(Comparison::Greater, low.bound)?;
        let to = self.context.compared(Comparison::Less, high.bound)?;
        let is_of_one_type = discriminant(&from) == discriminant(&to)
            && from.ticks().is_some() == to.ticks().is_some();
        if !is_of_one_type {
            return Ok(None);
        }
        let field = self.field_of(low.value, mode)?;
        let (from, to) = ((from, low.is_included), (to, high.is_included));
        self.range(&field, Some(from), Some(to), mode).map(Some)
    }

    /// The field on the left side of a comparison.
    fn field_of(&self, value: &Expression, mode: MatchMode) -> Result<SearchedField, QueryError> {
        match value {
            Expression::Field(path) => self.context.searched_field(self.fields, path, mode),
            id if is_id(id) => self.context.id_field(self.fields),
            Expression::Method(_) if is_exchange(value) => Err(stands_on_the_left()),
            Expression::Method(call) => match self.context.aggregate_field(call)? {
                Some(path) => self.context.searched_entry_field(self.fields, path, mode),
                None => Err(self.unknown_method(call)),
            },
            other => Err(self.context.invalid(format!("Expected a field, but got: {other}"))),
        }
    }

    fn unknown_method(&self, call: &MethodCall) -> QueryError {
        unknown_method(&call.name, &METHODS)
    }

    fn compare(
        &self,
        field: &SearchedField,
        comparison: Comparison,
        value: Sought,
        mode: MatchMode,
    ) -> Result<Query, QueryError> {
        match comparison {
            Comparison::Equal => Ok(self.equal(field, &value, mode)),
            Comparison::NotEqual => Ok(self.equal(field, &value, mode).not()),
            Comparison::Less => self.range(field, None, Some((value, false)), mode),
            Comparison::LessOrEqual => self.range(field, None, Some((value, true)), mode),
            Comparison::Greater => self.range(field, Some((value, false)), None, mode),
            Comparison::GreaterOrEqual => self.range(field, Some((value, true)), None, mode),
        }
    }

    fn equal(&self, field: &SearchedField, value: &Sought, mode: MatchMode) -> Query {
        if let Some((time_field, ticks)) = self.moment(field, value) {
            return Query::term(&time_field, TermValue::Long(ticks));
        }
        let term = match value {
            Sought::Long(value) => TermValue::Long(*value),
            Sought::Double { value, .. } => TermValue::Double(*value),
            Sought::Null | Sought::Bool(_) | Sought::Text(_) | Sought::Object(_) => {
                value.text_term(field, mode)
            }
        };
        Query::term(&field.name, term)
    }

    /// The date field and the timestamp, when the value is a date and the field has dates.
    fn moment(&self, field: &SearchedField, value: &Sought) -> Option<(String, i64)> {
        let ticks = value.ticks()?;
        let time_field = time_field_name(&field.name);
        self.fields.options(&time_field).map(|_| (time_field, ticks))
    }

    fn between(
        &self,
        field: &SearchedField,
        low: Sought,
        high: Sought,
        mode: MatchMode,
    ) -> Result<Query, QueryError> {
        self.range(field, Some((low, true)), Some((high, true)), mode)
    }

    /// Values from `low` to `high`, each with whether it is included.
    fn range(
        &self,
        field: &SearchedField,
        low: Option<(Sought, bool)>,
        high: Option<(Sought, bool)>,
        mode: MatchMode,
    ) -> Result<Query, QueryError> {
        let ends = || low.iter().chain(&high).map(|(value, _)| value);
        if ends().any(|value| *value == Sought::Null) {
            let message =
                "null is neither less nor greater than any value; compare it with = or !=";
            return Err(self.context.invalid(message));
        }
        if ends().all(|value| matches!(value, Sought::Long(_))) {
            let bound = |end: &Option<(Sought, bool)>| bound_of(end, long_of);
            let range = TermRange::Long(bound(&low), bound(&high));
            return Ok(Query::range(&field.name, range));
        }
        if ends().all(|value| matches!(value, Sought::Long(_) | Sought::Double { .. })) {
            let bound = |end: &Option<(Sought, bool)>| bound_of(end, double_of);
            let range = TermRange::Double(bound(&low), bound(&high));
            return Ok(Query::range(&field.name, range));
        }
        let is_bool = |value: &Sought| matches!(value, Sought::Bool(_));
        if ends().any(|value| matches!(value, Sought::Long(_) | Sought::Double { .. }))
            || ends().any(is_bool) && !ends().all(is_bool)
        {
            return Err(self.context.mixed_types(&format!("<Field>: {}", field.name)));
        }
        let time_field = time_field_name(&field.name);
        if ends().all(|value| value.ticks().is_some()) && self.fields.options(&time_field).is_some()
        {
            let bound = |end: &Option<(Sought, bool)>| bound_of(end, Sought::ticks);
            return Ok(Query::range(&time_field, TermRange::Long(bound(&low), bound(&high))));
        }
        let bound =
            |end: &Option<(Sought, bool)>| bound_of(end, |value| value.term_text(field, mode));
        Ok(Query::range(&field.name, TermRange::Text(bound(&low), bound(&high))))
    }

    fn method(&self, call: &'a MethodCall, mode: MatchMode) -> Result<Query, QueryError> {
        match call.name.to_ascii_lowercase().as_str() {
            "exact" => self.query(self.condition_argument(call, 0)?, MatchMode::Exact),
            "boost" => self.boost(call, mode),
            "search" => self.search(call),
            "startswith" => {
                let (field, text) = self.field_and_text(call, mode)?;
                Ok(Query::Prefix { text: in_the_case_of(&field, mode, &text), field: field.name })
            }
            "endswith" => {
                let (field, text) = self.field_and_text(call, mode)?;
                Ok(Query::Suffix { text: in_the_case_of(&field, mode, &text), field: field.name })
            }
            "regex" => {
                let (field, pattern) = self.field_and_text(call, mode)?;
                Ok(Query::Regex { field: field.name, pattern })
            }
            "exists" => Ok(Query::exists(&self.field_argument(call, mode)?.name)),
            "fuzzy" => self.fuzzy(call, mode),
            "proximity" => self.proximity(call),
            "intersect" => self.intersect(call, mode),
            "lucene" => self.lucene(call),
            "morelikethis" => self.more_like_this(call),
            "cmpxchg" => {
                let message = "A 'where' clause cannot contain just a 'cmpxchg' method";
                Err(self.context.invalid(message))
            }
            name if name.starts_with("spatial.") => {
                self.context.spatial_condition(self.fields, call)
            }
            _ => Err(self.unknown_method(call)),
        }
    }

    fn boost(&self, call: &'a MethodCall, mode: MatchMode) -> Result<Query, QueryError> {
        let [condition, factor] = call.arguments.as_slice() else {
            let count = call.arguments.len();
            return Err(self.context.invalid(format!(
                "Boost(expression, boostVal) requires two arguments, but was called with {count}"
            )));
        };
        let factor = self.factor(factor, "boost")?;
        Ok(Query::Boost(Box::new(self.query(condition, mode)?), factor))
    }

    fn factor(&self, value: &'a Expression, what: &str) -> Result<f32, QueryError> {
        match self.context.sought(value)? {
            Sought::Long(value) => Ok(value as f32),
            Sought::Double { value, .. } => Ok(value as f32),
            other => {
                let kind = other.type_name();
                Err(self.context.invalid(format!("Unable to find {what} value: {value} ({kind})")))
            }
        }
    }

    fn search(&self, call: &'a MethodCall) -> Result<Query, QueryError> {
        let field = match call.arguments.first() {
            Some(id) if is_id(id) => return Ok(Query::None),
            _ => self.field_argument(call, MatchMode::Words)?,
        };
        let text = self.text_argument(call)?;
        let must_all = match call.arguments.get(2) {
            None => false,
            Some(Expression::Field(path)) => path.text().eq_ignore_ascii_case("and"),
            Some(other) => {
                return Err(self.context.invalid(format!(
                    "Method search() expects 'and' or 'or' as its third argument, but got: {other}"
                )));
            }
        };
        Ok(words_query(&field, &text, must_all))
    }

    fn fuzzy(&self, call: &'a MethodCall, mode: MatchMode) -> Result<Query, QueryError> {
        let [condition, similarity] = call.arguments.as_slice() else {
            return Err(self.context.invalid("Method fuzzy() expects to have two arguments"));
        };
        let similarity = self.factor(similarity, "fuzzy")?;
        if !(0.0..=1.0).contains(&similarity) {
            let message = "Fuzzy distance must be between 0.0 and 1.0";
            return Err(QueryError::Argument { message: message.to_owned() });
        }
        let Expression::Compare { left, comparison: Comparison::Equal, right } = condition else {
            let message = "Method fuzzy() expects a comparison of a field with a text by =";
            return Err(self.context.invalid(message));
        };
        let field = self.field_of(left, mode)?;
        match self.context.sought(right)? {
            Sought::Text(text) => {
                let text = in_the_case_of(&field, mode, &text);
                Ok(Query::Fuzzy { field: field.name, text, similarity })
            }
            other => Err(self.wrong_type(call, &other)),
        }
    }

    fn proximity(&self, call: &'a MethodCall) -> Result<Query, QueryError> {
        let [Expression::Method(search), distance] = call.arguments.as_slice() else {
            let message =
                "Method proximity() expects that first argument will be a method expression";
            return Err(self.context.invalid(message));
        };
        let Sought::Long(slop) = self.context.sought(distance)? else {
            return Err(self.context.invalid("Proximity distance must be a whole number"));
        };
        let slop = u32::try_from(slop).map_err(|_| {
            self.context.invalid("Proximity distance must be a number greater than 0")
        })?;
        let field = self.field_argument(search, MatchMode::Words)?;
        let text = self.text_argument(search)?;
        if text.split_whitespace().any(|word| word.starts_with('*') || word.ends_with('*')) {
            let message =
                "Proximity search works only on simple string terms, not wildcard or prefix ones";
            return Err(self.context.invalid(message));
        }
        let words = crate::search_words::phrase_of(&field, &text);
        if words.len() < 2 {
            let message = "Proximity search works only on multiple search terms";
            return Err(self.context.invalid(message));
        }
        Ok(Query::Phrase { field: field.name, words, slop })
    }

    fn intersect(&self, call: &'a MethodCall, mode: MatchMode) -> Result<Query, QueryError> {
        if call.arguments.len() < 2 {
            let message = "The valid intersect query must have multiple intersect clauses.";
            return Err(self.context.invalid(message));
        }
        let parts = call.arguments.iter().map(|part| self.query(part, mode));
        let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
        if !self.fields.has_several_entries() {
            return Ok(Query::And(parts));
        }
        // Entries of one document may each match another part; those that match the first are
        // returned.
        let mut in_all = self.fields.documents_of(&parts[0])?;
        for part in &parts[1..] {
            let documents = self.fields.documents_of(part)?;
            in_all.retain(|document| documents.contains(document));
        }
        let values = in_all.into_iter().map(TermValue::Text).collect();
        let of_these = Query::AnyOf { field: ID_FIELD.to_owned(), values };
        Ok(Query::And(vec![parts.swap_remove(0), of_these]))
    }

    fn condition_argument(
        &self,
        call: &'a MethodCall,
        at: usize,
    ) -> Result<&'a Expression, QueryError> {
        call.arguments.get(at).ok_or_else(|| self.context.invalid("Unable to understand query"))
    }

    /// The first argument: a field, or a string that names one.
    pub(crate) fn field_argument(
        &self,
        call: &MethodCall,
        mode: MatchMode,
    ) -> Result<SearchedField, QueryError> {
        match call.arguments.first() {
            Some(Expression::Field(path)) => self.context.searched_field(self.fields, path, mode),
            Some(id) if is_id(id) => self.context.id_field(self.fields),
            Some(Expression::Literal(Literal::String(name))) => {
                let step = rql::PathStep::Name { name: name.clone(), quoted: true };
                let path = rql::FieldPath { steps: vec![step], offset: call.offset };
                self.context.searched_field(self.fields, &path, mode)
            }
            Some(other) => Err(self.context.invalid(format!(
                "Method {}() expects a field name as its first argument but got: {other}",
                call.name
            ))),
            None => Err(self.context.invalid(format!(
                "Method {}() expects a field name as its first argument but no arguments were \
                 passed",
                call.name
            ))),
        }
    }

    fn field_and_text(
        &self,
        call: &'a MethodCall,
        mode: MatchMode,
    ) -> Result<(SearchedField, String), QueryError> {
        Ok((self.field_argument(call, mode)?, self.text_argument(call)?))
    }

    /// The second argument, which must be a string.
    pub(crate) fn text_argument(&self, call: &'a MethodCall) -> Result<String, QueryError> {
        let Some(value) = call.arguments.get(1) else {
            let message = format!("Method {}() expects second argument to be provided", call.name);
            return Err(self.context.invalid(message));
        };
        match self.context.sought(value)? {
            Sought::Text(text) => Ok(text),
            other => Err(self.wrong_type(call, &other)),
        }
    }

    fn wrong_type(&self, call: &MethodCall, value: &Sought) -> QueryError {
        self.context.invalid(format!(
            "Method {}() expects to get an argument of type String while it got {}",
            call.name,
            value.type_name()
        ))
    }
}

/// `F < value` and its like.
struct BoundOf<'a> {
    value: &'a Expression,
    bound: &'a Expression,
    is_lower: bool,
    is_included: bool,
}

fn bound_in(condition: &Expression) -> Option<BoundOf<'_>> {
    let Expression::Compare { left: value, comparison, right: bound } = condition else {
        return None;
    };
    let (is_lower, is_included) = match comparison {
        Comparison::Greater => (true, false),
        Comparison::GreaterOrEqual => (true, true),
        Comparison::Less => (false, false),
        Comparison::LessOrEqual => (false, true),
        Comparison::Equal | Comparison::NotEqual => return None,
    };
    Some(BoundOf { value, bound, is_lower, is_included })
}

fn any_or_all(field: &SearchedField, values: &[Sought], all: bool, mode: MatchMode) -> Query {
    let values = values.iter().map(|value| value.text_term(field, mode)).collect();
    let field = field.name.clone();
    if all { Query::AllOf { field, values } } else { Query::AnyOf { field, values } }
}

fn bound_of<T>(end: &Option<(Sought, bool)>, value: impl Fn(&Sought) -> Option<T>) -> Bound<T> {
    match end.as_ref().and_then(|(end, is_included)| Some((value(end)?, is_included))) {
        None => Bound::Unbounded,
        Some((value, true)) => Bound::Included(value),
        Some((value, false)) => Bound::Excluded(value),
    }
}

fn long_of(value: &Sought) -> Option<i64> {
    match value {
        Sought::Long(value) => Some(*value),
        Sought::Null
        | Sought::Bool(_)
        | Sought::Double { .. }
        | Sought::Text(_)
        | Sought::Object(_) => None,
    }
}

fn double_of(value: &Sought) -> Option<f64> {
    match value {
        Sought::Long(value) => Some(*value as f64),
        Sought::Double { value, .. } => Some(*value),
        Sought::Null | Sought::Bool(_) | Sought::Text(_) | Sought::Object(_) => None,
    }
}
