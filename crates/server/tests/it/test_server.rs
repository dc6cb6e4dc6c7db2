//! A server in this process.

use std::net::SocketAddr;

use platform::Platform;
use serde_json::Value;
use server::{AuditSink, RunningServer, StartError};
use settings::{Inputs, Settings, Start};
use tokio::runtime::Runtime;

use crate::http_client::{Connection, Reply};

/// A running server and its runtime.
pub(crate) struct TestServer {
    runtime: Runtime,
    server: Option<RunningServer>,
    pub(crate) address: SocketAddr,
}

/// Settings as on a command line, on a free port.
fn settings(arguments: &[&str]) -> Settings {
    let has_place = arguments.iter().any(|argument| argument.starts_with("--DataDir="));
    let place = if has_place { None } else { Some("--DataDir=/data") };
    let has_url = arguments.iter().any(|argument| argument.starts_with("--ServerUrl="));
    let url = if has_url { None } else { Some("--ServerUrl=http://127.0.0.1:0") };
    let base = url.into_iter().chain(place);
    let inputs = Inputs {
        arguments: base.chain(arguments.iter().copied()).map(Into::into).collect(),
        environment: Vec::new(),
        read_file: &|_| Err(std::io::ErrorKind::NotFound.into()),
    };
    match settings::load(inputs).unwrap() {
        Start::Serve(loaded) => loaded.settings,
        other => panic!("{other:?}"),
    }
}

impl TestServer {
    /// A server with empty data and one database, `db`.
    pub(crate) fn with_database() -> TestServer {
        let server = TestServer::start(Platform::memory(), &[]);
        server.create("db");
        server
    }

    pub(crate) fn start(platform: Platform, arguments: &[&str]) -> TestServer {
        TestServer::try_start(platform, arguments).unwrap()
    }

    pub(crate) fn try_start(
        platform: Platform,
        arguments: &[&str],
    ) -> Result<TestServer, StartError> {
        TestServer::try_start_audited(platform, arguments, None)
    }

    pub(crate) fn try_start_audited(
        platform: Platform,
        arguments: &[&str],
        audit: Option<AuditSink>,
    ) -> Result<TestServer, StartError> {
        let runtime = Runtime::new().unwrap();
        let server =
            runtime.block_on(server::start_audited(settings(arguments), platform, audit))?;
        let (_, address) = server.urls()[0].split_once("://").unwrap();
        let address = address.parse().unwrap();
        Ok(TestServer { runtime, server: Some(server), address })
    }

    /// Stops the server gracefully.
    pub(crate) fn stop(mut self) {
        self.runtime.block_on(self.server.take().unwrap().stop());
    }

    /// Waits until a client has requested that the server stops.
    pub(crate) fn stop_is_requested(&self) {
        self.runtime.block_on(self.running().stop_requested());
    }

    pub(crate) fn running(&self) -> &RunningServer {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn create(&self, name: &str) {
        let record = format!("{{\"DatabaseName\":\"{name}\"}}");
        let reply = self.send("PUT", "/admin/databases", record.as_bytes());
        assert_eq!(reply.status, 201, "{}", reply.text());
    }

    pub(crate) fn get(&self, target: &str) -> Reply {
        self.send("GET", target, b"")
    }

    /// Sends a request without headers of its own.
    pub(crate) fn send(&self, method: &str, target: &str, body: &[u8]) -> Reply {
        self.send_with(method, target, &[], body)
    }

    pub(crate) fn send_with(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        self.send_from(&self.address.to_string(), method, target, headers, body)
    }

    /// Sends a request with the header `Host: host`.
    pub(crate) fn send_from(
        &self,
        host: &str,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let mut connection = self.open();
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        connection.send(head.as_bytes());
        connection.send(body);
        connection.read_reply(method == "HEAD")
    }

    pub(crate) fn open(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Stores a document in `db` and returns its change vector.
    pub(crate) fn put(&self, id: &str, document: &str) -> String {
        let target = format!("/databases/db/docs?id={id}");
        let reply = self.send("PUT", &target, document.as_bytes());
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()["ChangeVector"].as_str().unwrap().to_owned()
    }

    /// The document in `db`, or null.
    pub(crate) fn document(&self, id: &str) -> Value {
        let reply = self.get(&format!("/databases/db/docs?id={id}"));
        match reply.status {
            404 => Value::Null,
            _ => reply.json()["Results"][0].clone(),
        }
    }

    /// Sends a batch to `db`.
    pub(crate) fn batch(&self, commands: &str) -> Reply {
        let body = format!("{{\"Commands\":[{commands}]}}");
        self.send("POST", "/databases/db/bulk_docs", body.as_bytes())
    }
}
