//! The configuration of logs as clients read and set it.
//!
//! What Corvus itself logs is set by `CORVUS_LOG` and does not depend on this: the configuration is
//! kept for those who ask for it, until the server stops.

use serde_json::{Map, Value, json};
use wire::{ErrorKind, ProtocolError};

/// The modes of the protocol.
const MODES: [&str; 3] = ["None", "Operations", "Information"];
/// The mode that the server starts with.
const STARTING_MODE: &str = "Operations";
/// How long logs are kept when nobody says anything else.
const RETENTION_TIME: &str = "3.00:00:00";

/// A configuration.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LogsConfiguration {
    current_mode: &'static str,
    retention_time: Value,
    retention_size: Value,
    compress: bool,
}

impl Default for LogsConfiguration {
    fn default() -> LogsConfiguration {
        LogsConfiguration {
            current_mode: STARTING_MODE,
            retention_time: RETENTION_TIME.into(),
            retention_size: Value::Null,
            compress: false,
        }
    }
}

impl LogsConfiguration {
    /// What a client asks for.
    ///
    /// # Errors
    /// When a property has the wrong kind or the mode is unknown.
    pub(crate) fn read(body: &Map<String, Value>) -> Result<LogsConfiguration, ProtocolError> {
        let refused = |property: &str| {
            let message = format!("Could not convert '{property}' of the logs configuration");
            ProtocolError::new(ErrorKind::Format, message)
        };
        let given = |property| body.get(property).filter(|value| !value.is_null());
        let mut configuration = LogsConfiguration::default();
        if let Some(mode) = given("Mode") {
            let known = mode
                .as_str()
                .and_then(|mode| MODES.into_iter().find(|known| known.eq_ignore_ascii_case(mode)));
            configuration.current_mode = known.ok_or_else(|| refused("Mode"))?;
        }
        if let Some(time) = given("RetentionTime") {
            let time = Some(time.clone()).filter(Value::is_string);
            configuration.retention_time = time.ok_or_else(|| refused("RetentionTime"))?;
        }
        if let Some(size) = given("RetentionSize") {
            let size = Some(size.clone()).filter(Value::is_number);
            configuration.retention_size = size.ok_or_else(|| refused("RetentionSize"))?;
        }
        if let Some(compress) = given("Compress") {
            configuration.compress = compress.as_bool().ok_or_else(|| refused("Compress"))?;
        }
        Ok(configuration)
    }

    /// As the protocol shows it.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "CurrentMode": self.current_mode, "Mode": STARTING_MODE, "Path": null,
            "UseUtcTime": true, "RetentionTime": self.retention_time,
            "RetentionSize": self.retention_size, "Compress": self.compress
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Value, ProtocolError> {
        LogsConfiguration::read(&serde_json::from_str(json).unwrap()).map(|read| read.to_json())
    }

    #[test]
    fn what_is_given_is_kept_and_the_rest_is_as_it_starts() {
        let set = read(r#"{"Mode":"information","RetentionSize":5,"Compress":true}"#).unwrap();
        assert_eq!(
            (&set["CurrentMode"], &set["Mode"]),
            (&json!("Information"), &json!("Operations"))
        );
        assert_eq!((&set["RetentionSize"], &set["Compress"]), (&json!(5), &json!(true)));
        assert_eq!(read("{}").unwrap(), LogsConfiguration::default().to_json());
        for wrong in [r#"{"Mode":"Bad"}"#, r#"{"Compress":5}"#, r#"{"RetentionTime":5}"#] {
            assert_eq!(read(wrong).unwrap_err().kind, ErrorKind::Format, "{wrong}");
        }
    }
}
