//! Errors of scripts, in terms that let their author fix them.
//!
//! Positions refer to the author's text, never to the frame that this crate puts around it.

use std::error::Error;
use std::fmt;

use blittable::{BuildError, Corrupt};

/// Where something happened in the author's text; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column, in UTF-16 units or characters as the engine counts them.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Which bound a script ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// More steps (calls and loop iterations) than this.
    Steps(u64),
    /// More time than this, in milliseconds.
    Time(u64),
    /// More memory than its engine may use, in bytes.
    Memory(usize),
    /// Calls nested too deeply.
    Recursion,
    /// A result of more bytes than this.
    Result(u64),
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exhausted::Steps(max) => {
                write!(f, "the maximum number of statements executed have been reached - {max}")
            }
            Exhausted::Time(max) => write!(f, "the script ran for more than {max} ms"),
            Exhausted::Memory(max) => write!(f, "the script needs more than {max} bytes of memory"),
            Exhausted::Result(max) => {
                write!(f, "a result of the script has more than the {max} bytes that it may have")
            }
            Exhausted::Recursion => f.write_str("the script calls itself too deeply"),
        }
    }
}

/// Why a built-in function refused its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too few, too many, or of the wrong kind.
    Call,
    /// A value that means nothing here.
    Value,
    /// A value that is not supported here.
    NotHere,
    /// The function has another name now.
    Renamed,
}

impl Refusal {
    /// The refusal that the prelude calls by this name.
    pub(crate) fn of_name(name: &str) -> Option<Refusal> {
        match name {
            "CallRefused" => Some(Refusal::Call),
            "ValueRefused" => Some(Refusal::Value),
            "NotHere" => Some(Refusal::NotHere),
            "Renamed" => Some(Refusal::Renamed),
            _ => None,
        }
    }
}

/// An error of what a script may call outside of itself.
pub type HostError = Box<dyn Error + Send + Sync>;

/// What can go wrong with a script.
#[derive(Debug)]
pub enum ScriptError {
    /// The text is not JavaScript. The caller's.
    Parse {
        /// The parser's message.
        message: String,
        /// The position; `None` when it is in text that the author did not write.
        position: Option<Position>,
    },
    /// The text is JavaScript, but not what is required (such as an index definition without a
    /// map). The caller's.
    Definition(String),
    /// The script threw. The caller's.
    Runtime {
        /// The message of the error, or the thrown value as text.
        message: String,
        /// Where it was thrown.
        position: Option<Position>,
        /// One line per call, innermost first: function and position in the author's text.
        stack: String,
    },
    /// A built-in function refused its arguments. The caller's.
    Refused {
        /// Why.
        kind: Refusal,
        /// The message.
        message: String,
    },
    /// The script ran into one of its bounds. The caller's.
    Exhausted(Exhausted),
    /// The script's result cannot become JSON. The caller's.
    Result(String),
    /// Something that the script called failed; its kind is the source's.
    Host(HostError),
    /// A document that the script read is damaged. Ours.
    Corrupt(Corrupt),
    /// The result cannot become a document. The caller's.
    Build(BuildError),
    /// The engine itself failed. The environment's.
    Engine(String),
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScriptError::Parse { message, position: Some(at) } => write!(f, "{message} at {at}"),
            ScriptError::Parse { message, position: None } => f.write_str(message),
            ScriptError::Runtime { message, position: Some(at), .. } => {
                write!(f, "{message} at {at}")
            }
            ScriptError::Runtime { message, position: None, .. } => f.write_str(message),
            ScriptError::Definition(message)
            | ScriptError::Refused { message, .. }
            | ScriptError::Result(message)
            | ScriptError::Engine(message) => f.write_str(message),
            ScriptError::Exhausted(bound) => bound.fmt(f),
            ScriptError::Host(source) => source.fmt(f),
            ScriptError::Corrupt(source) => source.fmt(f),
            ScriptError::Build(source) => source.fmt(f),
        }
    }
}

impl Error for ScriptError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ScriptError::Host(source) => Some(source.as_ref()),
            ScriptError::Corrupt(source) => Some(source),
            ScriptError::Build(source) => Some(source),
            ScriptError::Parse { .. }
            | ScriptError::Definition(_)
            | ScriptError::Runtime { .. }
            | ScriptError::Refused { .. }
            | ScriptError::Exhausted(_)
            | ScriptError::Result(_)
            | ScriptError::Engine(_) => None,
        }
    }
}

impl From<Corrupt> for ScriptError {
    fn from(source: Corrupt) -> Self {
        ScriptError::Corrupt(source)
    }
}

impl From<BuildError> for ScriptError {
    fn from(source: BuildError) -> Self {
        ScriptError::Build(source)
    }
}
