//! A client of the TCP protocol that exposes every message.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};

use crate::test_server::TestServer;

/// A test that waits longer for a message than this fails.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// One connection.
pub(crate) struct TcpClient {
    stream: TcpStream,
    received: Vec<u8>,
    /// Number of heartbeats received between messages.
    pub(crate) heartbeats: usize,
}

/// What a worker received up to the end of a batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The documents, or what a query produced from them.
    pub(crate) items: Vec<Value>,
    /// The messages after them.
    pub(crate) others: Vec<Value>,
}

impl Batch {
    pub(crate) fn ids(&self) -> Vec<&str> {
        let ids = self.items.iter().map(|item| item["Data"]["@metadata"]["@id"].as_str());
        ids.map(Option::unwrap_or_default).collect()
    }
}

impl TcpClient {
    pub(crate) fn connect(address: SocketAddr) -> TcpClient {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        TcpClient { stream, received: Vec::new(), heartbeats: 0 }
    }

    /// A connection for the subscriptions of a database.
    pub(crate) fn agreed(address: SocketAddr, database: &str) -> TcpClient {
        let mut client = TcpClient::connect(address);
        client.send(&json!({
            "DatabaseName": database, "Operation": "Subscription", "OperationVersion": 53000
        }));
        assert_eq!(client.receive().unwrap()["Status"], "Ok");
        client
    }

    /// The same, or `None` if the server is not reachable or refuses.
    pub(crate) fn try_agreed(address: SocketAddr, database: &str) -> Option<TcpClient> {
        let mut client = TcpClient::connect(address);
        client.send(&json!({
            "DatabaseName": database, "Operation": "Subscription", "OperationVersion": 53000
        }));
        client.receive().filter(|message| message["Status"] == "Ok").map(|_| client)
    }

    /// A worker of a subscription of `db`, before the server has accepted it.
    pub(crate) fn worker(server: &TestServer, options: &Value) -> TcpClient {
        let mut client = TcpClient::agreed(server.address, "db");
        client.send(options);
        client
    }

    /// A worker that the server has accepted.
    pub(crate) fn accepted(server: &TestServer, options: &Value) -> TcpClient {
        let mut client = TcpClient::worker(server, options);
        assert_eq!(
            client.receive(),
            Some(json!({"Type": "ConnectionStatus", "Status": "Accepted"}))
        );
        client
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_bytes(message.to_string().as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        // A server that has closed the connection is noticed by reading.
        drop(self.stream.write_all(bytes));
    }

    /// The next message; `None` when the server has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        loop {
            let heartbeats = self.received.iter().take_while(|byte| b"\r\n".contains(byte)).count();
            self.heartbeats += heartbeats;
            self.received.drain(..heartbeats);
            let mut values = serde_json::Deserializer::from_slice(&self.received).into_iter();
            match values.next() {
                Some(Ok(value)) => {
                    let end = values.byte_offset();
                    self.received.drain(..end);
                    return Some(value);
                }
                Some(Err(error)) if !error.is_eof() => panic!("{error}"),
                Some(Err(_)) | None => {}
            }
            let mut bytes = [0; 64 << 10];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no message arrived: {error}"),
            }
        }
    }

    /// Everything up to the end of a batch.
    pub(crate) fn batch(&mut self) -> Batch {
        self.batch_or_end().unwrap_or_else(|end| panic!("{end:?}"))
    }

    /// The same; `None` when the connection ends before that.
    pub(crate) fn try_batch(&mut self) -> Option<Batch> {
        self.batch_or_end().ok()
    }

    fn batch_or_end(&mut self) -> Result<Batch, Option<Value>> {
        let mut batch = Batch::default();
        loop {
            let message = self.receive().ok_or(None)?;
            match message["Type"].as_str() {
                Some("Data") => batch.items.push(message),
                Some("EndOfBatch") => return Ok(batch),
                Some("Includes" | "CounterIncludes" | "TimeSeriesIncludes") => {
                    batch.others.push(message);
                }
                _ => return Err(Some(message)),
            }
        }
    }

    /// Acknowledges a batch and waits for the confirmation.
    pub(crate) fn acknowledge(&mut self) {
        self.send(&json!({"Type": "Acknowledge", "ChangeVector": "whatever"}));
        assert_eq!(self.receive(), Some(json!({"Type": "Confirm"})));
    }

    /// Whether nothing arrives for a while.
    pub(crate) fn is_silent(&mut self, for_so_long: Duration) -> bool {
        self.stream.set_read_timeout(Some(for_so_long)).unwrap();
        let read = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        self.received.is_empty() && read.is_err()
    }
}
