//! Bulk inserts: streamed bodies, outcomes, failures during the stream.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use platform::{Platform, simulated::Random};
use serde_json::{Value, json};
use testkit::histories::noise;

use crate::{
    http_client::{Connection, Reply},
    resources::server_with,
    test_server::TestServer,
};

fn element(id: &str, value: u32) -> String {
    format!("{{\"Id\":\"{id}\",\"Type\":\"PUT\",\"Document\":{{\"v\":{value}}}}}")
}

fn insert(server: &TestServer, id: u32, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let target = format!("/databases/db/bulk_insert?id={id}");
    server.send_with("POST", &target, headers, body)
}

fn state(server: &TestServer, id: u32) -> Value {
    server.get(&format!("/databases/db/operations/state?id={id}")).json()
}

fn begin_stream(server: &TestServer, id: u32) -> Connection {
    let mut connection = server.open();
    let head = format!(
        "POST /databases/db/bulk_insert?id={id} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    connection.send(head.as_bytes());
    connection
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if is_there() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{what} did not happen");
}

#[test]
fn documents_are_inserted_and_the_operation_reports_the_count() {
    let server = TestServer::with_database();
    let next = server.get("/databases/db/operations/next-operation-id").json();
    assert_eq!(next, json!({"Id": 1, "NodeTag": "A"}));
    let body = format!("[{},{{\"Type\":\"HeartBeat\"}},{}]", element("a", 1), element("b/", 2));
    let reply = insert(&server, 1, &[], body.as_bytes());
    assert_eq!((reply.status, reply.body.len()), (201, 0), "{}", reply.text());
    assert_eq!(server.document("a")["v"], 1);
    assert_eq!(server.get("/databases/db/docs?startsWith=b/").ids().len(), 1);
    let state = state(&server, 1);
    assert_eq!(state["Status"], "Completed");
    assert_eq!(
        (&state["Result"]["Total"], &state["Result"]["DocumentsProcessed"]),
        (&json!(2), &json!(2))
    );
    let listed = server.get("/databases/db/operations?id=1").json();
    assert_eq!(listed["Results"][0]["Description"]["TaskType"], "BulkInsert");
    assert_eq!(insert(&server, 2, &[], b"[]").status, 201);
}

#[test]
fn compressed_streams_are_inserted() {
    let server = TestServer::with_database();
    let elements: Vec<String> = (0..500).map(|n| element(&format!("d/{n}"), n)).collect();
    let body = format!("[{}]", elements.join(","));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body.as_bytes()).unwrap();
    let gzip = encoder.finish().unwrap();
    assert_eq!(insert(&server, 1, &[("Content-Encoding", "gzip")], &gzip).status, 201);
    let zstd = zstd::encode_all(body.as_bytes(), 1).unwrap();
    assert_eq!(insert(&server, 2, &[("Content-Encoding", "zstd")], &zstd).status, 201);
    assert_eq!(server.get("/databases/db/stats").json()["CountOfDocuments"], 500);
    assert_eq!(server.document("d/499")["v"], 499);
}

#[test]
fn an_insert_completes_at_the_closing_bracket_while_the_body_is_still_open() {
    let server = TestServer::with_database();
    let mut connection = begin_stream(&server, 1);
    connection.send_chunk(b"[");
    connection.send_chunk(element("a", 1).as_bytes());
    connection.send_chunk(b"]");
    assert_eq!(connection.read_reply(false).status, 201);
    assert_eq!(server.document("a")["v"], 1);
}

#[test]
fn batches_committed_before_a_disconnect_are_kept() {
    let server = TestServer::with_database();
    let mut connection = begin_stream(&server, 1);
    connection.send_chunk(b"[");
    connection.send_chunk(element("a", 1).as_bytes());
    wait_for("a commit while the stream is idle", || !server.document("a").is_null());
    connection.send_chunk(b",{\"Id\":\"b\",\"Type\":\"PUT\",\"Doc");
    drop(connection);
    wait_for("the failure", || state(&server, 1)["Status"] == "Faulted");
    let result = state(&server, 1)["Result"].clone();
    assert_eq!(result["Message"], "Failed to process bulk insert. Inserted 1 items in 1 batches.");
    assert_eq!(server.document("a")["v"], 1);
    assert!(server.document("b").is_null());
}

