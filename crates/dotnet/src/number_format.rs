//! `ToString("F2")`, `"#,##0.00"` and their kind.

use rust_decimal::Decimal;

use crate::{culture::Culture, number::double_text};

/// The maximum number of digits in a format.
const PRECISION_MAX: usize = 999;

/// A number to format.
#[derive(Clone, Copy, Debug)]
pub enum Formatted<'a> {
    /// A whole number; only these have the formats `D` and `X`.
    Integer(i64),
    /// A double.
    Double(f64),
    /// A decimal.
    Decimal(&'a Decimal),
}

/// The number in `format`; `None` when the format cannot be used with this kind of number.
pub fn format_number(number: Formatted<'_>, format: &str, culture: Culture) -> Option<String> {
    if let Formatted::Double(double) = number
        && !double.is_finite()
    {
        return Some(double_text(double));
    }
    match standard_parts(format) {
        Some((letter, precision)) => standard(number, letter, precision, culture),
        None => Some(custom(number, format)),
    }
}

/// The shortest text of the number.
pub fn plain(number: Formatted<'_>) -> String {
    match number {
        Formatted::Integer(value) => value.to_string(),
        Formatted::Double(value) => double_text(value),
        Formatted::Decimal(value) => value.to_string(),
    }
}

/// `F2` is a letter and at most three digits; the empty format is `G`.
fn standard_parts(format: &str) -> Option<(char, Option<usize>)> {
    let Some(letter) = format.chars().next() else { return Some(('G', None)) };
    let digits = &format[letter.len_utf8()..];
    if !letter.is_ascii_alphabetic() || digits.len() > 3 {
        return None;
    }
    if digits.is_empty() {
        return Some((letter, None));
    }
    let precision = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    Some((letter, Some(std::cmp::min(precision, PRECISION_MAX))))
}

fn standard(
    number: Formatted<'_>,
    letter: char,
    precision: Option<usize>,
    culture: Culture,
) -> Option<String> {
    let decimals = precision.unwrap_or(culture.decimals());
    let fixed = |decimals: usize| fixed_point(number, decimals);
    Some(match letter.to_ascii_uppercase() {
        'D' => whole_digits(number, precision.unwrap_or(1))?,
        'X' => hexadecimal(number, letter, precision.unwrap_or(1))?,
        'F' => fixed(decimals),
        'N' => group(&fixed(decimals)),
        'C' => culture.currency(&group(&fixed(precision.unwrap_or(2)))),
        'P' => culture.percent(&group(&percent(number, decimals))),
        'E' => scientific(number, letter, precision.unwrap_or(6), 3),
        'G' => general(number, letter, precision.unwrap_or(0)),
        'R' => plain(number),
        _ => return None,
    })
}

fn whole_digits(number: Formatted<'_>, width: usize) -> Option<String> {
    let Formatted::Integer(value) = number else { return None };
    let digits = value.unsigned_abs().to_string();
    let sign = if value < 0 { "-" } else { "" };
    Some(format!("{sign}{digits:0>width$}"))
}

fn hexadecimal(number: Formatted<'_>, letter: char, width: usize) -> Option<String> {
    let Formatted::Integer(value) = number else { return None };
    Some(if letter == 'X' { format!("{value:0width$X}") } else { format!("{value:0width$x}") })
}

fn percent(number: Formatted<'_>, decimals: usize) -> String {
    let mut digits = Digits::of(number, decimals.saturating_add(2));
    digits.point += 2;
    digits.fixed(decimals)
}

fn fixed_point(number: Formatted<'_>, decimals: usize) -> String {
    Digits::of(number, decimals).fixed(decimals)
}

fn general(number: Formatted<'_>, letter: char, precision: usize) -> String {
    if precision == 0 {
        return plain(number);
    }
    let mut digits = Digits::of(number, PRECISION_MAX);
    digits.round_to_significant(precision);
    let exponent = digits.exponent();
    let decimals = digits.digits.len() as i32 - digits.point;
    if (-4..precision as i32).contains(&exponent) {
        return digits.fixed(decimals.max(0) as usize);
    }
    let mantissa = digits.digits.len().saturating_sub(1);
    let upper = if letter == 'G' { 'E' } else { 'e' };
    digits.scientific(mantissa, upper, 2)
}

