//! Corvus's binary JSON document: parse it, read a property without touching the rest, build it,
//! modify it, compare it and print it back.
//!
//! This crate does no input or output, keeps no global state and knows nothing of metadata, ids or
//! collections. It also owns the only JSON tokenizer of the project ([`JsonReader`]).
//!
//! Invariants: printing a parsed document yields JSON of the same meaning with every number's text
//! and the order of properties kept; and every read is total: arbitrary bytes yield [`Corrupt`] or
//! nonsense values, never a panic, an endless loop or a read out of bounds.
//!
//! | file | what |
//! |---|---|
//! | `format` | the layout of the bytes, drawn |
//! | `json_reader`, `number`, `string_scan` | JSON text to tokens |
//! | `parser` | tokens to a document |
//! | `writer`, `name_interner` | the bytes of a document under construction |
//! | `view`, `name_table`, `text` | reading the bytes in place |
//! | `walk`, `print`, `print_pieces` | bytes to JSON |
//! | `object_builder`, `modify`, `copy` | documents built through the API |
//! | `compare` | deep equality |
//! | `object_scanner`, `value_scanner` | where the elements of a streamed array end |
#![forbid(unsafe_code)]

mod compare;
mod copy;
mod error;
mod format;
mod json_reader;
mod modify;
mod name_interner;
mod name_table;
mod number;
mod object_builder;
mod object_scanner;
mod parser;
mod print;
mod print_pieces;
mod printed_size;
mod string_scan;
mod text;
mod unpacker;
mod value_scanner;
mod view;
mod walk;
mod writer;

pub use compare::equal;
pub use error::{BuildError, Corrupt, ParseError, ParseErrorKind};
pub use json_reader::{JsonKind, JsonReader};
pub use modify::{EDIT_PATH_LENGTH_MAX, Edit, modify};
pub use object_builder::{Item, ObjectBuilder};
pub use object_scanner::{ObjectScanner, ScanError, Scanned};
pub use parser::{Builder, ParseLimits, parse_document};
pub use print::{Handled, write_json, write_json_string, write_members_with, write_object_with};
pub use print_pieces::MemberPrinter;
pub use printed_size::{printed_bytes, prints_within};
pub use text::Text;
pub use value_scanner::ValueScanner;
pub use view::{Array, BlittableBuf, Document, Object, ObjectHandle, Value};
