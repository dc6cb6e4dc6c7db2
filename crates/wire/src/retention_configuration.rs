//! The configurations of expiration, refresh and archival, as sent by clients and stored in records.

use model::{RetentionConfiguration, RetentionConfigurations, RetentionKind};
use serde_json::{Map, Value, json};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    stored_section::{SectionKind, StoredSection},
};

const INTERVAL_SECONDS_DEFAULT: u64 = 60;

fn interval_property(kind: RetentionKind) -> &'static str {
    match kind {
        RetentionKind::Expiration => "DeleteFrequencyInSec",
        RetentionKind::Refresh => "RefreshFrequencyInSec",
        RetentionKind::Archival => "ArchiveFrequencyInSec",
    }
}

/// Validates a configuration sent by a client for a database; returns it with all properties, as it is
/// stored and shown.
///
/// # Errors
/// The configuration is invalid; the messages are the protocol's.
pub fn read_retention_configuration(
    kind: RetentionKind,
    sent: &Map<String, Value>,
    database: &str,
) -> Result<StoredSection, ProtocolError> {
    let is_disabled = match sent.get("Disabled") {
        None | Some(Value::Null) => false,
        Some(value) => value.as_bool().ok_or_else(|| unconvertible(value, "Boolean"))?,
    };
    let interval = number(sent, interval_property(kind))?;
    if interval.is_some_and(|interval| interval <= 0) {
        let what = match kind {
            RetentionKind::Expiration => "Expiration delete",
            RetentionKind::Refresh => "Refresh",
            RetentionKind::Archival => "Archive",
        };
        return Err(ProtocolError::invalid_operation(format!(
            "{what} frequency for database '{database}' must be greater than 0."
        )));
    }
    let items = number(sent, "MaxItemsToProcess")?;
    let json = json!({
        "Disabled": is_disabled, interval_property(kind): interval, "MaxItemsToProcess": items
    });
    Ok(StoredSection::new(SectionKind::Retention(kind), json))
}

/// Reads the configurations from a database record.
pub(crate) fn retention_of_record(record: &Map<String, Value>) -> RetentionConfigurations {
    RetentionConfigurations::new(|kind| {
        let stored = record.get(kind.property())?.as_object()?;
        if stored.get("Disabled").and_then(Value::as_bool) == Some(true) {
            return None;
        }
        let interval = stored.get(interval_property(kind)).and_then(Value::as_u64);
        Some(RetentionConfiguration {
            interval_seconds: interval.unwrap_or(INTERVAL_SECONDS_DEFAULT).max(1),
            items_max: stored.get("MaxItemsToProcess").and_then(Value::as_u64),
        })
    })
}

fn number(sent: &Map<String, Value>, name: &str) -> Result<Option<i64>, ProtocolError> {
    match sent.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| unconvertible(value, "Int64")),
    }
}

fn unconvertible(value: &Value, kind: &str) -> ProtocolError {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let message =
        format!("Could not convert Sparrow.Json.LazyStringValue ('{text}') to System.{kind}");
    ProtocolError::new(ErrorKind::Format, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: RetentionKind, sent: Value) -> Result<String, String> {
        let sent = sent.as_object().expect("a test sends objects");
        read_retention_configuration(kind, sent, "db")
            .map(|section| section.json().to_string())
            .map_err(|error| error.message)
    }

    #[test]
    fn configurations_are_shown_in_full() {
        let shown = read(RetentionKind::Expiration, json!({"DeleteFrequencyInSec": 5, "X": 1}));
        let expected = r#"{"Disabled":false,"DeleteFrequencyInSec":5,"MaxItemsToProcess":null}"#;
        assert_eq!(shown.unwrap(), expected);
        let shown = read(RetentionKind::Refresh, json!({"Disabled": true}));
        let expected = r#"{"Disabled":true,"RefreshFrequencyInSec":null,"MaxItemsToProcess":null}"#;
        assert_eq!(shown.unwrap(), expected);
    }

    #[test]
    fn impossible_ones_are_refused() {
        let refused = [
            (
                json!({"DeleteFrequencyInSec": 0}),
                "Expiration delete frequency for database 'db' must",
            ),
            (json!({"DeleteFrequencyInSec": "x"}), "('x') to System.Int64"),
            (json!({"Disabled": "x"}), "('x') to System.Boolean"),
        ];
        for (sent, message) in refused {
            let error = read(RetentionKind::Expiration, sent).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_record_says_how_often() {
        let record = json!({"Expiration": {"DeleteFrequencyInSec": null, "MaxItemsToProcess": 7},
            "Refresh": {"Disabled": true, "RefreshFrequencyInSec": 5}});
        let expected = RetentionConfiguration { interval_seconds: 60, items_max: Some(7) };
        let read = retention_of_record(record.as_object().unwrap());
        let found = RetentionKind::ALL.map(|kind| read.of_kind(kind));
        assert_eq!(found, [Some(expected), None, None]);
        assert_eq!(retention_of_record(&Map::new()), RetentionConfigurations::default());
    }
}
