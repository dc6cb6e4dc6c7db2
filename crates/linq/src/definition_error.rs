//! Why a text is not a definition, in terms that let its author fix it: the construct, its
//! position, and its line.

use std::error::Error;
use std::fmt;

use model::TextPosition as Position;

use crate::limits::EXCERPT_CHARACTERS_MAX;
use crate::syntax::span::Span;

/// The stable families of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionErrorKind {
    /// The text is no C# expression.
    Syntax,
    /// The text is longer or its expressions are nested deeper than the named maximum.
    TooLarge,
    /// The text starts with none of the sources, so it is not a definition in this language.
    NoSource,
    /// A name that means nothing here.
    UnknownName,
    /// A method that the type does not have, or not with these arguments.
    UnknownMethod,
    /// A type that is not part of the language.
    UnknownType,
    /// C# that is outside the supported subset.
    NotSupported,
    /// Would return a different result tomorrow, such as the current time.
    NotDeterministic,
    /// Sorting, which an index does not keep.
    OrderBy,
    /// What is selected is neither an anonymous object nor a dictionary.
    OutputNotObject,
    /// The names of the fields cannot be determined from the text.
    NoFields,
    /// A reduce without a grouping.
    NoGroupBy,
    /// A grouping in a form that a reduce does not support.
    GroupBy,
    /// The reduce groups by a field that it does not have.
    GroupByUnknownField,
    /// An aggregation that yields wrong results when results are aggregated again.
    Aggregation,
    /// Maps and reduce have different fields.
    DifferentFields,
}

/// A definition that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionError {
    /// The family of the refusal.
    pub kind: DefinitionErrorKind,
    /// What is wrong, in a sentence without the place.
    pub message: String,
    /// The offending text, shortened when long; empty at the end of the text.
    pub construct: String,
    /// Its position.
    pub position: Position,
    /// Its line, shortened around the position, with a caret below.
    pub context: String,
}

impl DefinitionError {
    pub(crate) fn new(
        kind: DefinitionErrorKind,
        message: impl Into<String>,
        span: Span,
        text: &str,
    ) -> DefinitionError {
        let construct = excerpt(span.of(text));
        let start = floor_boundary(text, span.start as usize);
        DefinitionError {
            kind,
            message: message.into(),
            construct,
            position: Position::of(text, start),
            context: context(text, start),
        }
    }
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} (line {}, column {})",
            self.message, self.position.line, self.position.column
        )?;
        if !self.context.is_empty() {
            write!(out, "\n{}", self.context)?;
        }
        Ok(())
    }
}

impl Error for DefinitionError {}

/// The start of `text`, in one line.
pub(crate) fn excerpt(text: &str) -> String {
    let mut short = String::new();
    for (count, character) in text.trim().chars().enumerate() {
        if count == EXCERPT_CHARACTERS_MAX {
            short.push('…');
            break;
        }
        short.push(if character.is_whitespace() { ' ' } else { character });
    }
    short
}

fn floor_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// The line of `start` and a caret under it; both windows of bounded width.
fn context(text: &str, start: usize) -> String {
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let before: Vec<char> = text[line_start..start].chars().collect();
    let skipped = before.len().saturating_sub(EXCERPT_CHARACTERS_MAX / 2);
    let shown: String = before[skipped..].iter().copied().map(visible).collect();
    let after: String =
        text[start..line_end].chars().take(EXCERPT_CHARACTERS_MAX / 2).map(visible).collect();
    let caret = " ".repeat(before.len() - skipped);
    format!("{shown}{}\n{caret}^", after.trim_end())
}

fn visible(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_line_and_a_caret_below_the_place() {
        let text = "from d in docs\nselect\tnew { d.Foo( }";
        let start = text.find("( }").unwrap();
        let error = DefinitionError::new(
            DefinitionErrorKind::Syntax,
            "an expression is expected",
            Span::new(start, start + 1),
            text,
        );
        assert_eq!(
            error.to_string(),
            "an expression is expected (line 2, column 19)\n\
             select new { d.Foo( }\n                  ^"
        );
    }

    #[test]
    fn positions_past_the_end_and_inside_characters_are_moved() {
        for offset in 0..10 {
            let span = Span::new(offset, offset + 1);
            DefinitionError::new(DefinitionErrorKind::Syntax, "x", span, "é\né").to_string();
        }
    }
}
