//! The errors of this crate, one type per boundary.
//!
//! [`ParseError`] is the caller's (bad JSON), [`BuildError`] the program's or a corrupt source,
//! [`Corrupt`] ours. None of them carries document contents beyond a single byte.

use std::error::Error;
use std::fmt;

/// The bytes of a document do not follow the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt {
    reason: &'static str,
    position: usize,
}

impl Corrupt {
    pub(crate) fn new(reason: &'static str, position: usize) -> Corrupt {
        Corrupt { reason, position }
    }

    /// What is wrong.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// Where the error is, in bytes from the start of the document.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "corrupt document: {} at byte {}", self.reason, self.position)
    }
}

impl Error for Corrupt {}

/// JSON text that was refused: where and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Byte offset into the text passed to the reader.
    pub position: usize,
    /// What is wrong at that position.
    pub kind: ParseErrorKind,
}

impl ParseError {
    pub(crate) fn new(position: usize, kind: ParseErrorKind) -> ParseError {
        ParseError { position, kind }
    }

    /// Whether more input might have made the text valid.
    pub fn is_unexpected_end(&self) -> bool {
        self.kind == ParseErrorKind::UnexpectedEnd
    }
}

/// Why JSON text was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text ended inside a value.
    UnexpectedEnd,
    /// A byte that is not allowed here.
    UnexpectedByte {
        /// The byte found.
        found: u8,
        /// What was expected instead.
        expected: &'static str,
    },
    /// The value is valid JSON but not of the requested type.
    UnexpectedType {
        /// The type found.
        found: &'static str,
        /// The requested type.
        expected: &'static str,
    },
    /// A number that JSON does not allow (`01`, `1.`, `-`).
    InvalidNumber,
    /// A number outside the range of a double.
    NumberTooLarge,
    /// A 64-bit integer was requested and this is not one.
    NotAnInteger,
    /// A backslash followed by this byte.
    InvalidEscape(u8),
    /// `\u` not followed by four hexadecimal digits.
    InvalidUnicodeEscape,
    /// The text is not UTF-8 from here on.
    InvalidUtf8,
    /// Objects and arrays are nested deeper than this.
    TooDeep {
        /// The limit.
        depth_max: usize,
    },
    /// The text of the document is longer than this.
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// One object has more properties than this.
    TooManyProperties {
        /// The limit.
        count_max: usize,
    },
    /// A document was requested and this is some other value.
    RootIsNotAnObject,
    /// Something other than white space follows the value.
    TrailingBytes,
}

impl fmt::Display for ParseErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseErrorKind::UnexpectedEnd => f.write_str("the JSON text ends unexpectedly"),
            ParseErrorKind::UnexpectedByte { found, expected } => {
                write!(f, "unexpected '{}', expected {expected}", found.escape_ascii())
            }
            ParseErrorKind::UnexpectedType { found, expected } => {
                write!(f, "expected {expected} but found {found}")
            }
            ParseErrorKind::InvalidNumber => f.write_str("this is not a valid JSON number"),
            ParseErrorKind::NumberTooLarge => f.write_str("the number exceeds a 64-bit double"),
            ParseErrorKind::NotAnInteger => f.write_str("the number is not a 64-bit integer"),
            ParseErrorKind::InvalidEscape(byte) => {
                write!(f, "'\\{}' is not a valid escape", byte.escape_ascii())
            }
            ParseErrorKind::InvalidUnicodeEscape => {
                f.write_str("'\\u' must be followed by four hexadecimal digits")
            }
            ParseErrorKind::InvalidUtf8 => f.write_str("the text is not valid UTF-8"),
            ParseErrorKind::TooDeep { depth_max } => {
                write!(f, "objects and arrays are nested deeper than {depth_max} levels")
            }
            ParseErrorKind::TooLarge { bytes_max } => {
                write!(f, "the document exceeds {bytes_max} bytes")
            }
            ParseErrorKind::TooManyProperties { count_max } => {
                write!(f, "an object has more than {count_max} properties")
            }
            ParseErrorKind::RootIsNotAnObject => f.write_str("a document must be a JSON object"),
            ParseErrorKind::TrailingBytes => f.write_str("unexpected text after the JSON value"),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.position)
    }
}

impl Error for ParseError {}

/// A document could not be built through the API.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A document that values were copied from is corrupt.
    Corrupt(Corrupt),
    /// The document would exceed four gigabytes.
    TooLarge,
    /// A number passed as text is not a JSON number.
    NotANumber,
    /// Calls to begin and end do not pair, or a named value was put into an array or the reverse.
    Unbalanced,
    /// An edit's path is empty or longer than the limit.
    InvalidPath,
}

impl From<Corrupt> for BuildError {
    fn from(corrupt: Corrupt) -> BuildError {
        BuildError::Corrupt(corrupt)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Corrupt(_) => f.write_str("a value could not be copied"),
            BuildError::TooLarge => f.write_str("the document would exceed four gigabytes"),
            BuildError::NotANumber => f.write_str("the text is not a JSON number"),
            BuildError::Unbalanced => {
                f.write_str("objects and arrays were not begun and ended in pairs")
            }
            BuildError::InvalidPath => f.write_str("the path of an edit is empty or too long"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BuildError::Corrupt(corrupt) => Some(corrupt),
            BuildError::TooLarge
            | BuildError::NotANumber
            | BuildError::Unbalanced
            | BuildError::InvalidPath => None,
        }
    }
}
