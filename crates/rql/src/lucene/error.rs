//! Why a text does not follow the query syntax of Lucene.

use std::error::Error;
use std::fmt;

/// How many characters of the text an error repeats.
const SHOWN_CHARACTERS_MAX: usize = 256;

/// A text that is not a query, with the position of the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuceneError {
    /// The text that was parsed.
    pub text: String,
    /// What was found at the position, or what is wrong there.
    pub problem: String,
    /// What was expected there; empty when `problem` is self-explanatory.
    pub expected: Vec<&'static str>,
}

impl LuceneError {
    pub(super) fn new(text: &str, problem: String, expected: &[&'static str]) -> LuceneError {
        let text = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
        LuceneError { text, problem, expected: expected.to_vec() }
    }

    /// The line, from 1, and the column, from 0, of a byte of the text.
    pub(super) fn place(text: &str, offset: usize) -> String {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        format!("line {line}, column {column}")
    }
}

impl fmt::Display for LuceneError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Cannot parse '{}': {}", self.text, self.problem)?;
        if self.expected.is_empty() {
            return Ok(());
        }
        write!(out, "\nWas expecting one of:")?;
        self.expected.iter().try_for_each(|expected| write!(out, "\n    {expected}"))
    }
}

impl Error for LuceneError {}
