//! The configuration of logs in the protocol's form.
//!
//! The mode applies until the server stops. How long files are kept depends on the settings: a
//! client's values for it are stored and returned, but have no effect.

use model::TimeSpan;
use serde_json::{Map, Value, json};
use settings::LogSettings;
use wire::ErrorKind;

use crate::api_error::ApiError;

/// The modes of the protocol.
const MODES: [&str; 3] = [NONE, OPERATIONS, INFORMATION];
const NONE: &str = "None";
const OPERATIONS: &str = "Operations";
const INFORMATION: &str = "Information";

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LogsConfiguration {
    /// The mode in the settings.
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
    pub(crate) fn starting(settings: &LogSettings) -> LogsConfiguration {
        let mode = mode_of(settings);
        LogsConfiguration {
            mode,
            current_mode: mode,
            path: settings.directory.as_ref().map(|path| path.display().to_string()),
            retention_time: TimeSpan::of(settings.kept_for).to_string().into(),
            retention_size: settings.kept_bytes_max.into(),
            compress: settings.is_compressed,
        }
    }

    pub(crate) fn current_mode(&self) -> &'static str {
        self.current_mode
    }

    /// A client's change of this configuration.
    ///
    /// # Errors
    /// When a property has the wrong kind or the mode is unknown.
    pub(crate) fn changed(&self, body: &Map<String, Value>) -> Result<LogsConfiguration, ApiError> {
        let refused = |property: &str| {
            let message = format!("Could not convert '{property}' of the logs configuration");
            ApiError::new(ErrorKind::Format, message)
        };
        let property_of = |property| body.get(property).filter(|value| !value.is_null());
        let mut configuration = self.clone();
        if let Some(mode) = property_of("Mode") {
            let known = mode.as_str().and_then(mode_named);
            configuration.current_mode = known.ok_or_else(|| refused("Mode"))?;
        }
        if let Some(time) = property_of("RetentionTime") {
            let time = Some(time.clone()).filter(Value::is_string);
            configuration.retention_time = time.ok_or_else(|| refused("RetentionTime"))?;
        }
        if let Some(size) = property_of("RetentionSize") {
            let size = Some(size.clone()).filter(Value::is_number);
            configuration.retention_size = size.ok_or_else(|| refused("RetentionSize"))?;
        }
        if let Some(compress) = property_of("Compress") {
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

/// The mode in the settings; a level takes precedence, and is reported as the nearest mode.
fn mode_of(settings: &LogSettings) -> &'static str {
    match settings.level {
        Some("Trace" | "Debug") => INFORMATION,
        Some("Fatal" | "Off") => NONE,
        Some(_) => OPERATIONS,
        None => settings.mode,
    }
}

fn mode_named(name: &str) -> Option<&'static str> {
    MODES.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn settings(mode: &'static str, level: Option<&'static str>) -> LogSettings {
        LogSettings {
            mode,
            level,
            is_json: false,
            directory: Some("logs".into()),
            file_bytes_max: 1 << 20,
            kept_for: Duration::from_secs(36 * 3600),
            kept_bytes_max: 7 << 20,
            is_compressed: true,
            slow_request_min: None,
        }
    }

    fn read(json: &str) -> Result<Value, ApiError> {
        let starting = LogsConfiguration::starting(&settings("None", None));
        starting.changed(&serde_json::from_str(json).unwrap()).map(|changed| changed.to_json())
    }

    #[test]
    fn what_is_given_is_kept_and_the_rest_is_as_it_starts() {
        let set = read(r#"{"Mode":"information","RetentionSize":5,"Compress":false}"#).unwrap();
        assert_eq!((&set["CurrentMode"], &set["Mode"]), (&json!("Information"), &json!("None")));
        assert_eq!((&set["RetentionSize"], &set["Compress"]), (&json!(5), &json!(false)));
        assert_eq!(
            read("{}").unwrap(),
            json!({
                "CurrentMode": "None", "Mode": "None", "Path": "logs", "UseUtcTime": true,
                "RetentionTime": "1.12:00:00", "RetentionSize": 7 << 20, "Compress": true
            })
        );
        for wrong in [r#"{"Mode":"Bad"}"#, r#"{"Compress":5}"#, r#"{"RetentionTime":5}"#] {
            assert_eq!(read(wrong).unwrap_err().kind, ErrorKind::Format, "{wrong}");
        }
    }

    #[test]
    fn a_level_is_shown_as_the_nearest_mode() {
        for (level, mode) in [
            (None, "Operations"),
            (Some("Debug"), "Information"),
            (Some("Warn"), "Operations"),
            (Some("Off"), "None"),
        ] {
            let shown = LogsConfiguration::starting(&settings("Operations", level)).to_json();
            assert_eq!(shown["CurrentMode"], mode, "{level:?}");
        }
    }
}
