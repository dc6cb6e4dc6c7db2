//! Which part of a client's `@metadata` is stored.
//!
//! Clients send documents back with everything the server added to their metadata. Properties that
//! the server maintains are dropped here, two old names become their new ones, and the rest is
//! stored sorted by name, because the protocol returns it in that order.
//!
//! Invariant: stored metadata is an object, its names are strictly ascending, and none of them is
//! one that the server adds when a document is read.

use std::borrow::Cow;

use blittable::{BlittableBuf, Document, Edit, Item, Object, ObjectBuilder, Value, modify};
use model::{CollectionName, EMPTY_COLLECTION, date};

use crate::error::DocumentError;

pub(crate) const METADATA: &str = "@metadata";
pub(crate) const ATTACHMENTS: &str = "@attachments";
pub(crate) const COUNTERS: &str = "@counters";
pub(crate) const TIME_SERIES: &str = "@timeseries";
pub(crate) const COLLECTION: &str = "@collection";
pub(crate) const EXPIRES: &str = "@expires";
pub(crate) const REFRESH: &str = "@refresh";
pub(crate) const ARCHIVE_AT: &str = "@archive-at";
pub(crate) const ARCHIVED: &str = "@archived";

/// A document ready to be stored.
pub(crate) struct AcceptedDocument<'a> {
    pub(crate) body: Cow<'a, BlittableBuf>,
    pub(crate) collection: CollectionName,
}

/// What happens to one property of the metadata.
enum Fate {
    Keep,
    /// Replaced by the list of what the document has.
    Listed,
    Rename(&'static str),
    Drop,
    /// Dropped, but it must be a string.
    DropString,
    /// Dropped, but it must be a date.
    DropDate,
}

fn fate_of(name: &str) -> Fate {
    match name {
        "@etag" | "@index-score" | "Last-Modified" => Fate::Drop,
        ATTACHMENTS | COUNTERS | TIME_SERIES | ARCHIVED => Fate::Listed,
        "@id" | "@change-vector" | "@flags" => Fate::DropString,
        "@last-modified" | "Raven-Last-Modified" => Fate::DropDate,
        "Raven-Entity-Name" => Fate::Rename(COLLECTION),
        "Raven-Expiration-Date" => Fate::Rename(EXPIRES),
        _ => Fate::Keep,
    }
}

/// Validates and cleans the metadata of `body`. `listed` holds the document's lists, which replace
/// whatever the client sent: an object with only them, in ascending order of names. `id` and
/// `now_ticks` are for error messages.
pub(crate) fn accept<'a>(
    body: &'a BlittableBuf,
    listed: Option<&BlittableBuf>,
    id: &str,
    now_ticks: i64,
) -> Result<AcceptedDocument<'a>, DocumentError> {
    let document = body.as_view();
    let metadata = match document.root().get(METADATA)? {
        None => None,
        Some(Value::Object(metadata)) => Some(metadata),
        Some(other) => return Err(not_an_object(&other)),
    };
    let listed = listed.map(|lists| lists.as_view());
    let listed = listed.as_ref().map(Document::root);
    let Some(metadata) = metadata else {
        let collection = CollectionName::empty();
        let body = match listed {
            None => Cow::Borrowed(body),
            Some(lists) => Cow::Owned(with_metadata(&document, &properties_of(&lists)?)?),
        };
        return Ok(AcceptedDocument { body, collection });
    };
    let survey = survey(&metadata, listed.as_ref())?;
    if survey.is_clean {
        check_dates(&survey.special, id, now_ticks)?;
        let collection = collection_of(survey.special.collection)?;
        return Ok(AcceptedDocument { body: Cow::Borrowed(body), collection });
    }
    let kept = kept_properties(&metadata, listed.as_ref())?;
    let mut special = Special::default();
    kept.iter().for_each(|(name, value)| special.note(name, value));
    check_dates(&special, id, now_ticks)?;
    let collection = collection_of(special.collection)?;
    let body = with_metadata(&document, &kept)?;
    Ok(AcceptedDocument { body: Cow::Owned(body), collection })
}

