//! The configuration of document compression, as sent by clients and stored in the database record.

use model::{CollectionName, DocumentsCompression};
use serde_json::{Map, Value, json};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    stored_section::{SectionKind, StoredSection},
};

const COLLECTIONS: &str = "Collections";
const ALL_COLLECTIONS: &str = "CompressAllCollections";
const REVISIONS: &str = "CompressRevisions";

/// Validates a configuration sent by a client; returns it with all properties, as it is stored and shown.
///
/// # Errors
/// The configuration is invalid; the messages are the protocol's.
pub fn read_documents_compression(
    sent: &Map<String, Value>,
) -> Result<StoredSection, ProtocolError> {
    let rules = parse(sent)?;
    let collections = sent.get(COLLECTIONS).filter(|names| !names.is_null());
    let collections = collections.cloned().unwrap_or_else(|| json!([]));
    let json = json!({
        COLLECTIONS: collections,
        ALL_COLLECTIONS: rules.all_collections,
        REVISIONS: rules.revisions
    });
    Ok(StoredSection::new(SectionKind::Compression, json))
}

/// Reads the configuration from a database record; by default nothing is compressed.
///
/// # Errors
/// The record holds something else there.
pub(crate) fn compression_of_record(
    record: &Map<String, Value>,
) -> Result<DocumentsCompression, ProtocolError> {
    match record.get(SectionKind::Compression.property()) {
        None | Some(Value::Null) => Ok(DocumentsCompression::nothing()),
        Some(Value::Object(stored)) => parse(stored),
        Some(other) => Err(not_convertible(other, "BlittableJsonReaderObject")),
    }
}

fn parse(sent: &Map<String, Value>) -> Result<DocumentsCompression, ProtocolError> {
    let mut rules = DocumentsCompression::nothing();
    rules.all_collections = flag(sent, ALL_COLLECTIONS)?;
    rules.revisions = flag(sent, REVISIONS)?;
    let names = match sent.get(COLLECTIONS) {
        None | Some(Value::Null) => return Ok(rules),
        Some(Value::Array(names)) => names,
        Some(other) => return Err(not_convertible(other, "BlittableJsonReaderArray")),
    };
    for name in names {
        let text = name.as_str().filter(|name| !name.is_empty());
        let text = text.ok_or_else(|| not_convertible(name, "the name of a collection"))?;
        let name = CollectionName::new(text)
            .map_err(|error| ProtocolError::argument(error.to_string()))?;
        rules.insert(&name);
    }
    Ok(rules)
}

fn flag(sent: &Map<String, Value>, name: &str) -> Result<bool, ProtocolError> {
    match sent.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(other) => Err(not_convertible(other, "System.Boolean")),
    }
}

fn not_convertible(value: &Value, to: &str) -> ProtocolError {
    ProtocolError::new(ErrorKind::Format, format!("Could not convert {value} to {to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sent: &Value) -> Result<Value, ProtocolError> {
        read_documents_compression(sent.as_object().unwrap()).map(|section| section.json().clone())
    }

    #[test]
    fn a_configuration_is_kept_in_full() {
        let nothing =
            json!({"Collections": [], "CompressAllCollections": false, "CompressRevisions": false});
        for sent in [json!({}), json!({"Collections": null, "Other": 1})] {
            assert_eq!(read(&sent).unwrap(), nothing);
        }
        let full = json!({
            "Collections": ["Users"], "CompressAllCollections": false, "CompressRevisions": true
        });
        assert_eq!(
            read(&json!({"Collections": ["Users"], "CompressRevisions": true})),
            Ok(full.clone())
        );
        let record = json!({"DocumentsCompression": full});
        let rules = compression_of_record(record.as_object().unwrap()).unwrap();
        assert!(rules.compresses(&CollectionName::new("users").unwrap()) && rules.revisions);
        assert!(!compression_of_record(&Map::new()).unwrap().compresses_anything());
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        for sent in [
            json!({"Collections": "x"}),
            json!({"Collections": [1]}),
            json!({"Collections": [""]}),
            json!({"CompressRevisions": "yes"}),
            json!({"CompressAllCollections": 1}),
        ] {
            assert!(read(&sent).is_err(), "{sent}");
        }
    }
}
