//! The configuration that clients load from the server, as sent by clients and stored in records.

use model::IdSeparator;
use serde_json::{Map, Value, json};

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// The property of a database record that holds the client configuration.
pub const CLIENT_CONFIGURATION_PROPERTY: &str = "Client";

const SEPARATOR: &str = "IdentityPartsSeparator";
const DISABLED: &str = "Disabled";

/// The configuration in the protocol's shape: what the client stored, with defaults filled in.
pub fn client_configuration(stored: &Map<String, Value>, etag: u64) -> Value {
    let mut configuration = json!({
        DISABLED: false, "Etag": etag, "MaxNumberOfRequestsPerSession": null,
        "ReadBalanceBehavior": null, "LoadBalanceBehavior": null, "LoadBalancerContextSeed": null,
        SEPARATOR: null
    });
    for (key, value) in stored.iter().filter(|(key, _)| key.as_str() != "Etag") {
        configuration[key.as_str()] = value.clone();
    }
    configuration
}

/// Reads a configuration sent by a client.
///
/// # Errors
/// The body is not an object, or the identity separator is invalid.
pub fn read_client_configuration(body: &[u8]) -> Result<Map<String, Value>, ProtocolError> {
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
    Ok(sent)
}

/// The separator that the server puts between the parts of ids in a database: from the database's
/// configuration, unless that is disabled.
pub(crate) fn id_separator_of_record(record: &Map<String, Value>) -> IdSeparator {
    let own = record.get(CLIENT_CONFIGURATION_PROPERTY);
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
        let configuration = client_configuration(stored.as_object().unwrap(), 7);
        assert_eq!(configuration["Etag"], 7);
        assert_eq!(configuration["MaxNumberOfRequestsPerSession"], 80);
        assert!(configuration.as_object().unwrap().contains_key(SEPARATOR));
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