/// The document with other lists; `None` removes them. Metadata in which nothing is left is removed, too: documents that
/// differ in their lists alone are the same without them.
pub(crate) fn with_listed(
    document: &Document<'_>,
    listed: Option<&BlittableBuf>,
) -> Result<BlittableBuf, DocumentError> {
    let listed = listed.map(|lists| lists.as_view());
    let listed = listed.as_ref().map(Document::root);
    let kept = match (document.root().get_object(METADATA)?, &listed) {
        (Some(metadata), listed) => kept_properties(&metadata, listed.as_ref())?,
        (None, Some(lists)) => properties_of(lists)?,
        (None, None) => Vec::new(),
    };
    match kept.as_slice() {
        [] => Ok(modify(document, &[Edit::Remove { path: &[METADATA] }])?),
        kept => with_metadata(document, kept),
    }
}

/// Whether the metadata says that the document is archived.
pub(crate) fn says_archived(document: &Document<'_>) -> Result<bool, DocumentError> {
    let Some(metadata) = document.root().get_object(METADATA)? else { return Ok(false) };
    Ok(matches!(metadata.get(ARCHIVED)?, Some(Value::Bool(true))))
}

/// The lists in the metadata of a stored document, as [`accept`] takes them.
pub(crate) fn listed_in(document: &Document<'_>) -> Result<Option<BlittableBuf>, DocumentError> {
    let Some(metadata) = document.root().get_object(METADATA)? else { return Ok(None) };
    let mut lists = ObjectBuilder::new();
    let mut is_empty = true;
    for property in metadata.iter() {
        let (name, list) = property?;
        if matches!(fate_of(name), Fate::Listed) {
            lists.put(name, Item::Copy(list));
            is_empty = false;
        }
    }
    Ok(if is_empty { None } else { Some(lists.finish()?) })
}

fn properties_of<'a>(object: &Object<'a>) -> Result<Vec<(&'a str, Value<'a>)>, DocumentError> {
    Ok(object.iter().collect::<Result<_, _>>()?)
}

/// The properties that a put interprets.
#[derive(Default)]
struct Special<'a> {
    collection: Option<Value<'a>>,
    expires: Option<Value<'a>>,
    refresh: Option<Value<'a>>,
    archive_at: Option<Value<'a>>,
}

impl<'a> Special<'a> {
    fn note(&mut self, name: &str, value: &Value<'a>) {
        match name {
            COLLECTION => self.collection = Some(*value),
            EXPIRES => self.expires = Some(*value),
            REFRESH => self.refresh = Some(*value),
            ARCHIVE_AT => self.archive_at = Some(*value),
            _ => {}
        }
    }
}

/// The findings of one pass over the metadata.
struct Survey<'a> {
    /// Everything is kept and already sorted by name, so the usual document is stored without being
    /// copied.
    is_clean: bool,
    /// Valid only when it is clean.
    special: Special<'a>,
}

fn survey<'a>(
    metadata: &Object<'a>,
    listed: Option<&Object<'_>>,
) -> Result<Survey<'a>, DocumentError> {
    let mut previous = "";
    let mut is_clean = true;
    let mut not_listed = listed.map_or(0, Object::len);
    let mut special = Special::default();
    for (position, property) in metadata.iter().enumerate() {
        let (name, value) = property?;
        match fate_of(name) {
            Fate::Keep => is_clean &= position == 0 || previous < name,
            Fate::DropString => string_of(name, &value).map(|_| is_clean = false)?,
            Fate::DropDate => check_date(name, &value).map(|()| is_clean = false)?,
            Fate::Listed => {
                is_clean &= position == 0 || previous < name;
                let list = listed.map(|lists| lists.get(name)).transpose()?.flatten();
                match list {
                    Some(list) if blittable::equal(&list, &value)? => not_listed -= 1,
                    Some(_) | None => is_clean = false,
                }
            }
            Fate::Drop | Fate::Rename(_) => is_clean = false,
        }
        special.note(name, &value);
        previous = name;
    }
    Ok(Survey { is_clean: is_clean && not_listed == 0, special })
}

