//! The query language: text in, abstract syntax tree out, and back to text again.
//!
//! This crate knows the *shape* of a query and nothing about documents or indexes: whether a
//! method exists, a field is indexed or a parameter was sent is decided by `query`.
//!
//! Invariants: parsing is total (any text yields a tree or an error, never a panic), bounded by
//! [`QUERY_BYTES_MAX`] and [`NESTING_DEPTH_MAX`], and printing a tree yields a text that parses to
//! an equal tree. [`lucene`] is the language inside `lucene(…)`, with the same guarantees.
#![forbid(unsafe_code)]

mod ast;
mod error;
mod keyword;
mod lexer;
pub mod lucene;
mod parser;
mod position;
mod printer;
pub mod script_text;
mod time_series;

pub use ast::{
    Comparison, Declaration, DeclarationBody, Expression, FieldPath, GroupByItem, Literal,
    LoadItem, MethodCall, Number, NumberValue, OrderByItem, Ordering, PathStep, Query, QueryText,
    Select, SelectItem, Selection, Source, SourceKind,
};
pub use error::{Found, ParseError, ParseErrorKind};
pub use keyword::nearest;
pub use model::TextPosition as Position;
pub use parser::{NESTING_DEPTH_MAX, QUERY_BYTES_MAX, parse, parse_condition, parse_update};
pub use position::Offset;
pub use time_series::{TimeSeriesGrouping, TimeSeriesQuery, TimeSeriesRange, TimeSeriesSource};
