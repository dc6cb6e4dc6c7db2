//! The tokens of the query syntax of Lucene. Which characters belong to a word depends on whether
//! it is in a range, so the parser passes the context.

use super::error::LuceneError;

/// Signs that end a word and mean something themselves.
const SIGNS: &[char] =
    &['+', '-', '!', '(', ')', ':', '^', '[', ']', '"', '{', '}', '~', '*', '?', '\\'];

/// One token; texts still have their backslashes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'t> {
    And,
    Or,
    Not,
    Plus,
    Minus,
    Open,
    Close,
    Colon,
    /// `*` alone.
    Star,
    Caret,
    Term(&'t str),
    Quoted(&'t str),
    /// A term with `*` at its end and no other wildcard.
    Prefix(&'t str),
    Wildcard(&'t str),
    /// `~` with the number after it, if any.
    Tilde(&'t str),
    RangeOpen {
        inclusive: bool,
    },
    RangeTo,
    RangeClose,
    End,
}

/// A token and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'t> {
    pub(super) token: Token<'t>,
    pub(super) start: usize,
    pub(super) end: usize,
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{3000}')
}

fn begins_word(character: char) -> bool {
    !is_space(character) && !SIGNS.contains(&character)
}

/// The token at or after `from`.
pub(super) fn token_at(text: &str, from: usize) -> Result<Placed<'_>, LuceneError> {
    let rest = text[from..].trim_start_matches(is_space);
    let start = text.len() - rest.len();
    let placed = |token, bytes| Ok(Placed { token, start, end: start + bytes });
    let Some(first) = rest.chars().next() else { return placed(Token::End, 0) };
    match first {
        '+' => placed(Token::Plus, 1),
        '-' => placed(Token::Minus, 1),
        '!' => placed(Token::Not, 1),
        '(' => placed(Token::Open, 1),
        ')' => placed(Token::Close, 1),
        ':' => placed(Token::Colon, 1),
        '^' => placed(Token::Caret, 1),
        '[' => placed(Token::RangeOpen { inclusive: true }, 1),
        '{' => placed(Token::RangeOpen { inclusive: false }, 1),
        '~' => {
            let bytes = number_bytes(&rest[1..]);
            placed(Token::Tilde(&rest[1..=bytes]), 1 + bytes)
        }
        '"' => match quoted_bytes(&rest[1..]) {
            Some(bytes) => placed(Token::Quoted(&rest[1..=bytes]), bytes + 2),
            None => Err(lexical(text, text.len(), "the closing quote is missing")),
        },
        ']' | '}' => Err(lexical(text, start, "a range ends here that does not begin")),
        _ => {
            let bytes = word_bytes(text, start)?;
            placed(word(&rest[..bytes]), bytes)
        }
    }
}

/// The number after `^`.
pub(super) fn number_at(text: &str, from: usize) -> Placed<'_> {
    let rest = text[from..].trim_start_matches(is_space);
    let start = text.len() - rest.len();
    let bytes = number_bytes(rest);
    Placed { token: Token::Term(&rest[..bytes]), start, end: start + bytes }
}

/// The token at or after `from`, inside a range that ends with `close`.
pub(super) fn range_token_at(
    text: &str,
    from: usize,
    close: char,
) -> Result<Placed<'_>, LuceneError> {
    let rest = text[from..].trim_start_matches(is_space);
    let start = text.len() - rest.len();
    let placed = |token, bytes| Ok(Placed { token, start, end: start + bytes });
    match rest.chars().next() {
        None => placed(Token::End, 0),
        Some(first) if first == close => placed(Token::RangeClose, 1),
        Some('"') => match quoted_bytes(&rest[1..]) {
            Some(bytes) => placed(Token::Quoted(&rest[1..=bytes]), bytes + 2),
            None => Err(lexical(text, text.len(), "the closing quote is missing")),
        },
        Some(_) => {
            let bytes = rest.find(|c| is_space(c) || c == close).unwrap_or(rest.len());
            match &rest[..bytes] {
                "TO" => placed(Token::RangeTo, bytes),
                term => placed(Token::Term(term), bytes),
            }
        }
    }
}

fn lexical(text: &str, offset: usize, problem: &str) -> LuceneError {
    let place = LuceneError::place(text, offset);
    LuceneError::new(text, format!("Lexical error at {place}: {problem}"), &[])
}

/// Digits, optionally followed by a point and more digits.
fn number_bytes(rest: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(rest);
    let fraction = rest[whole..].strip_prefix('.').map_or(0, digits);
    match (whole, fraction) {
        (0, _) => 0,
        (whole, 0) => whole,
        (whole, fraction) => whole + 1 + fraction,
    }
}

/// How long the text before the closing quote is.
fn quoted_bytes(rest: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at),
            _ => {}
        }
    }
    None
}

/// How long the word at `start` is, wildcards included.
fn word_bytes(text: &str, start: usize) -> Result<usize, LuceneError> {
    let mut characters = text[start..].char_indices();
    let mut is_first = true;
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' if characters.next().is_none() => {
                return Err(lexical(text, text.len(), "nothing follows the backslash"));
            }
            '\\' | '*' | '?' => {}
            '-' | '+' if !is_first => {}
            other if begins_word(other) => {}
            _ => return Ok(at),
        }
        is_first = false;
    }
    Ok(text.len() - start)
}

fn word(word: &str) -> Token<'_> {
    match word {
        "AND" | "&&" => return Token::And,
        "OR" | "||" => return Token::Or,
        "NOT" => return Token::Not,
        "*" => return Token::Star,
        _ => {}
    }
    let mut is_escaped = false;
    let mut first_wildcard = None;
    for (at, byte) in word.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'*' | b'?' if first_wildcard.is_none() => first_wildcard = Some(at),
            _ => {}
        }
    }
    match first_wildcard {
        None => Token::Term(word),
        Some(at) if at + 1 == word.len() && word.ends_with('*') => Token::Prefix(&word[..at]),
        Some(_) => Token::Wildcard(word),
    }
}

impl Token<'_> {
    /// How an error shows it.
    pub(super) fn shown(&self, text: &str) -> String {
        match self {
            Token::End => "<EOF>".to_owned(),
            _ => text.chars().take(64).collect(),
        }
    }
}