/// The properties to store, sorted by name.
fn kept_properties<'a>(
    metadata: &Object<'a>,
    listed: Option<&Object<'a>>,
) -> Result<Vec<(&'a str, Value<'a>)>, DocumentError> {
    let mut kept: Vec<(&str, Value<'_>)> = Vec::with_capacity(metadata.len());
    for property in metadata.iter() {
        let (name, value) = property?;
        let name = match fate_of(name) {
            Fate::Keep => name,
            Fate::Rename(new_name) => new_name,
            Fate::Listed | Fate::Drop | Fate::DropString | Fate::DropDate => continue,
        };
        // An old and a new name are one property: the later one wins.
        kept.retain(|(known, _)| *known != name);
        kept.push((name, value));
    }
    if let Some(lists) = listed {
        kept.extend(properties_of(lists)?);
    }
    kept.sort_unstable_by_key(|(name, _)| *name);
    Ok(kept)
}

fn with_metadata(
    document: &Document<'_>,
    kept: &[(&str, Value<'_>)],
) -> Result<BlittableBuf, DocumentError> {
    let paths: Vec<[&str; 2]> = kept.iter().map(|(name, _)| [METADATA, *name]).collect();
    let mut edits = Vec::with_capacity(1 + kept.len());
    edits.push(Edit::Set { path: &[METADATA], item: Item::EmptyObject });
    edits.extend(
        paths
            .iter()
            .zip(kept)
            .map(|(path, (_, value))| Edit::Set { path, item: Item::Copy(*value) }),
    );
    Ok(modify(document, &edits)?)
}

fn collection_of(value: Option<Value<'_>>) -> Result<CollectionName, DocumentError> {
    match value {
        Some(Value::String(text)) => Ok(CollectionName::new(text.as_cow()?.as_ref())?),
        _ => Ok(CollectionName::new(EMPTY_COLLECTION)?),
    }
}

fn string_of<'a>(name: &str, value: &Value<'a>) -> Result<Cow<'a, str>, DocumentError> {
    match value {
        Value::String(text) => Ok(text.as_cow()?),
        other => Err(DocumentError::InvalidMetadata {
            message: format!(
                "Expected property @metadata.{name} to have string type, but was: {}.",
                token_name(other)
            ),
        }),
    }
}

fn check_date(name: &str, value: &Value<'_>) -> Result<(), DocumentError> {
    let text = string_of(name, value)?;
    match date::parse(&text).map(|date| date.zone) {
        Some(date::Zone::Unspecified | date::Zone::Utc) => Ok(()),
        Some(date::Zone::Offset(_)) | None => Err(DocumentError::InvalidMetadata {
            message: format!("Cannot parse the value of property @metadata.{name}: {text}."),
        }),
    }
}

/// `@expires`, `@refresh` and `@archive-at` are kept, but must be dates when they are strings or
/// null.
fn check_dates(special: &Special<'_>, id: &str, now_ticks: i64) -> Result<(), DocumentError> {
    for value in [special.expires, special.refresh, special.archive_at] {
        let text = match value {
            Some(Value::String(text)) => text.as_cow()?,
            Some(Value::Null) => Cow::Borrowed(""),
            _ => continue,
        };
        if date::parse(&text).is_none() {
            let (id, text) = (id.to_owned(), text.into_owned());
            return Err(DocumentError::InvalidExpiration { id, text, now_ticks });
        }
    }
    Ok(())
}

fn token_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "Null",
        Value::Bool(true) => "True",
        Value::Bool(false) => "False",
        Value::Integer(_) => "Integer",
        Value::Number(_) => "Float",
        Value::String(_) => "String",
        Value::Array(_) => "StartArray",
        Value::Object(_) => "StartObject",
    }
}

