//! Sending a batch to a database of Corvus or RavenDB: to the nodes that its topology names, one after another.

use std::{fmt, sync::Arc, time::Duration};

use etl::RequestBody;
use serde_json::Value;
use wire::{NodeAddress, RavenConnectionString, percent_encode};

use super::outbound::{
    Cancel, ClientIdentity, Outbound, OutboundAnswer, OutboundError, OutboundRequest,
};

/// How long a server may take to say which nodes a database has.
const TOPOLOGY_TIME_MAX: Duration = Duration::from_secs(15);
/// Longer topologies are not read.
const TOPOLOGY_BYTES_MAX: usize = 256 << 10;
/// What is kept of an answer to a batch, for its error.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Nodes that are tried.
const NODES_MAX: usize = 16;
/// What a node answers if it does not take what is in a batch: with other errors it takes none now.
const BATCH_REFUSED: [u16; 5] = [400, 409, 413, 422, 500];

/// Why a batch was not taken.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The process is to end.
    Canceled,
    /// No node could take it now, whatever was in it.
    Unavailable {
        /// For operators.
        message: String,
    },
    /// A node refused what is in the batch: another one may be taken.
    Refused {
        /// The status of its answer.
        status: u16,
        /// For operators.
        message: String,
    },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Canceled => f.write_str("The request was canceled."),
            SendError::Unavailable { message } => f.write_str(message),
            SendError::Refused { status, message } => write!(f, "{message} (status {status})"),
        }
    }
}

/// Where a task sends to, and what it demands of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DestinationOptions {
    /// The database, and servers that know its nodes.
    pub(crate) connection: RavenConnectionString,
    /// Whether nothing may be sent over a connection that is not encrypted.
    pub(crate) requires_encryption: bool,
    /// How long a node may take for one request.
    pub(crate) time_max: Duration,
    /// What connections are made with; `None`: what the server has.
    pub(crate) identity: Option<ClientIdentity>,
}

/// What is sent to a node of a database.
pub(crate) struct Post<'p> {
    /// The path behind that of the database.
    pub(crate) path: &'p str,
    pub(crate) content_type: &'p str,
    pub(crate) body: Arc<Vec<u8>>,
    /// Of the answer no more is kept.
    pub(crate) answer_bytes_max: usize,
}

/// A database, and how to reach it.
pub(crate) struct Destination {
    outbound: Arc<dyn Outbound>,
    options: DestinationOptions,
    /// The addresses of its nodes, the preferred one first; empty if they are not known.
    nodes: Vec<NodeAddress>,
    /// Whether its nodes are asked for; otherwise the addresses of the options are all.
    is_group: bool,
}

impl Destination {
    pub(crate) fn new(outbound: Arc<dyn Outbound>, options: DestinationOptions) -> Destination {
        Destination { outbound, options, nodes: Vec::new(), is_group: true }
    }

    /// A database on the nodes of the options, and on no others.
    pub(crate) fn of_nodes(
        outbound: Arc<dyn Outbound>,
        options: DestinationOptions,
    ) -> Destination {
        Destination { is_group: false, ..Destination::new(outbound, options) }
    }

    /// Goes on with these nodes, which the one that was reached last has named; that one is the last resort, because it was
    /// reachable. None replaces an encrypted connection by another one.
    pub(crate) fn use_nodes(&mut self, named: impl IntoIterator<Item = NodeAddress>) {
        if let Some(reached) = self.nodes.first().cloned() {
            self.nodes = usable_nodes(named, &reached);
        }
    }

    /// Begins with the servers of the options again.
    pub(crate) fn forget_nodes(&mut self) {
        self.nodes.clear();
    }

    /// The node that requests go to first.
    pub(crate) fn url(&self) -> Option<String> {
        self.nodes.first().map(NodeAddress::to_string)
    }

