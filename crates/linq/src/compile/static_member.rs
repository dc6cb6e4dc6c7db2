//! Classes of .NET: which expression names one, and its constants.

use crate::compile::constant::constant_member;
use crate::compile::names::{StaticOption, is_class, is_namespace, is_option_type};
use crate::compile::plan::Node;
use crate::compile::{Compiled, Compiler};
use crate::definition_error::{DefinitionError, DefinitionErrorKind};
use crate::syntax::ast::{Expr, ExprKind};
use crate::syntax::span::Span;

impl Compiler<'_> {
    /// The short name of the class that `expr` names, with or without its namespace.
    pub(super) fn class_of(&self, expr: &Expr) -> Option<String> {
        let path = self.path_of(expr)?;
        let (namespace, short) = path.rsplit_once('.').unwrap_or(("", &path));
        let known_place = namespace.is_empty() || is_namespace(namespace);
        (known_place && is_class(short)).then(|| short.to_owned())
    }

    /// `A.B.C`, when it does not start with a variable.
    fn path_of(&self, expr: &Expr) -> Option<String> {
        match &expr.kind {
            ExprKind::Name { name, .. } if self.scope.find(name).is_none() => Some(name.clone()),
            ExprKind::Member { target, name, .. } => {
                Some(format!("{}.{name}", self.path_of(target)?))
            }
            _ => None,
        }
    }

    /// An argument such as `StringComparison.Ordinal`.
    pub(super) fn static_option(&self, expr: &Expr) -> Compiled<Option<StaticOption>> {
        match &expr.kind {
            ExprKind::Member { target, name, .. } => {
                let Some(class) = self.class_of(target) else { return Ok(None) };
                if !is_option_type(&class) {
                    return Ok(None);
                }
                match StaticOption::from_word(name) {
                    Some(option) => Ok(Some(option)),
                    None => Err(self.unknown_static(&class, name, expr.span)),
                }
            }
            // Options may be combined; the first one decides.
            ExprKind::Binary { left, right, .. } => {
                let left = self.static_option(left)?;
                Ok(if left.is_some() { self.static_option(right)?.and(left) } else { None })
            }
            _ => Ok(None),
        }
    }

    /// The constant `class.name`.
    pub(super) fn static_member(&self, class: &str, name: &str, span: Span) -> Compiled<Node> {
        self.refuse_chance(class, name, span)?;
        match constant_member(class, name) {
            Some(constant) => Ok(self.constant(constant, span)),
            None if is_option_type(class) => {
                Err(self.not_supported(format!("'{class}.{name}' outside of a call"), span))
            }
            None => Err(self.unknown_static(class, name, span)),
        }
    }

    /// Refuses members whose result changes from run to run.
    pub(super) fn refuse_chance(&self, class: &str, name: &str, span: Span) -> Compiled<()> {
        let by_chance = matches!(
            (class, name),
            ("DateTime" | "DateTimeOffset", "Now" | "UtcNow" | "Today")
                | ("Guid", "NewGuid" | "CreateVersion7")
                | ("Environment", _)
        );
        if !by_chance {
            return Ok(());
        }
        let message = format!(
            "'{class}.{name}' changes from run to run, so the same document would not always yield \
             the same entries"
        );
        Err(self.error(DefinitionErrorKind::NotDeterministic, message, span))
    }

    pub(super) fn unknown_static(&self, class: &str, name: &str, span: Span) -> DefinitionError {
        let message = format!("'{class}' has no '{name}' in an index");
        self.error(DefinitionErrorKind::UnknownMethod, message, span)
    }
}
