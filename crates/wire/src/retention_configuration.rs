//! The configurations of expiration, refresh and archival, as sent by clients and stored in records.

use serde_json::{Map, Value, json};

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// The three kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionKind {
    /// Documents are deleted when due.
    Expiration,
    /// Documents are stored again when due.
    Refresh,
    /// Documents are archived when due.
    Archival,
}

/// How due documents are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionConfiguration {
    /// Seconds between two runs.
    pub interval_seconds: u64,
    /// Maximum number of documents processed in one run.
    pub items_max: Option<u64>,
}

const INTERVAL_SECONDS_DEFAULT: u64 = 60;

impl RetentionKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Expiration, Self::Refresh, Self::Archival];

    /// The property of a database record that holds the configuration.
    pub fn property(self) -> &'static str {
        match self {
            Self::Expiration => "Expiration",
            Self::Refresh => "Refresh",
            Self::Archival => "DataArchival",
        }
    }

    fn interval_property(self) -> &'static str {
        match self {
            Self::Expiration => "DeleteFrequencyInSec",
            Self::Refresh => "RefreshFrequencyInSec",
            Self::Archival => "ArchiveFrequencyInSec",
        }
    }

    /// Validates a configuration sent by a client for a database; returns it with all properties, as it is
    /// stored and shown.
    ///
    /// # Errors
    /// The configuration is invalid; the messages are the protocol's.
    pub fn read(self, sent: &Map<String, Value>, database: &str) -> Result<Value, ProtocolError> {
        let is_disabled = match sent.get("Disabled") {
            None | Some(Value::Null) => false,
            Some(value) => value.as_bool().ok_or_else(|| unconvertible(value, "Boolean"))?,
        };
        let interval = number(sent, self.interval_property())?;
        if interval.is_some_and(|interval| interval <= 0) {
            let what = match self {
                Self::Expiration => "Expiration delete",
                Self::Refresh => "Refresh",
                Self::Archival => "Archive",
            };
            return Err(ProtocolError::invalid_operation(format!(
                "{what} frequency for database '{database}' must be greater than 0."
            )));
        }
        let items = number(sent, "MaxItemsToProcess")?;
        Ok(json!({
            "Disabled": is_disabled, self.interval_property(): interval, "MaxItemsToProcess": items
        }))
    }

    fn of_record(self, record: &Map<String, Value>) -> Option<RetentionConfiguration> {
        let stored = record.get(self.property())?.as_object()?;
        if stored.get("Disabled").and_then(Value::as_bool) == Some(true) {
            return None;
        }
        let interval = stored.get(self.interval_property()).and_then(Value::as_u64);
        Some(RetentionConfiguration {
            interval_seconds: interval.unwrap_or(INTERVAL_SECONDS_DEFAULT).max(1),
            items_max: stored.get("MaxItemsToProcess").and_then(Value::as_u64),
        })
    }
}

impl RetentionConfiguration {
    /// Reads the configurations from the JSON of a database record, in the order of [`RetentionKind::ALL`];
    /// `None` where one is missing or disabled.
    pub fn of_record(json: &[u8]) -> [Option<Self>; RetentionKind::ALL.len()] {
        let record = serde_json::from_slice(json).unwrap_or_default();
        RetentionKind::ALL.map(|kind| kind.of_record(&record))
    }
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
        kind.read(sent, "db").map(|json| json.to_string()).map_err(|error| error.message)
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
        let read = RetentionConfiguration::of_record(record.to_string().as_bytes());
        assert_eq!(read, [Some(expected), None, None]);
        assert_eq!(RetentionConfiguration::of_record(b"{}"), [None, None, None]);
    }
}
