//! The words, strings, numbers and symbols of a query text, tokenized on demand.
//!
//! The lexer keeps no state besides the text: a token is a function of the requested offset,
//! because scripts and path steps inside a query follow other rules.

use model::TextPosition as Position;

use crate::error::{Found, ParseError, ParseErrorKind};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// The text is over.
    End,
    /// A name or keyword.
    Word,
    /// A quoted text, quotes included.
    Quoted,
    Number,
    /// `$name`, dollar included; the name may be empty.
    Parameter,
    /// A sign of the grammar.
    Sign,
    /// Something the grammar has no use for: an unfinished quote, a malformed number, a stray sign.
    Broken,
}

/// A piece of the query text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'q> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'q str,
    pub(crate) offset: usize,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.offset + self.text.len()
    }

    pub(crate) fn is_word(&self, keyword: &str) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(keyword)
    }

    pub(crate) fn is_sign(&self, sign: &str) -> bool {
        self.kind == TokenKind::Sign && self.text == sign
    }
}

/// Two-character signs first, so that the longest one wins.
const SIGNS: [&str; 16] =
    ["==", "!=", "<>", "<=", ">=", "=", "<", ">", "(", ")", "[", "]", "{", "}", ",", "."];

/// The token at or after the byte `offset`, which must be on a character boundary.
pub(crate) fn token_at(text: &str, offset: usize) -> Token<'_> {
    let offset = skip_trivia(text, offset);
    let rest = &text[offset..];
    let (kind, length) = match rest.chars().next() {
        None => (TokenKind::End, 0),
        Some(first) if is_word_start(first) => (TokenKind::Word, word_length(rest)),
        Some('\'' | '"') => quoted(rest),
        Some('$') => (TokenKind::Parameter, 1 + word_length(&rest[1..])),
        Some(first) if first.is_ascii_digit() => number(rest),
        Some('-') if rest[1..].starts_with(|next: char| next.is_ascii_digit()) => number(rest),
        Some(first) => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => (TokenKind::Sign, sign.len()),
            None => (TokenKind::Broken, first.len_utf8()),
        },
    };
    Token { kind, text: &rest[..length], offset }
}

/// The step of a path right after a dot: a word that may also start with a digit, or a quoted text.
pub(crate) fn path_step_at(text: &str, offset: usize) -> Token<'_> {
    let token = token_at(text, offset);
    let rest = &text[token.offset..];
    let starts = rest.starts_with(|first: char| is_word_start(first) || first.is_alphanumeric());
    if !starts {
        return token;
    }
    Token { kind: TokenKind::Word, text: &rest[..word_length(rest)], offset: token.offset }
}

/// The offset after white space and comments. An unfinished comment reaches to the end.
pub(crate) fn skip_trivia(text: &str, mut offset: usize) -> usize {
    loop {
        let rest = &text[offset..];
        let trimmed = rest.trim_start();
        offset += rest.len() - trimmed.len();
        let comment = if trimmed.starts_with("//") {
            trimmed.find('\n').unwrap_or(trimmed.len())
        } else if let Some(body) = trimmed.strip_prefix("/*") {
            body.find("*/").map_or(trimmed.len(), |end| end + 4)
        } else {
            return offset;
        };
        offset += comment;
    }
}

fn is_word_start(first: char) -> bool {
    first.is_alphabetic() || first == '_' || first == '@'
}

fn word_length(rest: &str) -> usize {
    let in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '@');
    rest.find(|c: char| !in_word(c)).unwrap_or(rest.len())
}

fn quoted(rest: &str) -> (TokenKind, usize) {
    let bytes = rest.as_bytes();
    let quote = bytes[0];
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return (TokenKind::Quoted, at + 1),
            _ => at += 1,
        }
    }
    (TokenKind::Broken, rest.len())
}

fn number(rest: &str) -> (TokenKind, usize) {
    let digits = |from: usize| {
        let run = rest[from..].find(|c: char| !c.is_ascii_digit() && c != '_');
        run.map_or(rest.len(), |length| from + length)
    };
    let whole = digits(1);
    if !rest[whole..].starts_with('.') {
        return (TokenKind::Number, whole);
    }
    let end = digits(whole + 1);
    match rest[end..].starts_with('.') {
        true => (TokenKind::Broken, end),
        false => (TokenKind::Number, end),
    }
}

