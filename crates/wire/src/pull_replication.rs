//! Hubs and sinks of replication as clients define them, and as the record of a database stores them.

use std::time::Duration;

use model::AllowedPaths;
use serde_json::{Map, Value};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    external_replication::delay_of,
    sent_properties::{flag, object, property, text, texts, with_names_as_written},
};

const CERTIFICATE: &str = "CertificateWithPrivateKey";
const PASSWORD: &str = "CertificatePassword";
const TO_SINK: &str = "AllowedHubToSinkPaths";
const TO_HUB: &str = "AllowedSinkToHubPaths";

/// The properties of a hub that this server knows, as they are written.
const HUB_PROPERTIES: [&str; 10] = [
    "TaskId",
    "Name",
    "Mode",
    "Disabled",
    "MentorNode",
    "PinToMentorNode",
    "DelayReplicationFor",
    "WithFiltering",
    "PreventDeletionsMode",
    "Certificates",
];

/// The same of a sink.
const SINK_PROPERTIES: [&str; 15] = [
    "TaskId",
    "Name",
    "Database",
    "Url",
    "ConnectionStringName",
    "MentorNode",
    "PinToMentorNode",
    "Disabled",
    "Mode",
    "HubName",
    "AccessName",
    CERTIFICATE,
    PASSWORD,
    TO_SINK,
    TO_HUB,
];

/// In which directions a hub and a sink replicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullReplicationMode {
    /// From the hub to the sink.
    pub hub_to_sink: bool,
    /// From the sink to the hub.
    pub sink_to_hub: bool,
}

impl PullReplicationMode {
    /// Its text, as .NET writes flags.
    pub fn text(self) -> &'static str {
        match (self.hub_to_sink, self.sink_to_hub) {
            (true, false) => "HubToSink",
            (false, true) => "SinkToHub",
            (true, true) => "HubToSink, SinkToHub",
            (false, false) => "None",
        }
    }

    fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let Some(sent) = text(sent, "Mode")? else {
            return Ok(Self { hub_to_sink: true, sink_to_hub: false });
        };
        let mut mode = Self { hub_to_sink: false, sink_to_hub: false };
        for word in sent.split(',').map(str::trim) {
            match word {
                _ if word.eq_ignore_ascii_case("HubToSink") => mode.hub_to_sink = true,
                _ if word.eq_ignore_ascii_case("SinkToHub") => mode.sink_to_hub = true,
                _ if word.eq_ignore_ascii_case("None") => {}
                _ => {
                    let message = format!("'{word}' is no mode of a hub or a sink");
                    return Err(ProtocolError::new(ErrorKind::InvalidData, message));
                }
            }
        }
        if !mode.hub_to_sink && !mode.sink_to_hub {
            return Err(ProtocolError::invalid_operation(
                "A hub or a sink needs a direction: Mode is HubToSink, SinkToHub, or both.",
            ));
        }
        Ok(mode)
    }
}

/// A hub: what a database offers to sinks, which connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullReplicationHub {
    /// Its number; 0 if it has none yet.
    pub id: u64,
    /// Its name, by which sinks ask for it.
    pub name: String,
    /// In which directions it replicates.
    pub mode: PullReplicationMode,
    /// Whether it is switched off.
    pub is_disabled: bool,
    /// The node that sinks should connect to.
    pub mentor_node: Option<String>,
    /// Whether only that node may serve them.
    pub is_pinned: bool,
    /// How old a change must be to be sent.
    pub delay: Duration,
    /// Whether each access has filters.
    pub is_filtered: bool,
    /// Whether it takes no deletions of sinks.
    pub refuses_deletions: bool,
}

fn id_of(sent: &Map<String, Value>) -> Option<u64> {
    property(sent, "TaskId").and_then(Value::as_u64).filter(|id| *id != 0)
}

impl PullReplicationHub {
    /// A hub with the names of its properties as they are written.
    pub fn with_names_as_written(sent: &Map<String, Value>) -> Map<String, Value> {
        with_names_as_written(sent, &HUB_PROPERTIES)
    }

