//! Connections: early responses, and slow clients.

use platform::Platform;
use serde_json::json;

use crate::{http_client::Connection, test_server::TestServer};

/// Starts a request whose body has `bytes` bytes.
fn begin(server: &TestServer, target: &str, bytes: usize) -> Connection {
    let mut connection = server.open();
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n");
    connection.send(head.as_bytes());
    connection
}

#[test]
fn an_early_response_reaches_a_client_that_is_still_sending() {
    let server = TestServer::with_database();
    let piece = vec![b'a'; 1 << 20];
    let table = [
        ("/databases/nosuch/bulk_docs", 500),
        ("/nosuch/route", 400),
        ("/databases/db/bulk_insert?id=1", 500),
        ("/databases/db/operations/kill?id=99", 500),
    ];
    for (target, status) in table {
        let mut connection = begin(&server, target, piece.len() * 32);
        // None of these writes may fail: the response is sent early and read late.
        (0..32).for_each(|_| connection.send(&piece));
        let reply = connection.read_reply(false);
        assert_eq!(reply.status, status, "{target}: {}", reply.text());
        assert!(reply.json()["Message"].is_string());
    }
}

#[test]
fn a_connection_serves_the_next_request_after_an_early_response() {
    let server = TestServer::with_database();
    let mut connection = begin(&server, "/nosuch/route", 1 << 20);
    connection.send(&vec![b'a'; 1 << 19]);
    assert_eq!(connection.read_reply(false).status, 400);
    connection.send(&vec![b'a'; 1 << 19]);
    connection.send(b"GET /databases/db/healthcheck HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(connection.read_reply(false).status, 204);
}

#[test]
fn an_endless_body_is_not_read_forever_after_an_early_response() {
    let server = TestServer::with_database();
    let mut connection = begin(&server, "/nosuch/route", usize::MAX / 4);
    assert_eq!(connection.read_reply(false).status, 400);
    let piece = vec![b'a'; 1 << 20];
    let sent = (0..2048).take_while(|_| connection.try_send(&piece)).count();
    assert!((256..2048).contains(&sent), "{sent} MB were read");
}

#[test]
fn a_client_that_expects_100_continue_gets_an_early_response_instead() {
    let server = TestServer::with_database();
    let mut connection = server.open();
    connection.send(
        b"POST /nosuch/route HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    );
    assert_eq!(connection.read_reply(false).status, 400);
}

#[test]
fn shutdown_does_not_wait_for_unread_bodies() {
    let server = TestServer::with_database();
    let mut connection = begin(&server, "/nosuch/route", 1 << 20);
    assert_eq!(connection.read_reply(false).status, 400);
    server.stop();
    assert!(connection.is_closed());
}

#[test]
fn clients_are_asked_once_to_refresh_their_configuration() {
    let server = TestServer::with_database();
    for _ in 0..2 {
        let reply = server.send_with(
            "PUT",
            "/databases/db/admin/configuration/client",
            &[("Client-Configuration-Etag", "0")],
            json!({"MaxNumberOfRequestsPerSession": 5}).to_string().as_bytes(),
        );
        let is_refresh =
            |name: &&(String, String)| name.0.eq_ignore_ascii_case("refresh-client-configuration");
        assert_eq!(reply.headers.iter().filter(is_refresh).count(), 1, "{:?}", reply.headers);
    }
}

/// A database with `count` documents of about 1 MB each.
fn with_large_documents(platform: Platform, settings: &[&str], count: usize) -> TestServer {
    let server = TestServer::start(platform, settings);
    server.create("db");
    let document = format!("{{\"t\":\"{}\"}}", "x".repeat(1 << 20));
    (0..count).for_each(|n| drop(server.put(&format!("d/{n:04}"), &document)));
    server
}

#[test]
fn an_unread_list_is_aborted_when_the_database_is_deleted() {
    for target in ["/databases/db/streams/docs", "/databases/db/streams/docs?startsWith=d"] {
        let server = with_large_documents(Platform::memory(), &[], 32);
        let mut connection = server.open();
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        assert!(connection.has_begun());
        let body = br#"{"DatabaseNames":["db"],"HardDelete":true}"#;
        let reply = server.send("DELETE", "/admin/databases", body);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let rest = connection.read_to_end();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "the list was ended as if it were complete");
    }
}

#[test]
fn a_client_that_does_not_read_its_response_is_disconnected() {
    let settings = ["--Http.IdleConnectionTimeoutInSec=1"];
    let server = with_large_documents(Platform::memory(), &settings, 32);
    let mut connection = server.open();
    connection.send(b"GET /databases/db/streams/docs HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // Each of these takes as long as the idle timeout.
    for _ in 0..3 {
        assert!(server.open().is_closed());
    }
    let rest = connection.read_to_end();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{} bytes of a list that was not read", rest.len());
}

/// A document of this many random letters.
fn incompressible(letters: usize) -> String {
    let mut seed = 88_172_645_463_325_252_u64;
    let mut letter = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        char::from(
            b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"
                [(seed >> 58) as usize],
        )
    };
    let text: String = (0..letters).map(|_| letter()).collect();
    format!("{{\"t\":\"{text}\"}}")
}

#[test]
fn unread_lists_do_not_block_writes() {
    let server = with_large_documents(Platform::memory(), &[], 40);
    let open = |target: &str| {
        let mut connection = server.open();
        connection.send(
            format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        );
        connection
    };
    let mut newest = open("/databases/db/streams/docs");
    let mut by_id = open("/databases/db/streams/docs?startsWith=d/");
    let mut query = open("/databases/db/streams/queries?query=from%20@all_docs");
    let document = incompressible(1 << 20);
    // More than the storage retains in memory for old snapshots.
    for n in 0..400 {
        let target = format!("/databases/db/docs?id=o/{n}");
        // A write that arrives before the memory is released is refused, and succeeds later.
        let mut tries = (0..2000).map(|_| server.send("PUT", &target, document.as_bytes()).status);
        assert!(tries.any(|status| status == 201), "writes remain blocked");
    }
    // Aborting one may have released enough memory for the other.
    let ends = [newest.read_to_end(), query.read_to_end()];
    assert!(ends.iter().any(|answer| !answer.ends_with(b"0\r\n\r\n")));
    let ids: Vec<String> = (0..40).map(|n| format!("d/{n:04}")).collect();
    let whole = by_id.read_reply(false);
    assert_eq!(whole.ids(), ids);
    // Rows that were started under one snapshot and completed after it are complete, too.
    for document in whole.json()["Results"].as_array().unwrap() {
        assert_eq!(document["t"].as_str().unwrap().len(), 1 << 20);
    }
}
