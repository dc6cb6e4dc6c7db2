//! The recursive-descent parser: entry points and the cursor that the clause parsers share.
//!
//! Every loop consumes a token and every recursion passes [`Parser::nested`], so parsing ends and
//! its stack is bounded.

mod clauses;
mod expressions;
mod items;
mod time_series;

use model::TextPosition as Position;

use crate::ast::{Expression, Query, QueryText};
use crate::error::{Found, ParseError, ParseErrorKind};
use crate::keyword::nearest;
use crate::lexer::{Token, TokenKind, token_at, unquote};
use crate::position::Offset;

/// The longest query text, in bytes.
pub const QUERY_BYTES_MAX: usize = 256 * 1024;

/// How deep conditions and method calls may be nested.
pub const NESTING_DEPTH_MAX: u32 = 200;

/// Parses a query that reads.
///
/// # Errors
///
/// [`ParseError`] when the text is not a query, is longer than [`QUERY_BYTES_MAX`] or nests deeper
/// than [`NESTING_DEPTH_MAX`]; an `update` clause is not expected here.
pub fn parse(text: &str) -> Result<Query, ParseError> {
    parse_with(text, Purpose::Read)
}

/// Parses a query that must end with an `update` clause.
///
/// # Errors
///
/// As [`parse`], and when the `update` clause is missing.
pub fn parse_update(text: &str) -> Result<Query, ParseError> {
    parse_with(text, Purpose::Update)
}

/// Parses a standalone condition, such as the range of a facet in a document.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_condition(text: &str) -> Result<Expression, ParseError> {
    let mut parser = Parser::new(text, "WHERE", Purpose::Read)?;
    let condition = parser.condition()?;
    match parser.token.kind {
        TokenKind::End => Ok(condition),
        _ => Err(parser.error("Expected end of the condition")),
    }
}

fn parse_with(text: &str, purpose: Purpose) -> Result<Query, ParseError> {
    let mut parser = Parser::new(text, "FROM", purpose)?;
    let mut query = parser.query()?;
    query.text = QueryText::new(text);
    Ok(query)
}

/// What the query will be used for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Update,
}

/// The cursor over the tokens of one text.
struct Parser<'q> {
    text: &'q str,
    /// The next token, not yet consumed.
    token: Token<'q>,
    depth: u32,
    /// The clause being parsed, as error messages name it.
    clause: &'static str,
    purpose: Purpose,
}

type Parsed<T> = Result<T, ParseError>;

impl<'q> Parser<'q> {
    fn new(text: &'q str, clause: &'static str, purpose: Purpose) -> Parsed<Parser<'q>> {
        if QUERY_BYTES_MAX < text.len() {
            return Err(ParseError {
                kind: ParseErrorKind::Invalid,
                position: Position { line: 1, column: 1 },
                expected: format!(
                    "The query has {} bytes, which is more than the {QUERY_BYTES_MAX} that are read",
                    text.len()
                ),
                found: Found::Said,
                suggestion: None,
            });
        }
        Ok(Parser { text, token: token_at(text, 0), depth: 0, clause, purpose })
    }

    fn advance(&mut self) -> Token<'q> {
        let consumed = self.token;
        self.token = token_at(self.text, consumed.end());
        consumed
    }

    /// The token after the next one.
    fn peek_second(&self) -> Token<'q> {
        token_at(self.text, self.token.end())
    }

    fn take_word(&mut self, keyword: &str) -> bool {
        let taken = self.token.is_word(keyword);
        if taken {
            self.advance();
        }
        taken
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let taken = self.token.is_sign(sign);
        if taken {
            self.advance();
        }
        taken
    }

    fn here(&self) -> Offset {
        Offset::new(self.token.offset)
    }

    fn unquote(&self, token: &Token<'_>) -> Parsed<String> {
        unquote(self.text, token)
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if NESTING_DEPTH_MAX <= self.depth {
            let expected = format!("The query is nested deeper than {NESTING_DEPTH_MAX} levels");
            return Err(self.error_at(self.token.offset, expected));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// "`expected` but got: …" at the next token.
    fn error(&self, expected: impl Into<String>) -> ParseError {
        self.error_at(self.token.offset, expected)
    }

    fn error_at(&self, offset: usize, expected: impl Into<String>) -> ParseError {
        ParseError {
            kind: ParseErrorKind::Syntax,
            position: Position::of(self.text, offset),
            expected: expected.into(),
            found: Found::at(self.text, offset),
            suggestion: None,
        }
    }

    /// As [`Parser::error`], naming the entry of `known` that the next word resembles.
    fn error_with_suggestion(
        &self,
        expected: impl Into<String>,
        known: &[&'static str],
    ) -> ParseError {
        let suggestion = match self.token.kind {
            TokenKind::Word => nearest(self.token.text, known),
            _ => None,
        };
        ParseError { suggestion, ..self.error(expected) }
    }

    /// A refusal of something that follows the grammar, at the byte `offset`.
    fn invalid_at(&self, offset: usize, message: impl Into<String>) -> ParseError {
        ParseError {
            kind: ParseErrorKind::Invalid,
            position: Position::of(self.text, offset),
            expected: message.into(),
            found: Found::Said,
            suggestion: None,
        }
    }
}
