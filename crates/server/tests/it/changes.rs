//! The Changes API: document changes, watches, and the lifecycle of connections.

use std::collections::HashMap;

use platform::Platform;
use serde_json::{Value, json};

use crate::{change_listener::ChangeListener, test_server::TestServer};

const USER: &str = r#"{"n":1,"@metadata":{"@collection":"Users"}}"#;

fn batch(server: &TestServer, commands: Value) -> Value {
    let body = json!({ "Commands": commands }).to_string();
    let reply = server.send("POST", "/databases/db/bulk_docs", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

fn delete(server: &TestServer, id: &str) {
    let target = format!("/databases/db/docs?id={id}");
    assert_eq!(server.send("DELETE", &target, b"").status, 204);
}

#[test]
fn document_changes_are_reported_in_commit_order() {
    let server = TestServer::with_database();
    let mut listener = ChangeListener::watching(&server, &[("watch-docs", "")]);
    let first = server.put("Users/1", USER);
    delete(&server, "users/1");
    delete(&server, "USERS/1");
    delete(&server, "never/1");
    batch(
        &server,
        json!([
            { "Type": "PUT", "Id": "a/1", "Document": { "x": 1 } },
            { "Type": "PUT", "Id": "a/1", "Document": { "x": 2 } },
            { "Type": "DELETE", "Id": "a/1" },
            { "Type": "DELETE", "Id": "a/1" },
            { "Type": "PUT", "Id": "a/2", "Document": { "x": 2 } }
        ]),
    );
    let received = listener.documents(8);
    let names: Vec<_> = received.iter().map(|(received, _)| received.as_str()).collect();
    assert_eq!(
        names,
        [
            "Put Users/1 Users",
            "Delete users/1 Users",
            "Delete USERS/1 Users",
            "Put a/1 @empty",
            "Put a/1 @empty",
            "Delete a/1 @empty",
            "Delete a/1 @empty",
            "Put a/2 @empty"
        ]
    );
    let vectors: Vec<_> = received.iter().map(|(_, vector)| vector.as_deref()).collect();
    assert_eq!(vectors[0], Some(first.as_str()));
    // A repeated deletion creates no new version.
    assert_eq!((vectors[2], vectors[6]), (None, None));
    let etags = vectors.iter().flatten().map(|vector| {
        vector.strip_prefix("A:").unwrap().split('-').next().unwrap().parse::<u64>().unwrap()
    });
    assert!(etags.is_sorted(), "{vectors:?}");
}

#[test]
fn changes_of_its_attachments_counters_and_series_change_a_document() {
    let server = TestServer::with_database();
    let mut listener = ChangeListener::watching(&server, &[("watch-docs", "")]);
    server.put("Users/1", USER);
    let attachments = "/databases/db/attachments?id=users/1&name=n&contentType=text/plain";
    assert_eq!(server.send("PUT", attachments, b"hello").status, 201);
    assert_eq!(server.send("DELETE", attachments, b"").status, 204);
    batch(&server, json!([{ "Type": "ForceRevisionCreation", "Id": "users/1" }]));
    batch(
        &server,
        json!([
            { "Type": "PATCH", "Id": "users/1", "Patch": { "Script": "this.n = 7" } },
            { "Type": "PATCH", "Id": "users/1", "Patch": { "Script": "this.n = 7" } },
            { "Type": "DELETE", "Id": "USERS/", "IdPrefixed": true }
        ]),
    );
    let hilo =
        "/databases/db/hilo/next?tag=users&lastBatchSize=0&identityPartsSeparator=/&lastMax=0";
    assert_eq!(server.get(hilo).status, 201);
    let received = listener.changes(7).into_iter().map(|one| one.to_ascii_lowercase());
    let put = "put users/1 users";
    assert_eq!(
        received.collect::<Vec<_>>(),
        [put, put, put, put, put, "delete users/1 users", "put raven/hilo/users @hilo"]
    );
}

#[test]
fn each_watch_reports_its_own_changes_and_none_twice() {
    let server = TestServer::with_database();
    let watches = [
        ("watch-doc", "OTHERS/1"),
        ("watch-prefix", "Users/1"),
        ("watch-collection", "uSers"),
        ("watch-prefix", "users/"),
        ("watch-doc", "users/10"),
    ];
    let mut listener = ChangeListener::watching(&server, &watches);
    let all = ["others/1", "others/2", "users/1", "users/10", "users/2", "x/1"];
    let put_all = |server: &TestServer| {
        for id in all {
            server.put(id, if id == "x/1" { USER } else { "{}" });
        }
        server.put("end", USER);
    };
    let received = |listener: &mut ChangeListener| {
        let mut ids = Vec::new();
        while ids.last().is_none_or(|last| last != "end") {
            let next = listener.changes(1).remove(0);
            ids.push(next.split(' ').nth(1).unwrap().to_owned());
        }
        ids
    };
    put_all(&server);
    assert_eq!(
        received(&mut listener),
        ["others/1", "users/1", "users/10", "users/2", "x/1", "end"]
    );
    // Watches are not counted: one unwatch ends a watch that was started twice.
    listener.command("watch-doc", json!({ "Param": "others/1" }));
    listener.command("unwatch-doc", json!({ "Param": "Others/1" }));
    listener.command("unwatch-prefix", json!({ "Param": "USERS/" }));
    listener.command("unwatch-doc", json!({ "Param": "was/never/watched" }));
    put_all(&server);
    assert_eq!(received(&mut listener), ["users/1", "users/10", "x/1", "end"]);
    // Every id starts with the empty prefix.
    listener.command("watch-prefix", json!({ "Param": "" }));
    put_all(&server);
    assert_eq!(received(&mut listener).len(), all.len() + 1);
}

#[test]
fn failed_batches_and_dry_runs_report_no_changes() {
    let server = TestServer::with_database();
    server.put("users/1", USER);
    let mut listener = ChangeListener::watching(&server, &[("watch-docs", "")]);
    let body = json!({ "Commands": [
        { "Type": "PUT", "Id": "users/2", "Document": {} },
        { "Type": "PUT", "Id": "users/1", "ChangeVector": "A:99-x", "Document": {} }
    ] });
    let reply = server.send("POST", "/databases/db/bulk_docs", body.to_string().as_bytes());
    assert_eq!(reply.status, 409);
    let tried = "/databases/db/docs?id=users/1&test=true";
    let reply = server.send("PATCH", tried, br#"{"Patch":{"Script":"this.n = 9"}}"#);
    assert_eq!(reply.status, 200, "{}", reply.text());
    server.put("end", USER);
    assert_eq!(listener.changes(1), ["Put end Users"]);
}

#[test]
fn a_client_that_sends_an_invalid_command_is_disconnected() {
    let server = TestServer::with_database();
    for text in ["nonsense", "{}", r#"{"CommandId":1,"Command":"foo"}"#, "[1]"] {
        let mut listener = ChangeListener::connect(&server);
        listener.send(text);
        assert!(listener.ends());
    }
    let mut listener = ChangeListener::connect(&server);
    let endless = format!("{{\"Command\":\"{}", "x".repeat(40 << 10));
    listener.send(&endless);
    listener.send(&endless[1..]);
    assert!(listener.ends());
    // So is a client with more watches than allowed.
    let mut listener = ChangeListener::connect(&server);
    let mut commands = String::new();
    for number in 0..2000 {
        let name = format!("{number}{}", "x".repeat(1000));
        commands.push_str(&json!({ "Command": "watch-doc", "Param": name }).to_string());
        if commands.len() > 30_000 {
            // The connection may be closed before everything is sent.
            let sent = listener.socket.send(std::mem::take(&mut commands).into());
            if sent.is_err() {
                break;
            }
        }
    }
    assert!(listener.ends());
    assert_eq!(server.get("/databases/db/changes/debug").json()["NumberOfConnections"], 0);
}

#[test]
fn an_idle_connection_receives_heartbeats() {
    let server = TestServer::with_database();
    let mut listener = ChangeListener::connect(&server);
    assert_eq!(listener.read_text().as_deref(), Some("[]"));
}

#[test]
fn a_throttled_connection_receives_only_the_last_change() {
    let server = TestServer::with_database();
    let target = "/databases/db/changes?throttleConnection=true";
    let mut listener = ChangeListener::connect_to(&server, target);
    listener.command("watch-docs", json!({ "Param": null }));
    for id in ["a", "b", "c"] {
        server.put(id, USER);
    }
    assert_eq!(listener.changes(1), ["Put c Users"]);
}

#[test]
fn an_operator_can_list_connections_and_close_one() {
    let server = TestServer::with_database();
    let mut kept = ChangeListener::watching(&server, &[("watch-docs", ""), ("watch-index", "I")]);
    let mut ended = ChangeListener::watching(&server, &[("watch-doc", "a"), ("watch-prefix", "b")]);
    let shown = server.get("/databases/db/changes/debug").json();
    assert_eq!(shown["NumberOfConnections"], 2);
    let (first, second) = (&shown["Connections"][0], &shown["Connections"][1]);
    assert_eq!(
        (&first["WatchAllDocuments"], &first["WatchIndexes"]),
        (&json!(true), &json!(["i"]))
    );
    assert_eq!(second["WatchAllDocuments"], false);
    assert_eq!(second["WatchDocuments"], json!(["a"]));
    assert_eq!(second["WatchDocumentPrefixes"], json!(["b"]));
    let target = format!("/databases/db/changes?id={}", second["Id"]);
    assert_eq!(server.send("DELETE", &target, b"").status, 204);
    assert!(ended.ends());
    server.put("a", USER);
    assert_eq!(kept.changes(1), ["Put a Users"]);
}

#[test]
fn connections_close_when_their_database_is_disabled_or_deleted() {
    let server = TestServer::with_database();
    let mut listener = ChangeListener::watching(&server, &[("watch-docs", "")]);
    let body = br#"{"DatabaseNames":["db"]}"#;
    assert_eq!(server.send("POST", "/admin/databases/disable", body).status, 200);
    assert!(listener.ends());
    assert_eq!(server.send("POST", "/admin/databases/enable", body).status, 200);
    let mut listener = ChangeListener::watching(&server, &[("watch-docs", "")]);
    server.put("a", USER);
    assert_eq!(listener.changes(1), ["Put a Users"]);
    let body = br#"{"DatabaseNames":["db"],"HardDelete":true}"#;
    assert_eq!(server.send("DELETE", "/admin/databases", body).status, 200);
    assert!(listener.ends());
}

#[test]
fn a_client_that_stops_reading_blocks_no_other_and_is_disconnected() {
    let settings = ["--Changes.MaxQueuedSizePerConnectionInKb=64"];
    let server = TestServer::start(Platform::memory(), &settings);
    server.create("db");
    let mut slow = ChangeListener::watching(&server, &[("watch-docs", "")]);
    let mut quick = ChangeListener::watching(&server, &[("watch-doc", "end")]);
    let commands: Vec<_> = (0..500)
        .map(|number| json!({ "Type": "PUT", "Id": format!("{:0>400}", number), "Document": {} }))
        .collect();
    let commands = Value::Array(commands);
    // Socket buffers absorb some of the data.
    let is_there = |server: &TestServer| {
        server.get("/databases/db/changes/debug").json()["NumberOfConnections"] == 2
    };
    let batches = (0..500).take_while(|_| is_there(&server));
    batches.for_each(|_| drop(batch(&server, commands.clone())));
    assert!(!is_there(&server), "the slow client is disconnected");
    server.put("end", USER);
    assert_eq!(quick.changes(1), ["Put end Users"]);
    assert!(slow.ends());
}

/// The current change vectors of all documents.
fn versions(server: &TestServer) -> HashMap<String, String> {
    let all = server.get("/databases/db/docs?start=0&pageSize=100000&metadataOnly=true").json();
    let all = all["Results"].as_array().unwrap().iter().map(|document| {
        let metadata = &document["@metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap().to_owned();
        (text("@id"), text("@change-vector"))
    });
    all.collect()
}

#[test]
fn a_client_that_watches_before_it_reads_misses_no_change() {
    const WRITERS: usize = 4;
    const ROUNDS: usize = 12;
    const IDS: u64 = 50;
    let server = TestServer::with_database();
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS as u64 {
            let (server, ends) = (&server, &ends);
            scope.spawn(move || {
                let mut number = writer;
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    number = number.wrapping_mul(6364136223846793005).wrapping_add(99);
                    server.put(&format!("d/{}", (number >> 33) % IDS), USER);
                }
            });
        }
        // Also stops the writers when an assertion fails.
        let _end = OnDrop(|| ends.store(true, std::sync::atomic::Ordering::Relaxed));
        for _ in 0..ROUNDS {
            // Each is the only watcher: a batch that is executing when it starts is not reported.
            let mut listener = ChangeListener::watching(&server, &[("watch-docs", "")]);
            let mut known = versions(&server);
            server.put("mark", USER);
            let now = versions(&server);
            server.put("end", USER);
            loop {
                let (received, version) = listener.documents(1).remove(0);
                let id = received.split(' ').nth(1).unwrap().to_owned();
                if id == "end" {
                    break;
                }
                known.insert(id, version.unwrap());
            }
            for (id, version) in now {
                let etag = |version: &str| -> u64 {
                    version[2..].split('-').next().unwrap().parse().unwrap()
                };
                assert!(etag(&version) <= etag(&known[&id]), "{id} {version}: {known:?}");
            }
        }
    });
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