/// The text inside a quoted token, with doubled quotes and escapes resolved.
pub(crate) fn unquote(query: &str, token: &Token<'_>) -> Result<String, ParseError> {
    let inner = &token.text[1..token.text.len() - 1];
    let mut value = String::with_capacity(inner.len());
    let mut at = 0;
    while let Some(character) = inner[at..].chars().next() {
        let rest = &inner[at + character.len_utf8()..];
        at += character.len_utf8();
        match character {
            '\\' => {
                let (resolved, length) = resolve_escape(rest)
                    .ok_or_else(|| unknown_escape(query, token.offset + at, rest))?;
                value.push(resolved);
                at += length;
            }
            // Inside its own quotes a quote can only be the first of a doubled one.
            quote if token.text.starts_with(quote) => {
                value.push(quote);
                at += 1;
            }
            plain => value.push(plain),
        }
    }
    Ok(value)
}

/// The character of the escape sequence at the start of `rest`, and its length in bytes.
fn resolve_escape(rest: &str) -> Option<(char, usize)> {
    let resolved = match rest.chars().next()? {
        same @ ('\'' | '"' | '\\' | '/') => same,
        'n' | 'N' => '\n',
        't' | 'T' => '\t',
        'r' | 'R' => '\r',
        'b' | 'B' => '\u{8}',
        'f' | 'F' => '\u{c}',
        'u' | 'U' => return unicode_escape(rest),
        _ => return None,
    };
    Some((resolved, 1))
}

/// `u0041`, or two of them that form one character; a lone surrogate becomes U+FFFD.
fn unicode_escape(rest: &str) -> Option<(char, usize)> {
    let unit = code_unit(rest.get(1..5)?)?;
    let low = rest.get(5..7).filter(|next| next.eq_ignore_ascii_case("\\u"));
    let low = low.and_then(|_| code_unit(rest.get(7..11)?));
    let units = [Some(unit), low];
    let pair = char::decode_utf16(units.into_iter().flatten()).next()?;
    match pair {
        Ok(character) => Some((character, if character.len_utf16() == 2 { 11 } else { 5 })),
        Err(_) => Some((char::REPLACEMENT_CHARACTER, 5)),
    }
}

fn code_unit(digits: &str) -> Option<u16> {
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    hexadecimal.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

fn unknown_escape(query: &str, offset: usize, rest: &str) -> ParseError {
    ParseError {
        kind: ParseErrorKind::Syntax,
        position: Position::of(query, offset),
        expected:
            "Expected one of the escapes \\' \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX in a string"
                .to_owned(),
        found: match rest.chars().next() {
            Some(character) => Found::Text(format!("\\{character}")),
            None => Found::End,
        },
        suggestion: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(TokenKind, &str)> {
        let mut offset = 0;
        let mut tokens = Vec::new();
        loop {
            let token = token_at(text, offset);
            if token.kind == TokenKind::End {
                return tokens;
            }
            offset = token.end();
            tokens.push((token.kind, token.text));
        }
    }

    #[test]
    fn a_text_is_cut_into_its_tokens() {
        use TokenKind::{Broken, Number, Parameter, Quoted, Sign, Word};
        let cases: [(&str, &[(TokenKind, &str)]); 8] = [
            ("a-b<>1_000", &[(Word, "a-b"), (Sign, "<>"), (Number, "1_000")]),
            ("/* x */ é // y\n >=$p", &[(Word, "é"), (Sign, ">="), (Parameter, "$p")]),
            ("-5 - 5", &[(Number, "-5"), (Broken, "-"), (Number, "5")]),
            (
                "1.5 1. 1.2.3",
                &[(Number, "1.5"), (Number, "1."), (Broken, "1.2"), (Sign, "."), (Number, "3")],
            ),
            ("'it''s' \"a\\\"b\"", &[(Quoted, "'it''s'"), (Quoted, "\"a\\\"b\"")]),
            ("'open", &[(Broken, "'open")]),
            ("@id$", &[(Word, "@id"), (Parameter, "$")]),
            ("/* never closed", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn escapes_and_doubled_quotes_are_resolved() {
        for (text, expected) in [
            ("'it''s'", "it's"),
            (r#""a\tb\u0041""#, "a\tbA"),
            (r"'\N\\\''", "\n\\'"),
            (r"'\ud83d\uDE00'", "😀"),
            (r"'\ud83dx'", "\u{fffd}x"),
            ("''", ""),
        ] {
            let token = token_at(text, 0);
            assert_eq!(token.kind, TokenKind::Quoted, "{text}");
            assert_eq!(unquote(text, &token).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_escape_is_shown_at_its_place() {
        let text = r"'a\qb'";
        let error = unquote(text, &token_at(text, 0)).unwrap_err();
        assert_eq!(error.position.to_string(), "1:3");
        assert_eq!(error.found, Found::Text("\\q".to_owned()));
    }
}
