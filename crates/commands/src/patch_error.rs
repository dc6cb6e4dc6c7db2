//! Why a script did not change its document.

use std::fmt;

use documents::{DocumentError, ErrorKind};
use script::{Exhausted, Refusal, ScriptError};

use crate::error::CommandError;

/// What is wrong with a script. The caller's error, except for [`PatchError::Engine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// The text is not JavaScript.
    Parse {
        /// The parser's message.
        message: String,
    },
    /// The script threw.
    Threw {
        /// The document to change; empty for one to be created.
        id: String,
        /// The exception, and where it was thrown.
        message: String,
    },
    /// A built-in function refused its arguments.
    Refused {
        /// The kind of refusal.
        kind: Refusal,
        /// The message.
        message: String,
    },
    /// The script exceeded one of its limits.
    Exhausted(Exhausted),
    /// The script loaded or put too much.
    TooMuch {
        /// The operation.
        verb: &'static str,
        /// The limit.
        bytes_max: usize,
    },
    /// The result of the script cannot become a document.
    Result {
        /// The reason.
        message: String,
    },
    /// The environment's: the engine could not be created.
    Engine {
        /// The reason.
        message: String,
    },
}

impl PatchError {
    /// Who is responsible for the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            PatchError::Engine { .. } => ErrorKind::Environment,
            PatchError::Parse { .. }
            | PatchError::Threw { .. }
            | PatchError::Refused { .. }
            | PatchError::Exhausted(_)
            | PatchError::TooMuch { .. }
            | PatchError::Result { .. } => ErrorKind::Caller,
        }
    }
}

/// The error for a document's failed script; the host already knows of failed calls.
pub(crate) fn script_failed(error: ScriptError, id: &str) -> CommandError {
    let message = error.to_string();
    CommandError::Patch(match error {
        ScriptError::Corrupt(source) => return DocumentError::CorruptDocument(source).into(),
        ScriptError::Build(source) => return DocumentError::from(source).into(),
        ScriptError::Parse { .. } => PatchError::Parse { message },
        ScriptError::Refused { kind, message } => PatchError::Refused { kind, message },
        ScriptError::Exhausted(bound) => PatchError::Exhausted(bound),
        ScriptError::Result(message) => PatchError::Result { message },
        ScriptError::Engine(message) => PatchError::Engine { message },
        ScriptError::Runtime { .. } | ScriptError::Definition(_) | ScriptError::Host(_) => {
            PatchError::Threw { id: id.to_owned(), message }
        }
    })
}

impl fmt::Display for PatchError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatchError::Parse { message } => write!(formatter, "Failed to parse: {message}"),
            PatchError::Threw { id, message } => {
                write!(formatter, "Script failed for document ID '{id}'. {message}")
            }
            PatchError::Refused { message, .. }
            | PatchError::Result { message }
            | PatchError::Engine { message } => formatter.write_str(message),
            PatchError::Exhausted(Exhausted::Steps(max)) => write!(
                formatter,
                "The maximum number of statements executed have been reached - {max}. You can \
                 configure it by modifying the configuration option: 'Patching.MaxStepsForScript'."
            ),
            PatchError::Exhausted(Exhausted::Recursion) => {
                formatter.write_str("The recursion is forbidden by script host.")
            }
            PatchError::Exhausted(bound) => write!(formatter, "The script was stopped: {bound}"),
            PatchError::TooMuch { verb, bytes_max } => {
                write!(
                    formatter,
                    "A script may not {verb} more than {bytes_max} bytes of documents"
                )
            }
        }
    }
}

impl std::error::Error for PatchError {}
