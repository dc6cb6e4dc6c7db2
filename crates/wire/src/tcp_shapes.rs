//! The TCP protocol: JSON objects one behind the other. First both sides agree on an operation and its
//! version, then the operation has its own messages; subscriptions are the one that clients use.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{error_body::ProtocolError, error_kind::ErrorKind};

/// Versions of the operation Subscription, newest first.
const SUBSCRIPTION_VERSIONS: &[i64] = &[53_000, 51_000, 50_000, 41_400, 40];
/// The version from which on workers know of documents that are given along.
pub const INCLUDES_SINCE: i64 = 41_400;
/// The same for counters.
pub const COUNTER_INCLUDES_SINCE: i64 = 50_000;
/// The same for time series.
pub const TIME_SERIES_INCLUDES_SINCE: i64 = 51_000;

/// What a connection is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOperation {
    /// A worker of a subscription.
    Subscription,
    /// Whether somebody listens.
    Ping,
    /// Whether a connection can be made.
    TestConnection,
    /// Nothing that clients ask for here: what servers talk about among themselves.
    Other(String),
}

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpHeader {
    /// The database.
    pub database: Option<String>,
    /// What for.
    pub operation: TcpOperation,
    /// The version that the client proposes.
    pub version: i64,
    /// Whether the client can compress what it sends, if it says so. It is told that nobody does.
    pub data_compression: Option<bool>,
}

/// What becomes of a client's proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Negotiated {
    /// It is spoken from now on.
    Agreed,
    /// It is not; the client may propose this one.
    Proposed(i64),
    /// There is nothing to propose.
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
}

fn unreadable(what: &str, error: &serde_json::Error) -> ProtocolError {
    ProtocolError::new(ErrorKind::InvalidData, format!("{what} cannot be read: {error}"))
}

impl TcpHeader {
    /// Reads the message.
    ///
    /// # Errors
    /// When it is none.
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
        })
    }

    /// The name of the operation in the protocol.
    pub fn operation_name(&self) -> &str {
        match &self.operation {
            TcpOperation::Subscription => "Subscription",
            TcpOperation::Ping => "Ping",
            TcpOperation::TestConnection => "TestConnection",
            TcpOperation::Other(name) => name,
        }
    }

    /// Which version is spoken.
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

    /// The answer to a proposal that was agreed on.
    pub fn agreed(&self) -> Vec<u8> {
        let features = self.licensed_features();
        message(&json!({
            "Status": "Ok", "Version": self.version, "LicensedFeatures": features
        }))
    }

    /// The answer to a proposal that is not spoken.
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

/// The message for a connection that cannot be used.
pub fn header_error(error: &ProtocolError) -> Vec<u8> {
    message(&json!({
        "Type": "Error", "Exception": error.full_text(), "Message": error.message
    }))
}

/// The message for a connection that fails after it was agreed on.
pub fn session_error(error: &ProtocolError) -> Vec<u8> {
    message(&json!({
        "Type": "Error", "Status": "None", "Message": error.message,
        "Exception": error.full_text()
    }))
}

/// The message that says that a worker may begin.
pub fn accepted() -> Vec<u8> {
    message(&json!({"Type": "ConnectionStatus", "Status": "Accepted"}))
}

/// How a worker's connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// Others work on the subscription.
    InUse,
    /// It is over; whether it makes sense to come again.
    Closed {
        /// Whether the worker should.
        can_reconnect: bool,
    },
    /// There is no such subscription.
    NotFound,
    /// It cannot be worked on like this.
    Invalid,
}

/// The message for a worker that may not begin, or not go on.
pub fn refused(status: ConnectionStatus, error: &ProtocolError) -> Vec<u8> {
    let name = match status {
        ConnectionStatus::InUse => "InUse",
        ConnectionStatus::Closed { .. } => "Closed",
        ConnectionStatus::NotFound => "NotFound",
        ConnectionStatus::Invalid => "Invalid",
    };
    let mut body = json!({
        "Type": "ConnectionStatus", "Status": name, "Message": error.message,
        "Exception": error.full_text()
    });
    if let ConnectionStatus::Closed { can_reconnect } = status {
        body["Data"] = json!({"CanReconnect": can_reconnect});
    }
    message(&body)
}

/// The end of a batch.
pub const END_OF_BATCH: &[u8] = b"{\"Type\":\"EndOfBatch\"}";
/// What a worker hears when its acknowledgement was stored.
pub const CONFIRM: &[u8] = b"{\"Type\":\"Confirm\"}";
/// What a worker hears when there is nothing else to hear.
pub const HEARTBEAT: &[u8] = b"\r\n";

fn message(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}

/// What a worker wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// Of which subscription.
    pub name: Option<String>,
    /// How it deals with others.
    pub strategy: String,
    /// How many documents a batch has at most.
    pub documents_max: i64,
    /// Whether it ends when there is nothing left.
    pub closes_when_done: bool,
    /// What the client calls it.
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

/// Documents of a batch when the worker does not say.
const DOCUMENTS_MAX_DEFAULT: i64 = 4096;

impl SubscriptionOptions {
    /// Reads the message.
    ///
    /// # Errors
    /// When it is none.
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

/// What a worker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerMessage {
    /// It has dealt with its batch.
    Acknowledge,
    /// It goes.
    Disposed,
    /// Something that means nothing here.
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
    /// When it is none.
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