#[test]
fn invalid_streams_close_the_connection_and_fault_the_operation() {
    let server = TestServer::with_database();
    server.put("u/1", r#"{"@metadata":{"@collection":"Users"}}"#);
    let deep =
        format!("[{{\"Id\":\"x\",\"Type\":\"PUT\",\"Document\":{}}}]", "{\"a\":".repeat(200));
    let bodies = [
        "",
        "[",
        r#"[{"Id":"x","Type":"PUT""#,
        r#"[{"Id":"x","Type":"PUT"}]"#,
        r#"[{"Id":"x|","Type":"PUT","Document":{}}]"#,
        r#"[{"Id":"x","Type":"DELETE"}]"#,
        r#"[{"Id":"x","Type":"Counters","Counters":{}}]"#,
        r#"[{"Id":"x","Type":"FOO"}]"#,
        r#"[5]"#,
        r#"[{}]"#,
        r#"[{"Id":"u/1","Type":"PUT","Document":{"@metadata":{"@collection":"Z"}}}]"#,
        deep.as_str(),
    ];
    for (id, body) in (1..).zip(bodies) {
        let headers: &[(&str, &str)] =
            if body.is_empty() { &[("Content-Length", "0")] } else { &[] };
        let reply = insert(&server, id, headers, body.as_bytes());
        assert_eq!(reply.status, 500, "{body}");
        assert_eq!(reply.header("connection"), Some("close"), "{body}");
        let error = reply.json();
        assert_eq!(error["Type"], "System.InvalidOperationException", "{body}");
        let message = "Failed to process bulk insert. Inserted 0 items in 0 batches.";
        assert_eq!(error["Message"], message, "{body}");
        let state = state(&server, id);
        assert_eq!(state["Status"], "Faulted", "{body}");
        assert_eq!(state["Result"]["Error"], error["Error"], "{body}");
    }
    assert_eq!(server.get("/databases/db/stats").json()["CountOfDocuments"], 1);
}

#[test]
fn a_killed_insert_stops() {
    let server = TestServer::with_database();
    let mut connection = begin_stream(&server, 1);
    connection.send_chunk(b"[");
    wait_for("the start", || server.get("/databases/db/operations/state?id=1").status == 200);
    let kill = |id: u32| {
        let target = format!("/databases/db/operations/kill?id={id}");
        server.send("POST", &target, b"").status
    };
    assert_eq!(kill(1), 204);
    connection.send_chunk(element("a", 1).as_bytes());
    assert_eq!(connection.read_reply(false).status, 500);
    assert_eq!(state(&server, 1)["Status"], "Canceled");
    assert_eq!(kill(1), 500);
    assert_eq!(kill(99), 500);
    assert_eq!(server.get("/databases/db/operations/state?id=99").status, 404);
}

#[test]
fn unchanged_documents_are_not_written_again_when_the_client_asks_for_that() {
    let server = TestServer::with_database();
    let insert = |id: u32, body: String| {
        let target = format!("/databases/db/bulk_insert?id={id}&skipOverwriteIfUnchanged=true");
        assert_eq!(server.send("POST", &target, body.as_bytes()).status, 201);
        server.get("/databases/db/stats").json()["LastDatabaseEtag"].as_u64().unwrap()
    };
    assert_eq!(insert(1, format!("[{},{}]", element("a", 1), element("b", 1))), 2);
    assert_eq!(insert(2, format!("[{},{}]", element("a", 1), element("b", 1))), 2);
    assert_eq!(insert(3, format!("[{},{}]", element("a", 1), element("b", 2))), 3);
    // The second of two changes of a document in one batch is written although the stored document
    // equals it.
    assert_eq!(insert(4, format!("[{},{}]", element("a", 9), element("a", 1))), 5);
    assert_eq!(server.document("a")["v"], 1);
}

#[test]
fn an_insert_whose_client_is_silent_times_out_and_keeps_committed_batches() {
    let settings = ["--Http.IdleConnectionTimeoutInSec=1"];
    let server = TestServer::start(Platform::memory(), &settings);
    server.create("db");
    let mut connection = begin_stream(&server, 1);
    connection.send_chunk(b"[");
    connection.send_chunk(element("a", 1).as_bytes());
    let reply = connection.read_reply(false);
    assert_eq!(reply.status, 500);
    let error = reply.json()["Error"].as_str().unwrap().to_owned();
    assert!(error.contains("Nothing of the request's body arrived for 1 seconds"), "{error}");
    assert_eq!(state(&server, 1)["Status"], "Faulted");
    assert_eq!(server.document("a")["v"], 1);
}

#[test]
fn a_database_is_deleted_while_the_client_of_an_insert_is_silent() {
    let server = TestServer::with_database();
    let mut connection = begin_stream(&server, 1);
    connection.send_chunk(b"[");
    connection.send_chunk(element("a", 1).as_bytes());
    wait_for("a commit while the stream is idle", || !server.document("a").is_null());
    let delete = br#"{"DatabaseNames":["db"],"HardDelete":true}"#;
    assert_eq!(server.send("DELETE", "/admin/databases", delete).status, 200);
    let reply = connection.read_reply(false);
    assert_eq!(reply.status, 500);
    assert!(reply.text().contains("The database is being closed."), "{}", reply.text());
}

/// Few bytes are sent, but each element changes a large document, whose first revision is a copy.
#[test]
fn elements_too_large_for_one_transaction_are_split_over_several() {
    let (server, _simulation) = server_with(&["--Memory.LimitInMb=96"]);
    // Not compressible, so that the transaction takes as much as the document.
    let large = noise(&mut Random::new(1), 1_500_000);
    let ids: Vec<_> = (0..12).map(|number| format!("docs/{number}")).collect();
    for id in &ids {
        let target = format!("/databases/db/docs?id={id}");
        let body = format!(r#"{{"large":"{large}"}}"#);
        assert_eq!(server.send("PUT", &target, body.as_bytes()).status, 201);
    }
    let revisions = br#"{"Default":{"Disabled":false}}"#;
    let configured = server.send("POST", "/databases/db/admin/revisions/config", revisions);
    assert_eq!(configured.status, 200);
    let elements: Vec<_> = ids.iter().map(|id| element(id, 2)).collect();
    let body = format!("[{}]", elements.join(","));
    let reply = server.send("POST", "/databases/db/bulk_insert?id=1", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    for id in &ids {
        assert_eq!(server.document(id)["v"], 2);
    }
}