    /// Sends a batch to the first node that can take it. Blocks.
    pub(super) fn send(&mut self, body: RequestBody, cancel: &Cancel) -> Result<(), SendError> {
        let RequestBody { content_type, bytes } = body;
        let request = Post {
            path: "/bulk_docs",
            content_type: &content_type,
            body: Arc::new(bytes),
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        self.post(request, cancel).map(drop)
    }

    /// Sends something to the first node that can take it, and returns its answer. Blocks.
    pub(crate) fn post(&mut self, post: Post<'_>, cancel: &Cancel) -> Result<Vec<u8>, SendError> {
        if self.nodes.is_empty() {
            self.nodes = self.find_nodes(cancel)?;
        }
        let mut first = None;
        for (at, node) in self.nodes.clone().iter().enumerate() {
            let database = percent_encode(&self.options.connection.database);
            let request = OutboundRequest {
                method: "POST",
                server: node.clone(),
                path: format!("/databases/{database}{}", post.path),
                content_type: post.content_type.to_owned(),
                body: Arc::clone(&post.body),
                time_max: self.options.time_max,
                answer_bytes_max: post.answer_bytes_max,
                identity: self.options.identity.clone(),
            };
            let message = match self.ask(request, cancel) {
                Ok(OutboundAnswer { status: 200..=299, body }) => {
                    // The next one goes there at once.
                    self.nodes.rotate_left(at);
                    return Ok(body);
                }
                Ok(OutboundAnswer { status, body }) if BATCH_REFUSED.contains(&status) => {
                    // Its nodes may have changed.
                    self.nodes.clear();
                    let message = format!("{node} refused a batch: {}", message_of(&body));
                    return Err(SendError::Refused { status, message });
                }
                Ok(OutboundAnswer { status, body }) => {
                    let reason = message_of(&body);
                    format!("{node} cannot take a batch now: {reason} (status {status})")
                }
                Err(SendError::Canceled) => return Err(SendError::Canceled),
                Err(error) => error.to_string(),
            };
            first.get_or_insert(message);
        }
        self.nodes.clear();
        let message = first.unwrap_or_else(|| "The database has no nodes.".to_owned());
        Err(SendError::Unavailable { message })
    }

    /// Makes a request, unless it would show what must not be readable on its way.
    fn ask(&self, request: OutboundRequest, cancel: &Cancel) -> Result<OutboundAnswer, SendError> {
        if self.options.requires_encryption && !request.server.is_encrypted() {
            let message = format!(
                "The database is encrypted, and {} is reached over a connection that is not. Name an address that \
                 begins with https://, or set AllowEtlOnNonEncryptedChannel.",
                request.server
            );
            return Err(SendError::Unavailable { message });
        }
        self.outbound.send(request, cancel).map_err(|error| match error {
            OutboundError::Canceled => SendError::Canceled,
            OutboundError::Failed { message } => SendError::Unavailable { message },
        })
    }

    /// Asks the servers of the connection string for the nodes of the database.
    fn find_nodes(&self, cancel: &Cancel) -> Result<Vec<NodeAddress>, SendError> {
        if !self.is_group {
            return Ok(self.options.connection.addresses.clone());
        }
        let mut first = None;
        for server in &self.options.connection.addresses {
            match self.nodes_by(server, cancel) {
                Ok(nodes) => return Ok(nodes),
                Err(SendError::Canceled) => return Err(SendError::Canceled),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        Err(first.unwrap_or_else(|| SendError::Unavailable {
            message: "The connection string has no addresses.".to_owned(),
        }))
    }

    /// The nodes of the database as a server names them; the server itself is the last resort, because it was
    /// reachable. What it names is used only as the address of a server, and never instead of an encrypted connection.
    fn nodes_by(
        &self,
        server: &NodeAddress,
        cancel: &Cancel,
    ) -> Result<Vec<NodeAddress>, SendError> {
        let request = OutboundRequest {
            method: "GET",
            server: server.clone(),
            path: format!("/topology?name={}", percent_encode(&self.options.connection.database)),
            content_type: String::new(),
            body: Arc::default(),
            time_max: TOPOLOGY_TIME_MAX.min(self.options.time_max),
            answer_bytes_max: TOPOLOGY_BYTES_MAX,
            identity: self.options.identity.clone(),
        };
        let answer = self.ask(request, cancel)?;
        if answer.status != 200 {
            let (reason, status) = (message_of(&answer.body), answer.status);
            let message =
                format!("{server} does not know the database: {reason} (status {status})");
            return Err(SendError::Unavailable { message });
        }
        let topology: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let nodes = topology["Nodes"].as_array().into_iter().flatten();
        let members =
            nodes.filter(|node| node["ServerRole"].as_str().is_none_or(|role| role == "Member"));
        let addresses = members.filter_map(|node| node["Url"].as_str()?.parse().ok());
        Ok(usable_nodes(addresses, server))
    }
}

/// The nodes that a server names, and itself.
fn usable_nodes(
    named: impl IntoIterator<Item = NodeAddress>,
    server: &NodeAddress,
) -> Vec<NodeAddress> {
    let as_safe = |node: &NodeAddress| node.is_encrypted() || !server.is_encrypted();
    let mut nodes: Vec<NodeAddress> = named.into_iter().filter(as_safe).take(NODES_MAX).collect();
    if !nodes.contains(server) {
        nodes.push(server.clone());
    }
    nodes
}

/// What an error says, without the trace of its stack.
pub(crate) fn message_of(body: &[u8]) -> String {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    match (error["Type"].as_str(), error["Message"].as_str()) {
        (Some(kind), Some(message)) => {
            let kind = kind.rsplit('.').next().unwrap_or(kind);
            format!("{kind}: {message}")
        }
        (_, Some(message)) => message.to_owned(),
        _ => String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::etl::outbound::{OutboundStream, StillWanted};

    /// Answers by the beginning of the address; what is not listed is unreachable.
    struct Scripted {
        answers: Vec<(&'static str, u16, &'static str)>,
        asked: Mutex<Vec<String>>,
    }

    impl Outbound for Scripted {
        fn send(
            &self,
            request: OutboundRequest,
            _: &Cancel,
        ) -> Result<OutboundAnswer, OutboundError> {
            let url = format!("{}{}", request.server, request.path);
            self.asked.lock().unwrap().push(format!("{} {url}", request.method));
            let mut answers = self.answers.iter();
            match answers.find(|(beginning, ..)| url.starts_with(beginning)) {
                Some((_, status, body)) => {
                    Ok(OutboundAnswer { status: *status, body: body.as_bytes().to_vec() })
                }
                None => Err(OutboundError::Failed { message: "no way".to_owned() }),
            }
        }

        fn open(
            &self,
            _: OutboundRequest,
            _: StillWanted,
        ) -> Result<OutboundStream, OutboundError> {
            Err(OutboundError::Failed { message: "tasks open nothing".to_owned() })
        }
    }

    fn send_to(
        addresses: &[&str],
        requires_encryption: bool,
        answers: Vec<(&'static str, u16, &'static str)>,
    ) -> (Result<(), SendError>, Vec<String>) {
        let outbound = Arc::new(Scripted { answers, asked: Mutex::default() });
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let options = DestinationOptions {
            connection: RavenConnectionString { database: "d b".to_owned(), addresses },
            requires_encryption,
            time_max: Duration::from_secs(1),
            identity: None,
        };
        let sender = Arc::clone(&outbound) as Arc<dyn Outbound>;
        let mut destination = Destination::new(sender, options);
        let body = RequestBody { content_type: "application/json".to_owned(), bytes: vec![1] };
        let sent = destination.send(body, &Cancel::default());
        let asked = std::mem::take(&mut *outbound.asked.lock().unwrap());
        (sent, asked)
    }

    fn send(answers: Vec<(&'static str, u16, &'static str)>) -> (Result<(), String>, Vec<String>) {
        let (sent, asked) = send_to(&["http://down:1", "http://a:1"], false, answers);
        (sent.map_err(|error| error.to_string()), asked)
    }

    const TOPOLOGY: &str = r#"{"Nodes":[{"Url":"http://n1:1/","ServerRole":"Member"},
        {"Url":"http://n2:1","ServerRole":"Rehab"},{"Url":"http://n3:1","ServerRole":"Member"}]}"#;

    #[test]
    fn the_first_node_that_answers_takes_the_batch() {
        let (sent, asked) =
            send(vec![("http://a:1/topology", 200, TOPOLOGY), ("http://n3:1/", 201, "{}")]);
        sent.unwrap();
        assert_eq!(
            asked,
            [
                "GET http://down:1/topology?name=d%20b",
                "GET http://a:1/topology?name=d%20b",
                "POST http://n1:1/databases/d%20b/bulk_docs",
                "POST http://n3:1/databases/d%20b/bulk_docs",
            ]
        );
    }

    #[test]
    fn a_node_that_cannot_take_anything_does_not_refuse_the_batch() {
        for status in [307, 401, 403, 404, 408, 429, 502, 503, 504] {
            let answers = || {
                vec![
                    ("http://a:1/topology", 200, TOPOLOGY),
                    ("http://n1:1/", status, r#"{"Message":"not now"}"#),
                ]
            };
            let (sent, asked) = send_to(&["http://a:1"], false, answers());
            let expected =
                format!("http://n1:1 cannot take a batch now: not now (status {status})");
            assert!(
                matches!(&sent, Err(SendError::Unavailable { message }) if *message == expected),
                "{sent:?}"
            );
            assert_eq!(asked.len(), 4, "{asked:?}");
            let mut answers = answers();
            answers.push(("http://n3:1/", 201, "{}"));
            send_to(&["http://a:1"], false, answers).0.unwrap();
        }
        for status in BATCH_REFUSED {
            let answers =
                vec![("http://a:1/topology", 200, TOPOLOGY), ("http://n1:1/", status, "{}")];
            let (sent, asked) = send_to(&["http://a:1"], false, answers);
            assert!(matches!(sent, Err(SendError::Refused { .. })), "{sent:?}");
            assert_eq!(asked.len(), 2, "{asked:?}");
            let answers = vec![("http://a:1/topology", status, "{}")];
            let (sent, _) = send_to(&["http://a:1"], false, answers);
            assert!(matches!(sent, Err(SendError::Unavailable { .. })), "{sent:?}");
        }
    }

    #[test]
    fn a_destination_names_servers_and_not_what_is_requested_of_them() {
        let topology = r#"{"Nodes":[{"Url":"http://n:1/admin/anything?x="},{"Url":"http://u:p@n:1"},
            {"Url":"http://n:1#"},{"Url":"http://plain:1"},{"Url":"https://safe:1"},{"Url":5}]}"#;
        let answers = |server| vec![(server, 200, topology)];
        let (_, asked) = send_to(&["http://a:1"], false, answers("http://a:1/topology"));
        assert_eq!(
            asked[1..],
            ["http://plain:1", "https://safe:1", "http://a:1"]
                .map(|server| format!("POST {server}/databases/d%20b/bulk_docs"))
        );
        let (_, asked) = send_to(&["https://a:1"], false, answers("https://a:1/topology"));
        assert_eq!(
            asked[1..],
            ["https://safe:1", "https://a:1"]
                .map(|server| format!("POST {server}/databases/d%20b/bulk_docs")),
            "what was to be encrypted stays so"
        );
    }

    #[test]
    fn an_encrypted_database_is_sent_over_encrypted_connections_alone() {
        let topology = r#"{"Nodes":[{"Url":"http://n:1"}]}"#;
        let answers = vec![
            ("http://a:1/", 200, topology),
            ("https://b:1/topology", 200, topology),
            ("http://n:1/", 201, "{}"),
        ];
        let (sent, asked) = send_to(&["http://a:1"], true, answers.clone());
        assert!(sent.unwrap_err().to_string().contains("The database is encrypted"));
        assert_eq!(asked, [""; 0]);
        let (sent, asked) = send_to(&["http://a:1", "https://b:1"], true, answers);
        sent.unwrap_err();
        assert!(asked.iter().all(|asked| asked.contains(" https://b:1/")), "{asked:?}");
    }

    #[test]
    fn failures_say_where_and_why() {
        assert_eq!(send(vec![]).0.unwrap_err(), "no way");
        let missing = r#"{"Type":"Raven.X.DatabaseDoesNotExistException","Message":"nope"}"#;
        let (sent, _) = send(vec![("http://a:1/topology", 503, missing)]);
        assert_eq!(sent.unwrap_err(), "no way", "the first failure is reported");
        let refused = r#"{"Type":"System.ArgumentException","Message":"too long"}"#;
        let answers = vec![("http://a:1/topology", 200, "{}"), ("http://a:1/", 400, refused)];
        let (sent, _) = send(answers);
        let expected = "http://a:1 refused a batch: ArgumentException: too long (status 400)";
        assert_eq!(sent.unwrap_err(), expected);
    }
}
