//! Finds the bytes that matter in JSON strings, eight at a time, and decodes escapes.
//!
//! Works on UTF-8 that has been checked before; it neither checks it again nor can break it, because
//! it only ever cuts next to ASCII bytes.

use crate::error::{ParseError, ParseErrorKind};

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Marks bytes of `word` that are `"`, `\` or a control character. Only the lowest mark is exact.
#[inline]
fn mark_special(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let marks = (quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash)
        | (word.wrapping_sub(ONES * 0x20) & !word);
    marks & HIGHS
}

/// Position of the first byte at or after `from` that JSON must escape inside a string.
#[inline]
pub(crate) fn find_byte_to_escape(bytes: &[u8], from: usize) -> Option<usize> {
    let mut position = from;
    while let Some(chunk) = bytes.get(position..position + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("the chunk has eight bytes"));
        let marks = mark_special(word);
        if marks != 0 {
            return Some(position + marks.trailing_zeros() as usize / 8);
        }
        position += 8;
    }
    let tail = bytes.get(position..)?;
    let found = tail.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')?;
    Some(position + found)
}

/// The extent of a string in JSON text and whether it has escapes.
#[derive(Clone, Copy)]
pub(crate) struct StringSpan {
    /// First byte after the opening quote.
    pub(crate) start: usize,
    /// Position of the closing quote.
    pub(crate) end: usize,
    /// The string has escapes to decode.
    pub(crate) has_escapes: bool,
    /// The string has no escapes, but printing it needs some.
    pub(crate) needs_escape: bool,
}

/// Finds the end of the string whose first byte after the quote is `start`; `None` when it has none.
#[inline]
pub(crate) fn find_string_end(bytes: &[u8], start: usize, quote: u8) -> Option<StringSpan> {
    let mut span = StringSpan { start, end: start, has_escapes: false, needs_escape: false };
    let mut position = start;
    loop {
        position = match quote {
            b'"' => find_byte_to_escape(bytes, position)?,
            _ => find_in_single_quotes(bytes, position)?,
        };
        match bytes[position] {
            b'\\' => {
                span.has_escapes = true;
                position += 2;
            }
            byte if byte == quote => {
                span.end = position;
                return Some(span);
            }
            _ => {
                span.needs_escape = true;
                position += 1;
            }
        }
    }
}

fn find_in_single_quotes(bytes: &[u8], from: usize) -> Option<usize> {
    let is_special = |&byte: &u8| matches!(byte, b'\'' | b'"' | b'\\') || byte < 0x20;
    Some(from + bytes.get(from..)?.iter().position(is_special)?)
}

/// Appends `raw`, the inside of a JSON string that begins at `position` of its text, decoded.
///
/// Surrogate pairs become their character, a lone surrogate becomes U+FFFD.
pub(crate) fn decode_escapes(
    raw: &str,
    position: usize,
    out: &mut String,
) -> Result<(), ParseError> {
    let mut rest = raw;
    while let Some(backslash) = rest.find('\\') {
        out.push_str(&rest[..backslash]);
        let at = position + raw.len() - rest.len() + backslash;
        let tail = &rest[backslash + 1..];
        rest = decode_escape(tail, at, out)?;
    }
    out.push_str(rest);
    Ok(())
}

/// Decodes the escape whose bytes after the backslash start `tail`; returns what follows it.
fn decode_escape<'a>(tail: &'a str, at: usize, out: &mut String) -> Result<&'a str, ParseError> {
    let Some(&letter) = tail.as_bytes().first() else {
        return Err(ParseError::new(at + 1, ParseErrorKind::UnexpectedEnd));
    };
    let decoded = match letter {
        b'"' | b'\\' | b'/' => letter as char,
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return decode_unicode(&tail[1..], at, out),
        _ => return Err(ParseError::new(at, ParseErrorKind::InvalidEscape(letter))),
    };
    out.push(decoded);
    Ok(&tail[1..])
}

fn decode_unicode<'a>(tail: &'a str, at: usize, out: &mut String) -> Result<&'a str, ParseError> {
    let invalid = || ParseError::new(at, ParseErrorKind::InvalidUnicodeEscape);
    let unit = hex4(tail).ok_or_else(invalid)?;
    let rest = &tail[4..];
    if (0xD800..0xDC00).contains(&unit) {
        let low = rest.strip_prefix("\\u").and_then(hex4);
        if let Some(low) = low.filter(|low| (0xDC00..0xE000).contains(low)) {
            let code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            return Ok(&rest[6..]);
        }
    }
    out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
    Ok(rest)
}

fn hex4(text: &str) -> Option<u32> {
    let digits = text.get(..4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_byte_is_found_at_every_offset_and_no_other_byte_is() {
        for byte in 0..=255u8 {
            let special = byte < 0x20 || byte == b'"' || byte == b'\\';
            for offset in 0..20 {
                let mut bytes = vec![b'a'; 20];
                bytes[offset] = byte;
                let expected = special.then_some(offset);
                assert_eq!(find_byte_to_escape(&bytes, 0), expected, "{byte} at {offset}");
                // A byte next to a marked one must neither hide nor fake a mark.
                for next in [0x21, 0x1F, 0x23, 0x5D, 0x80, 0xFF] {
                    let mut pair = bytes.clone();
                    if let Some(slot) = pair.get_mut(offset + 1) {
                        *slot = next;
                    }
                    let first = pair.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\');
                    assert_eq!(find_byte_to_escape(&pair, 0), first);
                }
            }
        }
    }
}
