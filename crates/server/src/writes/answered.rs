//! A command of a batch as sent, together with what its answer needs.
//!
//! One command of the protocol becomes none, one or several of the engine's. They are made in one step with the answer
//! that prints their result, so that the two always fit.

use commands::{Command, CommandResult};
use wire::ErrorKind;

use crate::api_error::ApiError;

/// A command as sent: what the engine executes, and how the result is answered.
pub(crate) struct Answered<A> {
    pub(crate) executed: Executed,
    pub(crate) answer: A,
}

/// What the response contains for a command of a batch.
pub(crate) trait CommandAnswer: Send {
    /// Prints the result of the last command that the engine executed for it, if it executed any.
    ///
    /// # Errors
    /// [`foreign_result`].
    fn write(&self, result: Option<&CommandResult>, body: &mut Vec<u8>) -> Result<(), ApiError>;
}

/// What the engine executes for a command of the protocol. The result of the last command is the one that is printed.
pub(crate) enum Executed {
    Nothing,
    One(Command),
    Several(Vec<Command>),
}

impl<A> Answered<A> {
    /// A command that becomes one of the engine's.
    pub(crate) fn one(command: Command, answer: A) -> Answered<A> {
        Answered { executed: Executed::One(command), answer }
    }
}

/// The error for a result of another kind of command: a bug, because commands and answers are made together.
pub(crate) fn foreign_result(result: Option<&CommandResult>) -> ApiError {
    let what = if result.is_some() { "that of another command" } else { "missing" };
    ApiError::new(ErrorKind::Internal, format!("The result of a command is {what}"))
}
