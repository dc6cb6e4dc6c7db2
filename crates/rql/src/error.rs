//! Why a text is not a query, in terms that let its author fix it: where, what was expected, what
//! was found instead and, when a known word is close, which one was probably meant.

use std::error::Error;
use std::fmt;

use model::TextPosition as Position;

/// How many characters of the offending text an error repeats.
const FOUND_CHARACTERS_MAX: usize = 64;

/// The two families of refusals, which clients see as two different exception types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// The text stops following the grammar at a position.
    Syntax,
    /// The text follows the grammar but the clause is not valid in any query.
    Invalid,
}

/// What was found where something else was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The text was over.
    End,
    /// This piece of text (up to the next white space, shortened when long).
    Text(String),
    /// Already part of the message.
    Said,
}

impl Found {
    /// The run of non-space characters at the byte `offset` of `text`.
    pub(crate) fn at(text: &str, offset: usize) -> Found {
        let rest = text.get(offset..).unwrap_or_default();
        let run = rest.split(char::is_whitespace).next().unwrap_or_default();
        match run {
            "" => Found::End,
            run => Found::Text(run.chars().take(FOUND_CHARACTERS_MAX).collect()),
        }
    }
}

/// A query text that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Which family the refusal belongs to.
    pub kind: ParseErrorKind,
    /// The position of the unexpected text.
    pub position: Position,
    /// What was expected there, or, for [`ParseErrorKind::Invalid`], the whole message.
    pub expected: String,
    /// What was found there.
    pub found: Found,
    /// The known word that was probably meant.
    pub suggestion: Option<&'static str>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ParseErrorKind::Syntax => write!(out, "{} {}", self.position, self.expected)?,
            ParseErrorKind::Invalid => write!(out, "{}", self.expected)?,
        }
        match &self.found {
            Found::End => write!(out, " but got to the end of the query")?,
            Found::Text(text) => write!(out, " but got: {text}")?,
            Found::Said => {}
        }
        match self.suggestion {
            Some(word) => write!(out, " (did you mean '{word}'?)"),
            None => Ok(()),
        }
    }
}

impl Error for ParseError {}
