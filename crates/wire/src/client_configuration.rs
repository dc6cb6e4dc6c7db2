//! The configuration that clients load from the server, as sent by clients and stored in records.

use model::{DatabaseRecord, IdSeparator};
use serde_json::{Map, Value, json};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    record_body::RecordBody,
    stored_section::{SectionKind, StoredSection},
};

const SEPARATOR: &str = "IdentityPartsSeparator";
const DISABLED: &str = "Disabled";
/// The property that contains the index of the last change.
const ETAG: &str = "Etag";

/// A configuration as clients load it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConfiguration {
    /// The index of the change that wrote it, or of a newer one of which clients are to be notified.
    pub index: u64,
    /// What was configured, with defaults filled in.
    pub json: Value,
}

impl ClientConfiguration {
    /// A configuration as it is stored; `None` if it cannot be read. `index` is that of the change that wrote it.
    pub fn read(stored: &[u8], index: u64) -> Option<Self> {
        let stored: Map<String, Value> = serde_json::from_slice(stored).ok()?;
        Some(Self { index, json: in_full(&stored, index) })
    }

    /// The configuration in a database's record.
    pub fn of_record(record: &DatabaseRecord) -> Option<Self> {
        let body = RecordBody::of_record(record);
        let stored = body.section(SectionKind::Client)?.as_object()?;
        let index = match record.client_index {
            // Earlier builds stored it in the configuration. The next change of the record stores it in
            // the record.
            0 => stored
                .get(ETAG)
                .and_then(Value::as_u64)
                .map_or(record.etag, |etag| etag.min(record.etag)),
            index => index,
        };
        Some(Self { index, json: in_full(stored, index) })
    }

    /// A configuration without effect, which a change with this index made.
    pub fn disabled(index: u64) -> Self {
        let disabled = Map::from_iter([(DISABLED.to_owned(), Value::Bool(true))]);
        Self { index, json: in_full(&disabled, index) }
    }

    /// Whether it has no effect.
    pub fn is_disabled(&self) -> bool {
        self.json[DISABLED] == Value::Bool(true)
    }
}

impl RecordBody {
    /// Whether two records of a database contain the same client configuration, whatever its index.
    pub fn has_same_client_configuration(&self, other: &RecordBody) -> bool {
        let content = |body: &RecordBody| {
            let mut stored = body.section(SectionKind::Client)?.as_object()?.clone();
            stored.remove(ETAG);
            Some(stored)
        };
        content(self) == content(other)
    }
}

fn in_full(stored: &Map<String, Value>, index: u64) -> Value {
    let mut configuration = json!({
        DISABLED: false, ETAG: index, "MaxNumberOfRequestsPerSession": null,
        "ReadBalanceBehavior": null, "LoadBalanceBehavior": null, "LoadBalancerContextSeed": null,
        SEPARATOR: null
    });
    for (key, value) in stored.iter().filter(|(key, _)| key.as_str() != ETAG) {
        configuration[key.as_str()] = value.clone();
    }
    configuration
}

/// Reads a configuration sent by a client.
///
/// # Errors
/// The body is not an object, or the identity separator is invalid.
pub fn read_client_configuration(body: &[u8]) -> Result<StoredSection, ProtocolError> {
    let sent: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
        let message = format!("The configuration is not JSON: {error}");
        ProtocolError::new(ErrorKind::InvalidData, message)
    })?;
    match sent.get(SEPARATOR) {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) if single(text) == Some(IdSeparator::IDENTITY_SUFFIX) => {
            let message = format!("Cannot set identity parts separator to '{text}'.");
            return Err(ProtocolError::invalid_operation(message));
        }
        Some(value) if separator(value).is_some() => {}
        Some(value) => return Err(not_a_character(value)),
    }
    Ok(StoredSection::new(SectionKind::Client, Value::Object(sent)))
}

/// The separator that the server puts between the parts of ids in a database: from the database's
/// configuration, unless that is disabled.
pub(crate) fn id_separator_of_record(record: &Map<String, Value>) -> IdSeparator {
    let own = record.get(SectionKind::Client.property());
    let own = own.filter(|own| own.get(DISABLED) != Some(&Value::Bool(true)));
    own.and_then(|own| separator(own.get(SEPARATOR)?)).unwrap_or_default()
}