fn not_an_object(value: &Value<'_>) -> DocumentError {
    const OBJECT: &str = "Sparrow.Json.BlittableJsonReaderObject";
    let plain = |kind: &str, text: &str| format!("Could not convert {kind} ('{text}') to {OBJECT}");
    let message = match value {
        Value::Null => format!("Could not convert null to {OBJECT}"),
        Value::Bool(true) => plain("System.Boolean", "True"),
        Value::Bool(false) => plain("System.Boolean", "False"),
        Value::Integer(number) => plain("System.Int64", &number.to_string()),
        Value::Number(text) => plain("Sparrow.Json.LazyNumberValue", text),
        Value::String(text) => match text.as_cow() {
            Ok(text) => plain("Sparrow.Json.LazyStringValue", &text),
            Err(error) => return error.into(),
        },
        Value::Array(_) | Value::Object(_) => {
            let mut json = Vec::new();
            if let Err(error) = blittable::write_json(value, &mut json) {
                return error.into();
            }
            let json = String::from_utf8_lossy(&json);
            format!(
                "Could not convert Sparrow.Json.BlittableJsonReaderArray ('{json}') to \
                 BlittableJsonReaderObject"
            )
        }
    };
    DocumentError::MetadataIsNotAnObject { message }
}

#[cfg(test)]
mod tests {
    use blittable::{ParseLimits, parse_document};

    use super::*;

    fn accepted(json: &str) -> Result<(String, String, bool), DocumentError> {
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let accepted = accept(&body, None, "u/1", 0)?;
        let json = String::from_utf8(accepted.body.as_view().to_json()?).unwrap();
        let is_copied = matches!(accepted.body, Cow::Owned(_));
        Ok((json, accepted.collection.to_string(), is_copied))
    }

