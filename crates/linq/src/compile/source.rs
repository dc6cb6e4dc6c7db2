//! What a definition reads: documents, time series or counters, and of which collections.

use crate::compile::{Compiled, Compiler, Role};
use crate::definition_error::DefinitionErrorKind;
use crate::syntax::ast::{Expr, ExprKind};

/// What a map is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Documents.
    Documents,
    /// Segments of time series.
    TimeSeries,
    /// Counters.
    Counters,
}

/// What a map reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is applied to.
    pub kind: SourceKind,
    /// The collections, as written; empty means all. Case does not matter in them.
    pub collections: Vec<String>,
    /// The name of the time series or counter; `None` means all. Case-insensitive.
    pub name: Option<String>,
}

impl Compiler<'_> {
    /// The source that `expr` names, when it names one.
    pub(super) fn source_of(&self, expr: &Expr) -> Compiled<Option<Source>> {
        let Some((root, steps)) = steps_of(expr) else { return Ok(None) };
        let kind = match (root, self.role) {
            ("docs", Role::Map) => SourceKind::Documents,
            (name, Role::Map) if name.eq_ignore_ascii_case("timeSeries") => SourceKind::TimeSeries,
            (name, Role::Map) if name.eq_ignore_ascii_case("counters") => SourceKind::Counters,
            ("results", Role::Reduce) => {
                let is_bare = steps.is_empty();
                return Ok(is_bare.then(|| source(SourceKind::Documents, Vec::new(), None)));
            }
            _ => return Ok(None),
        };
        let steps_max = if kind == SourceKind::Documents { 1 } else { 2 };
        if steps_max < steps.len() {
            let message = "a source has no parts beyond its collection and name";
            return Err(self.error(DefinitionErrorKind::NoSource, message, expr.span));
        }
        let mut steps = steps.into_iter();
        let collections = steps.next().into_iter().collect();
        Ok(Some(source(kind, collections, steps.next())))
    }

    /// The collections of `docs.WhereEntityIs("A", "B")`.
    pub(super) fn entity_collections(
        &self,
        target: &Expr,
        arguments: &[Expr],
    ) -> Compiled<Option<Source>> {
        let ExprKind::Member { target: root, name, .. } = &target.kind else { return Ok(None) };
        if name != "WhereEntityIs" || root.as_name() != Some("docs") || self.role == Role::Reduce {
            return Ok(None);
        }
        let items = match arguments {
            [Expr { kind: ExprKind::NewArray { element: Some(_), items, .. }, .. }] => items,
            items => items,
        };
        let collections = items
            .iter()
            .map(|item| match &item.kind {
                ExprKind::String(name) => Ok(name.clone()),
                _ => {
                    Err(self.not_supported("a collection that is not a string literal", item.span))
                }
            })
            .collect::<Compiled<Vec<_>>>()?;
        if collections.is_empty() {
            let message = "'WhereEntityIs' needs the name of a collection";
            return Err(self.error(DefinitionErrorKind::NoSource, message, target.span));
        }
        Ok(Some(source(SourceKind::Documents, collections, None)))
    }
}

fn source(kind: SourceKind, collections: Vec<String>, name: Option<String>) -> Source {
    Source { kind, collections, name }
}

/// The root and the names after it: `docs.A`, `docs["A"]`, `timeSeries.A["B"]`.
fn steps_of(expr: &Expr) -> Option<(&str, Vec<String>)> {
    match &expr.kind {
        ExprKind::Name { name, .. } => Some((name, Vec::new())),
        ExprKind::Member { target, name, .. } => {
            let (root, mut steps) = steps_of(target)?;
            steps.push(name.clone());
            Some((root, steps))
        }
        ExprKind::Index { target, arguments } => {
            let [Expr { kind: ExprKind::String(name), .. }] = arguments.as_slice() else {
                return None;
            };
            let (root, mut steps) = steps_of(target)?;
            steps.push(name.clone());
            Some((root, steps))
        }
        _ => None,
    }
}
