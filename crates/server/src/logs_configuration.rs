//! The configuration of logs as clients read and set it.
//!
//! The mode holds until the server stops. How long files are kept is a matter of the settings: what a client
//! says of it is kept for those who ask.

use serde_json::{Map, Value, json};
use settings::Settings;
use wire::{ErrorKind, ProtocolError};

/// The modes of the protocol.
const MODES: [&str; 3] = ["None", "Operations", "Information"];
/// How long logs are kept when nobody says anything else.
const RETENTION_TIME: &str = "3.00:00:00";

/// A configuration.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LogsConfiguration {
    /// The mode of the settings.
    mode: &'static str,
    current_mode: &'static str,
    /// The directory of the files, if there are any.
    path: Option<String>,
    retention_time: Value,
    retention_size: Value,
    compress: bool,
}

impl LogsConfiguration {
    /// The configuration that a server with these settings starts with.
    pub(crate) fn starting(settings: &Settings) -> LogsConfiguration {
        let path = settings.logs.directory.as_ref().map(|path| path.display().to_string());
        LogsConfiguration::of_mode(settings.logs.mode, path)
    }

    /// The mode that holds.
    pub(crate) fn current_mode(&self) -> &'static str {
        self.current_mode
    }

    fn of_mode(mode: &'static str, path: Option<String>) -> LogsConfiguration {
        LogsConfiguration {
            mode,
            current_mode: mode,
            path,
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
        let mut configuration = LogsConfiguration::of_mode(self.mode, self.path.clone());
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
            "CurrentMode": self.current_mode, "Mode": self.mode, "Path": self.path,
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
        let starting = LogsConfiguration::of_mode("None", None);
        starting.changed(&serde_json::from_str(json).unwrap()).map(|changed| changed.to_json())
    }

    #[test]
    fn what_is_given_is_kept_and_the_rest_is_as_it_starts() {
        let set = read(r#"{"Mode":"information","RetentionSize":5,"Compress":true}"#).unwrap();
        assert_eq!((&set["CurrentMode"], &set["Mode"]), (&json!("Information"), &json!("None")));
        assert_eq!((&set["RetentionSize"], &set["Compress"]), (&json!(5), &json!(true)));
        assert_eq!(read("{}").unwrap(), LogsConfiguration::of_mode("None", None).to_json());
        for wrong in [r#"{"Mode":"Bad"}"#, r#"{"Compress":5}"#, r#"{"RetentionTime":5}"#] {
            assert_eq!(read(wrong).unwrap_err().kind, ErrorKind::Format, "{wrong}");
        }
    }
}
