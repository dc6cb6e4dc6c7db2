//! Why a dump cannot be read any further.

use std::{error::Error, fmt};

/// Why reading a dump ended. Positions count bytes of the text, after decompression, from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpError {
    /// A byte that cannot be there.
    UnexpectedByte {
        /// The byte.
        found: u8,
        /// Where it is.
        position: u64,
        /// What should be there.
        expected: &'static str,
    },
    /// The text ends too early.
    UnexpectedEnd {
        /// Its length.
        position: u64,
        /// What is missing.
        expected: &'static str,
    },
    /// An element is longer than is accepted.
    ElementTooLong {
        /// The limit in bytes.
        bytes_max: usize,
        /// Where it begins.
        position: u64,
    },
    /// The name of a section is longer than any.
    NameTooLong {
        /// Where it is.
        position: u64,
    },
}

impl fmt::Display for DumpError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedByte { found, position, expected } => {
                let found = found.escape_ascii();
                write!(formatter, "expected {expected} at byte {position}, but found '{found}'")
            }
            Self::UnexpectedEnd { position, expected } => {
                write!(formatter, "the text ends at byte {position}, but {expected} is missing")
            }
            Self::ElementTooLong { bytes_max, position } => {
                write!(formatter, "the element at byte {position} has more than {bytes_max} bytes")
            }
            Self::NameTooLong { position } => {
                write!(formatter, "the name at byte {position} is too long for a section")
            }
        }
    }
}

impl Error for DumpError {}

/// Why a row of CSV, or a line of JSON lines, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowFormatError {
    /// It is longer than is accepted.
    RowTooLong {
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// The file ends inside of a quoted field.
    OpenQuote,
    /// It has another number of fields than the first row.
    FieldCount {
        /// Its fields.
        found: usize,
        /// Those of the first row.
        expected: usize,
    },
    /// A field is not UTF-8.
    Encoding {
        /// The name of its column.
        column: String,
    },
    /// A field is in brackets, but is no list.
    List {
        /// The name of its column.
        column: String,
    },
    /// It has no id, though the file has a column for it.
    NoId,
    /// Nothing says which collection it belongs to.
    NoCollection,
}

impl fmt::Display for RowFormatError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RowTooLong { bytes_max } => {
                write!(formatter, "it has more than {bytes_max} bytes or too many fields")
            }
            Self::OpenQuote => {
                write!(formatter, "the last field of the file begins with a quote and has no other")
            }
            Self::FieldCount { found, expected } => {
                write!(formatter, "it has {found} fields, but there are {expected} columns")
            }
            Self::Encoding { column } => write!(formatter, "the field '{column}' is not UTF-8"),
            Self::List { column } => {
                write!(formatter, "the field '{column}' is in brackets, but is no list in JSON")
            }
            Self::NoId => write!(formatter, "its '@id' is empty"),
            Self::NoCollection => write!(formatter, "it has no collection"),
        }
    }
}

impl Error for RowFormatError {}

/// Why the first row of a CSV file cannot be its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsvHeaderError {
    /// It cannot be read.
    Unreadable(RowFormatError),
    /// A name is not UTF-8.
    Encoding,
    /// A column is a value, and another one a property of it.
    Contradiction {
        /// The name of one of them.
        column: String,
    },
    /// Its properties are nested too deeply.
    TooDeep {
        /// The name of the column.
        column: String,
    },
    /// Nothing says which collection documents belong to.
    NoCollection,
}

impl fmt::Display for CsvHeaderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(formatter, "the row of column names: {error}"),
            Self::Encoding => write!(formatter, "the name of a column is not UTF-8"),
            Self::Contradiction { column } => write!(
                formatter,
                "the column '{column}' is a value and has properties in other columns, too"
            ),
            Self::TooDeep { column } => {
                write!(formatter, "the column '{column}' is nested too deeply")
            }
            Self::NoCollection => write!(
                formatter,
                "it has no column '@metadata.@collection', and the request names no 'collection'"
            ),
        }
    }
}

impl Error for CsvHeaderError {}
