//! The words, literals and symbols of a definition's text.
//!
//! The whole text is tokenized before it is parsed, because distinguishing a cast or a lambda from
//! parentheses takes lookahead. The holes of interpolated strings are only located here; the parser
//! tokenizes them by calling [`cut`] again on their range.

use crate::definition_error::{DefinitionError, DefinitionErrorKind};
use crate::syntax::literal;
use crate::syntax::span::Span;

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name or keyword; `escaped` when written `@name`, which makes it a name in any case.
    Word {
        name: String,
        escaped: bool,
    },
    Literal(Literal),
    /// `$"…"`
    Interpolated(Vec<RawPiece>),
    /// A sign of the grammar.
    Sign(&'static str),
    /// The text is over.
    End,
}

/// The value of a literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Integer(i64),
    Unsigned(u64),
    Double(f64),
    Decimal(String),
    Char(char),
    String(String),
}

/// A piece of an interpolated string whose hole is not parsed yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RawPiece {
    Text(String),
    /// Byte range of the expression in the definition's text, and what follows it.
    Hole {
        start: usize,
        end: usize,
        alignment: i32,
        format: Option<String>,
    },
}

/// A token and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

impl Token {
    pub(crate) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.kind, TokenKind::Sign(own) if own == sign)
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(&self.kind, TokenKind::Word { name, escaped: false } if name == word)
    }
}

/// Longer signs first. `>>` is not among them: it may end two lists of type arguments.
const SIGNS: [&str; 40] = [
    "??=", "=>", "==", "!=", "<=", ">=", "&&", "||", "??", "<<", "+=", "-=", "*=", "/=", "++",
    "--", "::", "?", "(", ")", "[", "]", "{", "}", ",", ".", ";", ":", "=", "<", ">", "+", "-",
    "*", "/", "%", "&", "|", "^", "!",
];

/// Cuts `text[start..end]`; the last token is always [`TokenKind::End`].
pub(crate) fn cut(text: &str, start: usize, end: usize) -> Result<Vec<Token>, DefinitionError> {
    let mut tokens = Vec::new();
    let mut at = start;
    loop {
        at = skip_trivia(text, at, end)?;
        if at == end {
            tokens.push(Token { kind: TokenKind::End, span: Span::new(end, end) });
            return Ok(tokens);
        }
        let (kind, length) = token_at(text, at, end)?;
        tokens.push(Token { kind, span: Span::new(at, at + length) });
        at += length;
    }
}

pub(crate) fn syntax_error(text: &str, span: Span, message: impl Into<String>) -> DefinitionError {
    DefinitionError::new(DefinitionErrorKind::Syntax, message, span, text)
}

/// The offset after white space and comments.
pub(crate) fn skip_trivia(text: &str, mut at: usize, end: usize) -> Result<usize, DefinitionError> {
    loop {
        let rest = &text[at..end];
        let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        at += rest.len() - trimmed.len();
        if trimmed.starts_with("//") {
            at += trimmed.find(['\n', '\r']).unwrap_or(trimmed.len());
        } else if let Some(body) = trimmed.strip_prefix("/*") {
            match body.find("*/") {
                Some(length) => at += length + 4,
                None => {
                    return Err(syntax_error(
                        text,
                        Span::new(at, at + 2),
                        "a comment is not ended",
                    ));
                }
            }
        } else {
            return Ok(at);
        }
    }
}

fn token_at(text: &str, at: usize, end: usize) -> Result<(TokenKind, usize), DefinitionError> {
    let rest = &text[at..end];
    let first = rest.chars().next().unwrap_or_default();
    let second = rest[first.len_utf8()..].chars().next().unwrap_or_default();
    match (first, second) {
        ('"', _) => literal::string(text, at, end),
        ('\'', _) => literal::character(text, at, end),
        ('@', '"') => literal::verbatim_string(text, at, end),
        ('$', '"') => literal::interpolated(text, at, end, 2, false),
        ('$', '@') | ('@', '$') if rest[2..].starts_with('"') => {
            literal::interpolated(text, at, end, 3, true)
        }
        ('@', next) if is_word_start(next) => {
            let length = word_length(&rest[1..]);
            let name = rest[1..1 + length].to_owned();
            Ok((TokenKind::Word { name, escaped: true }, 1 + length))
        }
        _ if is_word_start(first) => {
            let length = word_length(rest);
            Ok((TokenKind::Word { name: rest[..length].to_owned(), escaped: false }, length))
        }
        _ if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) => {
            literal::number(text, at, end)
        }
        _ => sign(text, at, end),
    }
}

fn sign(text: &str, at: usize, end: usize) -> Result<(TokenKind, usize), DefinitionError> {
    let rest = &text[at..end];
    // `a?.5:b` is a choice between numbers, not a conditional access.
    let sign = match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        Some(sign) => sign,
        None if rest.starts_with('~') => "~",
        None => {
            let length = rest.chars().next().map_or(0, char::len_utf8);
            let span = Span::new(at, at + length);
            let message = format!("'{}' means nothing here", span.of(text).escape_debug());
            return Err(syntax_error(text, span, message));
        }
    };
    Ok((TokenKind::Sign(sign), sign.len()))
}

pub(crate) fn is_word_start(first: char) -> bool {
    first.is_alphabetic() || first == '_'
}

fn word_length(rest: &str) -> usize {
    rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_all(text: &str) -> Vec<String> {
        let tokens = cut(text, 0, text.len()).unwrap();
        tokens.iter().map(|token| token.span.of(text).to_owned()).collect()
    }

    #[test]
    fn text_is_cut_into_words_literals_and_signs() {
        assert_eq!(
            cut_all("d?.A >= 1.5m /* c */ && @from != 'x' // end"),
            ["d", "?", ".", "A", ">=", "1.5m", "&&", "@from", "!=", "'x'", ""]
        );
        assert_eq!(
            cut_all("a<b<c>>(0x1F)"),
            ["a", "<", "b", "<", "c", ">", ">", "(", "0x1F", ")", ""]
        );
        assert_eq!(
            cut_all("x=>x.P ?? $\"{d.A}\""),
            ["x", "=>", "x", ".", "P", "??", "$\"{d.A}\"", ""]
        );
    }

    #[test]
    fn broken_texts_are_refused_where_they_break() {
        for (text, column) in
            [("a /* b", 3), ("a \"b", 3), ("a 'bc'", 3), ("a # b", 3), ("$\"{a", 1)]
        {
            let error = cut(text, 0, text.len()).unwrap_err();
            assert_eq!(
                (error.kind, error.position.column),
                (DefinitionErrorKind::Syntax, column),
                "{text}"
            );
        }
    }
}
