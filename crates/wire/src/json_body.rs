//! JSON request bodies: the errors of reading them, and the simplest bodies.

use std::borrow::Cow;

use blittable::{BlittableBuf, Builder, JsonKind, JsonReader, ParseError, ParseErrorKind};

use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;

/// Requests with more ids than this are refused.
const IDS_MAX: usize = 1 << 20;

/// The protocol's error for malformed JSON. `end_message` is the message for a body that ends too early; it
/// differs between routes.
pub(crate) fn json_error(error: &ParseError, end_message: &str) -> ProtocolError {
    match error.kind {
        ParseErrorKind::UnexpectedEnd => ProtocolError::new(ErrorKind::EndOfStream, end_message),
        ParseErrorKind::TooLarge { .. } => {
            ProtocolError::new(ErrorKind::RequestTooLarge, error.to_string())
        }
        _ => ProtocolError::new(ErrorKind::InvalidData, error.to_string()),
    }
}

/// The error message for a whole body that ends too early.
pub(crate) const BODY_ENDED: &str = "Stream ended without reaching end of json content";

/// Reads a body that is one document. Text after it is ignored, because clients may pad.
pub fn read_document_body(
    body: &[u8],
    builder: &mut Builder,
) -> Result<BlittableBuf, ProtocolError> {
    let mut reader = JsonReader::new(body);
    let read = |error: ParseError| json_error(&error, BODY_ENDED);
    if reader.peek().map_err(read)? != JsonKind::Object {
        let found = token_name(&mut reader).map_err(read)?;
        return Err(not_an_object(found));
    }
    builder.parse(&mut reader).map_err(read)
}

/// Reads the body of a load by ids: `{"Ids": [..]}`.
pub fn read_ids(body: &[u8]) -> Result<Vec<String>, ProtocolError> {
    let mut reader = JsonReader::new(body);
    let ids = read_ids_from(&mut reader).map_err(|error| json_error(&error, BODY_ENDED))?;
    let ids = ids.ok_or_else(|| required_property("Ids"))?;
    if ids.len() > IDS_MAX {
        let message = format!("At most {IDS_MAX} ids may be loaded at once");
        return Err(ProtocolError::new(ErrorKind::RequestTooLarge, message));
    }
    Ok(ids)
}

fn read_ids_from(reader: &mut JsonReader<'_>) -> Result<Option<Vec<String>>, ParseError> {
    let mut found = None;
    reader.begin_object()?;
    while let Some(name) = reader.next_name()? {
        if name != "Ids" {
            reader.skip_value()?;
            continue;
        }
        let mut ids = Vec::new();
        reader.begin_array()?;
        while ids.len() <= IDS_MAX && reader.next_element()? {
            ids.push(read_text(reader)?.into_owned());
        }
        if ids.len() > IDS_MAX {
            return Ok(Some(ids));
        }
        found = Some(ids);
    }
    Ok(found)
}

/// A string as is, a number as its text, null as an empty string.
pub(crate) fn read_text<'a>(reader: &mut JsonReader<'a>) -> Result<Cow<'a, str>, ParseError> {
    match reader.peek()? {
        JsonKind::Number => reader.read_number().map(Cow::Borrowed),
        _ => Ok(reader.read_optional_str()?.unwrap_or(Cow::Borrowed(""))),
    }
}

pub(crate) fn required_property(name: &str) -> ProtocolError {
    ProtocolError::argument(format!(
        "Request should have a property name '{name}' which is mandatory."
    ))
}

pub(crate) fn not_an_object(found: &str) -> ProtocolError {
    let message = format!("Expected start of object, but got {found}");
    ProtocolError::new(ErrorKind::InvalidStartOfObject, message)
}

/// The protocol's name for the next token, which stays unread.
pub(crate) fn token_name(reader: &mut JsonReader<'_>) -> Result<&'static str, ParseError> {
    Ok(match reader.peek()? {
        JsonKind::Object => "StartObject",
        JsonKind::Array => "StartArray",
        JsonKind::String => "String",
        JsonKind::Null => "Null",
        JsonKind::Bool if reader.clone().read_bool()? => "True",
        JsonKind::Bool => "False",
        JsonKind::Number if reader.clone().read_i64().is_ok() => "Integer",
        JsonKind::Number => "Float",
    })
}

#[cfg(test)]
mod tests {
    use blittable::ParseLimits;

    use super::*;

    fn document_error(body: &[u8]) -> ProtocolError {
        let limits = ParseLimits { depth_max: 4, document_bytes_max: 64, property_count_max: 8 };
        read_document_body(body, &mut Builder::new(limits)).unwrap_err()
    }

    #[test]
    fn bad_documents_are_told_apart() {
        let table: &[(&[u8], ErrorKind, &str)] = &[
            (b"", ErrorKind::EndOfStream, BODY_ENDED),
            (b"{\"a\":", ErrorKind::EndOfStream, BODY_ENDED),
            (
                b"[1]",
                ErrorKind::InvalidStartOfObject,
                "Expected start of object, but got StartArray",
            ),
            (b"\"a\"", ErrorKind::InvalidStartOfObject, "Expected start of object, but got String"),
            (b"hello", ErrorKind::InvalidData, "unexpected 'h'"),
            (b"{\"a\":01}", ErrorKind::InvalidData, "number"),
            (b"{\"a\":\"\xff\xfe\"}", ErrorKind::InvalidData, "UTF-8"),
            (b"{\"a\":[[[[1]]]]}", ErrorKind::InvalidData, "deeper than 4"),
        ];
        for (body, kind, message) in table {
            let error = document_error(body);
            assert_eq!(error.kind, *kind, "{error}");
            assert!(error.message.contains(message), "{error}");
        }
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(80));
        assert_eq!(document_error(large.as_bytes()).kind, ErrorKind::RequestTooLarge);
    }

    #[test]
    fn text_after_a_document_is_ignored() {
        let mut builder = Builder::new(ParseLimits::default());
        assert!(read_document_body(b"{\"a\":1} trailing", &mut builder).is_ok());
    }

    #[test]
    fn ids_are_read_and_missing_ids_are_an_error() {
        assert_eq!(read_ids(b"{\"x\":{},\"Ids\":[\"a\",\"b/1\",1]}").unwrap(), ["a", "b/1", "1"]);
        assert!(read_ids(b"{\"Ids\":[]}").unwrap().is_empty());
        let error = read_ids(b"{}").unwrap_err();
        assert_eq!(error.message, "Request should have a property name 'Ids' which is mandatory.");
    }
}
