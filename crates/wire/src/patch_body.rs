//! Patches in request bodies: a script, its arguments, and what to do about a missing document.

use blittable::{BlittableBuf, Builder, JsonKind, JsonReader};

use crate::command_properties::{expect, read_document, read_optional_string, stream_error};
use crate::error_body::ProtocolError;
use crate::error_kind::ErrorKind;
use crate::json_body::{BODY_ENDED, json_error, not_an_object, token_name};

/// Commands for more documents than this are refused.
const TARGETS_MAX: usize = 1 << 20;

/// A script and its arguments, which it reads as `args`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchBody {
    /// The statements.
    pub script: String,
    /// The arguments: an object, if there is one.
    pub values: Option<BlittableBuf>,
}

/// What a patch does if the document does not exist. At most one of the two is used; `create` has precedence.
#[derive(Debug, Default)]
pub struct MissingDocument {
    /// Store this document.
    pub create: Option<BlittableBuf>,
    /// Store the result of running this script on an empty document.
    pub patch: Option<PatchBody>,
}

/// The body of a patch of one document.
#[derive(Debug)]
pub struct PatchDocumentBody {
    /// The patch of the document.
    pub patch: PatchBody,
    /// What to do if it does not exist.
    pub when_missing: MissingDocument,
}

/// One document of a command that changes several.
#[derive(Debug, PartialEq, Eq)]
pub struct PatchTarget {
    /// Its id.
    pub id: String,
    /// The expected change vector; `None` for any.
    pub change_vector: Option<String>,
}

/// Reads the whole body of a patch of one document.
pub fn read_patch(body: &[u8], builder: &mut Builder) -> Result<PatchDocumentBody, ProtocolError> {
    let mut reader = JsonReader::new(body);
    let read = |error| json_error(&error, BODY_ENDED);
    if reader.peek().map_err(read)? != JsonKind::Object {
        return Err(not_an_object(token_name(&mut reader).map_err(read)?));
    }
    reader.begin_object().map_err(read)?;
    let (mut patch, mut when_missing) = (None, MissingDocument::default());
    while let Some(name) = reader.next_name().map_err(read)? {
        match name.as_ref() {
            "Patch" => patch = read_patch_value(&mut reader, builder)?,
            "PatchIfMissing" => when_missing.patch = read_patch_value(&mut reader, builder)?,
            "CreateIfMissing" => when_missing.create = read_document(&mut reader, builder)?,
            _ => reader.skip_value().map_err(read)?,
        }
    }
    let missing = || ProtocolError::argument("The 'Patch' field in the body request is mandatory");
    Ok(PatchDocumentBody { patch: patch.ok_or_else(missing)?, when_missing })
}

/// Reads a script with its arguments; `None` for null.
pub(crate) fn read_patch_value(
    reader: &mut JsonReader<'_>,
    builder: &mut Builder,
) -> Result<Option<PatchBody>, ProtocolError> {
    if reader.read_null_if_next().map_err(stream_error)? {
        return Ok(None);
    }
    if reader.peek().map_err(stream_error)? != JsonKind::Object {
        return Err(not_an_object(token_name(reader).map_err(stream_error)?));
    }
    reader.begin_object().map_err(stream_error)?;
    let (mut script, mut values) = (None, None);
    while let Some(name) = reader.next_name().map_err(stream_error)? {
        match (name.as_ref(), reader.peek().map_err(stream_error)?) {
            ("Script", JsonKind::String) => {
                script = Some(reader.read_str().map_err(stream_error)?.into_owned());
            }
            ("Values", _) => values = read_document(reader, builder)?,
            _ => reader.skip_value().map_err(stream_error)?,
        }
    }
    let Some(script) = script else {
        let message = "Missing 'Script' property on 'Patch'";
        return Err(ProtocolError::new(ErrorKind::InvalidData, message));
    };
    Ok(Some(PatchBody { script, values }))
}

