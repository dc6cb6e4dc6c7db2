//! Connection strings: where tasks of a database send what they read, as clients store them in its record.
//!
//! They are kept as they were sent. Errors never show a value, which may contain a password.

use serde_json::{Map, Value};

use crate::{
    error_body::ProtocolError,
    error_kind::ErrorKind,
    node_address::{InvalidNodeAddress, NodeAddress},
    record_body::RecordBody,
    sent_properties::{object, property, text, texts},
};

/// A kind of connection strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStringKind {
    /// To a database of Corvus or RavenDB.
    Raven,
    /// To a relational database.
    Sql,
    /// To files.
    Olap,
    /// To Elasticsearch.
    ElasticSearch,
    /// To a queue.
    Queue,
}

impl ConnectionStringKind {
    /// Every kind, in the order of the protocol.
    pub const ALL: [Self; 5] =
        [Self::Raven, Self::Sql, Self::Olap, Self::ElasticSearch, Self::Queue];

    /// Its word in the protocol.
    pub fn word(self) -> &'static str {
        match self {
            Self::Raven => "Raven",
            Self::Sql => "Sql",
            Self::Olap => "Olap",
            Self::ElasticSearch => "ElasticSearch",
            Self::Queue => "Queue",
        }
    }

    /// The property of a record with the connection strings of this kind, by name.
    pub fn section(self) -> &'static str {
        match self {
            Self::Raven => "RavenConnectionStrings",
            Self::Sql => "SqlConnectionStrings",
            Self::Olap => "OlapConnectionStrings",
            Self::ElasticSearch => "ElasticSearchConnectionStrings",
            Self::Queue => "QueueConnectionStrings",
        }
    }

    /// The properties of a record with lists of tasks that use connection strings of this kind.
    pub fn task_sections(self) -> &'static [&'static str] {
        match self {
            Self::Raven => {
                &[RecordBody::RAVEN_ETLS, RecordBody::EXTERNAL_REPLICATIONS, RecordBody::SINKS]
            }
            Self::Sql => &["SqlEtls"],
            Self::Olap => &["OlapEtls"],
            Self::ElasticSearch => &["ElasticSearchEtls"],
            Self::Queue => &["QueueEtls"],
        }
    }

    /// The names of the tasks in a record that use a connection string of this kind, enabled or not.
    pub fn users_in(self, body: &RecordBody, name: &str) -> Vec<String> {
        let tasks = self.task_sections().iter().flat_map(|section| body.list(section));
        let text = |task: &Value, name: &str| {
            let found = task.as_object().and_then(|task| property(task, name));
            found.and_then(Value::as_str).map(str::to_owned)
        };
        let users =
            tasks.filter(|task| text(task, "ConnectionStringName").as_deref() == Some(name));
        users.map(|task| text(task, "Name").unwrap_or_default()).collect()
    }

    /// Reads the word.
    ///
    /// # Errors
    /// It is none of the kinds.
    pub fn named(word: &str) -> Result<Self, ProtocolError> {
        let known = Self::ALL.into_iter().find(|kind| kind.word().eq_ignore_ascii_case(word));
        known.ok_or_else(|| {
            let message = format!("Unknown connection string type: {word}");
            ProtocolError::new(ErrorKind::NotSupported, message)
        })
    }
}

/// A connection string as it is stored.
#[derive(Clone, PartialEq)]
pub struct ConnectionString {
    /// Its kind.
    pub kind: ConnectionStringKind,
    /// Its name, which is unique within its kind.
    pub name: String,
    /// What is stored.
    pub stored: Map<String, Value>,
}

impl std::fmt::Debug for ConnectionString {
    /// Shows none of its secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, name, .. } = self;
        formatter.debug_struct("ConnectionString").field("kind", kind).field("name", name).finish()
    }
}

