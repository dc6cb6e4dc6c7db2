//! The Changes API: changes of documents, what is watched, and how connections live and end.

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
fn every_change_of_a_document_is_told_in_the_order_in_which_it_happened() {
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
    let told = listener.documents(8);
    let names: Vec<_> = told.iter().map(|(told, _)| told.as_str()).collect();
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
    let vectors: Vec<_> = told.iter().map(|(_, vector)| vector.as_deref()).collect();
    assert_eq!(vectors[0], Some(first.as_str()));
    // What was deleted before has no new version.
    assert_eq!((vectors[2], vectors[6]), (None, None));
    let etags = vectors.iter().flatten().map(|vector| {
        vector.strip_prefix("A:").unwrap().split('-').next().unwrap().parse::<u64>().unwrap()
    });
    assert!(etags.is_sorted(), "{vectors:?}");
}

#[test]
fn what_belongs_to_a_document_changes_it() {
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
    let told = listener.told(7).into_iter().map(|one| one.to_ascii_lowercase());
    let put = "put users/1 users";
    assert_eq!(
        told.collect::<Vec<_>>(),
        [put, put, put, put, put, "delete users/1 users", "put raven/hilo/users @hilo"]
    );
}

#[test]
fn each_watch_tells_of_what_it_is_about_and_nothing_is_told_twice() {
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
    let told = |listener: &mut ChangeListener| {
        let mut told = Vec::new();
        while told.last().is_none_or(|last| last != "end") {
            let next = listener.told(1).remove(0);
            told.push(next.split(' ').nth(1).unwrap().to_owned());
        }
        told
    };
    put_all(&server);
    assert_eq!(told(&mut listener), ["others/1", "users/1", "users/10", "users/2", "x/1", "end"]);
    // A watch is there or not, however often it was begun.
    listener.command("watch-doc", json!({ "Param": "others/1" }));
    listener.command("unwatch-doc", json!({ "Param": "Others/1" }));
    listener.command("unwatch-prefix", json!({ "Param": "USERS/" }));
    listener.command("unwatch-doc", json!({ "Param": "was/never/watched" }));
    put_all(&server);
    assert_eq!(told(&mut listener), ["users/1", "users/10", "x/1", "end"]);
    // Every id begins with the empty prefix.
    listener.command("watch-prefix", json!({ "Param": "" }));
    put_all(&server);
    assert_eq!(told(&mut listener).len(), all.len() + 1);
}

#[test]
fn a_failed_batch_and_one_that_is_only_tried_tell_nothing() {
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
    assert_eq!(listener.told(1), ["Put end Users"]);
}

#[test]
fn a_client_that_says_what_is_no_command_is_let_go_of() {
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
    // One that watches more than it may, too.
    let mut listener = ChangeListener::connect(&server);
    let mut commands = String::new();
    for number in 0..2000 {
        let name = format!("{number}{}", "x".repeat(1000));
        commands.push_str(&json!({ "Command": "watch-doc", "Param": name }).to_string());
        if commands.len() > 30_000 {
            // It may be gone before everything is sent.
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
fn an_idle_connection_hears_a_heartbeat() {
    let server = TestServer::with_database();
    let mut listener = ChangeListener::connect(&server);
    assert_eq!(listener.read_text().as_deref(), Some("[]"));
}

#[test]
fn one_that_is_throttled_hears_of_the_last_change_only() {
    let server = TestServer::with_database();
    let target = "/databases/db/changes?throttleConnection=true";
    let mut listener = ChangeListener::connect_to(&server, target);
    listener.command("watch-docs", json!({ "Param": null }));
    for id in ["a", "b", "c"] {
        server.put(id, USER);
    }
    assert_eq!(listener.told(1), ["Put c Users"]);
}

#[test]
fn an_operator_sees_the_connections_and_can_end_one() {
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
    assert_eq!(kept.told(1), ["Put a Users"]);
}

#[test]
fn connections_end_with_their_database() {
    let server = TestServer::with_database();
    let mut listener = ChangeListener::watching(&server, &[("watch-docs", "")]);
    let body = br#"{"DatabaseNames":["db"]}"#;
    assert_eq!(server.send("POST", "/admin/databases/disable", body).status, 200);
    assert!(listener.ends());
    assert_eq!(server.send("POST", "/admin/databases/enable", body).status, 200);
    let mut listener = ChangeListener::watching(&server, &[("watch-docs", "")]);
    server.put("a", USER);
    assert_eq!(listener.told(1), ["Put a Users"]);
    let body = br#"{"DatabaseNames":["db"],"HardDelete":true}"#;
    assert_eq!(server.send("DELETE", "/admin/databases", body).status, 200);
    assert!(listener.ends());
}

#[test]
fn a_client_that_takes_nothing_holds_nobody_up_and_is_let_go_of() {
    let settings = ["--Changes.MaxQueuedSizePerConnectionInKb=64"];
    let server = TestServer::start(Platform::memory(), &settings);
    server.create("db");
    let mut slow = ChangeListener::watching(&server, &[("watch-docs", "")]);
    let mut quick = ChangeListener::watching(&server, &[("watch-doc", "end")]);
    let commands: Vec<_> = (0..500)
        .map(|number| json!({ "Type": "PUT", "Id": format!("{:0>400}", number), "Document": {} }))
        .collect();
    let commands = Value::Array(commands);
    // The buffers of the system take some of it.
    let is_there = |server: &TestServer| {
        server.get("/databases/db/changes/debug").json()["NumberOfConnections"] == 2
    };
    let batches = (0..500).take_while(|_| is_there(&server));
    batches.for_each(|_| drop(batch(&server, commands.clone())));
    assert!(!is_there(&server), "nobody noticed");
    server.put("end", USER);
    assert_eq!(quick.told(1), ["Put end Users"]);
    assert!(slow.ends());
}

/// The versions of all documents now.
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
fn whoever_watches_and_then_reads_misses_nothing() {
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
        // The writers end also when an assertion fails.
        let _end = OnDrop(|| ends.store(true, std::sync::atomic::Ordering::Relaxed));
        for _ in 0..ROUNDS {
            // Each is the first who watches: what is being executed then is not noted.
            let mut listener = ChangeListener::watching(&server, &[("watch-docs", "")]);
            let mut known = versions(&server);
            server.put("mark", USER);
            let now = versions(&server);
            server.put("end", USER);
            loop {
                let (told, version) = listener.documents(1).remove(0);
                let id = told.split(' ').nth(1).unwrap().to_owned();
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
