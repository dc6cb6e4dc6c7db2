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
