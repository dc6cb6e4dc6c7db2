//! Syntax tree to plan: names are resolved, what is outside the language is refused, and queries in
//! either syntax become the same stages.
//!
//! Nothing here looks at a document. Invariant: whatever this accepts, `run` can evaluate; errors
//! that depend on values occur there, for single documents.

pub(crate) mod call;
pub(crate) mod constant;
mod construct;
mod expression;
pub(crate) mod names;
pub(crate) mod plan;
pub(crate) mod references;
pub(crate) mod rows;
pub(crate) mod scope;
pub(crate) mod source;
mod static_member;

use crate::compile::plan::{Known, Node, Op, Slot};
use crate::compile::scope::{Binding, Scope};
use crate::definition_error::{DefinitionError, DefinitionErrorKind};
use crate::limits::VARIABLES_MAX;
use crate::syntax::span::Span;

type Compiled<T> = Result<T, DefinitionError>;

/// What the definition is, which decides what it may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Map,
    Reduce,
}

/// The state of compiling one definition.
pub(crate) struct Compiler<'t> {
    pub(crate) text: &'t str,
    pub(crate) role: Role,
    scope: Scope,
    slots: Slot,
    /// The value before the innermost `?.`.
    receivers: Vec<(Slot, Known)>,
    /// How many lambdas and nested queries enclose this place.
    nesting: u32,
}

impl<'t> Compiler<'t> {
    pub(crate) fn new(text: &'t str, role: Role) -> Compiler<'t> {
        Compiler {
            text,
            role,
            scope: Scope::default(),
            slots: 0,
            receivers: Vec::new(),
            nesting: 0,
        }
    }

    /// How many slots an evaluation needs.
    pub(crate) fn slot_count(&self) -> usize {
        self.slots as usize
    }

    pub(crate) fn new_slot(&mut self, span: Span) -> Compiled<Slot> {
        if VARIABLES_MAX <= self.slots {
            let message = format!("a definition has at most {VARIABLES_MAX} variables");
            return Err(self.error(DefinitionErrorKind::TooLarge, message, span));
        }
        self.slots += 1;
        Ok(self.slots - 1)
    }

    pub(crate) fn error(
        &self,
        kind: DefinitionErrorKind,
        message: impl Into<String>,
        span: Span,
    ) -> DefinitionError {
        DefinitionError::new(kind, message, span, self.text)
    }

    pub(crate) fn not_supported(
        &self,
        what: impl std::fmt::Display,
        span: Span,
    ) -> DefinitionError {
        let message = format!("{what} is not supported in an index");
        self.error(DefinitionErrorKind::NotSupported, message, span)
    }

    /// A node that reads the value of `binding`, building the anonymous object where it must exist.
    pub(crate) fn read(&self, binding: &Binding, span: Span) -> Node {
        match binding {
            Binding::Slot { slot, known } => Node { op: Op::Slot(*slot), span, known: *known },
            Binding::Members(members) => {
                let names = members.iter().map(|(name, _)| name.as_str().into()).collect();
                let values = members.iter().map(|(_, member)| self.read(member, span)).collect();
                Node { op: Op::Record { names, values }, span, known: Known::Other }
            }
        }
    }
}
