//! The JSON tokenizer of the project: values are pulled one by one out of a text held in memory.
//!
//! It accepts what the protocol's existing servers accept beyond JSON: strings in single quotes,
//! one comma before a closing bracket, a leading byte order mark, raw control characters in
//! strings, and the words `NaN`, `Infinity` and `-Infinity`, which are read as strings. It does not
//! build documents (`parser` does) and it never looks past the requested value, so that the caller
//! decides what may follow a value.
//!
//! Invariant: `text` is the part of the input that is valid UTF-8; running into its end before the
//! input's end is reported as invalid UTF-8, not as an unexpected end.

use std::borrow::Cow;

use crate::error::{ParseError, ParseErrorKind};
use crate::number::{NumberKind, scan_number};
use crate::parser::Builder;
use crate::string_scan::{StringSpan, decode_escapes, find_string_end};
use crate::view::BlittableBuf;

/// How deep [`JsonReader::skip_value`] and [`JsonReader::read_raw`] follow nested values.
const SKIP_DEPTH_MAX: usize = 1024;

const BYTE_ORDER_MARK: char = '\u{feff}';

type Result<T> = std::result::Result<T, ParseError>;

/// The type of a JSON value, as determined by its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonKind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// A quote, or the first letter of `NaN`, `Infinity` or `-Infinity`.
    String,
    /// A digit or a minus sign.
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

impl JsonKind {
    fn describe(self) -> &'static str {
        match self {
            JsonKind::Object => "an object",
            JsonKind::Array => "an array",
            JsonKind::String => "a string",
            JsonKind::Number => "a number",
            JsonKind::Bool => "a boolean",
            JsonKind::Null => "null",
        }
    }
}

/// Pulls values out of JSON text.
///
/// ```
/// use blittable::JsonReader;
///
/// let mut reader = JsonReader::new(br#"{"Name": "a", "Tags": [1, 2], "More": {}}"#);
/// let mut sum = 0;
/// reader.begin_object()?;
/// while let Some(name) = reader.next_name()? {
///     match name.as_ref() {
///         "Tags" => {
///             reader.begin_array()?;
///             while reader.next_element()? {
///                 sum += reader.read_i64()?;
///             }
///         }
///         _ => reader.skip_value()?,
///     }
/// }
/// reader.finish()?;
/// assert_eq!(sum, 3);
/// # Ok::<(), blittable::ParseError>(())
/// ```
#[derive(Clone)]
pub struct JsonReader<'a> {
    text: &'a str,
    position: usize,
    /// A value of the innermost object or array has been read, so a comma must separate the next.
    needs_comma: bool,
    valid_to_end: bool,
}

impl<'a> JsonReader<'a> {
    /// A reader at the start of `input`.
    pub fn new(input: &'a [u8]) -> JsonReader<'a> {
        let (text, valid_to_end) = match std::str::from_utf8(input) {
            Ok(text) => (text, true),
            Err(error) => {
                let valid = &input[..error.valid_up_to()];
                (std::str::from_utf8(valid).unwrap_or_default(), false)
            }
        };
        let position =
            if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
        JsonReader { text, position, needs_comma: false, valid_to_end }
    }

    /// How many bytes of the input have been read.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The type of the value that comes next; nothing is read but white space.
    pub fn peek(&mut self) -> Result<JsonKind> {
        match self.peek_byte()? {
            b'{' => Ok(JsonKind::Object),
            b'[' => Ok(JsonKind::Array),
            b'"' | b'\'' | b'N' | b'I' => Ok(JsonKind::String),
            b'-' if self.bytes().get(self.position + 1) == Some(&b'I') => Ok(JsonKind::String),
            b'-' | b'0'..=b'9' => Ok(JsonKind::Number),
            b't' | b'f' => Ok(JsonKind::Bool),
            b'n' => Ok(JsonKind::Null),
            found => Err(self.unexpected(found, "a value")),
        }
    }

    /// Enters an object; [`next_name`](Self::next_name) follows.
    pub fn begin_object(&mut self) -> Result<()> {
        self.expect_kind(JsonKind::Object)?;
        self.enter();
        Ok(())
    }

    /// Enters an array; [`next_element`](Self::next_element) follows.
    pub fn begin_array(&mut self) -> Result<()> {
        self.expect_kind(JsonKind::Array)?;
        self.enter();
        Ok(())
    }

    /// The next name of the object that was entered last, and its colon; the value must be read
    /// next. `None` leaves the object.
    pub fn next_name(&mut self) -> Result<Option<Cow<'a, str>>> {
        match self.next_name_span()? {
            Some(span) => Ok(Some(self.decode(span)?)),
            None => Ok(None),
        }
    }