fn scientific(number: Formatted<'_>, letter: char, precision: usize, exponent: usize) -> String {
    let mut digits = Digits::of(number, PRECISION_MAX);
    digits.round_to_significant(precision + 1);
    digits.scientific(precision, letter, exponent)
}

/// Puts a comma between each three digits before the point.
fn group(fixed: &str) -> String {
    let (sign, magnitude) = match fixed.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", fixed),
    };
    let whole = magnitude.find('.').unwrap_or(magnitude.len());
    let mut grouped = sign.to_owned();
    for (index, digit) in magnitude[..whole].char_indices() {
        if 0 < index && (whole - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped.push_str(&magnitude[whole..]);
    grouped
}

/// Decimal digits without zeros at either end, and how many are before the point.
#[derive(Clone, Debug)]
struct Digits {
    negative: bool,
    digits: Vec<u8>,
    point: i32,
}

impl Digits {
    /// The digits of a number; of a double at most `decimals` after the point are needed.
    fn of(number: Formatted<'_>, decimals: usize) -> Digits {
        let text = match number {
            Formatted::Integer(value) => value.to_string(),
            Formatted::Decimal(value) => value.to_string(),
            Formatted::Double(value) if decimals < PRECISION_MAX => format!("{value:.decimals$}"),
            Formatted::Double(value) => format!("{value}"),
        };
        let negative = text.starts_with('-');
        let magnitude = text.trim_start_matches('-');
        let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
        let mut digits = Digits { negative, digits, point: whole.len() as i32 };
        digits.trim();
        digits
    }

    fn trim(&mut self) {
        let zeros = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..zeros);
        self.point -= zeros as i32;
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        if self.digits.is_empty() {
            self.point = 1;
        }
    }

    /// The power of ten of the first digit.
    fn exponent(&self) -> i32 {
        if self.digits.is_empty() { 0 } else { self.point - 1 }
    }

    fn round_to_significant(&mut self, count: usize) {
        self.round_at(count as i32);
    }

    /// Keeps `count` digits, halves rounded away from zero.
    fn round_at(&mut self, count: i32) {
        let Ok(count) = usize::try_from(count) else {
            self.digits.clear();
            self.trim();
            return;
        };
        if self.digits.len() <= count {
            return;
        }
        let up = self.digits[count] >= 5;
        self.digits.truncate(count);
        if up {
            self.carry();
        }
        self.trim();
    }

    fn carry(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
        self.point += 1;
    }

    fn digit(&self, index: i32) -> char {
        let digit = usize::try_from(index).ok().and_then(|index| self.digits.get(index));
        char::from(b'0' + digit.copied().unwrap_or_default())
    }

    fn fixed(mut self, decimals: usize) -> String {
        self.round_at(self.point.saturating_add(decimals as i32));
        let mut text = String::new();
        if self.negative && !self.digits.is_empty() {
            text.push('-');
        }
        self.push_whole(&mut text);
        if 0 < decimals {
            text.push('.');
            (0..decimals as i32).for_each(|index| text.push(self.digit(self.point + index)));
        }
        text
    }

    fn push_whole(&self, text: &mut String) {
        if self.point <= 0 {
            text.push('0');
        }
        (0..self.point).for_each(|index| text.push(self.digit(index)));
    }

    fn scientific(self, decimals: usize, letter: char, exponent_width: usize) -> String {
        let mut text = if self.negative { "-".to_owned() } else { String::new() };
        text.push(self.digit(0));
        if 0 < decimals {
            text.push('.');
            (1..=decimals as i32).for_each(|index| text.push(self.digit(index)));
        }
        let exponent = self.exponent();
        let sign = if exponent < 0 { '-' } else { '+' };
        let magnitude = exponent.unsigned_abs();
        text.push_str(&format!("{letter}{sign}{magnitude:0exponent_width$}"));
        text
    }
}

