//! From where a database is migrated, as Studio sends it.

use serde_json::{Map, Value};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    node_address::{InvalidNodeAddress, NodeAddress},
    smuggler_options::SmugglerOptions,
};

/// Credentials of servers before RavenDB 4, which had no certificates.
const CREDENTIALS: [&str; 4] = ["UserName", "Password", "Domain", "ApiKey"];
/// The settings that decide what the source sends; the others are applied here.
const OF_THE_SOURCE: [&str; 2] = ["OperateOnTypes", "Collections"];

/// What is migrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationConfiguration {
    /// The address of the source.
    pub server_url: NodeAddress,
    /// The database there.
    pub database: String,
    /// What is imported of it.
    pub options: SmugglerOptions,
    /// The options with which the source exports: JSON.
    pub export_options: String,
}

impl MigrationConfiguration {
    /// Reads the configuration of a request.
    ///
    /// # Errors
    /// The address, the settings or the name of the database are missing; credentials of servers that are not read from.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let given = |name: &str| sent.get(name).filter(|value| !value.is_null());
        let server_url = given("ServerUrl").and_then(Value::as_str).unwrap_or_default();
        if server_url.trim().is_empty() {
            return Err(ProtocolError::argument("Url cannot be null or empty"));
        }
        let server_url = server_url.parse().map_err(|invalid: InvalidNodeAddress| {
            ProtocolError::argument(format!("'ServerUrl': {invalid}"))
        })?;
        let is_text = |value: &Value| value.as_str().is_none_or(|text| !text.is_empty());
        if CREDENTIALS.iter().any(|name| given(name).is_some_and(is_text)) {
            let message = "User names and keys of the source are not supported: it must accept the certificate of \
                           this server, or let this machine in without one.";
            return Err(ProtocolError::new(ErrorKind::NotSupported, message));
        }
        if given("SkipServerCertificateValidation").is_some_and(|value| *value == Value::Bool(true))
        {
            let message = "The certificate of the source is always validated: let this machine trust its authority.";
            return Err(ProtocolError::new(ErrorKind::NotSupported, message));
        }
        let settings = given("MigrationSettings").and_then(Value::as_object);
        let settings =
            settings.ok_or_else(|| ProtocolError::argument("MigrationSettings cannot be null"))?;
        let database = settings.get("DatabaseName").and_then(Value::as_str).unwrap_or_default();
        if database.is_empty() {
            return Err(ProtocolError::argument("DatabaseName cannot be null or empty"));
        }
        let options = SmugglerOptions::read(settings)?;
        if options.encryption_key.is_some() {
            let message = "A migration has no 'EncryptionKey': connections are encrypted by https.";
            return Err(ProtocolError::new(ErrorKind::NotSupported, message));
        }
        let exported = settings.iter().filter(|(name, value)| {
            !value.is_null() && OF_THE_SOURCE.iter().any(|known| known.eq_ignore_ascii_case(name))
        });
        let exported: Map<String, Value> =
            exported.map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(Self {
            server_url,
            database: database.to_owned(),
            options,
            export_options: Value::Object(exported).to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(sent: Value) -> Result<MigrationConfiguration, String> {
        MigrationConfiguration::read(sent.as_object().unwrap()).map_err(|error| error.message)
    }

    #[test]
    fn the_source_is_told_what_it_sends_and_the_rest_is_done_here() {
        let sent = json!({"ServerUrl": "http://a:1/", "UserName": "", "ApiKey": null,
            "MigrationSettings": {"DatabaseName": "d", "OperateOnTypes": "Documents",
            "Collections": ["As"], "RemoveAnalyzers": true, "TransformScript": "this.x = 1"}});
        let read = read(sent).unwrap();
        assert_eq!(
            (read.server_url.to_string().as_str(), read.database.as_str()),
            ("http://a:1", "d")
        );
        assert!(read.options.remove_analyzers && read.options.transform_script.is_some());
        let expected = r#"{"OperateOnTypes":"Documents","Collections":["As"]}"#;
        assert_eq!(read.export_options, expected);
    }

    #[test]
    fn what_is_missing_or_not_supported_is_said() {
        let settings = json!({"DatabaseName": "d"});
        for (sent, part) in [
            (json!({}), "Url cannot"),
            (json!({"ServerUrl": "http://a"}), "MigrationSettings cannot"),
            (json!({"ServerUrl": "http://a", "MigrationSettings": {}}), "DatabaseName cannot"),
            (
                json!({"ServerUrl": "http://a", "ApiKey": "k", "MigrationSettings": settings}),
                "must accept the certificate",
            ),
            (
                json!({"ServerUrl": "http://a", "SkipServerCertificateValidation": true,
                    "MigrationSettings": settings}),
                "always validated",
            ),
        ] {
            let message = read(sent.clone()).unwrap_err();
            assert!(message.contains(part), "{sent}: {message}");
        }
    }
}
