//! The configuration of logs as clients read and set it.
//!
//! What Corvus itself logs is set by `CORVUS_LOG` and does not depend on this: the configuration is
//! kept for those who ask for it, until the server stops.

use serde_json::{Map, Value, json};
use settings::Settings;
use wire::{ErrorKind, ProtocolError};

/// The modes of the protocol.
const MODES: [&str; 3] = ["None", "Operations", "Information"];
/// The mode that the server starts with when the settings name none.
const STARTING_MODE: &str = "Operations";
/// The setting that names it.
const MODE_SETTING: &str = "Logs.Mode";
/// How long logs are kept when nobody says anything else.
const RETENTION_TIME: &str = "3.00:00:00";

/// A configuration.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LogsConfiguration {
    /// The mode of the settings.
    mode: &'static str,
    current_mode: &'static str,
    retention_time: Value,
    retention_size: Value,
    compress: bool,
}

impl LogsConfiguration {
    /// The configuration that a server with these settings starts with.
    pub(crate) fn starting(settings: &Settings) -> LogsConfiguration {
        let given = settings.effective().iter().find(|one| one.name == MODE_SETTING);
        let mode = given.and_then(|one| one.value.as_deref()).and_then(mode_named);
        LogsConfiguration::of_mode(mode.unwrap_or(STARTING_MODE))
    }

    fn of_mode(mode: &'static str) -> LogsConfiguration {
        LogsConfiguration {
            mode,
            current_mode: mode,
            retention_time: RETENTION_TIME.into(),
            retention_size: Value::Null,
            compress: false,
        }
    }

    /// What a client asks for instead of this.
    ///
    /// # Errors
    /// When a property has the wrong kind or the mode is unknown.
    pub(crate) fn changed(
        &self,
        body: &Map<String, Value>,
    ) -> Result<LogsConfiguration, ProtocolError> {
        let refused = |property: &str| {
            let message = format!("Could not convert '{property}' of the logs configuration");
            ProtocolError::new(ErrorKind::Format, message)
        };
        let given = |property| body.get(property).filter(|value| !value.is_null());
        let mut configuration = LogsConfiguration::of_mode(self.mode);
        if let Some(mode) = given("Mode") {
            let known = mode.as_str().and_then(mode_named);
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
            "CurrentMode": self.current_mode, "Mode": self.mode, "Path": null,
            "UseUtcTime": true, "RetentionTime": self.retention_time,
            "RetentionSize": self.retention_size, "Compress": self.compress
        })
    }
}

fn mode_named(name: &str) -> Option<&'static str> {
    MODES.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Value, ProtocolError> {
        let starting = LogsConfiguration::of_mode("None");
        starting.changed(&serde_json::from_str(json).unwrap()).map(|changed| changed.to_json())
    }

    #[test]
    fn what_is_given_is_kept_and_the_rest_is_as_it_starts() {
        let set = read(r#"{"Mode":"information","RetentionSize":5,"Compress":true}"#).unwrap();
        assert_eq!((&set["CurrentMode"], &set["Mode"]), (&json!("Information"), &json!("None")));
        assert_eq!((&set["RetentionSize"], &set["Compress"]), (&json!(5), &json!(true)));
        assert_eq!(read("{}").unwrap(), LogsConfiguration::of_mode("None").to_json());
        for wrong in [r#"{"Mode":"Bad"}"#, r#"{"Compress":5}"#, r#"{"RetentionTime":5}"#] {
            assert_eq!(read(wrong).unwrap_err().kind, ErrorKind::Format, "{wrong}");
        }
    }
}
