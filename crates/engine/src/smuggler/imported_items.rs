//! Elements of the smaller kinds of data.

use std::borrow::Cow;

use blittable::{BlittableBuf, JsonReader};
use documents::{CounterValue, Deleted, ImportedCounters, ImportedDeletion};
use model::{
    AttachmentName, ChangeVector, ChangeVectorEntry, ContentHash, CounterName, DatabaseId,
    DocumentId, Etag, NodeTag,
};
use serde_json::{Map, Value};

/// Separates the parts of the key of an attachment.
const KEY_SEPARATOR: char = '\u{1e}';

/// Parses an element. Definitions of automatic indexes have a comma behind the last property of an object, which
/// is accepted.
pub(super) fn parse(text: &[u8]) -> Result<Map<String, Value>, String> {
    serde_json::from_slice(&without_last_commas(text)).map_err(|error| error.to_string())
}

/// Checks that a text that is left out is what it seems to be: damage may have made one element of several.
pub(super) fn check(text: &[u8]) -> Result<(), String> {
    let mut reader = JsonReader::new(text);
    let read = reader.skip_value().and_then(|()| reader.finish());
    read.map_err(|error| format!("{error}."))
}

fn without_last_commas(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.windows(2).any(|pair| matches!(pair, b",}" | b",]")) {
        return Cow::Borrowed(text);
    }
    let mut kept = Vec::with_capacity(text.len());
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in text {
        if !in_text && matches!(byte, b'}' | b']') && kept.last() == Some(&b',') {
            kept.pop();
        }
        kept.push(*byte);
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ => {}
        }
    }
    Cow::Owned(kept)
}

pub(super) fn text<'a>(element: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    element.get(name).and_then(Value::as_str).ok_or_else(|| format!("'{name}' is missing."))
}

/// The name and the value of an identity.
pub(super) fn identity(element: &Map<String, Value>) -> Result<(String, i64), String> {
    let value = match element.get("Value") {
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_i64(),
        None => None,
    };
    let value = value.ok_or("'Value' is not a number.")?;
    Ok((text(element, "Key")?.to_owned(), value))
}

/// The key and the value of compare exchange.
pub(super) fn compare_exchange(
    element: &Map<String, Value>,
    parse: impl FnOnce(&[u8]) -> Result<BlittableBuf, String>,
) -> Result<(String, BlittableBuf), String> {
    let key = text(element, "Key")?.to_owned();
    let value = match element.get("Value") {
        Some(Value::String(text)) => parse(text.as_bytes())?,
        Some(value @ Value::Object(_)) => parse(value.to_string().as_bytes())?,
        _ => return Err("'Value' is missing.".to_owned()),
    };
    Ok((key, value))
}

/// The counters of a document, without the deleted ones.
pub(super) fn counters(element: &Map<String, Value>) -> Result<ImportedCounters, String> {
    let id = document_id(element)?;
    let version = version_of(element);
    let values = element.get("Values").and_then(Value::as_object).ok_or("'Values' is missing.")?;
    let ids = values.get("@dbIds").and_then(Value::as_array).ok_or("'@dbIds' is missing.")?;
    let ids = ids.iter().map(|id| database_id(id.as_str().unwrap_or_default()));
    let ids: Vec<DatabaseId> = ids.collect::<Result<_, _>>()?;
    let names = values.get("@names").and_then(Value::as_object);
    let counted = values.get("@vals").and_then(Value::as_object).ok_or("'@vals' is missing.")?;
    let mut counters = Vec::with_capacity(counted.len());
    for (lower_name, numbers) in counted {
        let Some(numbers) = numbers.as_array() else { continue };
        let name = names.and_then(|names| names.get(lower_name)).and_then(Value::as_str);
        let name =
            CounterName::new(name.unwrap_or(lower_name)).map_err(|error| error.to_string())?;
        let numbers: Option<Vec<i64>> = numbers.iter().map(Value::as_i64).collect();
        let numbers = numbers.ok_or("A counter has a value that is not a number.")?;
        let pairs = ids.iter().zip(numbers.as_chunks::<2>().0);
        let pairs = pairs.filter(|(_, pair)| **pair != [0, 0]);
        let values = pairs.map(|(id, [value, etag])| CounterValue {
            node_tag: tag_of(&version, *id),
            database_id: *id,
            value: *value,
            etag: Etag(etag.cast_unsigned()),
        });
        counters.push((name, values.collect()));
    }
    Ok(ImportedCounters { id, counters, replaces: false })
}

/// A counter of RavenDB 4.1, whose value counts for the database that its version names.
pub(super) fn single_counter(
    element: &Map<String, Value>,
    own: DatabaseId,
) -> Result<ImportedCounters, String> {
    let (id, version) = (document_id(element)?, version_of(element));
    let name = CounterName::new(text(element, "Name")?).map_err(|error| error.to_string())?;
    let value = element.get("Value").and_then(Value::as_i64).ok_or("'Value' is not a number.")?;
    let last = version.entries().last();
    let (node_tag, database_id, etag) =
        last.map_or((NodeTag::A, own, Etag(1)), |last| (last.tag, last.database_id, last.etag));
    let value = CounterValue { node_tag, database_id, value, etag };
    Ok(ImportedCounters { id, counters: vec![(name, vec![value])], replaces: false })
}

