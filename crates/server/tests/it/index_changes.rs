//! The Changes API: indexes and operations, and notifications for aggressive caching.

use platform::Platform;
use serde_json::{Value, json};

use crate::{change_listener::ChangeListener, test_server::TestServer};

const USER: &str = r#"{"a":1,"@metadata":{"@collection":"Users"}}"#;

fn put_index(server: &TestServer, name: &str, map: &str) {
    let body = json!({ "Indexes": [{ "Name": name, "Maps": [map], "Type": "Map" }] }).to_string();
    let reply = server.send("PUT", "/databases/db/admin/indexes", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// Index changes up to the last one expected, as `name type`.
fn reported_until(listener: &mut ChangeListener, last: &str) -> Vec<String> {
    let mut reported = Vec::new();
    while reported.last().is_none_or(|one| one != last) {
        let value = listener.values("IndexChange", 1).remove(0);
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        reported.push(format!("{} {}", text("Name"), text("Type")));
    }
    reported
}

fn is_there(reported: &[String], wanted: &[&str]) -> bool {
    wanted.iter().all(|one| reported.iter().any(|other| other == one))
}

#[test]
fn changes_of_an_index_are_reported() {
    let server = TestServer::with_database();
    let mut listener = ChangeListener::watching(&server, &[("watch-indexes", "")]);
    let mut until = |last: &str| reported_until(&mut listener, last);
    let post = |target: &str, body: &str| {
        let target = format!("/databases/db/{target}");
        let reply = server.send("POST", &target, body.as_bytes());
        assert!(reply.status < 300, "{target} {}", reply.text());
    };

    // Also reported when there is nothing to index.
    put_index(&server, "I", "from u in docs.Users select new { u.a }");
    assert_eq!(until("I BatchCompleted"), ["I IndexAdded", "I BatchCompleted"]);
    server.put("users/1", USER);
    assert_eq!(until("I BatchCompleted"), ["I BatchCompleted"]);
    assert_eq!(until("I BatchCompleted"), ["I BatchCompleted"]);
    // An index of other documents.
    server.put("others/1", "{}");
    post("indexes/set-lock", r#"{"IndexNames":["I"],"Mode":"LockedIgnore"}"#);
    assert_eq!(until("I BatchCompleted"), ["I LockModeChanged", "I BatchCompleted"]);
    post("indexes/set-lock", r#"{"IndexNames":["I"],"Mode":"Unlock"}"#);
    assert_eq!(until("I BatchCompleted"), ["I LockModeChanged", "I BatchCompleted"]);
    post("indexes/set-priority", r#"{"IndexNames":["I"],"Priority":"High"}"#);
    assert_eq!(until("I BatchCompleted"), ["I PriorityChanged", "I BatchCompleted"]);
    post("admin/indexes/disable?name=I", "");
    assert_eq!(until("I IndexDemotedToDisabled"), ["I IndexDemotedToDisabled"]);
    post("admin/indexes/enable?name=I", "");
    assert_eq!(until("I BatchCompleted"), ["I BatchCompleted"]);
    post("admin/indexes/stop?name=I", "");
    assert_eq!(until("I IndexPaused"), ["I IndexPaused"]);
    post("admin/indexes/start?name=I", "");
    assert_eq!(until("I BatchCompleted"), ["I BatchCompleted"]);

    put_index(&server, "I", "from u in docs.Users select new { u.b }");
    let reported = until("I SideBySideReplace");
    let building = ["ReplacementOf/I IndexAdded", "ReplacementOf/I BatchCompleted"];
    assert!(is_there(&reported, &building), "{reported:?}");

    assert_eq!(server.send("RESET", "/databases/db/indexes?name=I", b"").status, 200);
    let reported = until("I IndexAdded");
    assert!(is_there(&reported, &["I IndexRemoved"]), "{reported:?}");
    assert_eq!(server.send("DELETE", "/databases/db/indexes?name=I", b"").status, 204);
    until("I IndexRemoved");

    // An automatic index, which is created by a query.
    assert_eq!(server.get("/databases/db/queries?query=from%20Users%20where%20q=1").status, 200);
    let reported = until("Auto/Users/Byq BatchCompleted");
    assert_eq!(reported[0], "Auto/Users/Byq IndexAdded");
    until("Auto/Users/Byq BatchCompleted");

    for number in 2..10 {
        server.put(&format!("users/{number}"), USER);
    }
    put_index(&server, "Bad", "from u in docs.Users select new { X = 1 / (u.a - 1) }");
    let reported = until("Bad IndexMarkedAsErrored");
    assert!(is_there(&reported, &["Bad IndexAdded"]), "{reported:?}");
}

#[test]
fn one_index_can_be_watched_by_name() {
    let server = TestServer::with_database();
    let mut listener = ChangeListener::watching(&server, &[("watch-index", "second")]);
    put_index(&server, "First", "from u in docs.Users select new { u.a }");
    put_index(&server, "Second", "from u in docs.Users select new { u.a }");
    assert_eq!(reported_until(&mut listener, "Second IndexAdded"), ["Second IndexAdded"]);
}

#[test]
fn an_operation_is_reported_until_it_completes() {
    let server = TestServer::with_database();
    for number in 0..3 {
        server.put(&format!("users/{number}"), USER);
    }
    let mut listener = ChangeListener::watching(&server, &[("watch-operations", "")]);
    let patch = |script: &str| {
        let body = json!({ "Query": { "Query": format!("from Users update {{ {script} }}") } });
        let reply = server.send("PATCH", "/databases/db/queries", body.to_string().as_bytes());
        reply.json()["OperationId"].as_i64().unwrap()
    };
    let mut states = |id: i64| {
        let mut states: Vec<Value> = Vec::new();
        while states.last().is_none_or(|last| last["Status"] == "InProgress") {
            let value = listener.values("OperationStatusChange", 1).remove(0);
            assert_eq!(value["OperationId"], id);
            states.push(value["State"].clone());
        }
        states
    };
    let id = patch("this.b = 1");
    let reported = states(id);
    let progress = &reported[reported.len() - 2]["Progress"];
    assert_eq!((&progress["Processed"], &progress["Total"]), (&json!(3), &json!(3)));
    let last = reported.last().unwrap();
    assert_eq!((&last["Status"], &last["Result"]["Total"]), (&json!("Completed"), &json!(3)));
    let id = patch("throw 'no'");
    let reported = states(id);
    assert_eq!(reported.last().unwrap()["Status"], "Faulted");

    // An operation whose id the client chose, and which it watches before it starts.
    let next = server.get("/databases/db/operations/next-operation-id").json();
    let id = next["Id"].as_i64().unwrap();
    let mut listener = ChangeListener::watching(&server, &[("watch-operation", &id.to_string())]);
    let body = br#"[{"Id":"bulk/1","Type":"PUT","Document":{}}]"#;
    let target = format!("/databases/db/bulk_insert?id={id}");
    assert!(server.send("POST", &target, body).status < 300);
    loop {
        let value = listener.values("OperationStatusChange", 1).remove(0);
        if value["State"]["Status"] != "InProgress" {
            assert_eq!(value["State"]["Status"], "Completed");
            break;
        }
    }
}

#[test]
fn a_client_that_caches_is_notified_when_answers_may_be_out_of_date() {
    let server = TestServer::with_database();
    let watches = [("watch-aggressive-caching", ""), ("watch-doc", "users/1")];
    let mut listener = ChangeListener::watching(&server, &watches);
    server.put("others/1", "{}");
    assert_eq!(listener.next().unwrap(), json!({ "Type": "AggressiveCacheChange" }));
    put_index(&server, "I", "from u in docs.Users select new { u.a }");
    assert_eq!(listener.next().unwrap(), json!({ "Type": "AggressiveCacheChange" }));
    server.put("users/1", USER);
    let mut kinds = Vec::new();
    while kinds.len() < 2 {
        let kind = listener.next().unwrap()["Type"].as_str().unwrap().to_owned();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.sort();
    assert_eq!(kinds, ["AggressiveCacheChange", "DocumentChange"]);
}

#[test]
fn a_restarted_server_does_not_report_old_changes() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    put_index(&server, "I", "from u in docs.Users select new { u.a }");
    let mut before = ChangeListener::watching(&server, &[("watch-indexes", "")]);
    server.stop();
    assert!(before.ends());
    let server = TestServer::start(platform, &[]);
    let watches = [("watch-indexes", ""), ("watch-docs", "")];
    let mut after = ChangeListener::watching(&server, &watches);
    server.put("others/1", "{}");
    assert_eq!(after.changes(1), ["Put others/1 @empty"]);
}