fn separator(value: &Value) -> Option<IdSeparator> {
    IdSeparator::new(single(value.as_str()?)?)
}

/// The character of a text that has exactly one.
fn single(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}

fn not_a_character(value: &Value) -> ProtocolError {
    let (of, text) = match value {
        Value::String(text) => ("Sparrow.Json.LazyStringValue", text.chars().take(256).collect()),
        Value::Bool(true) => ("System.Boolean", "True".to_owned()),
        Value::Bool(false) => ("System.Boolean", "False".to_owned()),
        Value::Number(number) if number.is_i64() => ("System.Int64", number.to_string()),
        Value::Number(number) => ("Sparrow.Json.LazyNumberValue", number.to_string()),
        Value::Array(_) => ("Sparrow.Json.BlittableJsonReaderArray", String::new()),
        Value::Object(_) | Value::Null => ("Sparrow.Json.BlittableJsonReaderObject", String::new()),
    };
    let message = format!("Could not convert {of} ('{text}') to System.Char");
    ProtocolError::new(ErrorKind::Format, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_configuration_has_every_key_and_the_servers_etag() {
        let stored = json!({"Etag": 123, "MaxNumberOfRequestsPerSession": 80});
        let configuration = in_full(stored.as_object().unwrap(), 7);
        assert_eq!(configuration[ETAG], 7);
        assert_eq!(configuration["MaxNumberOfRequestsPerSession"], 80);
        assert!(configuration.as_object().unwrap().contains_key(SEPARATOR));
    }

    #[test]
    fn the_index_does_not_count_as_a_difference() {
        let body = |json: &str| RecordBody::read(json.as_bytes());
        let first = body(r#"{"Client":{"Etag":1,"Disabled":true}}"#);
        assert!(first.has_same_client_configuration(&body(r#"{"Client":{"Disabled":true}}"#)));
        assert!(!first.has_same_client_configuration(&body(r#"{"Client":{"Etag":1}}"#)));
        assert!(!first.has_same_client_configuration(&body(r#"{"Client":null}"#)));
        assert!(ClientConfiguration::disabled(3).is_disabled());
        assert!(!ClientConfiguration::read(b"{}", 3).unwrap().is_disabled());
        assert_eq!(ClientConfiguration::read(b"[]", 3), None);
    }

    #[test]
    fn a_separator_is_one_character() {
        let table = [
            (json!(":"), None),
            (json!(null), None),
            (json!("|"), Some("Cannot set identity parts separator to '|'.")),
            (
                json!("ab"),
                Some("Could not convert Sparrow.Json.LazyStringValue ('ab') to System.Char"),
            ),
            (json!(""), Some("Could not convert Sparrow.Json.LazyStringValue ('') to System.Char")),
            (
                json!("😀"),
                Some("Could not convert Sparrow.Json.LazyStringValue ('😀') to System.Char"),
            ),
            (json!(5), Some("Could not convert System.Int64 ('5') to System.Char")),
            (json!(true), Some("Could not convert System.Boolean ('True') to System.Char")),
        ];
        for (value, refused) in table {
            let sent = json!({SEPARATOR: value}).to_string();
            let error = read_client_configuration(sent.as_bytes()).err();
            assert_eq!(error.map(|error| error.message).as_deref(), refused, "{sent}");
        }
        assert!(read_client_configuration(b"[]").is_err());
    }

    #[test]
    fn only_the_own_configuration_of_a_database_says_what_separates() {
        let table = [
            (json!({"Client": {SEPARATOR: ":"}}), ':'),
            (json!({"Client": {SEPARATOR: ":", DISABLED: true}}), '/'),
            (json!({"Client": {SEPARATOR: null}}), '/'),
            (json!({"Client": {SEPARATOR: 7}}), '/'),
            (json!({"Client": null}), '/'),
            (json!({}), '/'),
        ];
        for (record, expected) in table {
            let found = id_separator_of_record(record.as_object().unwrap());
            assert_eq!(found.character(), expected, "{record}");
        }
    }
}
