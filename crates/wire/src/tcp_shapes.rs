//! The TCP protocol: a sequence of JSON objects. Both sides first agree on an operation and its version; then
//! the operation has its own messages. Clients use it for subscriptions only.

use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// Supported versions of the operation Subscription, newest first.
const SUBSCRIPTION_VERSIONS: &[i64] = &[53_000, 51_000, 50_000, 41_400, 40];
/// The first version whose workers understand included documents.
pub const INCLUDES_SINCE: i64 = 41_400;
/// The same for included counters.
pub const COUNTER_INCLUDES_SINCE: i64 = 50_000;
/// The same for included time series.
pub const TIME_SERIES_INCLUDES_SINCE: i64 = 51_000;

/// The operation of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOperation {
    /// A worker of a subscription.
    Subscription,
    /// Checks whether the server is listening.
    Ping,
    /// Checks whether a connection can be established.
    TestConnection,
    /// Not for clients: operations between servers.
    Other(String),
}

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpHeader {
    /// The database.
    pub database: Option<String>,
    /// The requested operation.
    pub operation: TcpOperation,
    /// The version proposed by the client.
    pub version: i64,
    /// Whether the client supports compressed data, if it says so. The server answers that it does not.
    pub data_compression: Option<bool>,
    /// The API key of the client, an addition of Corvus.
    pub api_key: Option<SecretText>,
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The result of a client's proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Negotiated {
    /// The version is agreed.
    Agreed,
    /// The version is not supported; the client may propose this one.
    Proposed(i64),
    /// No version is supported.
    Refused(ProtocolError),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HeaderBody {
    #[serde(default)]
    database_name: Option<String>,
    operation: String,
    operation_version: i64,
    #[serde(default)]
    licensed_features: Option<Value>,
    #[serde(default)]
    api_key: Option<SecretText>,
}

fn unreadable(what: &str, error: &serde_json::Error) -> ProtocolError {
    ProtocolError::new(ErrorKind::InvalidData, format!("{what} cannot be read: {error}"))
}

impl TcpHeader {
    /// Reads the message.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn read(message: &[u8]) -> Result<TcpHeader, ProtocolError> {
        let body: HeaderBody = serde_json::from_slice(message)
            .map_err(|error| unreadable("The header of the connection", &error))?;
        let operation = match body.operation.as_str() {
            "Subscription" => TcpOperation::Subscription,
            "Ping" => TcpOperation::Ping,
            "TestConnection" => TcpOperation::TestConnection,
            "None" | "Drop" | "Replication" | "Cluster" | "Heartbeats" => {
                TcpOperation::Other(body.operation)
            }
            unknown => {
                let message = format!(
                    "Could not convert System.String ('{unknown}') to \
                     Raven.Client.ServerWide.Tcp.TcpConnectionHeaderMessage+OperationTypes"
                );
                return Err(ProtocolError::new(ErrorKind::Format, message));
            }
        };
        let data_compression = body.licensed_features.map(|features| {
            features.get("DataCompression").and_then(Value::as_bool).unwrap_or(false)
        });
        Ok(TcpHeader {
            database: body.database_name,
            operation,
            version: body.operation_version,
            data_compression,
            api_key: body.api_key,
        })
    }

    /// The protocol's name for the operation.
    pub fn operation_name(&self) -> &str {
        match &self.operation {
            TcpOperation::Subscription => "Subscription",
            TcpOperation::Ping => "Ping",
            TcpOperation::TestConnection => "TestConnection",
            TcpOperation::Other(name) => name,
        }
    }

    /// Decides on the proposed version.
    pub fn negotiate(&self) -> Negotiated {
        let versions = match &self.operation {
            TcpOperation::Subscription => SUBSCRIPTION_VERSIONS,
            TcpOperation::Ping => &[-1],
            TcpOperation::TestConnection => &[50],
            TcpOperation::Other(name) if name == "Drop" => {
                let message = "Unknown operation for TCP Drop";
                return Negotiated::Refused(ProtocolError::invalid_operation(message));
            }
            TcpOperation::Other(name) if name == "None" => return Negotiated::Proposed(-1),
            TcpOperation::Other(_) => &[],
        };
        if versions.contains(&self.version) {
            return Negotiated::Agreed;
        }
        match versions.iter().find(|version| **version < self.version) {
            Some(version) => Negotiated::Proposed(*version),
            None => {
                let (version, name) = (self.version, self.operation_name());
                let message = format!("Protocol '{version}' for '{name}' was not found.");
                Negotiated::Refused(ProtocolError::argument(message))
            }
        }
    }

    /// The answer to an agreed version.
    pub fn agreed(&self) -> Vec<u8> {
        let features = self.licensed_features();
        message(&json!({
            "Status": "Ok", "Version": self.version, "LicensedFeatures": features
        }))
    }

    /// The answer to a version that is not supported.
    pub fn proposing(&self, version: i64) -> Vec<u8> {
        let (asked, name) = (self.version, self.operation_name());
        message(&json!({
            "Status": "TcpVersionMismatch", "Version": version,
            "LicensedFeatures": self.licensed_features(),
            "Message": format!("Not supporting version {asked} for {name}")
        }))
    }

    fn licensed_features(&self) -> Value {
        self.data_compression.map_or(Value::Null, |_| json!({"DataCompression": false}))
    }
}

