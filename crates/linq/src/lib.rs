//! The C# expressions in which clients send index maps and reduces: text in, a plan out, and the
//! plan evaluated directly over documents.
//!
//! A definition is parsed, checked and compiled once; evaluating it reads the documents in place
//! and allocates only its outputs. How outputs become terms is up to the index: this crate knows
//! values, not indexes.
//!
//! Invariants: any text yields a [`Map`] or a [`DefinitionError`] that names construct and
//! position, and any document an output or an [`EvaluationError`] that names expression and
//! position; never a panic, and never more than the [`Budget`]. The same definition yields the same
//! outputs for the same document on every machine and day.
//!
//! | module | what |
//! |---|---|
//! | `syntax` | text to syntax tree |
//! | `compile` | syntax tree to plan: names, types as far as they are known, queries to stages |
//! | `definition` | maps and reduces |
//! | `merging` | maps so simple that two may be merged into one |
//! | `value` | values of documents and of C# |
//! | `run` | plan to outputs |
//! | `document` | what an evaluation reads |
//! | `limits` | the named maximums |
#![forbid(unsafe_code)]

mod compile;
mod definition;
mod definition_error;
mod document;
mod limits;
mod merging;
mod run;
mod syntax;
mod value;

pub use compile::source::{Source, SourceKind};
pub use definition::{Map, Reduce, check_same_maps};
pub use definition_error::{DefinitionError, DefinitionErrorKind};
pub use document::{
    AttachmentInput, CounterInput, DocumentInput, Host, HostError, NoHost, TimeSeriesEntry,
    TimeSeriesInput, Tracking,
};
pub use limits::{Budget, DEFINITION_BYTES_MAX, NESTING_DEPTH_MAX, TREE_DEPTH_MAX};
pub use merging::{NotPlain, PlainMap};
pub use model::TextPosition as Position;
pub use run::display::formatted;
pub use run::evaluate::Output;
pub use run::fault::{EvaluationError, EvaluationErrorKind};
pub use rust_decimal::Decimal;
pub use value::{
    Boosted, CreatedField, CreatedFieldOptions, Date, DateKind, Dictionary, FieldIndexing,
    FieldTermVector, Group, List, OffsetDate, Record, SpatialValue, Text, Value, ValueBuildError,
    put_value,
};
