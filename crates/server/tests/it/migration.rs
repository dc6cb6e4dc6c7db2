//! Migrating a database from a running server: here from another Corvus.

use std::{
    io::{Read, Write},
    net::TcpListener,
};

use platform::{Platform, simulated::Random};
use serde_json::{Value, json};

use crate::{
    http_client::Reply,
    resources::wait_until,
    smuggler::{assert_same, content, fill, operation},
    test_server::TestServer,
};

const TARGET: &str = "/databases/db/admin/smuggler/migrate/ravendb";

fn url(server: &TestServer) -> String {
    format!("http://{}", server.address)
}

fn begin(server: &TestServer, url: &str, settings: &Value) -> Reply {
    let body = json!({"ServerUrl": url, "MigrationSettings": settings}).to_string();
    server.send("POST", TARGET, body.as_bytes())
}

/// Migrates, and waits for the outcome.
fn migrate(server: &TestServer, url: &str, settings: &Value) -> Value {
    let begun = begin(server, url, settings);
    assert_eq!(begun.status, 200, "{}", begun.text());
    assert_eq!(begun.json()["OperationNodeTag"], "A");
    let id = begun.json()["OperationId"].as_u64().unwrap() as u32;
    wait_until(|| operation(server, "db", id)["Status"] != "InProgress");
    operation(server, "db", id)
}

#[test]
fn a_database_arrives_from_another_server_as_it_is_there() {
    let (source, here) = (TestServer::with_database(), TestServer::with_database());
    fill(&source, &mut Random::new(41));
    let state = migrate(&here, &url(&source), &json!({"DatabaseName": "db"}));
    assert_eq!(state["Status"], "Completed", "{state}");
    assert_same(&content(&source, "db"), &content(&here, "db"));
    let listed = here.get("/databases/db/operations").json()["Results"][0]["Description"].clone();
    assert_eq!(listed["TaskType"], "DatabaseMigrationRavenDb");
    let expected = format!("Database name: 'db' from url: {}", url(&source));
    assert_eq!(listed["Description"], expected);
    // Repeating it changes nothing.
    let again = migrate(&here, &url(&source), &json!({"DatabaseName": "db"}));
    assert_eq!(again["Result"]["Documents"]["ErroredCount"], 0, "{again}");
    assert_same(&content(&source, "db"), &content(&here, "db"));
}

#[test]
fn settings_choose_at_the_source_and_scripts_run_here() {
    let (source, here) = (TestServer::with_database(), TestServer::with_database());
    source.put("a/1", r#"{"N":1,"@metadata":{"@collection":"As"}}"#);
    source.put("b/1", r#"{"N":1,"@metadata":{"@collection":"Bs"}}"#);
    let settings = json!({"DatabaseName": "db", "Collections": ["As"],
        "OperateOnTypes": "Documents", "TransformScript": "this.N++"});
    let state = migrate(&here, &url(&source), &settings);
    assert_eq!(state["Result"]["Documents"]["ReadCount"], 1, "{state}");
    assert_eq!(here.document("a/1")["N"], 2);
    assert_eq!(here.get("/databases/db/docs?id=b/1").status, 404);
}

#[test]
fn failures_name_the_server_and_what_was_imported() {
    let (source, here) = (TestServer::with_database(), TestServer::with_database());
    let state = migrate(&here, &url(&source), &json!({"DatabaseName": "nope"}));
    assert_eq!(state["Status"], "Faulted");
    let message = state["Result"]["Message"].as_str().unwrap();
    assert!(message.contains(&url(&source)) && message.contains("'nope'"), "{message}");
    assert!(message.ends_with("Imported before that: nothing."), "{message}");
    let state = migrate(&here, "http://127.0.0.1:1", &json!({"DatabaseName": "db"}));
    assert!(state["Result"]["Message"].as_str().unwrap().contains("cannot connect"), "{state}");
    for (body, part) in [
        (json!({}), "Url cannot be null"),
        (json!({"ServerUrl": "http://a"}), "MigrationSettings cannot be null"),
        (
            json!({"ServerUrl": "http://a", "MigrationSettings": {"DatabaseName": "db",
                "TransformScript": "this is no script"}}),
            "Incorrect transform script",
        ),
    ] {
        let reply = here.send("POST", TARGET, body.to_string().as_bytes());
        assert!(500 <= reply.status && reply.text().contains(part), "{}", reply.text());
    }
}

/// A server that answers one request with this, and then says nothing more until the connection is closed.
fn answer_once(answer: Vec<u8>, is_closed: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _read = stream.read(&mut request).unwrap();
        stream.write_all(&answer).unwrap();
        if !is_closed {
            let mut rest = Vec::new();
            drop(stream.read_to_end(&mut rest));
        }
    });
    url
}

fn chunked(text: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

#[test]
fn a_source_that_breaks_off_leaves_what_arrived_and_says_so() {
    let here = TestServer::with_database();
    let text = r#"{"BuildVersion":54000,"Docs":[{"a":1,"@metadata":{"@id":"a/1"}},"#;
    let state = migrate(&here, &answer_once(chunked(text), true), &json!({"DatabaseName": "x"}));
    assert_eq!(state["Status"], "Faulted", "{state}");
    let message = state["Result"]["Message"].as_str().unwrap();
    assert!(message.contains("Imported before that"), "{message}");
}

#[test]
fn a_source_that_stays_silent_can_be_given_up() {
    let here = TestServer::start(Platform::memory(), &[]);
    here.create("db");
    let begun = begin(
        &here,
        &answer_once(chunked(r#"{"BuildVersion":54000,"Docs":["#), false),
        &json!({"DatabaseName": "x"}),
    );
    let id = begun.json()["OperationId"].as_u64().unwrap() as u32;
    let killed = here.send("POST", &format!("/databases/db/operations/kill?id={id}"), b"");
    assert_eq!(killed.status, 204, "{}", killed.text());
    wait_until(|| operation(&here, "db", id)["Status"] == "Canceled");
}

#[test]
fn a_server_to_migrate_from_is_described() {
    let (source, here) = (TestServer::with_database(), TestServer::with_database());
    source.create("other");
    let target = format!("/admin/remote-server/build/version?serverUrl={}", url(&source));
    let shown = here.get(&target).json();
    assert_eq!(shown["DatabaseNames"], json!(["db", "other"]));
    assert_eq!(shown["Authorized"], true);
    let major = shown["MajorVersion"].as_str().unwrap();
    assert!(major.starts_with('V') && 1 < major.len(), "{major}");
    let reply = here.get("/admin/remote-server/build/version?serverUrl=http://127.0.0.1:1");
    assert!(500 <= reply.status && reply.text().contains("cannot connect"), "{}", reply.text());
    assert!(500 <= here.get("/admin/remote-server/build/version").status);
}
