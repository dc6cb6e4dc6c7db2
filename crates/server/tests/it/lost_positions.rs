//! Subscriptions whose positions were reached in files of a database that are lost: workers are
//! refused until a client sets the position to continue from, and no document is skipped.

use std::path::Path;

use database::ServerCatalog;
use platform::Platform;
use serde_json::{Value, json};
use storage::EnvironmentOptions;

use crate::{database_files::copy, tcp_client::TcpClient, test_server::TestServer};

const FILES: &str = "/data/Databases/db";
const OLDER: &str = "/older";

fn put(server: &TestServer, number: u64) {
    let document = json!({"@metadata": {"@collection": "Users"}}).to_string();
    let target = format!("/databases/db/docs?id=users/{number}");
    assert_eq!(server.send("PUT", &target, document.as_bytes()).status, 201);
}

fn subscribe(server: &TestServer, name: &str) {
    let body = json!({"Name": name, "Query": "from Users"}).to_string();
    let reply = server.send("PUT", "/databases/db/subscriptions", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
}

fn options(name: &str) -> Value {
    json!({"SubscriptionName": name})
}

/// Receives a batch and acknowledges it; returns its ids.
fn work(server: &TestServer, name: &str) -> Vec<String> {
    let mut worker = TcpClient::accepted(server, &options(name));
    let batch = worker.batch();
    worker.acknowledge();
    batch.ids().iter().map(|id| (*id).to_owned()).collect()
}

/// The reason why a worker is refused.
fn refusal(server: &TestServer, name: &str) -> String {
    let message = TcpClient::worker(server, &options(name)).receive().unwrap();
    assert_eq!(message["Status"], "Invalid", "{message}");
    message["Message"].as_str().unwrap().to_owned()
}

fn go_on(server: &TestServer, name: &str, change_vector: &str) {
    let body = json!({"Name": name, "ChangeVector": change_vector}).to_string();
    let reply = server.send("POST", "/databases/db/subscriptions/update", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// What an operator does with `corvus offline adopt`.
fn adopt(platform: &Platform) {
    let catalog = ServerCatalog::open(platform, "/data/System".into()).unwrap();
    let name = catalog.record("db").unwrap().name.clone();
    catalog.adopt(&name, EnvironmentOptions::new(FILES)).unwrap();
    catalog.cluster().close();
    catalog.environment().close().unwrap();
}

#[test]
fn a_position_ahead_of_adopted_files_is_refused_and_an_earlier_one_is_accepted() {
    let platform = Platform::memory();
    let disk = &*platform.disk;
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    ["early", "late", "last"].iter().for_each(|name| subscribe(&server, name));
    (0..3).for_each(|number| put(&server, number));
    for name in ["early", "late", "last"] {
        assert_eq!(work(&server, name), ["users/0", "users/1", "users/2"]);
    }
    server.stop();
    copy(disk, Path::new(FILES), Path::new(OLDER));
    let server = TestServer::start(platform.clone(), &[]);
    (3..6).for_each(|number| put(&server, number));
    for name in ["late", "last"] {
        assert_eq!(work(&server, name), ["users/3", "users/4", "users/5"]);
    }
    server.stop();

    disk.remove_dir_all(Path::new(FILES)).unwrap();
    copy(disk, Path::new(OLDER), Path::new(FILES));
    adopt(&platform);
    let server = TestServer::start(platform, &[]);
    // Some documents before that etag, and some after it.
    (10..16).for_each(|number| put(&server, number));
    let new = ["users/10", "users/11", "users/12", "users/13", "users/14", "users/15"];
    assert_eq!(work(&server, "early"), new);
    let reason = refusal(&server, "late");
    assert!(reason.contains("etag 6") && reason.contains("older copy"), "{reason}");
    go_on(&server, "late", "BeginningOfTime");
    assert_eq!(work(&server, "late")[..4], ["users/0", "users/1", "users/2", "users/10"]);
    refusal(&server, "last");
    go_on(&server, "last", "LastDocument");
    put(&server, 20);
    assert_eq!(work(&server, "last"), ["users/20"]);
}

#[test]
fn a_position_in_a_database_that_was_in_memory_is_refused_after_a_restart() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    let record = json!({"DatabaseName": "db", "Settings": {"RunInMemory": "true"}}).to_string();
    assert_eq!(server.send("PUT", "/admin/databases?name=db", record.as_bytes()).status, 201);
    subscribe(&server, "s");
    (0..3).for_each(|number| put(&server, number));
    assert_eq!(work(&server, "s").len(), 3);
    server.stop();
    let server = TestServer::start(platform, &[]);
    (0..5).for_each(|number| put(&server, number));
    let reason = refusal(&server, "s");
    assert!(reason.contains("another environment"), "{reason}");
    go_on(&server, "s", "BeginningOfTime");
    assert_eq!(work(&server, "s").len(), 5);
}