/// The message for a connection that is refused.
pub fn header_error(error: &ProtocolError) -> Vec<u8> {
    message(&json!({
        "Type": "Error", "Exception": error.full_text(), "Message": error.message
    }))
}

/// The message for a client that may not do what its header asks for.
pub fn not_authorized(header: &TcpHeader, reason: &str) -> Vec<u8> {
    message(&json!({
        "Status": "AuthorizationFailed", "Version": header.version, "LicensedFeatures": null, "Message": reason
    }))
}

/// The message for a connection that fails after its version was agreed.
pub fn session_error(error: &ProtocolError) -> Vec<u8> {
    message(&json!({
        "Type": "Error", "Status": "None", "Message": error.message,
        "Exception": error.full_text()
    }))
}

/// The message that a worker may begin.
pub fn accepted() -> Vec<u8> {
    message(&json!({"Type": "ConnectionStatus", "Status": "Accepted"}))
}

/// The status of a worker's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// Another worker holds the subscription.
    InUse,
    /// The connection has ended.
    Closed {
        /// Whether the worker should reconnect.
        can_reconnect: bool,
    },
    /// The subscription does not exist.
    NotFound,
    /// The subscription does not allow this worker.
    Invalid,
    /// Another node serves the subscription.
    Redirect {
        /// Which one; `None` if nobody does now.
        to: Option<String>,
        /// This one.
        from: String,
        /// What each node is to the subscription: names and texts.
        reasons: Vec<(String, String)>,
    },
}

/// The message for a worker that may not begin, or not continue.
pub fn refused(status: ConnectionStatus, error: &ProtocolError) -> Vec<u8> {
    let name = match &status {
        ConnectionStatus::InUse => "InUse",
        ConnectionStatus::Closed { .. } => "Closed",
        ConnectionStatus::NotFound => "NotFound",
        ConnectionStatus::Invalid => "Invalid",
        ConnectionStatus::Redirect { .. } => "Redirect",
    };
    let mut body = json!({
        "Type": "ConnectionStatus", "Status": name, "Message": error.message,
        "Exception": error.full_text()
    });
    match status {
        ConnectionStatus::Closed { can_reconnect } => {
            body["Data"] = json!({"CanReconnect": can_reconnect});
        }
        ConnectionStatus::Redirect { to, from, reasons } => {
            let reasons: Vec<Value> =
                reasons.into_iter().map(|(name, text)| json!({name: text})).collect();
            body["Data"] = json!({
                "RedirectedTag": to, "CurrentTag": from, "RegisterConnectionDurationInTicks": null,
                "Reasons": reasons
            });
        }
        ConnectionStatus::InUse | ConnectionStatus::NotFound | ConnectionStatus::Invalid => {}
    }
    message(&body)
}

/// The end of a batch.
pub const END_OF_BATCH: &[u8] = b"{\"Type\":\"EndOfBatch\"}";
/// Sent to a worker when its acknowledgement has been stored.
pub const CONFIRM: &[u8] = b"{\"Type\":\"Confirm\"}";
/// Sent to a worker when there is nothing else to send.
pub const HEARTBEAT: &[u8] = b"\r\n";

fn message(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}

/// The options of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// The name of the subscription.
    pub name: Option<String>,
    /// What to do if another worker holds the subscription.
    pub strategy: String,
    /// Maximum number of documents in a batch.
    pub documents_max: i64,
    /// Whether to end when there is nothing left to send.
    pub closes_when_done: bool,
    /// The client's name for the worker.
    pub worker_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OptionsBody {
    #[serde(default)]
    subscription_name: Option<String>,
    #[serde(default)]
    strategy: Option<String>,
    #[serde(default)]
    max_docs_per_batch: Option<i64>,
    #[serde(default)]
    close_when_no_docs_left: Option<bool>,
    #[serde(default)]
    worker_id: Option<String>,
}