impl ConnectionString {
    /// Reads what a client sends, and checks what its kind needs.
    ///
    /// # Errors
    /// A property is missing, or is not what it should be.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let kind = property(sent, "Type").and_then(Value::as_str).ok_or_else(|| {
            ProtocolError::invalid_operation(
                "ConnectionString configuration must have ConnectionStringType field",
            )
        })?;
        let kind = ConnectionStringKind::named(kind)?;
        let name = text(sent, "Name")?;
        let mut problems = Vec::new();
        if name.is_none() {
            problems.push("Name cannot be empty".to_owned());
        }
        match kind {
            ConnectionStringKind::Raven => {
                problems.extend(RavenConnectionString::parse(sent)?.1);
            }
            ConnectionStringKind::Sql => problems.extend(sql_problems(sent)?),
            ConnectionStringKind::Olap => {}
            ConnectionStringKind::ElasticSearch => {
                if texts(sent, "Nodes")?.is_empty() {
                    problems.push("Nodes cannot be empty".to_owned());
                }
            }
            ConnectionStringKind::Queue => problems.extend(queue_problems(sent)?),
        }
        if !problems.is_empty() {
            return Err(invalid(&problems));
        }
        let mut stored = sent.clone();
        stored.retain(|name, _| name != "Type" && name != "Name");
        let name = name.unwrap_or_default();
        stored.insert("Name".to_owned(), name.clone().into());
        Ok(Self { kind, name, stored })
    }
}

fn invalid(problems: &[String]) -> ProtocolError {
    let message =
        format!("Invalid connection string configuration. Errors: {}", problems.join("\n"));
    ProtocolError::new(ErrorKind::BadRequest, message)
}

/// Where another database of Corvus or RavenDB is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RavenConnectionString {
    /// The name of the database.
    pub database: String,
    /// Servers of its cluster, at least one.
    pub addresses: Vec<NodeAddress>,
}

impl RavenConnectionString {
    /// Reads one that is sent or stored.
    ///
    /// # Errors
    /// A property is missing, or is not what it should be.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, ProtocolError> {
        let (read, problems) = Self::parse(sent)?;
        if problems.is_empty() { Ok(read) } else { Err(invalid(&problems)) }
    }

    /// What can be read of it, and what is wrong with it.
    fn parse(sent: &Map<String, Value>) -> Result<(Self, Vec<String>), ProtocolError> {
        let urls = texts(sent, "TopologyDiscoveryUrls")?;
        let database = text(sent, "Database")?.unwrap_or_default();
        let mut problems = Vec::new();
        if database.is_empty() {
            problems.push("Database cannot be empty".to_owned());
        }
        if urls.is_empty() {
            problems.push("TopologyDiscoveryUrls cannot be empty".to_owned());
        }
        let addresses: Result<Vec<_>, InvalidNodeAddress> =
            urls.iter().map(|url| url.parse()).collect();
        let addresses = addresses.unwrap_or_else(|error| {
            problems.push(format!("TopologyDiscoveryUrls: {error}"));
            Vec::new()
        });
        Ok((Self { database, addresses }, problems))
    }
}

/// The drivers of relational databases, as .NET names them.
const SQL_FACTORIES: [&str; 6] = [
    "System.Data.SqlClient",
    "Microsoft.Data.SqlClient",
    "MySql.Data.MySqlClient",
    "MySqlConnector.MySqlConnectorFactory",
    "Npgsql",
    "Oracle.ManagedDataAccess.Client",
];

fn sql_problems(sent: &Map<String, Value>) -> Result<Vec<String>, ProtocolError> {
    let mut problems = Vec::new();
    let factory = text(sent, "FactoryName")?.unwrap_or_default();
    if !SQL_FACTORIES.iter().any(|known| known.eq_ignore_ascii_case(&factory)) {
        problems.push(format!("Unsupported factory '{factory}'"));
    }
    if text(sent, "ConnectionString")?.is_none() {
        problems.push("ConnectionString cannot be empty".to_owned());
    }
    Ok(problems)
}

