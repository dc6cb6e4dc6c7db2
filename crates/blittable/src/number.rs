//! JSON numbers: where they end, whether they are 64-bit integers, whether they fit a double.
//!
//! The text of a number is never changed; only integers in canonical form (and `-0`) are stored in
//! binary.

use crate::error::ParseErrorKind;

/// A number found in JSON text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum NumberKind {
    /// Fits 64 bits and prints exactly as it was written, except for `-0`.
    Integer(i64),
    /// Everything else: the text itself is the value.
    Text,
}

/// Text with at most this many digits before the point, and an exponent of at most two digits,
/// cannot exceed a double, whose largest value is about 1.8e308.
const SAFE_WHOLE_DIGITS: usize = 200;

/// Reads the number that starts at `start`; returns its kind and the position after it.
#[inline]
pub(crate) fn scan_number(
    bytes: &[u8],
    start: usize,
) -> Result<(NumberKind, usize), (ParseErrorKind, usize)> {
    let negative = bytes.get(start) == Some(&b'-');
    let first_digit = start + usize::from(negative);
    let mut position = first_digit;
    let mut magnitude = 0u64;
    // Eighteen digits cannot overflow; longer integers are rare and parsed again with checks.
    while let Some(digit) = digit_at(bytes, position) {
        magnitude = magnitude.wrapping_mul(10).wrapping_add(u64::from(digit));
        position += 1;
    }
    let digits = position - first_digit;
    if digits == 0 {
        return Err(missing_digit(bytes, position));
    }
    if digits > 1 && bytes[first_digit] == b'0' {
        return Err((ParseErrorKind::InvalidNumber, start));
    }
    if matches!(bytes.get(position), Some(b'.' | b'e' | b'E')) {
        return scan_fraction(bytes, start, position, digits);
    }
    if digits <= 18 {
        let value = magnitude as i64;
        return Ok((NumberKind::Integer(if negative { -value } else { value }), position));
    }
    scan_long_integer(bytes, start, position, digits)
}

/// Whether all of `text` is one JSON number that fits a double.
pub(crate) fn parse_number(text: &str) -> Option<NumberKind> {
    match scan_number(text.as_bytes(), 0) {
        Ok((kind, end)) if end == text.len() => Some(kind),
        Ok(_) | Err(_) => None,
    }
}

#[inline]
fn digit_at(bytes: &[u8], position: usize) -> Option<u8> {
    let digit = bytes.get(position)?.wrapping_sub(b'0');
    (digit < 10).then_some(digit)
}

fn missing_digit(bytes: &[u8], position: usize) -> (ParseErrorKind, usize) {
    match bytes.get(position) {
        None => (ParseErrorKind::UnexpectedEnd, position),
        Some(_) => (ParseErrorKind::InvalidNumber, position),
    }
}

fn scan_fraction(
    bytes: &[u8],
    start: usize,
    whole_end: usize,
    whole_digits: usize,
) -> Result<(NumberKind, usize), (ParseErrorKind, usize)> {
    let mut position = whole_end;
    if bytes[position] == b'.' {
        position = scan_digits(bytes, position + 1)?;
    }
    let mut exponent_digits = 0;
    if matches!(bytes.get(position), Some(b'e' | b'E')) {
        position += 1;
        position += usize::from(matches!(bytes.get(position), Some(b'+' | b'-')));
        let end = scan_digits(bytes, position)?;
        exponent_digits = end - position;
        position = end;
    }
    if whole_digits > SAFE_WHOLE_DIGITS || exponent_digits > 2 {
        check_fits_double(bytes, start, position)?;
    }
    Ok((NumberKind::Text, position))
}

fn scan_digits(bytes: &[u8], start: usize) -> Result<usize, (ParseErrorKind, usize)> {
    let mut position = start;
    while digit_at(bytes, position).is_some() {
        position += 1;
    }
    if position == start { Err(missing_digit(bytes, position)) } else { Ok(position) }
}

fn scan_long_integer(
    bytes: &[u8],
    start: usize,
    end: usize,
    digits: usize,
) -> Result<(NumberKind, usize), (ParseErrorKind, usize)> {
    if digits > SAFE_WHOLE_DIGITS {
        check_fits_double(bytes, start, end)?;
    }
    let value = std::str::from_utf8(&bytes[start..end]).ok().and_then(|text| text.parse().ok());
    Ok((value.map_or(NumberKind::Text, NumberKind::Integer), end))
}

fn check_fits_double(
    bytes: &[u8],
    start: usize,
    end: usize,
) -> Result<(), (ParseErrorKind, usize)> {
    let text = std::str::from_utf8(&bytes[start..end]).unwrap_or_default();
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(()),
        Ok(_) => Err((ParseErrorKind::NumberTooLarge, start)),
        Err(_) => Err((ParseErrorKind::InvalidNumber, start)),
    }
}
