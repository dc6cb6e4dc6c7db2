//! Text to syntax tree.
//!
//! Invariant: total. Any text yields a tree or a [`crate::DefinitionError`], never a panic.

pub(crate) mod ast;
pub(crate) mod lexer;
mod literal;
pub(crate) mod parser;
pub(crate) mod span;