    #[test]
    fn what_the_server_adds_itself_is_dropped_and_the_rest_is_sorted() {
        let cases = [
            (r#"{"A":1}"#, r#"{"A":1}"#, "@empty"),
            (r#"{"@metadata":{}}"#, r#"{"@metadata":{}}"#, "@empty"),
            (
                r#"{"A":1,"@metadata":{"@id":"q","@change-vector":"r","@flags":"HasRevisions","@etag":5,"@index-score":1,"@last-modified":"2020-01-01T00:00:00.0000000Z","Last-Modified":"x","@counters":["a"],"@timeseries":["b"],"z":1,"@projection":true,"@foo":{"n":{"@id":1}},"A":2},"B":2}"#,
                r#"{"A":1,"@metadata":{"@foo":{"n":{"@id":1}},"@projection":true,"A":2,"z":1},"B":2}"#,
                "@empty",
            ),
            (
                r#"{"@metadata":{"@collection":"Users","@id":"x"}}"#,
                r#"{"@metadata":{"@collection":"Users"}}"#,
                "Users",
            ),
            (
                r#"{"@metadata":{"Raven-Entity-Name":"Ren"}}"#,
                r#"{"@metadata":{"@collection":"Ren"}}"#,
                "Ren",
            ),
            (
                r#"{"@metadata":{"Raven-Entity-Name":"Ren","@collection":"Other"}}"#,
                r#"{"@metadata":{"@collection":"Other"}}"#,
                "Other",
            ),
            (
                r#"{"@metadata":{"@collection":"q","Raven-Entity-Name":"Ren"}}"#,
                r#"{"@metadata":{"@collection":"Ren"}}"#,
                "Ren",
            ),
            (
                r#"{"@metadata":{"Raven-Expiration-Date":"2030-01-01T00:00:00.0000000Z"}}"#,
                r#"{"@metadata":{"@expires":"2030-01-01T00:00:00.0000000Z"}}"#,
                "@empty",
            ),
            (
                r#"{"@metadata":{"b":1,"a":2,"B":3,"_":1,"é":1,"@z":1,"aa":1}}"#,
                r#"{"@metadata":{"@z":1,"B":3,"_":1,"a":2,"aa":1,"b":1,"é":1}}"#,
                "@empty",
            ),
            (
                r#"{"@metadata":{"x":{"y":[{"z":1}]},"B":[1,{"b":2,"a":1}],"@collection":"a"}}"#,
                r#"{"@metadata":{"@collection":"a","B":[1,{"b":2,"a":1}],"x":{"y":[{"z":1}]}}}"#,
                "a",
            ),
        ];
        for (json, expected, collection) in cases {
            let (stored, found, _) = accepted(json).unwrap();
            assert_eq!(stored, expected);
            assert_eq!(found, collection, "{json}");
        }
    }

    #[test]
    fn the_usual_document_is_not_copied() {
        for json in [
            r#"{"A":1}"#,
            r#"{"A":1,"@metadata":{"@collection":"Users","Raven-Clr-Type":"User, App"}}"#,
        ] {
            assert!(!accepted(json).unwrap().2, "{json}");
        }
        assert!(accepted(r#"{"@metadata":{"@id":"x"}}"#).unwrap().2);
    }

    #[test]
    fn only_a_string_names_a_collection() {
        let cases = [
            (r#"{"@metadata":{"@collection":null}}"#, "@empty"),
            (r#"{"@metadata":{"@collection":5}}"#, "@empty"),
            (r#"{"@metadata":{"@collection":{"a":1}}}"#, "@empty"),
            (r#"{"@metadata":{"@collection":""}}"#, ""),
            (r#"{"@metadata":{"@collection":"@hilo"}}"#, "@hilo"),
            (r#"{"@metadata":{"@COLLECTION":"y"}}"#, "@empty"),
        ];
        for (json, expected) in cases {
            assert_eq!(accepted(json).unwrap().1, expected, "{json}");
        }
    }

    #[test]
    fn impossible_metadata_is_refused_with_the_texts_of_the_protocol() {
        let cases = [
            (
                r#""x""#,
                "Could not convert Sparrow.Json.LazyStringValue ('x') to Sparrow.Json.BlittableJsonReaderObject",
            ),
            ("5", "Could not convert System.Int64 ('5') to Sparrow.Json.BlittableJsonReaderObject"),
            (
                "true",
                "Could not convert System.Boolean ('True') to Sparrow.Json.BlittableJsonReaderObject",
            ),
            (
                "[1]",
                "Could not convert Sparrow.Json.BlittableJsonReaderArray ('[1]') to BlittableJsonReaderObject",
            ),
            ("null", "Could not convert null to Sparrow.Json.BlittableJsonReaderObject"),
            (
                r#"{"@id":5}"#,
                "Expected property @metadata.@id to have string type, but was: Integer.",
            ),
            (
                r#"{"@flags":null}"#,
                "Expected property @metadata.@flags to have string type, but was: Null.",
            ),
            (
                r#"{"@last-modified":5}"#,
                "Expected property @metadata.@last-modified to have string type, but was: Integer.",
            ),
            (
                r#"{"@last-modified":"abc"}"#,
                "Cannot parse the value of property @metadata.@last-modified: abc.",
            ),
            (
                r#"{"@last-modified":"2020-01-01T00:00:00+01:00"}"#,
                "Cannot parse the value of property @metadata.@last-modified: 2020-01-01T00:00:00+01:00.",
            ),
            (
                r#"{"@expires":"abc"}"#,
                "The expiration date format for document 'u/1' is not valid: 'abc'. Use the following format: 0001-01-01T00:00:00.0000000Z",
            ),
            (
                r#"{"@refresh":null}"#,
                "The expiration date format for document 'u/1' is not valid: ''. Use the following format: 0001-01-01T00:00:00.0000000Z",
            ),
            (
                r#"{"@id":"x","@expires":"2030-01-01"}"#,
                "The expiration date format for document 'u/1' is not valid: '2030-01-01'. Use the following format: 0001-01-01T00:00:00.0000000Z",
            ),
        ];
        for (metadata, message) in cases {
            let error = accepted(&format!(r#"{{"@metadata":{metadata}}}"#)).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        for metadata in [r#"{"@expires":5}"#, r#"{"@expires":"2030-01-01T00:00:00+02:00"}"#] {
            assert!(accepted(&format!(r#"{{"@metadata":{metadata}}}"#)).is_ok(), "{metadata}");
        }
    }
}
