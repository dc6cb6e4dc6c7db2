//! `group by`: the automatic index that such a query needs, and how the query names its fields.
//!
//! The entry of a group has the paths of its keys, `Count` and the paths of its sums as fields.

use indexing::{Aggregate, ArrayGroups, AutoFieldWays, AutoGrouping, GroupKey};
use rql::{
    Expression, FieldPath, Literal, MethodCall, PathStep, SelectItem, Selection, SourceKind,
};

use crate::error::QueryError;
use crate::parameters::{QueryContext, place_of};
use crate::projection::{ProjectedValue, field_value};

/// The name of a group's key when it has several fields and no alias.
const KEY: &str = "Key";

impl<'a> QueryContext<'a> {
    pub(crate) fn is_grouped(&self) -> bool {
        !self.query.group_by.is_empty()
    }

    /// Rejects a clause that is allowed in collection queries only.
    pub(crate) fn refuse_group_by_on_index(&self) -> Result<(), QueryError> {
        if self.is_grouped() && matches!(self.query.source.kind, SourceKind::Index(_)) {
            let message = "Can't use 'group by' when querying on an Index. 'group by' can be used \
                           only when querying on collections.";
            return Err(QueryError::Argument { message: message.to_owned() });
        }
        Ok(())
    }

    /// What the query groups by, and what it uses of each group in its order and its results.
    /// `ways` has the ways in which its conditions use a field.
    pub(crate) fn grouping(
        &self,
        ways: &dyn Fn(&str) -> AutoFieldWays,
    ) -> Result<AutoGrouping, QueryError> {
        let keys = self.query.group_by.iter().map(|item| {
            let key = self.group_key(&item.key)?;
            Ok(GroupKey { ways: ways(&key.path), ..key })
        });
        let keys = keys.collect::<Result<Vec<_>, QueryError>>()?;
        let mut aggregates = Vec::new();
        let ordered = self.query.order_by.iter().map(|item| &item.key);
        for call in ordered.filter_map(call_of) {
            aggregates.extend(self.aggregate(call)?);
        }
        if let Some(select) = &self.query.select
            && let Selection::Items(items) = &select.selection
        {
            for call in items.iter().filter_map(|SelectItem { value, .. }| call_of(value)) {
                aggregates.extend(self.selected_aggregate(call)?);
            }
        }
        aggregates.extend(self.group_script()?.into_iter().flat_map(|script| script.aggregates));
        // A field that is grouped by has one value in the whole group: it is its own sum.
        aggregates.retain(|aggregate| keys.iter().all(|key| key.path != aggregate.name()));
        Ok(AutoGrouping::new(keys, aggregates))
    }

    fn group_key(&self, key: &Expression) -> Result<GroupKey, QueryError> {
        let of = |path: String, is_quoted, arrays| {
            Ok(GroupKey { path, is_quoted, arrays, ways: AutoFieldWays::default() })
        };
        match key {
            Expression::Field(path) => {
                let is_quoted =
                    matches!(path.steps.as_slice(), [PathStep::Name { quoted: true, .. }]);
                let text = self.field_text(path)?;
                let arrays = match text.contains("[]") {
                    true => ArrayGroups::Elements,
                    false => ArrayGroups::Whole,
                };
                of(text, is_quoted, arrays)
            }
            Expression::Method(call) if call.is("array") => match call.arguments.first() {
                Some(Expression::Field(path)) => {
                    of(self.field_text(path)?, false, ArrayGroups::Content)
                }
                _ => Err(self.invalid("array() in GROUP BY expects a field")),
            },
            Expression::Method(call) if ["id", "count", "sum"].iter().any(|name| call.is(name)) => {
                Err(self.invalid(format!("Unsupported method '{}' in GROUP BY", call.name)))
            }
            Expression::Method(call) => Err(QueryError::Method {
                message: format!("Method '{}' is not supported.", call.name),
            }),
            Expression::Literal(Literal::String(text)) => {
                of(text.clone(), true, ArrayGroups::Whole)
            }
            Expression::Literal(Literal::Parameter(_)) => {
                Err(self.not_yet("a parameter in GROUP BY", None))
            }
            Expression::Literal(literal) => of(literal.to_string(), false, ArrayGroups::Whole),
            other => Err(self.not_yet("a condition in GROUP BY", place_of(other))),
        }
    }

