//! Notification centers: what watchers receive, and what operators dismiss or postpone.

use std::net::TcpStream;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::WebSocket;

use crate::{
    operations::wait,
    test_server::TestServer,
    web_sockets::{connect, read_json, read_json_or_heartbeat},
};

const OF_SERVER: &str = "/server/notification-center";
const OF_DATABASE: &str = "/databases/db/notification-center";

/// The next message of a type.
fn next(socket: &mut WebSocket<TcpStream>, kind: &str) -> Value {
    loop {
        let message = read_json(socket);
        if message["Type"] == kind {
            return message;
        }
    }
}

#[test]
fn an_operation_is_reported_until_it_has_ended() {
    let server = TestServer::with_database();
    for n in 0..20 {
        server.put(&format!("n/{n}"), r#"{"@metadata":{"@collection":"Ns"}}"#);
    }
    let delete = |body: &str| {
        let started = server.send("DELETE", "/databases/db/queries", body.as_bytes()).json();
        wait(&server, "/databases/db", &started)
    };
    // A completed operation is not reported again.
    delete(r#"{"Query":"from Ns limit 1"}"#);
    let mut socket = connect(&server, &format!("{OF_DATABASE}/watch"));
    let mut other = connect(&server, &format!("{OF_DATABASE}/watch"));
    // Both are connected once they have received what is hidden.
    let dismiss = |id: &str| server.send("POST", &format!("{OF_DATABASE}/dismiss?id={id}"), b"");
    for socket in [&mut socket, &mut other] {
        // What is hidden before they are connected is not sent: the next heartbeat comes instead.
        while {
            dismiss("x");
            read_json_or_heartbeat(socket).is_none_or(|message| message["NotificationId"] != "x")
        } {}
    }
    delete(r#"{"Query":"from Ns"}"#);
    for socket in [&mut socket, &mut other] {
        let mut sent = next(socket, "OperationChanged");
        while sent["State"]["Status"] == "InProgress" {
            assert_eq!((&sent["Severity"], &sent["Killable"]), (&json!("None"), &json!(true)));
            sent = next(socket, "OperationChanged");
        }
        assert_eq!(
            sent.as_object().unwrap().keys().collect::<Vec<_>>(),
            [
                "Id",
                "CreatedAt",
                "Type",
                "Title",
                "Message",
                "Severity",
                "IsPersistent",
                "Database",
                "OperationId",
                "State",
                "Killable",
                "TaskType",
                "StartTime",
                "EndTime",
                "DetailedDescription"
            ]
        );
        assert_eq!(sent["Id"], "OperationChanged/2", "{sent}");
        for (name, expected) in [
            ("Title", json!("Delete by query")),
            ("Severity", json!("Success")),
            ("Database", json!("db")),
            ("Killable", json!(false)),
            ("TaskType", json!("DeleteByQuery")),
        ] {
            assert_eq!(sent[name], expected, "{name}");
        }
        assert_eq!(sent["State"]["Result"]["Total"], 19);
    }
}

#[test]
fn database_statistics_are_sent_when_they_change() {
    let server = TestServer::with_database();
    server.put("a/1", r#"{"@metadata":{"@collection":"As"}}"#);
    let mut socket = connect(&server, &format!("{OF_DATABASE}/watch"));
    server.send("POST", &format!("{OF_DATABASE}/dismiss?id=x"), b"");
    let mut number = 0;
    let changed = loop {
        number += 1;
        server.put(&format!("b/{number}"), r#"{"@metadata":{"@collection":"Bs"}}"#);
        // What was put before the session had looked at the numbers is no change: the next heartbeat comes instead.
        match read_json_or_heartbeat(&mut socket) {
            Some(message) if message["Type"] == "DatabaseStatsChanged" => break message,
            Some(_) | None => {}
        }
    };
    let modified = &changed["ModifiedCollections"];
    assert_eq!(modified.as_array().unwrap().len(), 1, "{changed}");
    assert_eq!(modified[0]["Name"], "Bs");
    assert!(1 <= modified[0]["Count"].as_u64().unwrap());

    let numbers = server.get(&format!("{OF_DATABASE}/stats")).json();
    assert_eq!(numbers["CountOfDocuments"], 1 + number);
    assert_eq!(numbers["Collections"]["As"]["Count"], 1);
    assert_eq!(numbers["CountOfRevisions"], 0);
}

#[test]
fn server_wide_watchers_receive_topology_and_operations() {
    let server = TestServer::with_database();
    server.put("a/1", "{}");
    let mut socket = connect(&server, &format!("{OF_SERVER}/watch"));
    let topology = read_json(&mut socket);
    assert_eq!(topology["Type"], "ClusterTopologyChanged");
    assert_eq!(topology["Topology"]["Members"].as_object().unwrap().len(), 1);
    assert_eq!((&topology["Leader"], &topology["NodeTag"]), (&json!("A"), &json!("A")));
    let started =
        server.send("POST", "/admin/compact", br#"{"DatabaseName":"db","Documents":true}"#);
    wait(&server, "", &started.json());
    loop {
        let sent = next(&mut socket, "OperationChanged");
        assert_eq!(sent["Database"], Value::Null);
        if sent["State"]["Status"] != "InProgress" {
            assert_eq!(sent["State"]["Status"], "Completed", "{sent}");
            break;
        }
    }
}

#[test]
fn hiding_needs_an_id_and_a_time() {
    let server = TestServer::with_database();
    for center in [OF_SERVER, OF_DATABASE] {
        for (target, status) in [
            ("dismiss", 500),
            ("dismiss?id=AlertRaised/x&forever=true", 204),
            ("postpone?id=x", 500),
            ("postpone?timeInSec=5", 500),
            ("postpone?id=x&timeInSec=60", 204),
        ] {
            let reply = server.send("POST", &format!("{center}/{target}"), b"");
            assert_eq!(reply.status, status, "{center}/{target}");
        }
        assert_eq!(server.get(&format!("{center}/watch")).status, 500, "no WebSocket");
    }
}
