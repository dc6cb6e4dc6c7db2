//! Numbers, characters and strings of C#: where they end and what they mean.

use crate::definition_error::DefinitionError;
use crate::syntax::lexer::{Literal, RawPiece, TokenKind, is_word_start, syntax_error};
use crate::syntax::span::Span;

type Cut = Result<(TokenKind, usize), DefinitionError>;

/// `12`, `0x1F`, `1_000`, `1.5`, `1e3`, with the suffixes of long, unsigned, double, float, decimal.
pub(crate) fn number(text: &str, at: usize, end: usize) -> Cut {
    let rest = &text[at..end];
    if let Some((radix, digits)) = radix_prefix(rest) {
        return radix_number(text, at, end, radix, digits);
    }
    let bytes = rest.as_bytes();
    let mut length = digits_length(bytes, 0);
    let mut is_real = false;
    if bytes.get(length) == Some(&b'.') && bytes.get(length + 1).is_some_and(u8::is_ascii_digit) {
        length = digits_length(bytes, length + 1);
        is_real = true;
    }
    if let Some(after) = exponent_end(bytes, length) {
        length = after;
        is_real = true;
    }
    let digits = rest[..length].replace('_', "");
    let suffix_length = word_tail(&rest[length..]);
    let suffix = rest[length..length + suffix_length].to_ascii_lowercase();
    let span = Span::new(at, at + length + suffix_length);
    let literal = match (suffix.as_str(), is_real) {
        ("m", _) => Some(Literal::Decimal(digits)),
        ("d" | "f", _) | ("", true) => digits.parse().ok().map(Literal::Double),
        ("" | "l" | "u" | "ul" | "lu", false) => integer(&digits, 10),
        _ => None,
    };
    match literal {
        Some(literal) => Ok((TokenKind::Literal(literal), length + suffix_length)),
        None => Err(syntax_error(text, span, format!("'{}' is not a number", span.of(text)))),
    }
}

fn radix_prefix(rest: &str) -> Option<(u32, usize)> {
    match rest.as_bytes() {
        [b'0', b'x' | b'X', ..] => Some((16, 2)),
        [b'0', b'b' | b'B', ..] => Some((2, 2)),
        _ => None,
    }
}

fn radix_number(text: &str, at: usize, end: usize, radix: u32, prefix: usize) -> Cut {
    let rest = &text[at..end];
    let length = prefix + word_tail(&rest[prefix..]);
    let digits = rest[prefix..length].replace('_', "");
    let span = Span::new(at, at + length);
    match integer(digits.trim_end_matches(['l', 'L', 'u', 'U']), radix) {
        Some(literal) => Ok((TokenKind::Literal(literal), length)),
        None => Err(syntax_error(text, span, format!("'{}' is not a number", span.of(text)))),
    }
}

fn integer(digits: &str, radix: u32) -> Option<Literal> {
    let value = u64::from_str_radix(digits, radix).ok()?;
    Some(i64::try_from(value).map_or(Literal::Unsigned(value), Literal::Integer))
}

fn digits_length(bytes: &[u8], from: usize) -> usize {
    let is_digit = |byte: &&u8| byte.is_ascii_digit() || **byte == b'_';
    from + bytes[from..].iter().take_while(is_digit).count()
}

fn exponent_end(bytes: &[u8], from: usize) -> Option<usize> {
    if !matches!(bytes.get(from), Some(b'e' | b'E')) {
        return None;
    }
    let sign = usize::from(matches!(bytes.get(from + 1), Some(b'+' | b'-')));
    let digits = from + 1 + sign;
    bytes.get(digits).filter(|byte| byte.is_ascii_digit())?;
    Some(digits_length(bytes, digits))
}

fn word_tail(rest: &str) -> usize {
    rest.find(|c: char| !is_word_start(c) && !c.is_ascii_digit()).unwrap_or(rest.len())
}

/// `'c'`
pub(crate) fn character(text: &str, at: usize, end: usize) -> Cut {
    let refused =
        || syntax_error(text, Span::new(at, at + 1), "a character literal is one character");
    let rest = &text[at + 1..end];
    let (value, length) = match rest.chars().next() {
        Some('\\') => escape(rest).ok_or_else(refused)?,
        Some('\'' | '\n' | '\r') | None => return Err(refused()),
        Some(value) => (value, value.len_utf8()),
    };
    if !rest[length..].starts_with('\'') {
        return Err(refused());
    }
    Ok((TokenKind::Literal(Literal::Char(value)), length + 2))
}

