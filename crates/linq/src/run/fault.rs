//! Errors of an evaluation, and how they are reported to the caller.

use std::error::Error;
use std::fmt;

use blittable::Corrupt;
use model::TextPosition as Position;

use crate::definition_error::excerpt;
use crate::document::HostError;
use crate::syntax::span::Span;

/// The stable families of errors of one document or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationErrorKind {
    /// Of integers or decimals; doubles yield infinity.
    DivideByZero,
    /// A number, moment or duration outside the range of its type.
    Overflow,
    /// An operator does not apply to the types of its operands.
    InvalidOperand,
    /// A call or operator that .NET finds ambiguous for the types of the values.
    Ambiguous,
    /// The type of the value has no such property or method.
    NoSuchMember,
    /// The value cannot be converted to the type.
    InvalidCast,
    /// The text is not what was to be read from it.
    Format,
    /// Null was passed where a value is required.
    ArgumentNull,
    /// An index, a count or a part of a date outside its range.
    ArgumentOutOfRange,
    /// A value of the wrong type was passed to a method.
    InvalidArgument,
    /// A member of the null of C# was accessed.
    NullReference,
    /// An element was requested of a sequence that is empty or has no match.
    EmptySequence,
    /// A sequence has more elements than the single one requested.
    ManyElements,
    /// A dictionary does not have the key.
    KeyNotFound,
    /// A dictionary got a duplicate key.
    DuplicateKey,
    /// Values cannot be put in order.
    NotComparable,
    /// The value has no elements.
    NotASequence,
    /// More steps, outputs, elements or bytes than the budget allows.
    BudgetExceeded,
    /// The document is damaged.
    CorruptDocument,
    /// The host could not answer.
    Host,
}

/// One document or group could not be evaluated; its outputs so far do not count.
#[derive(Debug)]
pub struct EvaluationError {
    /// The family of the error.
    pub kind: EvaluationErrorKind,
    /// What went wrong.
    pub message: String,
    /// The expression it happened in, shortened when long.
    pub expression: String,
    /// The position of the expression in the definition.
    pub position: Position,
    /// The host's error.
    pub source: Option<HostError>,
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.position;
        write!(out, "{} in '{}' (line {line}, column {column})", self.message, self.expression)
    }
}

impl Error for EvaluationError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// An error being propagated; boxed because it is rare.
#[derive(Debug)]
pub(crate) struct Fault(Box<FaultParts>);

#[derive(Debug)]
struct FaultParts {
    kind: EvaluationErrorKind,
    message: String,
    span: Option<Span>,
    source: Option<HostError>,
}

impl Fault {
    #[cold]
    pub(crate) fn new(kind: EvaluationErrorKind, message: impl Into<String>) -> Fault {
        Fault(Box::new(FaultParts { kind, message: message.into(), span: None, source: None }))
    }

    #[cold]
    pub(crate) fn host(source: HostError) -> Fault {
        let mut fault = Fault::new(EvaluationErrorKind::Host, source.to_string());
        fault.0.source = Some(source);
        fault
    }

    /// Records the innermost expression that it passes.
    #[cold]
    pub(crate) fn at(mut self, span: Span) -> Fault {
        self.0.span.get_or_insert(span);
        self
    }

    pub(crate) fn into_error(self, text: &str) -> EvaluationError {
        let FaultParts { kind, message, span, source } = *self.0;
        let span = span.unwrap_or_else(|| Span::new(0, text.len()));
        EvaluationError {
            kind,
            message,
            expression: excerpt(span.of(text)),
            position: Position::of(text, span.start as usize),
            source,
        }
    }
}

impl From<Corrupt> for Fault {
    fn from(corrupt: Corrupt) -> Self {
        Fault::new(EvaluationErrorKind::CorruptDocument, corrupt.to_string())
    }
}