/// A custom format, such as `#,##0.00;(0)`.
fn custom(number: Formatted<'_>, format: &str) -> String {
    let sections = split_sections(format);
    let digits = Digits::of(number, PRECISION_MAX);
    let is_zero = digits.digits.is_empty();
    let (section, sign) = match (sections.len(), digits.negative, is_zero) {
        (3, _, true) => (sections[2], false),
        (2.., true, false) if !sections[1].is_empty() => (sections[1], false),
        _ => (sections[0], digits.negative),
    };
    Picture::read(section).write(digits, sign)
}

/// Cuts at `;` outside quotes; at most three sections count.
fn split_sections(format: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    let (mut start, mut quote, mut escaped) = (0, None, false);
    for (at, character) in format.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' | '"' if quote == Some(character) => quote = None,
            '\'' | '"' if quote.is_none() => quote = Some(character),
            ';' if quote.is_none() && sections.len() < 2 => {
                sections.push(&format[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    sections.push(&format[start..]);
    sections
}

#[derive(Clone, Debug, PartialEq)]
enum Mark {
    /// `0` or `#`.
    Place {
        required: bool,
    },
    Point,
    Literal(char),
}

/// A section of a custom format.
#[derive(Clone, Debug, Default)]
struct Picture {
    marks: Vec<Mark>,
    grouped: bool,
    /// Powers of ten that `%` and trailing commas shift the number by.
    shift: i32,
}

impl Picture {
    fn read(section: &str) -> Picture {
        let mut picture = Picture::default();
        let mut characters = section.chars().peekable();
        let (mut seen_point, mut commas) = (false, 0);
        while let Some(character) = characters.next() {
            if character == ',' && !seen_point {
                commas += 1;
                continue;
            }
            if matches!(character, '0' | '#') && 0 < commas {
                picture.grouped = true;
                commas = 0;
            }
            match character {
                '0' | '#' => picture.marks.push(Mark::Place { required: character == '0' }),
                '.' if !seen_point => {
                    seen_point = true;
                    picture.shift -= 3 * std::mem::take(&mut commas);
                    picture.marks.push(Mark::Point);
                }
                '.' | ',' => {}
                '%' | '‰' => {
                    picture.shift += if character == '%' { 2 } else { 3 };
                    picture.marks.push(Mark::Literal(character));
                }
                '\\' => picture.marks.extend(characters.next().map(Mark::Literal)),
                '\'' | '"' => {
                    let quoted = characters.by_ref().take_while(|next| *next != character);
                    picture.marks.extend(quoted.map(Mark::Literal));
                }
                literal => picture.marks.push(Mark::Literal(literal)),
            }
        }
        picture.shift -= 3 * commas;
        picture
    }

    fn write(&self, mut digits: Digits, sign: bool) -> String {
        let point = self.marks.iter().position(|mark| *mark == Mark::Point);
        let whole_marks = &self.marks[..point.unwrap_or(self.marks.len())];
        let fraction_marks = &self.marks[point.map_or(self.marks.len(), |point| point + 1)..];
        let is_place = |mark: &&Mark| matches!(mark, Mark::Place { .. });
        digits.point += if digits.digits.is_empty() { 0 } else { self.shift };
        let decimals = fraction_marks.iter().filter(is_place).count();
        digits.round_at(digits.point.saturating_add(decimals as i32));
        let mut text = String::new();
        if sign && !digits.digits.is_empty() {
            text.push('-');
        }
        self.write_whole(&digits, whole_marks, &mut text);
        write_fraction(&digits, fraction_marks, &mut text);
        text
    }

    fn write_whole(&self, digits: &Digits, marks: &[Mark], text: &mut String) {
        let is_place = |mark: &&Mark| matches!(mark, Mark::Place { .. });
        let places = marks.iter().filter(is_place).count() as i32;
        let first_required = marks
            .iter()
            .filter(is_place)
            .position(|mark| *mark == Mark::Place { required: true })
            .map_or(places, |index| index as i32);
        let own = if digits.digits.is_empty() { 0 } else { digits.point.max(0) };
        let width = own.max(places - first_required);
        let mut place = places;
        for mark in marks {
            match mark {
                Mark::Place { .. } => {
                    // The first placeholder takes all excess leading digits.
                    let from = if place == places { width.max(place) } else { place };
                    for position in (place..=from).rev() {
                        if position <= width {
                            self.push_digit(digits, position, text);
                        }
                    }
                    place -= 1;
                }
                Mark::Literal(literal) => text.push(*literal),
                Mark::Point => {}
            }
        }
    }

    /// The digit `position` places before the point.
    fn push_digit(&self, digits: &Digits, position: i32, text: &mut String) {
        text.push(digits.digit(digits.point - position));
        if self.grouped && 1 < position && position % 3 == 1 {
            text.push(',');
        }
    }
}

fn write_fraction(digits: &Digits, marks: &[Mark], text: &mut String) {
    let is_place = |mark: &&Mark| matches!(mark, Mark::Place { .. });
    let required = marks
        .iter()
        .filter(is_place)
        .enumerate()
        .filter(|(_, mark)| **mark == Mark::Place { required: true })
        .map(|(index, _)| index as i32 + 1)
        .max()
        .unwrap_or_default();
    let own = digits.digits.len() as i32 - digits.point;
    let shown = required.max(own);
    if 0 < shown && marks.iter().any(|mark| is_place(&mark)) {
        text.push('.');
    }
    let mut index = 0;
    for mark in marks {
        match mark {
            Mark::Place { .. } => {
                if index < shown {
                    text.push(digits.digit(digits.point + index));
                }
                index += 1;
            }
            Mark::Literal(literal) => text.push(*literal),
            Mark::Point => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_formats() {
        let decimal: Decimal = "1234.565".parse().unwrap();
        let number = Formatted::Decimal(&decimal);
        let cases = [
            (Formatted::Integer(30), "D5", "00030"),
            (Formatted::Integer(-30), "D3", "-030"),
            (Formatted::Integer(30), "X", "1E"),
            (Formatted::Integer(30), "x4", "001e"),
            (Formatted::Integer(1234567), "N0", "1,234,567"),
            (Formatted::Double(2.5), "F2", "2.50"),
            (Formatted::Double(2.5), "P", "250.00 %"),
            (Formatted::Double(2.5), "C", "¤2.50"),
            (Formatted::Double(2.5), "E2", "2.50E+000"),
            (Formatted::Double(0.00012), "e3", "1.200e-004"),
            (Formatted::Double(1234.5), "G3", "1.23E+03"),
            (Formatted::Double(1234.5), "G", "1234.5"),
            (Formatted::Double(-0.001), "F1", "0.0"),
            (number, "F2", "1234.57"),
            (number, "N1", "1,234.6"),
            (number, "", "1234.565"),
        ];
        for (number, format, expected) in cases {
            assert_eq!(
                format_number(number, format, Culture::Invariant).as_deref(),
                Some(expected),
                "{format}"
            );
        }
        assert_eq!(format_number(Formatted::Double(1.0), "D2", Culture::Invariant), None);
        assert_eq!(format_number(Formatted::Integer(1), "Q", Culture::Invariant), None);
    }

    #[test]
    fn custom_formats() {
        let cases = [
            (2.5, "0.00", "2.50"),
            (2.5, "#,##0.00", "2.50"),
            (1234567.891, "#,##0.00", "1,234,567.89"),
            (0.0, "#.##", ""),
            (0.5, "#.##", ".5"),
            (7.0, "000", "007"),
            (-7.0, "000", "-007"),
            (-7.5, "0.0;(0.0)", "(7.5)"),
            (0.0, "0;-0;'zero'", "zero"),
            (0.256, "0.0%", "25.6%"),
            (1234567.0, "0,,", "1"),
            (1234.0, "0 'km'", "1234 km"),
            (2.0, "0.##", "2"),
            (1234.0, "00-00", "12-34"),
        ];
        for (number, format, expected) in cases {
            let formatted = format_number(Formatted::Double(number), format, Culture::Invariant);
            assert_eq!(formatted.as_deref(), Some(expected), "{number} {format}");
        }
    }
}