    /// Reads a hub as it is sent or stored.
    ///
    /// # Errors
    /// A property is missing, or is not what it should be.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let name = text(sent, "Name")?.ok_or_else(|| {
            ProtocolError::new(ErrorKind::Argument, "The name of a hub cannot be empty: Name")
        })?;
        let prevention = text(sent, "PreventDeletionsMode")?.unwrap_or_else(|| "None".to_owned());
        let refuses_deletions = match () {
            () if prevention.eq_ignore_ascii_case("None") => false,
            () if prevention.eq_ignore_ascii_case("PreventSinkToHubDeletions") => true,
            () => {
                let message = format!("'{prevention}' is no PreventDeletionsMode");
                return Err(ProtocolError::new(ErrorKind::InvalidData, message));
            }
        };
        let has_certificates =
            object(sent, "Certificates")?.is_some_and(|certificates| !certificates.is_empty());
        if has_certificates {
            return Err(ProtocolError::invalid_operation(
                "Certificates of sinks are registered with the hub, not defined in it: register an access \
                 (RegisterReplicationHubAccessOperation).",
            ));
        }
        Ok(Self {
            id: id_of(sent).unwrap_or(0),
            name,
            mode: PullReplicationMode::read(sent)?,
            is_disabled: flag(sent, "Disabled")?,
            mentor_node: text(sent, "MentorNode")?,
            is_pinned: flag(sent, "PinToMentorNode")?,
            delay: delay_of(sent)?,
            is_filtered: flag(sent, "WithFiltering")?,
            refuses_deletions,
        })
    }
}

/// A sink: a database that connects to a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullReplicationSink {
    /// Its number; 0 if it has none yet.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The name of the hub.
    pub hub: String,
    /// The name of its access at the hub, if it says one.
    pub access: Option<String>,
    /// In which directions it replicates.
    pub mode: PullReplicationMode,
    /// Whether it is switched off.
    pub is_disabled: bool,
    /// The name of its connection string.
    pub connection: String,
    /// The node that should run it.
    pub mentor_node: Option<String>,
    /// Whether only that node may run it.
    pub is_pinned: bool,
    /// What it wants of the hub; `None`: everything that the hub lets through.
    pub paths_to_sink: Option<AllowedPaths>,
    /// What it sends to the hub; `None`: everything that the hub lets through.
    pub paths_to_hub: Option<AllowedPaths>,
}

impl PullReplicationSink {
    /// The sink in a request: `{"PullReplicationAsSink": {…}}`.
    ///
    /// # Errors
    /// There is none.
    pub fn sent_in(body: &Map<String, Value>) -> Result<&Map<String, Value>, ProtocolError> {
        object(body, "PullReplicationAsSink")?.ok_or_else(|| {
            ProtocolError::invalid_operation(
                "'PullReplicationAsSink' was not found in the request body.",
            )
        })
    }

    /// A sink with the names of its properties as they are written.
    pub fn with_names_as_written(sent: &Map<String, Value>) -> Map<String, Value> {
        let mut named = with_names_as_written(sent, &SINK_PROPERTIES);
        // As the hub was called before.
        let former = named.keys().find(|name| name.eq_ignore_ascii_case("HubDefinitionName"));
        if let Some(hub) = former.cloned().and_then(|former| named.shift_remove(&former))
            && named.get("HubName").is_none_or(Value::is_null)
        {
            named.insert("HubName".to_owned(), hub);
        }
        named
    }