/// `"…"` with escapes.
pub(crate) fn string(text: &str, at: usize, end: usize) -> Cut {
    let mut value = String::new();
    let mut position = at + 1;
    loop {
        let rest = &text[position..end];
        match rest.chars().next() {
            Some('"') => {
                let length = position + 1 - at;
                return Ok((TokenKind::Literal(Literal::String(value)), length));
            }
            Some('\\') => position += push_escape(text, position, end, &mut value)?,
            Some(character) if character != '\n' => {
                value.push(character);
                position += character.len_utf8();
            }
            _ => return Err(unfinished(text, at)),
        }
    }
}

/// `@"…"`, where only `""` is special.
pub(crate) fn verbatim_string(text: &str, at: usize, end: usize) -> Cut {
    let mut value = String::new();
    let mut position = at + 2;
    loop {
        let rest = &text[position..end];
        let Some(quote) = rest.find('"') else { return Err(unfinished(text, at)) };
        value.push_str(&rest[..quote]);
        position += quote + 1;
        if !text[position..end].starts_with('"') {
            return Ok((TokenKind::Literal(Literal::String(value)), position - at));
        }
        value.push('"');
        position += 1;
    }
}

/// `$"…{hole,alignment:format}…"`; `prefix` bytes precede the text.
pub(crate) fn interpolated(
    text: &str,
    at: usize,
    end: usize,
    prefix: usize,
    verbatim: bool,
) -> Cut {
    let mut pieces = Vec::new();
    let mut value = String::new();
    let mut position = at + prefix;
    loop {
        let rest = &text[position..end];
        let mut characters = rest.chars();
        match (characters.next(), characters.next()) {
            (Some('{'), Some('{')) | (Some('}'), Some('}')) => {
                value.push_str(&rest[..1]);
                position += 2;
            }
            (Some('"'), Some('"')) if verbatim => {
                value.push('"');
                position += 2;
            }
            (Some('"'), _) => break,
            (Some('{'), _) => {
                if !value.is_empty() {
                    pieces.push(RawPiece::Text(std::mem::take(&mut value)));
                }
                let (hole, after) = hole(text, position + 1, end, at)?;
                pieces.push(hole);
                position = after;
            }
            (Some('\\'), _) if !verbatim => {
                position += push_escape(text, position, end, &mut value)?
            }
            (Some(character), _) if character != '}' && (verbatim || character != '\n') => {
                value.push(character);
                position += character.len_utf8();
            }
            _ => return Err(unfinished(text, at)),
        }
    }
    if !value.is_empty() {
        pieces.push(RawPiece::Text(value));
    }
    Ok((TokenKind::Interpolated(pieces), position + 1 - at))
}

/// Finds the end of a hole's expression and reads what follows; returns the offset after its brace.
fn hole(
    text: &str,
    start: usize,
    end: usize,
    string_start: usize,
) -> Result<(RawPiece, usize), DefinitionError> {
    let mut depth = 0u32;
    let mut position = start;
    let expression_end = loop {
        let Some(character) = text[position..end].chars().next() else {
            return Err(unfinished(text, string_start));
        };
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '}' | ',' | ':' if depth == 0 => break position,
            '}' => depth -= 1,
            '"' => position += string(text, position, end)?.1 - 1,
            '\'' => position += character_length(text, position, end)? - 1,
            _ => {}
        }
        position += character.len_utf8();
    };
    let tail_end = match text[expression_end..end].find('}') {
        Some(length) => expression_end + length,
        None => return Err(unfinished(text, string_start)),
    };
    let (alignment, format) = hole_tail(text, expression_end, tail_end)?;
    Ok((RawPiece::Hole { start, end: expression_end, alignment, format }, tail_end + 1))
}

fn character_length(text: &str, at: usize, end: usize) -> Result<usize, DefinitionError> {
    character(text, at, end).map(|(_, length)| length)
}

