//! Sending a batch to a database of Corvus or RavenDB: to the nodes that its topology names, one after another.

use std::{fmt, sync::Arc, time::Duration};

use etl::RequestBody;
use serde_json::Value;
use wire::RavenConnectionString;

use super::outbound::{Cancel, Outbound, OutboundAnswer, OutboundError, OutboundRequest};

/// How long a server may take to say which nodes a database has.
const TOPOLOGY_TIME_MAX: Duration = Duration::from_secs(15);
/// Longer topologies are not read.
const TOPOLOGY_BYTES_MAX: usize = 256 << 10;
/// What is kept of an answer to a batch, for its error.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Nodes that are tried.
const NODES_MAX: usize = 16;

/// Why a batch was not taken.
#[derive(Debug)]
pub(super) enum SendError {
    /// The process is to end.
    Canceled,
    /// No node answered.
    Unreachable {
        /// For operators.
        message: String,
    },
    /// A node refused the batch: another one may be taken.
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
            SendError::Unreachable { message } => f.write_str(message),
            SendError::Refused { status, message } => write!(f, "{message} (status {status})"),
        }
    }
}

/// A database, and how to reach it.
pub(super) struct Destination {
    outbound: Arc<dyn Outbound>,
    connection: RavenConnectionString,
    time_max: Duration,
    /// The addresses of its nodes, the preferred one first; empty if they are not known.
    nodes: Vec<String>,
}

impl Destination {
    pub(super) fn new(
        outbound: Arc<dyn Outbound>,
        connection: RavenConnectionString,
        time_max: Duration,
    ) -> Destination {
        Destination { outbound, connection, time_max, nodes: Vec::new() }
    }

    /// The node that requests go to first.
    pub(super) fn url(&self) -> Option<&str> {
        self.nodes.first().map(String::as_str)
    }

    /// Sends a batch to the first node that answers. Blocks.
    pub(super) fn send(&mut self, body: RequestBody, cancel: &Cancel) -> Result<(), SendError> {
        if self.nodes.is_empty() {
            self.nodes = self.find_nodes(cancel)?;
        }
        let mut unreachable = None;
        let RequestBody { content_type, bytes } = body;
        let bytes = Arc::new(bytes);
        for (at, node) in self.nodes.clone().iter().enumerate() {
            let request = OutboundRequest {
                method: "POST",
                url: format!("{node}/databases/{}/bulk_docs", encoded(&self.connection.database)),
                content_type: content_type.clone(),
                body: Arc::clone(&bytes),
                time_max: self.time_max,
                answer_bytes_max: ANSWER_BYTES_MAX,
            };
            match self.outbound.send(request, cancel) {
                Ok(OutboundAnswer { status: 200..=299, .. }) => {
                    // The next batch goes there at once.
                    self.nodes.rotate_left(at);
                    return Ok(());
                }
                Ok(OutboundAnswer { status, body }) => {
                    // Its nodes may have changed.
                    self.nodes.clear();
                    let message = format!("{node} refused a batch: {}", message_of(&body));
                    return Err(SendError::Refused { status, message });
                }
                Err(OutboundError::Canceled) => return Err(SendError::Canceled),
                Err(OutboundError::Failed { message }) => {
                    unreachable.get_or_insert(message);
                }
            }
        }
        self.nodes.clear();
        let message = unreachable.unwrap_or_else(|| "The database has no nodes.".to_owned());
        Err(SendError::Unreachable { message })
    }

    /// Asks the servers of the connection string for the nodes of the database.
    fn find_nodes(&self, cancel: &Cancel) -> Result<Vec<String>, SendError> {
        let mut first = None;
        for url in &self.connection.urls {
            match self.nodes_by(url, cancel) {
                Ok(nodes) => return Ok(nodes),
                Err(SendError::Canceled) => return Err(SendError::Canceled),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        Err(first.unwrap_or_else(|| SendError::Unreachable {
            message: "The connection string has no addresses.".to_owned(),
        }))
    }

    /// The nodes of the database as a server names them; the server itself is the last resort, because it was
    /// reachable.
    fn nodes_by(&self, url: &str, cancel: &Cancel) -> Result<Vec<String>, SendError> {
        let database = &self.connection.database;
        let request = OutboundRequest {
            method: "GET",
            url: format!("{url}/topology?name={}", encoded(database)),
            content_type: String::new(),
            body: Arc::default(),
            time_max: TOPOLOGY_TIME_MAX.min(self.time_max),
            answer_bytes_max: TOPOLOGY_BYTES_MAX,
        };
        let answer = self.outbound.send(request, cancel).map_err(|error| match error {
            OutboundError::Canceled => SendError::Canceled,
            OutboundError::Failed { message } => SendError::Unreachable { message },
        })?;
        if answer.status != 200 {
            let message = format!("{url} does not know the database: {}", message_of(&answer.body));
            return Err(SendError::Refused { status: answer.status, message });
        }
        let topology: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let nodes = topology["Nodes"].as_array().into_iter().flatten();
        let members =
            nodes.filter(|node| node["ServerRole"].as_str().is_none_or(|role| role == "Member"));
        let urls =
            members.filter_map(|node| Some(node["Url"].as_str()?.trim_end_matches('/').to_owned()));
        let mut urls: Vec<String> = urls.take(NODES_MAX).collect();
        if !urls.iter().any(|known| known.eq_ignore_ascii_case(url)) {
            urls.push(url.to_owned());
        }
        Ok(urls)
    }
}

/// What an error says, without the trace of its stack.
fn message_of(body: &[u8]) -> String {
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

/// A text as a part of an address.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte as char);
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::etl::outbound::{OutboundStream, StillWanted};

    /// Answers by the begin of the address; what is not listed is unreachable.
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
            self.asked.lock().unwrap().push(format!("{} {}", request.method, request.url));
            let mut answers = self.answers.iter();
            match answers.find(|(begin, ..)| request.url.starts_with(begin)) {
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

    fn send(answers: Vec<(&'static str, u16, &'static str)>) -> (Result<(), String>, Vec<String>) {
        let outbound = Arc::new(Scripted { answers, asked: Mutex::default() });
        let connection = RavenConnectionString {
            database: "d b".to_owned(),
            urls: vec!["http://down:1".to_owned(), "http://a:1".to_owned()],
        };
        let sender = Arc::clone(&outbound) as Arc<dyn Outbound>;
        let mut destination = Destination::new(sender, connection, Duration::from_secs(1));
        let body = RequestBody { content_type: "application/json".to_owned(), bytes: vec![1] };
        let sent = destination.send(body, &Cancel::default()).map_err(|error| error.to_string());
        let asked = std::mem::take(&mut *outbound.asked.lock().unwrap());
        (sent, asked)
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
