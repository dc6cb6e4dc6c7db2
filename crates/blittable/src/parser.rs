//! JSON text to documents, in one pass and without recursion.
//!
//! The tokens come from `json_reader`, the bytes go through `writer`; this file only connects the
//! two and enforces the limits. Invariant: a document that exceeds a limit is refused before memory
//! grows beyond a small multiple of that limit.

use crate::error::{BuildError, ParseError, ParseErrorKind};
use crate::json_reader::JsonReader;
use crate::modify::{Edit, modify_with};
use crate::number::NumberKind;
use crate::string_scan::{StringSpan, decode_escapes, find_byte_to_escape};
use crate::view::{BlittableBuf, Document};
use crate::writer::{ARENA_BYTES_KEPT_MAX, Container, Writer};

/// The upper bound of any limit on a document's JSON, in bytes. A document takes at most four times
/// the length of its JSON, so its size always fits 32 bits.
const DOCUMENT_BYTES_CEILING: usize = 512 << 20;

/// Limits on a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseLimits {
    /// Nested objects and arrays, the root included. Default 1000.
    pub depth_max: usize,
    /// Bytes of JSON text. Default 64 MiB, never more than 512 MiB.
    pub document_bytes_max: usize,
    /// Properties of one object, repeated ones included. Default 1,000,000.
    pub property_count_max: usize,
}

impl Default for ParseLimits {
    fn default() -> ParseLimits {
        ParseLimits { depth_max: 1000, document_bytes_max: 64 << 20, property_count_max: 1_000_000 }
    }
}

/// Parses JSON text that is one object with nothing but white space around it.
///
/// Allocates its arenas on each call; use a [`Builder`] for many documents.
pub fn parse_document(json: &[u8], limits: &ParseLimits) -> Result<BlittableBuf, ParseError> {
    Builder::new(*limits).parse_document(json)
}

/// Turns JSON into documents, one after another, in arenas that are reused.
pub struct Builder {
    writer: Writer,
    limits: ParseLimits,
    decoded: String,
}

impl Builder {
    /// A builder that rejects documents that exceed `limits`.
    pub fn new(limits: ParseLimits) -> Builder {
        let document_bytes_max = limits.document_bytes_max.min(DOCUMENT_BYTES_CEILING);
        let limits = ParseLimits { document_bytes_max, ..limits };
        Builder { writer: Writer::new(), limits, decoded: String::new() }
    }

    /// Parses JSON text that is one object with nothing but white space around it.
    pub fn parse_document(&mut self, json: &[u8]) -> Result<BlittableBuf, ParseError> {
        let mut reader = JsonReader::new(json);
        let document = self.parse(&mut reader)?;
        reader.finish()?;
        Ok(document)
    }

    /// Reads the object that comes next in `reader` and leaves the reader after it.
    pub fn parse(&mut self, reader: &mut JsonReader<'_>) -> Result<BlittableBuf, ParseError> {
        if reader.peek_byte()? != b'{' {
            reader.peek()?;
            return Err(ParseError::new(reader.position(), ParseErrorKind::RootIsNotAnObject));
        }
        self.writer.reset();
        if self.decoded.capacity() > ARENA_BYTES_KEPT_MAX {
            self.decoded = String::new();
        }
        let start = reader.position();
        self.begin(Container::Object, reader)?;
        while let Some(innermost) = self.writer.innermost() {
            let more = match innermost {
                Container::Object => self.parse_name(reader)?,
                Container::Array => reader.next_element()?,
            };
            if more {
                self.parse_value(reader)?;
            } else {
                self.writer.end();
            }
            if reader.position() - start > self.limits.document_bytes_max {
                let bytes_max = self.limits.document_bytes_max;
                return Err(ParseError::new(start, ParseErrorKind::TooLarge { bytes_max }));
            }
        }
        Ok(BlittableBuf::from_writer(self.writer.finish()))
    }

    /// Copies `document` with `edits` applied, like [`modify`](crate::modify) but in the arenas of
    /// this builder. The builder's limits do not apply.
    pub fn modify(
        &mut self,
        document: &Document<'_>,
        edits: &[Edit<'_>],
    ) -> Result<BlittableBuf, BuildError> {
        self.writer.reset();
        modify_with(document, edits, &mut self.writer)
    }

    #[inline]
    fn parse_name(&mut self, reader: &mut JsonReader<'_>) -> Result<bool, ParseError> {
        let Some(span) = reader.next_name_span()? else { return Ok(false) };
        if self.writer.innermost_length() >= self.limits.property_count_max {
            let count_max = self.limits.property_count_max;
            let kind = ParseErrorKind::TooManyProperties { count_max };
            return Err(ParseError::new(span.start, kind));
        }
        let raw = reader.raw_string(span);
        if span.has_escapes {
            self.decoded.clear();
            decode_escapes(raw, span.start, &mut self.decoded)?;
            self.writer.name(self.decoded.as_bytes());
        } else {
            self.writer.name(raw.as_bytes());
        }
        Ok(true)
    }

    #[inline]
    fn parse_value(&mut self, reader: &mut JsonReader<'_>) -> Result<(), ParseError> {
        match reader.peek_byte()? {
            b'"' | b'\'' => {
                let span = reader.string_span()?;
                self.write_string(reader, span)?;
            }
            b'0'..=b'9' => self.parse_number(reader)?,
            b'-' if reader.bytes().get(reader.position() + 1) == Some(&b'I') => {
                self.parse_word_as_string(reader, "-Infinity")?;
            }
            b'-' => self.parse_number(reader)?,
            b'{' => self.begin(Container::Object, reader)?,
            b'[' => self.begin(Container::Array, reader)?,
            b't' => {
                reader.word("true")?;
                self.writer.bool(true);
            }
            b'f' => {
                reader.word("false")?;
                self.writer.bool(false);
            }
            b'n' => {
                reader.word("null")?;
                self.writer.null();
            }
            b'N' => self.parse_word_as_string(reader, "NaN")?,
            b'I' => self.parse_word_as_string(reader, "Infinity")?,
            found => return Err(reader.unexpected(found, "a value")),
        }
        Ok(())
    }

    fn begin(
        &mut self,
        container: Container,
        reader: &mut JsonReader<'_>,
    ) -> Result<(), ParseError> {
        if self.writer.depth() >= self.limits.depth_max {
            return Err(reader.too_deep(self.limits.depth_max));
        }
        reader.enter();
        self.writer.begin(container);
        Ok(())
    }

    #[inline]
    fn parse_number(&mut self, reader: &mut JsonReader<'_>) -> Result<(), ParseError> {
        match reader.number()? {
            (NumberKind::Integer(value), _) => self.writer.integer(value),
            (NumberKind::Text, text) => self.writer.number(text.as_bytes()),
        }
        Ok(())
    }

    #[inline]
    fn write_string(
        &mut self,
        reader: &JsonReader<'_>,
        span: StringSpan,
    ) -> Result<(), ParseError> {
        let raw = reader.raw_string(span);
        if !span.has_escapes {
            self.writer.string(raw.as_bytes(), span.needs_escape);
            return Ok(());
        }
        self.decoded.clear();
        decode_escapes(raw, span.start, &mut self.decoded)?;
        let needs_escape = find_byte_to_escape(self.decoded.as_bytes(), 0).is_some();
        self.writer.string(self.decoded.as_bytes(), needs_escape);
        Ok(())
    }

    fn parse_word_as_string(
        &mut self,
        reader: &mut JsonReader<'_>,
        word: &'static str,
    ) -> Result<(), ParseError> {
        reader.word(word)?;
        self.writer.string(word.as_bytes(), false);
        Ok(())
    }
}