fn queue_problems(sent: &Map<String, Value>) -> Result<Vec<String>, ProtocolError> {
    let broker = text(sent, "BrokerType")?.unwrap_or_else(|| "None".to_owned());
    let (settings, needed) = match () {
        () if broker.eq_ignore_ascii_case("Kafka") => {
            ("KafkaConnectionSettings", "BootstrapServers")
        }
        () if broker.eq_ignore_ascii_case("RabbitMq") => {
            ("RabbitMqConnectionSettings", "ConnectionString")
        }
        () => {
            let message = format!("'{broker}' broker is not supported");
            return Err(ProtocolError::new(ErrorKind::NotSupported, message));
        }
    };
    let has = match object(sent, settings)? {
        Some(settings) => text(settings, needed)?.is_some(),
        None => false,
    };
    Ok(if has { Vec::new() } else { vec![format!("{settings} has no valid setting.")] })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(sent: Value) -> Result<ConnectionString, ProtocolError> {
        ConnectionString::read(sent.as_object().unwrap())
    }

    #[test]
    fn each_kind_is_kept_as_it_was_sent() {
        for sent in [
            json!({"Database": "d", "TopologyDiscoveryUrls": ["http://a:1/"], "Name": "n", "Type": "Raven"}),
            json!({"ConnectionString": "c", "FactoryName": "Npgsql", "Name": "n", "Type": "Sql"}),
            json!({"LocalSettings": {"FolderPath": "/x"}, "Name": "n", "Type": "Olap"}),
            json!({"Nodes": ["http://e:1"], "Extra": 5, "Name": "n", "Type": "ElasticSearch"}),
            json!({"BrokerType": "Kafka", "KafkaConnectionSettings": {"BootstrapServers": "k:1"},
                "Name": "n", "Type": "Queue"}),
            json!({"BrokerType": "RabbitMq", "RabbitMqConnectionSettings": {"ConnectionString": "r"},
                "Name": "n", "Type": "Queue"}),
        ] {
            let read = read(sent.clone()).unwrap();
            assert_eq!(
                (read.name.as_str(), read.kind.word()),
                ("n", sent["Type"].as_str().unwrap())
            );
            let mut stored = Value::Object(read.stored);
            stored["Type"] = sent["Type"].clone();
            assert_eq!(stored, sent);
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        for (sent, expected) in [
            (json!({}), "must have ConnectionStringType field"),
            (json!({"Type": "Fax"}), "Unknown connection string type: Fax"),
            (json!({"Type": "Olap"}), "Name cannot be empty"),
            (
                json!({"Type": "Raven", "Name": "n"}),
                "Database cannot be empty\nTopologyDiscoveryUrls",
            ),
            (
                json!({"Type": "Raven", "Name": "n", "Database": "d", "TopologyDiscoveryUrls": ["ftp://x"]}),
                "http://",
            ),
            (
                json!({"Type": "Raven", "Name": "n", "Database": "d", "TopologyDiscoveryUrls": ["https://u:p@x"]}),
                "http://",
            ),
            (
                json!({"Type": "Raven", "Name": "n", "Database": "d", "TopologyDiscoveryUrls": ["http://x", "http://y?z"]}),
                "no path, query or credentials",
            ),
            (
                json!({"Type": "Raven", "Name": "n", "Database": "d", "TopologyDiscoveryUrls": "http://x"}),
                "a list of texts, not a text",
            ),
            (
                json!({"Type": "Sql", "Name": "n", "FactoryName": "f"}),
                "Unsupported factory 'f'\nConnectionString cannot be empty",
            ),
            (json!({"Type": "ElasticSearch", "Name": "n", "Nodes": []}), "Nodes cannot be empty"),
            (json!({"Type": "Queue", "Name": "n"}), "'None' broker is not supported"),
            (
                json!({"Type": "Queue", "Name": "n", "BrokerType": "kafka"}),
                "KafkaConnectionSettings has no valid setting",
            ),
        ] {
            let error = read(sent.clone()).unwrap_err();
            assert!(error.message.contains(expected), "{sent}: {}", error.message);
        }
    }

    #[test]
    fn no_secret_is_shown() {
        let sent = json!({"Type": "Sql", "Name": "n", "FactoryName": "npgsql", "ConnectionString": "Password=hush"});
        assert!(!format!("{:?}", read(sent).unwrap()).contains("hush"));
    }
}