fn document_id(element: &Map<String, Value>) -> Result<DocumentId, String> {
    DocumentId::new(text(element, "DocId")?).map_err(|error| error.to_string())
}

fn version_of(element: &Map<String, Value>) -> ChangeVector {
    let text = element.get("ChangeVector").and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or_else(ChangeVector::empty)
}

fn database_id(text: &str) -> Result<DatabaseId, String> {
    DatabaseId::parse(text).ok_or_else(|| format!("'{text}' is not the id of a database."))
}

/// The node of a database; A if the version does not name the database.
fn tag_of(version: &ChangeVector, id: DatabaseId) -> NodeTag {
    let entry = version.entries().find(|entry| entry.database_id == id);
    entry.map_or(NodeTag::A, |entry| entry.tag)
}

/// What a tombstone says is deleted.
pub(super) fn deletion(element: &Map<String, Value>) -> Result<ImportedDeletion, String> {
    let key = text(element, "Key")?;
    let change_vector = element.get("ChangeVector").and_then(Value::as_str);
    let change_vector = change_vector.and_then(|text| text.parse().ok());
    match text(element, "Type")? {
        "Document" => {
            let id = DocumentId::new(key).map_err(|error| error.to_string())?;
            Ok(ImportedDeletion { id, change_vector, deleted: Deleted::Document })
        }
        "Attachment" => deleted_attachment(key, change_vector),
        other => Err(format!("Deletions of the type '{other}' are not imported.")),
    }
}

/// The attachment whose deletion a key records.
fn deleted_attachment(
    key: &str,
    change_vector: Option<ChangeVector>,
) -> Result<ImportedDeletion, String> {
    let mut parts = key.split(KEY_SEPARATOR);
    let (Some(id), Some("d"), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("The key is not that of an attachment of a document.".to_owned());
    };
    let id = DocumentId::new(id).map_err(|error| error.to_string())?;
    let name = AttachmentName::new(name).map_err(|error| error.to_string())?;
    let hash = parts.next().and_then(ContentHash::parse);
    Ok(ImportedDeletion { id, change_vector, deleted: Deleted::Attachment { name, hash } })
}

/// The counters of an element that are deleted: their values are texts, `database:etag` for each database.
pub(super) fn deleted_counters(
    element: &Map<String, Value>,
) -> Result<Vec<ImportedDeletion>, String> {
    let id = document_id(element)?;
    let values = element.get("Values").and_then(Value::as_object);
    let counted = values.and_then(|values| values.get("@vals")).and_then(Value::as_object);
    let deleted = counted.into_iter().flatten().filter_map(|(name, value)| {
        let text = value.as_str()?;
        Some((name, text))
    });
    deleted
        .map(|(name, text)| {
            let name = CounterName::new(name.as_str()).map_err(|error| error.to_string())?;
            let change_vector = Some(deletion_version(text)?);
            let id = id.clone();
            Ok(ImportedDeletion { id, change_vector, deleted: Deleted::Counter { name } })
        })
        .collect()
}

fn deletion_version(text: &str) -> Result<ChangeVector, String> {
    let mut version = ChangeVector::empty();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let entry = part.rsplit_once(':').and_then(|(id, etag)| {
            let etag = Etag(etag.parse().ok()?);
            let database_id = DatabaseId::parse(id)?;
            Some(ChangeVectorEntry { tag: NodeTag::A, etag, database_id })
        });
        let entry = entry.ok_or_else(|| format!("'{text}' is not the version of a deletion."))?;
        version = version.with(entry);
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_commas_are_left_out_and_texts_are_not_changed() {
        let cases = [
            (r#"{"a":[{"b":1,}]}"#, r#"{"a":[{"b":1}]}"#),
            (r#"{"a":",}","b":"\",}",}"#, r#"{"a":",}","b":"\",}"}"#),
            (r#"{"a":1}"#, r#"{"a":1}"#),
        ];
        for (text, expected) in cases {
            let kept = without_last_commas(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&kept), expected);
        }
    }

    #[test]
    fn counters_keep_what_each_database_has_counted_and_deleted_ones_are_deletions() {
        let element = parse(
            br#"{"DocId":"us/0","ChangeVector":"B:29-IXFvUGNOcU6aQXF0gg4kKQ","Values":{"@dbIds":
            ["IXFvUGNOcU6aQXF0gg4kKQ","E/bJlYuSXk2YiDE/tSNSAg"],"@names":{"likes":"Likes","gone":"gone"},
            "@vals":{"gone":"IXFvUGNOcU6aQXF0gg4kKQ:36","likes":[5,26,0,0]}}}"#,
        );
        let element = element.unwrap();
        let read = counters(&element).unwrap();
        let [(name, values)] = &read.counters[..] else { panic!("{read:?}") };
        assert_eq!((read.id.as_str(), name.as_str()), ("us/0", "Likes"));
        let [deletion] = &deleted_counters(&element).unwrap()[..] else { panic!() };
        let Deleted::Counter { name } = &deletion.deleted else { panic!("{deletion:?}") };
        let version = deletion.change_vector.as_ref().map(ChangeVector::as_str);
        assert_eq!((name.as_str(), version), ("gone", Some("A:36-IXFvUGNOcU6aQXF0gg4kKQ")));
        let values: Vec<_> = values
            .iter()
            .map(|value| (value.node_tag.as_str(), value.value, value.etag.0))
            .collect();
        assert_eq!(values, [("B", 5, 26)]);
    }
}