    /// What `count()` and `sum(…)` mean; `None` for another method.
    pub(crate) fn aggregate(&self, call: &MethodCall) -> Result<Option<Aggregate>, QueryError> {
        if call.is("count") {
            return Ok(Some(Aggregate::Count));
        }
        if !call.is("sum") {
            return Ok(None);
        }
        match call.arguments.as_slice() {
            [Expression::Field(path)] => Ok(Some(Aggregate::Sum(self.field_text(path)?))),
            [_] => Err(self.invalid("sum() method expects a field as its argument")),
            arguments => Err(self.invalid(format!(
                "sum() method expects exactly one argument but got {}",
                arguments.len()
            ))),
        }
    }

    /// Like [`QueryContext::aggregate`], but a method other than `key()` is an error.
    fn selected_aggregate(&self, call: &MethodCall) -> Result<Option<Aggregate>, QueryError> {
        if call.is("id") {
            return Err(self.invalid("Cannot use id() method in a group by query"));
        }
        let aggregate = self.aggregate(call)?;
        let is_known = aggregate.is_some()
            || call.name == "key"
            || self.query.declarations.iter().any(|function| function.name == call.name);
        if is_known {
            return Ok(aggregate);
        }
        Err(self.invalid(format!(
            "Unknown aggregation method in SELECT clause of the group by query: '{}'",
            call.name
        )))
    }

    /// The field of the index that `count()` or `sum(…)` means in a condition or an order; `None`
    /// for another method, or without `group by`.
    pub(crate) fn aggregate_field(&self, call: &MethodCall) -> Result<Option<String>, QueryError> {
        if !self.is_grouped() {
            return Ok(None);
        }
        Ok(self.aggregate(call)?.map(|aggregate| aggregate.name().to_owned()))
    }

    /// The entries' name for the field that a condition or an order names: its path, or the target
    /// of the alias that the selection gave it.
    pub(crate) fn path_in_entries(&self, path: &FieldPath) -> Result<String, QueryError> {
        match self.named_by_selection(&path.text())? {
            Some(named) => Ok(named),
            None => self.field_text(path),
        }
    }

    /// The key or the aggregate that the selection returns under another name.
    fn named_by_selection(&self, name: &str) -> Result<Option<String>, QueryError> {
        let selection = self.query.select.as_ref().map(|select| &select.selection);
        let Some(Selection::Items(items)) = selection.filter(|_| self.is_grouped()) else {
            return Ok(None);
        };
        let item = items.iter().find(|item| item.alias.as_deref() == Some(name));
        match item.map(|item| &item.value) {
            Some(Expression::Field(path)) => self.field_text(path).map(Some),
            Some(Expression::Method(call)) if call.name == "key" => self.only_key(),
            Some(Expression::Method(call)) => self.aggregate_field(call),
            Some(_) | None => Ok(None),
        }
    }

    /// Rejects a field that is neither grouped by nor an aggregate of the groups.
    pub(crate) fn require_field_of_groups(&self, field: &str) -> Result<(), QueryError> {
        if !self.is_grouped() {
            return Ok(());
        }
        let grouping = self.grouping(&|_| AutoFieldWays::default())?;
        let is_key = grouping.keys().iter().any(|key| key.path == field);
        if is_key || grouping.aggregates().iter().any(|aggregate| aggregate.name() == field) {
            return Ok(());
        }
        Err(self.invalid(format!(
            "Field '{field}' is neither an aggregation operation nor part of the group by key"
        )))
    }

    /// The value of a method in the selection of groups, and its name.
    pub(crate) fn selected_of_group(
        &self,
        call: &MethodCall,
    ) -> Result<Option<(String, ProjectedValue)>, QueryError> {
        if !self.is_grouped() {
            return Ok(None);
        }
        if let Some(aggregate) = self.selected_aggregate(call)? {
            let name = aggregate.name().to_owned();
            return Ok(Some((name.clone(), field_value(&name))));
        }
        let keys = self.key_paths()?;
        Ok(Some(match keys.as_slice() {
            [only] => (only.clone(), field_value(only)),
            _ => (KEY.to_owned(), ProjectedValue::GroupKey(keys)),
        }))
    }

    /// The key, when the query groups by exactly one.
    fn only_key(&self) -> Result<Option<String>, QueryError> {
        Ok(<[String; 1]>::try_from(self.key_paths()?).ok().map(|[only]| only))
    }

    /// The paths of the keys, in the order of the query.
    pub(crate) fn key_paths(&self) -> Result<Vec<String>, QueryError> {
        let keys = self.query.group_by.iter().map(|item| Ok(self.group_key(&item.key)?.path));
        let mut keys = keys.collect::<Result<Vec<_>, QueryError>>()?;
        keys.dedup();
        Ok(keys)
    }
}

fn call_of(value: &Expression) -> Option<&MethodCall> {
    match value {
        Expression::Method(call) => Some(call),
        _ => None,
    }
}