    /// Reads a sink as it is sent or stored.
    ///
    /// # Errors
    /// A property is missing, or is not what it should be.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let sent = &Self::with_names_as_written(sent);
        let needed = |name: &str| {
            text(sent, name)?.ok_or_else(|| {
                ProtocolError::invalid_operation(format!(
                    "A sink needs {name}: it cannot be empty."
                ))
            })
        };
        let (hub, connection) = (needed("HubName")?, needed("ConnectionStringName")?);
        let name = text(sent, "Name")?;
        Ok(Self {
            id: id_of(sent).unwrap_or(0),
            name: name.unwrap_or_else(|| format!("Sink of {hub} at {connection}")),
            hub,
            access: text(sent, "AccessName")?,
            mode: PullReplicationMode::read(sent)?,
            is_disabled: flag(sent, "Disabled")?,
            connection,
            mentor_node: text(sent, "MentorNode")?,
            is_pinned: flag(sent, "PinToMentorNode")?,
            paths_to_sink: paths_of(sent, TO_SINK)?,
            paths_to_hub: paths_of(sent, TO_HUB)?,
        })
    }

    /// The certificate with its private key, as a file in base64, and the password of that file.
    ///
    /// # Errors
    /// They are no texts.
    pub fn certificate(
        sent: &Map<String, Value>,
    ) -> Result<Option<(String, String)>, ProtocolError> {
        let password = text(sent, PASSWORD)?.unwrap_or_default();
        Ok(text(sent, CERTIFICATE)?.map(|file| (file, password)))
    }

    /// The sink as it may be shown.
    pub fn without_secrets(stored: &Map<String, Value>) -> Map<String, Value> {
        let mut shown = Self::with_names_as_written(stored);
        shown.retain(|name, _| name != CERTIFICATE && name != PASSWORD);
        shown
    }

    /// The sink with the certificate of its former definition, if it has none of its own.
    pub fn with_secrets_of(
        sent: &Map<String, Value>,
        known: &Map<String, Value>,
    ) -> Map<String, Value> {
        let mut named = Self::with_names_as_written(sent);
        if named.get(CERTIFICATE).is_some_and(|certificate| !certificate.is_null()) {
            return named;
        }
        for secret in [CERTIFICATE, PASSWORD] {
            named.shift_remove(secret);
            if let Some(known) = known.get(secret) {
                named.insert(secret.to_owned(), known.clone());
            }
        }
        named
    }
}

/// A certificate that may connect to a hub, and what may pass then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAccess {
    /// Its name.
    pub name: String,
    /// The certificate: DER or PEM, in base64.
    pub certificate: String,
    /// What the hub sends; `None` if nothing was said.
    pub paths_to_sink: Option<AllowedPaths>,
    /// What the hub takes; `None` if nothing was said.
    pub paths_to_hub: Option<AllowedPaths>,
}

impl HubAccess {
    /// Reads an access as it is sent or stored.
    ///
    /// # Errors
    /// A property is missing, or is not what it should be.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let needed = |name: &str| {
            text(sent, name)?.ok_or_else(|| {
                ProtocolError::new(
                    ErrorKind::Argument,
                    format!("An access to a hub needs {name}: it cannot be empty"),
                )
            })
        };
        Ok(Self {
            name: needed("Name")?,
            certificate: needed("CertificateBase64")?,
            paths_to_sink: paths_of(sent, TO_SINK)?,
            paths_to_hub: paths_of(sent, TO_HUB)?,
        })
    }

    /// Checks the filters: a hub with filters has those of each access, another one has none.
    ///
    /// # Errors
    /// They are missing, or there should be none.
    pub fn check_filters(&self, hub: &PullReplicationHub) -> Result<(), ProtocolError> {
        let are_missing = self.paths_to_sink.is_none() && self.paths_to_hub.is_none();
        match (hub.is_filtered, are_missing) {
            (true, true) => Err(ProtocolError::invalid_operation(format!(
                "Either {TO_SINK} or {TO_HUB} must have a value: the hub '{}' has filters.",
                hub.name
            ))),
            (false, false) => Err(ProtocolError::invalid_operation(format!(
                "Filtering is not set for this Replication Hub '{}': {TO_SINK} and {TO_HUB} must not have a value.",
                hub.name
            ))),
            (true, false) | (false, true) => Ok(()),
        }
    }
}