    /// Whether the array that was entered last has one more element, which must be read next.
    /// `false` leaves the array.
    #[inline]
    pub fn next_element(&mut self) -> Result<bool> {
        let mut byte = self.peek_byte()?;
        if byte == b',' && self.needs_comma {
            self.position += 1;
            byte = self.peek_byte()?;
        } else if self.needs_comma && byte != b']' {
            return Err(self.unexpected(byte, "',' or ']'"));
        }
        if byte == b']' {
            self.leave();
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads a string.
    pub fn read_str(&mut self) -> Result<Cow<'a, str>> {
        self.expect_kind(JsonKind::String)?;
        match self.bytes()[self.position] {
            b'"' | b'\'' => {
                let span = self.string_span()?;
                self.decode(span)
            }
            b'N' => self.word("NaN").map(Cow::Borrowed),
            b'I' => self.word("Infinity").map(Cow::Borrowed),
            _ => self.word("-Infinity").map(Cow::Borrowed),
        }
    }

    /// Reads a string or null.
    pub fn read_optional_str(&mut self) -> Result<Option<Cow<'a, str>>> {
        if self.read_null_if_next()? { Ok(None) } else { self.read_str().map(Some) }
    }

    /// Reads a 64-bit integer.
    pub fn read_i64(&mut self) -> Result<i64> {
        self.expect_kind(JsonKind::Number)?;
        let start = self.position;
        match self.number()? {
            (NumberKind::Integer(value), _) => Ok(value),
            (NumberKind::Text, _) => Err(ParseError::new(start, ParseErrorKind::NotAnInteger)),
        }
    }

    /// Reads a 64-bit integer or null.
    pub fn read_optional_i64(&mut self) -> Result<Option<i64>> {
        if self.read_null_if_next()? { Ok(None) } else { self.read_i64().map(Some) }
    }

