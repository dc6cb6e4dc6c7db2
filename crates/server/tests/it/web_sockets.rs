//! WebSockets on the HTTP port: the live I/O metrics, handshakes, and how sessions end.

use std::net::TcpStream;

use platform::Platform;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::test_server::TestServer;

const LIVE: &str = "/databases/db/debug/io-metrics/live";

pub(crate) fn connect(server: &TestServer, target: &str) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(server.address).unwrap();
    let (socket, answer) = client(format!("ws://{}{target}", server.address), stream).unwrap();
    assert_eq!(answer.status(), 101);
    assert!(answer.headers().contains_key("raven-server-version"));
    socket
}

fn read_text(socket: &mut WebSocket<TcpStream>) -> String {
    match socket.read().unwrap() {
        Message::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The next text that is not a heartbeat.
pub(crate) fn read_json(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        if let Some(message) = read_json_or_heartbeat(socket) {
            return message;
        }
    }
}

/// The next text; `None` for a heartbeat.
pub(crate) fn read_json_or_heartbeat(socket: &mut WebSocket<TcpStream>) -> Option<Value> {
    let text = read_text(socket);
    (text != "\r\n").then(|| serde_json::from_str(&text).unwrap())
}

#[test]
fn live_io_metrics_start_with_all_and_continue_with_new_entries() {
    let server = TestServer::with_database();
    server.put("before", "{}");
    let mut socket = connect(&server, LIVE);
    let all = read_json(&mut socket);
    assert_eq!(
        all.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["Environments", "Performances"]
    );
    let environment = &all["Environments"][0];
    assert_eq!(environment["Type"], "Documents");
    let start = |file: &Value| file["Recent"][0]["Start"].as_str().unwrap_or("").to_owned();
    let newest = environment["Files"].as_array().unwrap().iter().map(start).max().unwrap();
    assert!(!newest.is_empty(), "{all}");

    server.put("after", "{}");
    let news = read_json(&mut socket);
    let files = news["Environments"][0]["Files"].as_array().unwrap().clone();
    assert!(!files.is_empty());
    for file in files {
        assert_eq!(file["History"], json!([]));
        assert!(start(&file) > newest, "nothing is reported twice: {news}");
    }
    // A ping is answered, a text is ignored.
    socket.send(Message::text("hello")).unwrap();
    socket.send(Message::Ping(vec![7].into())).unwrap();
    loop {
        match socket.read().unwrap() {
            Message::Pong(payload) => break assert_eq!(payload.as_ref(), [7]),
            other => assert!(other.is_text(), "{other:?}"),
        }
    }
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
}

#[test]
fn an_idle_database_sends_heartbeats() {
    let server = TestServer::with_database();
    let mut socket = connect(&server, LIVE);
    read_json(&mut socket);
    while read_text(&mut socket) != "\r\n" {}
}

#[test]
fn invalid_handshakes_are_rejected_with_the_errors_of_the_protocol() {
    let server = TestServer::with_database();
    let refused = server.get(LIVE);
    assert_eq!(refused.status, 500);
    assert_eq!(refused.json()["Type"], "System.InvalidOperationException");
    assert_eq!(refused.json()["Message"], "Not a WebSocket request.");
    let missing = server.get("/databases/nope/debug/io-metrics/live");
    assert_eq!(
        missing.json()["Type"],
        "Raven.Client.Exceptions.Database.DatabaseDoesNotExistException"
    );
    let body = format!("{{\"Requests\":[{{\"Url\":\"{LIVE}\"}}]}}");
    let inner = server.send("POST", "/databases/db/multi_get", body.as_bytes());
    assert!(!inner.text().contains("101"), "{}", inner.text());
}

#[test]
fn a_session_ends_when_its_database_is_disabled() {
    let server = TestServer::with_database();
    let mut socket = connect(&server, LIVE);
    read_json(&mut socket);
    let body = br#"{"DatabaseNames":["db"]}"#;
    assert_eq!(server.send("POST", "/admin/databases/disable", body).status, 200);
    while socket.read().is_ok() {}
}

#[test]
fn shutdown_ends_all_sessions() {
    let server = TestServer::with_database();
    let mut socket = connect(&server, LIVE);
    read_json(&mut socket);
    server.stop();
    while socket.read().is_ok() {}
}

#[test]
fn a_session_counts_as_a_connection() {
    let server = TestServer::start(Platform::memory(), &["--Server.MaxConnections=2"]);
    server.create("db");
    let mut first = connect(&server, LIVE);
    read_json(&mut first);
    let mut second = connect(&server, LIVE);
    read_json(&mut second);
    // The third connection waits, and is accepted when a session ends.
    let mut third = server.open();
    third.send(b"GET /build/version HTTP/1.1\r\nHost: localhost\r\n\r\n");
    read_text(&mut second);
    assert!(!third.has_anything(), "the limit was reached");
    drop(first);
    assert_eq!(third.read_reply(false).status, 200);
}

#[test]
fn a_client_that_sends_too_much_is_disconnected() {
    let server = TestServer::with_database();
    let mut socket = connect(&server, LIVE);
    read_json(&mut socket);
    // The connection may be closed before everything is sent.
    drop(socket.send(Message::text("x".repeat(1 << 20))));
    while socket.read().is_ok() {}
    assert_eq!(server.get("/build/version").status, 200);
}
