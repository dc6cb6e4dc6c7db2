//! What a query returns: rows, or what `facet()` or `suggest()` in its `select` request.

use rql::{Expression, MethodCall, Query, SelectItem, Selection};

use crate::error::QueryError;
use crate::parameters::QueryContext;

/// What a query returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// Documents or projections of them.
    Rows,
    /// The distribution of the selected entries over terms and ranges.
    Facets,
    /// Terms similar to the given ones.
    Suggestions,
}

impl ResultKind {
    /// The method that requests it, and the name of such a query in error messages.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            ResultKind::Rows => ("", ""),
            ResultKind::Facets => ("facet", "facet query"),
            ResultKind::Suggestions => ("suggest", "suggestion query"),
        }
    }
}

/// Returns the kind of result of `query`.
pub fn result_kind(query: &Query) -> ResultKind {
    let kinds = [ResultKind::Facets, ResultKind::Suggestions];
    let asks_for =
        |kind: &ResultKind| items_of(query).iter().any(|item| call_of(item, *kind).is_some());
    kinds.into_iter().find(asks_for).unwrap_or(ResultKind::Rows)
}

fn items_of(query: &Query) -> &[SelectItem] {
    match query.select.as_ref().map(|select| &select.selection) {
        Some(Selection::Items(items)) => items,
        Some(Selection::Everything | Selection::Script(_)) | None => &[],
    }
}

fn call_of(item: &SelectItem, kind: ResultKind) -> Option<&MethodCall> {
    match &item.value {
        Expression::Method(call) if call.is(kind.names().0) => Some(call),
        _ => None,
    }
}

impl<'a> QueryContext<'a> {
    /// The calls in `select` of a query of that kind, each with its alias. Rejects what cannot be
    /// combined with them.
    pub(crate) fn calls_of(
        &self,
        kind: ResultKind,
    ) -> Result<Vec<(&'a MethodCall, Option<&'a str>)>, QueryError> {
        let (method, name) = kind.names();
        let query = self.query;
        if query.select.as_ref().is_some_and(|select| select.distinct) {
            return Err(self.invalid(format!("Cannot use SELECT DISTINCT in a {name}")));
        }
        if !query.group_by.is_empty() {
            return Err(self.invalid(format!("Cannot use GROUP BY in a {name}")));
        }
        if query.filter.is_some() {
            return Err(self.invalid(format!("A {name} does not support a filter clause")));
        }
        let call = |item: &'a SelectItem| match call_of(item, kind) {
            Some(call) => Ok((call, item.alias.as_deref())),
            None => Err(self.invalid(format!(
                "'{}' cannot be combined with {method}() in the SELECT clause of a {name}",
                item.value
            ))),
        };
        items_of(query).iter().map(call).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_shows_in_the_select_clause() {
        for (text, kind) in [
            ("from index 'I'", ResultKind::Rows),
            ("from index 'I' select Name, id()", ResultKind::Rows),
            ("from index 'I' as i select { a: facet(i.Name) }", ResultKind::Rows),
            ("from index 'I' select FACET(Name)", ResultKind::Facets),
            ("from index 'I' select Name, facet(Name)", ResultKind::Facets),
            ("from index 'I' select suggest(Name, 'x')", ResultKind::Suggestions),
        ] {
            assert_eq!(result_kind(&rql::parse(text).unwrap()), kind, "{text}");
        }
    }

    #[test]
    fn nothing_else_is_selected_with_the_calls() {
        for (rest, message) in [
            ("select distinct facet(A)", "Cannot use SELECT DISTINCT in a facet query"),
            ("group by A select facet(A)", "Cannot use GROUP BY in a facet query"),
            ("filter A = 1 select suggest(A, 'x')", "A suggestion query does not support"),
            ("select facet(A), B", "'B' cannot be combined with facet()"),
            (
                "select suggest(A, 'x'), facet(A)",
                "'suggest(A, 'x')' cannot be combined with facet()",
            ),
        ] {
            let query = rql::parse(&format!("from index 'I' {rest}")).unwrap();
            let context = QueryContext::new(&query, None);
            let error = context.calls_of(result_kind(&query)).unwrap_err().to_string();
            assert!(error.starts_with(message), "{rest}: {error}");
        }
    }
}