/// An empty list says nothing.
fn paths_of(sent: &Map<String, Value>, name: &str) -> Result<Option<AllowedPaths>, ProtocolError> {
    let paths = texts(sent, name)?;
    if paths.is_empty() {
        return Ok(None);
    }
    let paths = AllowedPaths::new(paths.iter().map(String::as_str));
    paths.map(Some).map_err(|error| ProtocolError::invalid_operation(format!("{name}: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn modes_are_flags() {
        for (sent, text) in [
            (json!({"Name": "h"}), "HubToSink"),
            (json!({"Name": "h", "mode": "SinkToHub"}), "SinkToHub"),
            (json!({"Name": "h", "Mode": "HubToSink,SinkToHub"}), "HubToSink, SinkToHub"),
            (json!({"Name": "h", "Mode": "SinkToHub, hubToSink"}), "HubToSink, SinkToHub"),
        ] {
            assert_eq!(PullReplicationHub::read(&map(sent)).unwrap().mode.text(), text);
        }
        for sent in [
            json!({"Mode": "HubToSink"}),
            json!({"Name": "h", "Mode": "None"}),
            json!({"Name": "h", "Mode": "Sideways"}),
            json!({"Name": "h", "DelayReplicationFor": "-00:00:01"}),
            json!({"Name": "h", "PreventDeletionsMode": "All"}),
            json!({"Name": "h", "Certificates": {"A": "B"}}),
        ] {
            assert!(PullReplicationHub::read(&map(sent.clone())).is_err(), "{sent}");
        }
    }

    #[test]
    fn a_sink_is_shown_without_its_key_and_keeps_it() {
        let stored = map(json!({
            "hubdefinitionname": "h", "ConnectionStringName": "c", "certificateWithPrivateKey": "secret",
            "CertificatePassword": "hush", "AllowedHubToSinkPaths": ["a/*"]
        }));
        let sink = PullReplicationSink::read(&stored).unwrap();
        assert_eq!((sink.hub.as_str(), sink.connection.as_str()), ("h", "c"));
        assert!(sink.paths_to_sink.unwrap().allows("a/1") && sink.paths_to_hub.is_none());
        let shown = PullReplicationSink::without_secrets(&stored);
        assert!(!Value::Object(shown.clone()).to_string().contains("secret"));
        assert!(!Value::Object(shown.clone()).to_string().contains("hush"));
        let known = PullReplicationSink::with_names_as_written(&stored);
        let kept = PullReplicationSink::with_secrets_of(&shown, &known);
        let secret = PullReplicationSink::certificate(&kept).unwrap();
        assert_eq!(secret, Some(("secret".to_owned(), "hush".to_owned())));
        let other = map(json!({"CertificateWithPrivateKey": "new"}));
        let kept = PullReplicationSink::with_secrets_of(&other, &known);
        let secret = PullReplicationSink::certificate(&kept).unwrap();
        assert_eq!(secret, Some(("new".to_owned(), String::new())));
    }

    #[test]
    fn filters_are_where_the_hub_says() {
        let hub = |is_filtered: bool| {
            PullReplicationHub::read(&map(json!({"Name": "h", "WithFiltering": is_filtered})))
                .unwrap()
        };
        let access = |paths: Value| {
            let sent =
                json!({"Name": "a", "CertificateBase64": "x", "AllowedHubToSinkPaths": paths});
            HubAccess::read(&map(sent)).unwrap()
        };
        access(json!(["a/*"])).check_filters(&hub(true)).unwrap();
        access(json!(null)).check_filters(&hub(false)).unwrap();
        access(json!(["a/*"])).check_filters(&hub(false)).unwrap_err();
        access(json!([])).check_filters(&hub(true)).unwrap_err();
        let sent = json!({"Name": "a", "CertificateBase64": "x", "AllowedHubToSinkPaths": ["a*"]});
        HubAccess::read(&map(sent)).unwrap_err();
    }
}
