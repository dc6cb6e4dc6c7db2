//! A client of the Changes API.

use std::{collections::VecDeque, net::TcpStream, time::Duration};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::test_server::TestServer;

/// Longer than the interval between heartbeats.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// A connection to `/changes`, and the messages that it has received.
pub(crate) struct ChangeListener {
    pub(crate) socket: WebSocket<TcpStream>,
    notifications: VecDeque<Value>,
    last_command: u64,
}

impl ChangeListener {
    /// Connects to the database `db`.
    pub(crate) fn connect(server: &TestServer) -> ChangeListener {
        ChangeListener::connect_to(server, "/databases/db/changes")
    }

    pub(crate) fn connect_to(server: &TestServer, target: &str) -> ChangeListener {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(SILENCE_MAX)).unwrap();
        let (socket, answer) = client(format!("ws://{}{target}", server.address), stream).unwrap();
        assert_eq!(answer.status(), 101);
        let mut listener =
            ChangeListener { socket, notifications: VecDeque::new(), last_command: 0 };
        let first = listener.read_text().unwrap();
        assert_eq!(first, r#"[{"TopologyChange":true,"AggressiveCachingChange":true}]"#);
        listener
    }

    /// Connects and starts the watches.
    pub(crate) fn watching(server: &TestServer, watches: &[(&str, &str)]) -> ChangeListener {
        let mut listener = ChangeListener::connect(server);
        for (command, name) in watches {
            listener.command(command, json!({ "Param": name }));
        }
        listener
    }

    /// Sends a command and waits until it is confirmed; other messages in the meantime are kept.
    pub(crate) fn command(&mut self, command: &str, parameters: Value) {
        self.last_command += 1;
        let mut body = json!({ "CommandId": self.last_command, "Command": command });
        body.as_object_mut().unwrap().extend(parameters.as_object().unwrap().clone());
        self.send(&body.to_string());
        let confirmation = json!({ "CommandId": self.last_command, "Type": "Confirm" });
        loop {
            let place = self.notifications.iter().position(|one| *one == confirmation);
            if let Some(place) = place {
                self.notifications.remove(place);
                return;
            }
            self.read_more().unwrap();
        }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    /// The next text; `None` when the connection has ended.
    pub(crate) fn read_text(&mut self) -> Option<String> {
        match self.socket.read() {
            Ok(Message::Text(text)) => Some(text.to_string()),
            Ok(Message::Close(_)) | Err(_) => None,
            Ok(other) => panic!("{other:?}"),
        }
    }

    fn read_more(&mut self) -> Option<()> {
        let text = self.read_text()?;
        let Value::Array(read) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        self.notifications.extend(read);
        Some(())
    }

    /// The next notification; `None` when the connection has ended.
    pub(crate) fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(next) = self.notifications.pop_front() {
                return Some(next);
            }
            self.read_more()?;
        }
    }

    /// The values of the next notifications, all of one type.
    pub(crate) fn values(&mut self, kind: &str, count: usize) -> Vec<Value> {
        let mut value = || {
            let mut next = self.next().unwrap();
            assert_eq!(next["Type"], kind, "{next}");
            next["Value"].take()
        };
        (0..count).map(|_| value()).collect()
    }

    /// The next changes of documents as strings `Put users/1 Users`, each with its change vector.
    pub(crate) fn documents(&mut self, count: usize) -> Vec<(String, Option<String>)> {
        let values = self.values("DocumentChange", count);
        let read = values.iter().map(|value| {
            let text = |name: &str| value[name].as_str().map(str::to_owned);
            let summary = ["Type", "Id", "CollectionName"].map(|name| text(name).unwrap());
            (summary.join(" "), text("ChangeVector"))
        });
        read.collect()
    }

    /// As [`ChangeListener::documents`], without the change vectors.
    pub(crate) fn changes(&mut self, count: usize) -> Vec<String> {
        self.documents(count).into_iter().map(|(summary, _)| summary).collect()
    }

    /// Waits for the end of the connection, and discards messages until then; whether it has ended.
    pub(crate) fn ends(&mut self) -> bool {
        while self.read_text().is_some() {}
        true
    }
}
