//! Administration of databases: settings, locks, nodes, logs, compression.

use platform::Platform;
use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

fn create(server: &TestServer, name: &str, extra: &str) -> Reply {
    let record = format!(r#"{{"DatabaseName":"{name}"{extra}}}"#);
    let target = format!("/admin/databases?name={name}&replicationFactor=1");
    server.send("PUT", &target, record.as_bytes())
}

fn record(server: &TestServer, name: &str) -> Value {
    server.get(&format!("/admin/databases?name={name}")).json()
}

fn send(server: &TestServer, method: &str, target: &str, body: &str) -> Reply {
    server.send(method, target, body.as_bytes())
}

/// Checks the kind of an error and a part of its message.
fn check_error(reply: &Reply, status: u16, kind: &str, message: &str) {
    assert_eq!(reply.status, status, "{}", reply.text());
    let error = reply.json();
    assert!(error["Type"].as_str().unwrap().ends_with(kind), "{error}");
    assert!(error["Message"].as_str().unwrap().contains(message), "{error}");
}

#[test]
fn unknown_settings_are_stored_and_malformed_ones_are_rejected() {
    let server = TestServer::with_database();
    let settings = r#","Settings":{"Foo.Bar":"1","IndexingAutoSearchEngineType":"Lucene","N":5}"#;
    assert_eq!(create(&server, "a", settings).status, 201);
    let expected = json!({"Foo.Bar": "1", "IndexingAutoSearchEngineType": "Lucene", "N": "5"});
    assert_eq!(record(&server, "a")["Settings"], expected);
    assert_eq!(server.get("/databases/a/stats").status, 200);

    let invalid = "System.InvalidOperationException";
    for (settings, message) in [
        (r#"{"RunInMemory":"xyz"}"#, "Could not set 'RunInMemory' configuration setting value."),
        (
            r#"{"Indexing.MapTimeoutInSec":"x"}"#,
            "Could not set 'Indexing.MapTimeoutInSec' configuration setting value.",
        ),
        (
            r#"{"ServerUrl":"http://x"}"#,
            "Configuration 'ServerUrl' can only be set at server level.",
        ),
    ] {
        let reply = create(&server, "b", &format!(r#","Settings":{settings}"#));
        check_error(&reply, 500, invalid, message);
        let reply = send(&server, "PUT", "/databases/a/admin/configuration/settings", settings);
        check_error(&reply, 500, invalid, message);
    }
    let reply = create(&server, "b", r#","Settings":[]"#);
    check_error(&reply, 500, "System.FormatException", "Settings");
    let reply = create(&server, "b", r#","Disabled":"x""#);
    check_error(&reply, 500, "System.FormatException", "Disabled");
    assert_eq!(server.get("/admin/databases?name=b").status, 404);
}

#[test]
fn settings_are_replaced_as_a_whole() {
    let server = TestServer::with_database();
    let target = "/databases/db/admin/configuration/settings";
    let reply = send(&server, "PUT", target, r#"{"Foo":"1","Storage.MaxUnflushedInMb":"64"}"#);
    assert_eq!((reply.status, reply.body.len()), (201, 0));
    assert_eq!(reply.header("content-type"), None);
    assert_eq!(send(&server, "PUT", target, r#"{"Bar":null}"#).status, 201);
    let record = server.get("/databases/db/admin/record").json();
    assert_eq!(record["Settings"], json!({"Bar": null}));
    check_error(
        &send(&server, "PUT", target, "[]"),
        500,
        "InvalidStartOfObjectException",
        "start of object",
    );
}

#[test]
fn keys_without_a_value_are_omitted_from_a_record() {
    let server = TestServer::with_database();
    let extra = r#","DatabaseTopology":null,"Sorters":null,"Foo":{"a":1}"#;
    assert_eq!(create(&server, "a", extra).status, 201);
    let record = record(&server, "a");
    assert!(!record.as_object().unwrap().contains_key("DatabaseTopology"));
    assert_eq!((&record["Sorters"], &record["Foo"]), (&json!({}), &json!({"a": 1})));
}

#[test]
fn a_locked_database_is_not_deleted() {
    let server = TestServer::with_database();
    create(&server, "a", "");
    let lock = |body: &str| send(&server, "POST", "/admin/databases/set-lock", body);
    let delete = |names: &str| {
        let body = format!(r#"{{"DatabaseNames":[{names}],"HardDelete":true}}"#);
        send(&server, "DELETE", "/admin/databases", &body)
    };
    assert_eq!(lock(r#"{"DatabaseNames":["A"],"Mode":"PreventDeletesError"}"#).status, 204);
    assert_eq!(record(&server, "a")["LockMode"], "PreventDeletesError");
    assert_eq!(server.get("/databases?name=a").json()["LockMode"], "PreventDeletesError");
    let message = "Database 'a' cannot be deleted because of the set lock mode \
                   ('PreventDeletesError'). Please consider changing";
    check_error(&delete(r#""db","a""#), 500, "InvalidOperationException", message);
    assert_eq!(server.get("/admin/databases?name=db").status, 200, "none of them is deleted");

    assert_eq!(lock(r#"{"DatabaseNames":["a"],"Mode":"PreventDeletesIgnore"}"#).status, 204);
    assert_eq!(delete(r#""a""#).json(), json!({"RaftCommandIndex": -1, "PendingDeletes": []}));
    assert_eq!(server.get("/admin/databases?name=a").status, 200);

    let missing = lock(r#"{"DatabaseNames":["a","nope"],"Mode":"Unlock"}"#);
    check_error(&missing, 500, "DatabaseDoesNotExistException", "Database 'nope' does not exist.");
    assert_eq!(record(&server, "a")["LockMode"], "PreventDeletesIgnore");
    for (body, kind) in [
        (r#"{"Mode":"Unlock"}"#, "System.ArgumentNullException"),
        (r#"{"DatabaseNames":["a"],"Mode":"Bad"}"#, "System.FormatException"),
    ] {
        check_error(&lock(body), 500, kind, "");
    }
    assert_eq!(lock(r#"{"DatabaseNames":["a"],"Mode":"Unlock"}"#).status, 204);
    assert_ne!(delete(r#""a""#).json()["RaftCommandIndex"], -1);
    assert_eq!(server.get("/admin/databases?name=a").status, 404);
}

#[test]
fn the_only_node_is_ordered_and_no_other_is_added() {
    let server = TestServer::with_database();
    let reorder = |body: &str| send(&server, "POST", "/admin/databases/reorder?name=db", body);
    let before = record(&server, "db")["Topology"]["Stamp"]["Index"].as_u64().unwrap();
    assert_eq!(reorder(r#"{"MembersOrder":["A"],"Fixed":true}"#).status, 204);
    let topology = record(&server, "db")["Topology"].clone();
    assert_eq!(topology["PriorityOrder"], json!(["A"]));
    assert!(before < topology["Stamp"]["Index"].as_u64().unwrap());
    assert_eq!(reorder(r#"{"MembersOrder":["A"]}"#).status, 204);
    assert_eq!(record(&server, "db")["Topology"]["PriorityOrder"], json!([]));
    for body in [r#"{"MembersOrder":["B"]}"#, r#"{"MembersOrder":["A","B"]}"#, "{}"] {
        check_error(&reorder(body), 500, "System.ArgumentException", "doesn't correspond");
    }
    let invalid = "InvalidOperationException";
    for (query, kind, message) in [
        ("name=db", invalid, "Database db already exists on all the nodes of the cluster"),
        ("name=db&node=B", invalid, "node B (which is in the new topology) is not part of"),
        ("name=db&node=A", invalid, "it is already part of it"),
        ("name=no", "DatabaseDoesNotExistException", "Database Record not found"),
    ] {
        let reply = send(&server, "PUT", &format!("/admin/databases/node?{query}"), "");
        check_error(&reply, 500, kind, message);
    }
    let promoted = send(&server, "POST", "/admin/databases/promote?name=db&node=A", "").json();
    assert_eq!(promoted["Name"], "db");
    assert!(topology["Stamp"]["Index"].as_u64() < promoted["RaftCommandIndex"].as_u64());
    for target in ["reorder?name=no", "promote?name=no&node=A"] {
        let target = format!("/admin/databases/{target}");
        let reply = send(&server, "POST", &target, r#"{"MembersOrder":["A"]}"#);
        check_error(&reply, 500, "DatabaseDoesNotExistException", "'no' does not exist");
    }
}

#[test]
fn a_retried_request_creates_the_database_once() {
    let platform = Platform::memory();
    let target = "/admin/databases?name=a&replicationFactor=1&raft-request-id=r1";
    let body = br#"{"DatabaseName":"a"}"#;
    let first = {
        let server = TestServer::start(platform.clone(), &[]);
        let first = server.send("PUT", target, body);
        assert_eq!(first.status, 201);
        let again = server.send("PUT", target, body);
        assert_eq!((again.status, again.json()), (201, first.json()));
        server.stop();
        first.json()
    };
    let server = TestServer::start(platform, &[]);
    let again = server.send("PUT", target, body).json();
    assert_eq!(again["RaftCommandIndex"], first["RaftCommandIndex"]);
    assert_eq!(again["Topology"], first["Topology"]);
    for other in [target.replace("=r1", "=r2"), target.replace("&raft-request-id=r1", "")] {
        assert_eq!(server.send("PUT", &other, body).status, 409, "{other}");
    }
}

#[test]
fn logs_tasks_and_compression_are_configurable() {
    let server = TestServer::with_database();
    let logs = "/admin/logs/configuration";
    assert_eq!(server.get(logs).json()["CurrentMode"], "Operations");
    assert_eq!(send(&server, "POST", logs, r#"{"Mode":"Information"}"#).status, 204);
    let changed = server.get(logs).json();
    assert_eq!(
        (&changed["CurrentMode"], &changed["Mode"]),
        (&json!("Information"), &json!("Operations"))
    );
    check_error(&send(&server, "POST", logs, r#"{"Mode":"Bad"}"#), 500, "FormatException", "Mode");

    let platform = Platform::memory();
    let silent = TestServer::start(platform, &["--Logs.Mode=none"]).get(logs).json();
    assert_eq!((&silent["CurrentMode"], &silent["Mode"]), (&json!("None"), &json!("None")));

    let tasks = server.get("/databases/db/tasks").json();
    assert_eq!((&tasks["OngoingTasksList"], &tasks["SubscriptionsCount"]), (&json!([]), &json!(0)));

    let read = "/databases/db/documents-compression/config";
    assert_eq!(server.get(read).status, 404);
    let compression = r#"{"Collections":["Users"],"CompressRevisions":true}"#;
    let write = "/databases/db/admin/documents-compression/config";
    let stored = send(&server, "POST", write, compression);
    assert!(0 < stored.json()["RaftCommandIndex"].as_u64().unwrap());
    let expected = json!({
        "Collections": ["Users"], "CompressAllCollections": false, "CompressRevisions": true
    });
    assert_eq!(server.get(read).json(), expected);
    assert_eq!(record(&server, "db")["DocumentsCompression"], expected);
}

#[test]
fn a_hilo_range_grows_only_for_clients_that_send_dates_in_the_servers_format() {
    let server = TestServer::with_database();
    let next = |at: &str| {
        let target = format!(
            "/databases/db/hilo/next?tag=users&lastBatchSize=64&lastMax=1&lastRangeAt={at}"
        );
        server.get(&target).json()
    };
    let first = next("");
    let at = first["LastRangeAt"].as_str().unwrap().to_owned();
    assert_eq!(next(&at)["LastSize"], 128, "{at}");
    let shorter = format!("{}Z", &at[..at.len() - 2]);
    for other in [shorter.as_str(), &at[..19], "garbage"] {
        assert_eq!(next(other)["LastSize"], 64, "{other}");
    }
}