/// Reads the documents of a command that changes several.
pub(crate) fn read_targets(reader: &mut JsonReader<'_>) -> Result<Vec<PatchTarget>, ProtocolError> {
    expect(reader, JsonKind::Array, "StartArray")?;
    reader.begin_array().map_err(stream_error)?;
    let mut targets = Vec::new();
    while reader.next_element().map_err(stream_error)? {
        if targets.len() == TARGETS_MAX {
            let message = format!("A command may not change more than {TARGETS_MAX} documents");
            return Err(ProtocolError::new(ErrorKind::RequestTooLarge, message));
        }
        targets.push(read_target(reader)?);
    }
    Ok(targets)
}

fn read_target(reader: &mut JsonReader<'_>) -> Result<PatchTarget, ProtocolError> {
    expect(reader, JsonKind::Object, "StartObject")?;
    reader.begin_object().map_err(stream_error)?;
    let (mut id, mut change_vector) = (None, None);
    while let Some(name) = reader.next_name().map_err(stream_error)? {
        match name.as_ref() {
            "Id" => id = read_optional_string(reader)?,
            "ChangeVector" => change_vector = read_optional_string(reader)?,
            _ => reader.skip_value().map_err(stream_error)?,
        }
    }
    let missing = || ProtocolError::invalid_operation("Each of the 'Ids' must have an 'Id'");
    Ok(PatchTarget { id: id.ok_or_else(missing)?, change_vector })
}

#[cfg(test)]
mod tests {
    use blittable::ParseLimits;

    use super::*;

    fn read(body: &str) -> Result<PatchDocumentBody, ProtocolError> {
        read_patch(body.as_bytes(), &mut Builder::new(ParseLimits::default()))
    }

    #[test]
    fn a_patch_is_read_with_what_is_made_of_a_missing_document() {
        let body = read(
            r#"{"PatchIfMissing":{"Script":"b","Values":null},"X":[1],"CreateIfMissing":{"Q":1},
                "Patch":{"Values":{"v":1.50},"Script":"a","Y":{}}} trailing"#,
        )
        .unwrap();
        assert_eq!(body.patch.script, "a");
        let values = body.patch.values.unwrap().as_view().to_json().unwrap();
        assert_eq!(values, br#"{"v":1.50}"#);
        let expected = PatchBody { script: "b".to_owned(), values: None };
        assert_eq!(body.when_missing.patch, Some(expected));
        assert!(body.when_missing.create.is_some());
    }

    #[test]
    fn bad_bodies_are_answered_in_the_protocols_words() {
        for (body, kind, message) in [
            ("", ErrorKind::EndOfStream, "Stream ended without reaching end of json content"),
            (
                "[1]",
                ErrorKind::InvalidStartOfObject,
                "Expected start of object, but got StartArray",
            ),
            ("{}", ErrorKind::Argument, "The 'Patch' field in the body request is mandatory"),
            (
                r#"{"Patch":null}"#,
                ErrorKind::Argument,
                "The 'Patch' field in the body request is mandatory",
            ),
            (
                r#"{"Patch":5}"#,
                ErrorKind::InvalidStartOfObject,
                "Expected start of object, but got Integer",
            ),
            (r#"{"Patch":{}}"#, ErrorKind::InvalidData, "Missing 'Script' property on 'Patch'"),
            (
                r#"{"Patch":{"Script":5}}"#,
                ErrorKind::InvalidData,
                "Missing 'Script' property on 'Patch'",
            ),
            (
                r#"{"Patch":{"Script":"a","Values":[1]}}"#,
                ErrorKind::InvalidStartOfObject,
                "Expected start of object, but got StartArray",
            ),
            (
                r#"{"Patch":{"Script":"a"},"PatchIfMissing":{}}"#,
                ErrorKind::InvalidData,
                "Missing 'Script' property on 'Patch'",
            ),
        ] {
            let error = read(body).unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (kind, message), "{body}");
        }
    }
}