/// The default size of a batch.
const DOCUMENTS_MAX_DEFAULT: i64 = 4096;

impl SubscriptionOptions {
    /// Reads the message.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn read(message: &[u8]) -> Result<SubscriptionOptions, ProtocolError> {
        let body: OptionsBody = serde_json::from_slice(message)
            .map_err(|error| unreadable("The options of the subscription", &error))?;
        Ok(SubscriptionOptions {
            name: body.subscription_name,
            strategy: body.strategy.unwrap_or_else(|| "OpenIfFree".to_owned()),
            documents_max: body.max_docs_per_batch.unwrap_or(DOCUMENTS_MAX_DEFAULT),
            closes_when_done: body.close_when_no_docs_left.unwrap_or(false),
            worker_id: body.worker_id,
        })
    }
}

/// A message of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerMessage {
    /// It has processed its batch.
    Acknowledge,
    /// It is leaving.
    Disposed,
    /// A message without meaning here.
    Unknown,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WorkerBody {
    #[serde(default)]
    r#type: Option<String>,
}

impl WorkerMessage {
    /// Reads the message.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn read(message: &[u8]) -> Result<WorkerMessage, ProtocolError> {
        let body: WorkerBody = serde_json::from_slice(message)
            .map_err(|error| unreadable("A message of the worker", &error))?;
        Ok(match body.r#type.as_deref() {
            Some("Acknowledge") => WorkerMessage::Acknowledge,
            Some("DisposedNotification") => WorkerMessage::Disposed,
            Some(_) | None => WorkerMessage::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(operation: &str, version: i64) -> TcpHeader {
        let text =
            json!({"DatabaseName": "db", "Operation": operation, "OperationVersion": version});
        TcpHeader::read(text.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn versions_are_agreed_on_as_clients_know_it() {
        let refused = |text: &str| Negotiated::Refused(ProtocolError::argument(text));
        let table = [
            ("Subscription", 53_000, Negotiated::Agreed),
            ("Subscription", 40, Negotiated::Agreed),
            ("Subscription", 99_999, Negotiated::Proposed(53_000)),
            ("Subscription", 52_000, Negotiated::Proposed(51_000)),
            ("Subscription", 41_401, Negotiated::Proposed(41_400)),
            ("Subscription", 39, refused("Protocol '39' for 'Subscription' was not found.")),
            ("Ping", -1, Negotiated::Agreed),
            ("Ping", 5, Negotiated::Proposed(-1)),
            ("TestConnection", 50, Negotiated::Agreed),
            ("TestConnection", 60, Negotiated::Proposed(50)),
            ("None", 7, Negotiated::Proposed(-1)),
            ("Cluster", 1, refused("Protocol '1' for 'Cluster' was not found.")),
        ];
        for (operation, version, expected) in table {
            assert_eq!(header(operation, version).negotiate(), expected, "{operation} {version}");
        }
        let dropped = header("Drop", -2).negotiate();
        assert!(matches!(dropped, Negotiated::Refused(error)
            if error.message == "Unknown operation for TCP Drop"));
    }

    #[test]
    fn answers_have_the_form_that_clients_read() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(
            text(header("Subscription", 53_000).agreed()),
            r#"{"Status":"Ok","Version":53000,"LicensedFeatures":null}"#
        );
        assert_eq!(
            text(header("Subscription", 52_000).proposing(51_000)),
            r#"{"Status":"TcpVersionMismatch","Version":51000,"LicensedFeatures":null,"Message":"Not supporting version 52000 for Subscription"}"#
        );
        let error = ProtocolError::invalid_operation("no");
        assert_eq!(
            text(refused(ConnectionStatus::Closed { can_reconnect: true }, &error)),
            r#"{"Type":"ConnectionStatus","Status":"Closed","Message":"no","Exception":"System.InvalidOperationException: no","Data":{"CanReconnect":true}}"#
        );
    }

    #[test]
    fn only_the_name_of_a_subscription_is_needed() {
        let options = SubscriptionOptions::read(br#"{"SubscriptionName":"s","Foo":1}"#).unwrap();
        assert_eq!(options.strategy, "OpenIfFree");
        assert_eq!((options.documents_max, options.closes_when_done), (4096, false));
        assert!(SubscriptionOptions::read(b"{\"SubscriptionName\":").is_err());
    }
}