/// `,5:F2` after a hole's expression.
fn hole_tail(
    text: &str,
    start: usize,
    end: usize,
) -> Result<(i32, Option<String>), DefinitionError> {
    let tail = &text[start..end];
    let (alignment, format) = match tail.split_once(':') {
        Some((alignment, format)) => (alignment, Some(format.to_owned())),
        None => (tail, None),
    };
    let Some(alignment) = alignment.strip_prefix(',') else { return Ok((0, format)) };
    match alignment.trim().parse::<i16>() {
        Ok(width) => Ok((i32::from(width), format)),
        Err(_) => {
            let span = Span::new(start, end);
            Err(syntax_error(text, span, "the width after ',' is not a small number"))
        }
    }
}

fn push_escape(
    text: &str,
    at: usize,
    end: usize,
    value: &mut String,
) -> Result<usize, DefinitionError> {
    let Some((character, length)) = escape(&text[at..end]) else {
        return Err(syntax_error(text, Span::new(at, at + 1), "an escape that C# does not know"));
    };
    value.push(character);
    Ok(length)
}

/// The character of the escape at the start of `rest`, and its length in bytes.
fn escape(rest: &str) -> Option<(char, usize)> {
    let letter = rest[1..].chars().next()?;
    let simple = match letter {
        '\'' | '"' | '\\' => letter,
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        'u' => return hexadecimal(rest, 4, 4),
        'U' => return hexadecimal(rest, 8, 8),
        'x' => return hexadecimal(rest, 1, 4),
        _ => return None,
    };
    Some((simple, 2))
}

fn hexadecimal(rest: &str, least: usize, most: usize) -> Option<(char, usize)> {
    let is_digit = |byte: &&u8| byte.is_ascii_hexdigit();
    let count = rest.as_bytes()[2..].iter().take(most).take_while(is_digit).count();
    if count < least {
        return None;
    }
    let code = u32::from_str_radix(&rest[2..2 + count], 16).ok()?;
    Some((char::from_u32(code).unwrap_or('\u{fffd}'), 2 + count))
}

fn unfinished(text: &str, at: usize) -> DefinitionError {
    syntax_error(text, Span::new(at, at + 1), "a string is not ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Option<Literal> {
        let tokens = crate::syntax::lexer::cut(text, 0, text.len()).ok()?;
        match (&tokens[..], tokens[0].kind.clone()) {
            ([_, _], TokenKind::Literal(literal)) => Some(literal),
            _ => None,
        }
    }

    #[test]
    fn literals_mean_what_csharp_says() {
        let cases = [
            ("12", Literal::Integer(12)),
            ("1_000L", Literal::Integer(1000)),
            ("0xFF", Literal::Integer(255)),
            ("0b101", Literal::Integer(5)),
            ("18446744073709551615", Literal::Unsigned(u64::MAX)),
            ("1.5", Literal::Double(1.5)),
            (".5", Literal::Double(0.5)),
            ("1e3", Literal::Double(1000.0)),
            ("2d", Literal::Double(2.0)),
            ("1.50m", Literal::Decimal("1.50".to_owned())),
            ("1M", Literal::Decimal("1".to_owned())),
            ("'c'", Literal::Char('c')),
            (r"'\''", Literal::Char('\'')),
            (r"'\u0041'", Literal::Char('A')),
            (r#""a\tb\"""#, Literal::String("a\tb\"".to_owned())),
            (r#"@"a\b""c""#, Literal::String(r#"a\b"c"#.to_owned())),
        ];
        for (text, expected) in cases {
            assert_eq!(literal(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_literals_are_refused() {
        for text in
            ["1x", "0xZ", "18446744073709551616", r#""\q""#, "''", "'ab'", "1.5q", "\"a\nb\""]
        {
            assert_eq!(literal(text), None, "{text}");
        }
    }

    #[test]
    fn holes_are_located_with_width_and_format() {
        let text = r#"$"a{{{d.A ?? ("}:" + 'x'),-5:F2}z{b}""#;
        let tokens = crate::syntax::lexer::cut(text, 0, text.len()).unwrap();
        let TokenKind::Interpolated(pieces) = &tokens[0].kind else { panic!("{tokens:?}") };
        let RawPiece::Hole { start, end, alignment, format } = &pieces[1] else { panic!() };
        assert_eq!(pieces[0], RawPiece::Text("a{".to_owned()));
        assert_eq!(&text[*start..*end], r#"d.A ?? ("}:" + 'x')"#);
        assert_eq!((*alignment, format.as_deref()), (-5, Some("F2")));
        assert_eq!(pieces.len(), 4);
    }
}