    /// Reads a number of any size and returns its text.
    pub fn read_number(&mut self) -> Result<&'a str> {
        self.expect_kind(JsonKind::Number)?;
        self.number().map(|(_, text)| text)
    }

    /// Reads `true` or `false`.
    pub fn read_bool(&mut self) -> Result<bool> {
        self.expect_kind(JsonKind::Bool)?;
        if self.bytes()[self.position] == b't' {
            self.word("true").map(|_| true)
        } else {
            self.word("false").map(|_| false)
        }
    }

    /// Reads a boolean or null.
    pub fn read_optional_bool(&mut self) -> Result<Option<bool>> {
        if self.read_null_if_next()? { Ok(None) } else { self.read_bool().map(Some) }
    }

    /// Reads `null` and returns true if that comes next; otherwise reads nothing and returns false.
    pub fn read_null_if_next(&mut self) -> Result<bool> {
        if self.peek()? != JsonKind::Null {
            return Ok(false);
        }
        self.word("null").map(|_| true)
    }

    /// Reads a value of any type without keeping it. Nesting is limited to 1024 levels.
    pub fn skip_value(&mut self) -> Result<()> {
        // One bit for each level: whether it is an object.
        let mut objects = [0u64; SKIP_DEPTH_MAX / 64];
        let mut depth = 0;
        loop {
            let kind = self.peek()?;
            match kind {
                JsonKind::Object | JsonKind::Array => {
                    if depth == SKIP_DEPTH_MAX {
                        return Err(self.too_deep(SKIP_DEPTH_MAX));
                    }
                    self.enter();
                    let bit = 1 << (depth % 64);
                    match kind {
                        JsonKind::Object => objects[depth / 64] |= bit,
                        _ => objects[depth / 64] &= !bit,
                    }
                    depth += 1;
                }
                _ => self.skip_scalar(kind)?,
            }
            loop {
                let Some(level) = depth.checked_sub(1) else { return Ok(()) };
                let in_object = objects[level / 64] & 1 << (level % 64) != 0;
                let more = match in_object {
                    true => self.next_name_span()?.is_some(),
                    false => self.next_element()?,
                };
                if more {
                    break;
                }
                depth = level;
            }
        }
    }

    /// Reads a value of any type and returns its text verbatim. Nesting is limited to 1024 levels.
    pub fn read_raw(&mut self) -> Result<&'a str> {
        self.peek_byte()?;
        let start = self.position;
        self.skip_value()?;
        Ok(&self.text[start..self.position])
    }

    /// Reads an object straight into a document.
    pub fn read_document(&mut self, builder: &mut Builder) -> Result<BlittableBuf> {
        builder.parse(self)
    }

    /// Checks that only white space follows.
    pub fn finish(&mut self) -> Result<()> {
        self.skip_white_space();
        if self.position < self.text.len() {
            return Err(ParseError::new(self.position, ParseErrorKind::TrailingBytes));
        }
        if self.valid_to_end { Ok(()) } else { Err(self.end_error()) }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The first byte of what comes next after white space.
    #[inline]
    pub(crate) fn peek_byte(&mut self) -> Result<u8> {
        match self.bytes().get(self.position) {
            Some(&byte) if byte > b' ' => Ok(byte),
            _ => self.peek_byte_after_space(),
        }
    }

    /// Steps over the bracket that was peeked.
    #[inline]
    pub(crate) fn enter(&mut self) {
        self.position += 1;
        self.needs_comma = false;
    }

    #[inline]
    fn leave(&mut self) {
        self.position += 1;
        self.needs_comma = true;
    }

    #[inline]
    pub(crate) fn next_name_span(&mut self) -> Result<Option<StringSpan>> {
        let mut byte = self.peek_byte()?;
        if byte == b',' && self.needs_comma {
            self.position += 1;
            byte = self.peek_byte()?;
        } else if self.needs_comma && byte != b'}' {
            return Err(self.unexpected(byte, "',' or '}'"));
        }
        match byte {
            b'"' | b'\'' => {}
            b'}' => {
                self.leave();
                return Ok(None);
            }
            found => return Err(self.unexpected(found, "a property name or '}'")),
        }
        let span = self.string_span()?;
        match self.peek_byte()? {
            b':' => self.position += 1,
            found => return Err(self.unexpected(found, "':'")),
        }
        Ok(Some(span))
    }

    /// Reads the string whose quote was peeked.
    #[inline]
    pub(crate) fn string_span(&mut self) -> Result<StringSpan> {
        let quote = self.bytes()[self.position];
        match find_string_end(self.bytes(), self.position + 1, quote) {
            Some(span) => {
                self.position = span.end + 1;
                self.needs_comma = true;
                Ok(span)
            }
            None => Err(self.end_error()),
        }
    }

    /// The text between the quotes of `span`, escapes not decoded.
    #[inline]
    pub(crate) fn raw_string(&self, span: StringSpan) -> &'a str {
        &self.text[span.start..span.end]
    }

    /// Reads the number whose first byte was peeked.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<(NumberKind, &'a str)> {
        let start = self.position;
        match scan_number(self.bytes(), start) {
            Ok((kind, end)) => {
                self.position = end;
                self.needs_comma = true;
                Ok((kind, &self.text[start..end]))
            }
            Err((ParseErrorKind::UnexpectedEnd, _)) => Err(self.end_error()),
            Err((kind, position)) => Err(ParseError::new(position, kind)),
        }
    }

    /// Reads `word`, whose first byte was peeked.
    #[inline]
    pub(crate) fn word(&mut self, word: &'static str) -> Result<&'static str> {
        let bytes = self.bytes();
        let rest = &bytes[self.position..];
        if rest.starts_with(word.as_bytes()) {
            self.position += word.len();
            self.needs_comma = true;
            return Ok(word);
        }
        let same = rest.iter().zip(word.as_bytes()).take_while(|(a, b)| a == b).count();
        match rest.get(same) {
            Some(&found) => {
                self.position += same;
                Err(self.unexpected(found, word))
            }
            None => Err(self.end_error()),
        }
    }

    pub(crate) fn too_deep(&self, depth_max: usize) -> ParseError {
        ParseError::new(self.position, ParseErrorKind::TooDeep { depth_max })
    }

    #[cold]
    pub(crate) fn unexpected(&self, found: u8, expected: &'static str) -> ParseError {
        ParseError::new(self.position, ParseErrorKind::UnexpectedByte { found, expected })
    }

    fn decode(&self, span: StringSpan) -> Result<Cow<'a, str>> {
        let raw = self.raw_string(span);
        if !span.has_escapes {
            return Ok(Cow::Borrowed(raw));
        }
        let mut decoded = String::with_capacity(raw.len());
        decode_escapes(raw, span.start, &mut decoded)?;
        Ok(Cow::Owned(decoded))
    }

    fn skip_scalar(&mut self, kind: JsonKind) -> Result<()> {
        match kind {
            JsonKind::String => self.read_str().map(drop),
            JsonKind::Number => self.number().map(drop),
            JsonKind::Bool => self.read_bool().map(drop),
            JsonKind::Null => self.word("null").map(drop),
            JsonKind::Object | JsonKind::Array => Ok(()),
        }
    }

    fn expect_kind(&mut self, expected: JsonKind) -> Result<()> {
        let found = self.peek()?;
        if found == expected {
            return Ok(());
        }
        let (found, expected) = (found.describe(), expected.describe());
        Err(ParseError::new(self.position, ParseErrorKind::UnexpectedType { found, expected }))
    }

    #[inline(never)]
    fn peek_byte_after_space(&mut self) -> Result<u8> {
        self.skip_white_space();
        self.bytes().get(self.position).copied().ok_or_else(|| self.end_error())
    }

    fn skip_white_space(&mut self) {
        let rest = &self.bytes()[self.position..];
        let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\n' | b'\r' | b'\t');
        self.position += rest.iter().take_while(is_space).count();
    }

    #[cold]
    fn end_error(&self) -> ParseError {
        let kind = match self.valid_to_end {
            true => ParseErrorKind::UnexpectedEnd,
            false => ParseErrorKind::InvalidUtf8,
        };
        ParseError::new(self.text.len(), kind)
    }
}
