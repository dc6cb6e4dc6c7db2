//! External replication between two servers in this process.

use serde_json::{Value, json};

use crate::{resources::wait_until, test_server::TestServer};

/// Leads from a database of one server to that of the same name of another one.
pub(crate) fn connect(source: &TestServer, destination: &TestServer, database: &str) {
    let string = json!({
        "Type": "Raven", "Name": "to", "Database": database,
        "TopologyDiscoveryUrls": [format!("http://{}", destination.address)]
    });
    let (body, path) =
        (string.to_string(), format!("/databases/{database}/admin/connection-strings"));
    let reply = source.send("PUT", &path, body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn put_task(source: &TestServer, database: &str, task: &Value) -> u64 {
    let body = json!({ "Watcher": task }).to_string();
    let path = format!("/databases/{database}/admin/tasks/external-replication");
    let reply = source.send("POST", &path, body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["TaskId"].as_u64().unwrap()
}

/// Replicates from one to the other.
pub(crate) fn replicate(source: &TestServer, destination: &TestServer) -> u64 {
    connect(source, destination, "db");
    put_task(source, "db", &json!({"Name": "east", "ConnectionStringName": "to"}))
}

#[test]
fn a_document_and_its_deletion_arrive_in_both_directions() {
    let (one, other) = (TestServer::with_database(), TestServer::with_database());
    one.put("users/1", r#"{"Name":"a","@metadata":{"@collection":"Users"}}"#);
    let id = replicate(&one, &other);
    wait_until(|| other.document("users/1")["Name"] == "a");
    let arrived = other.document("users/1");
    assert_eq!(arrived["@metadata"]["@flags"], "FromReplication");
    let (here, there) = (&one.document("users/1")["@metadata"], &arrived["@metadata"]);
    assert_eq!(here["@change-vector"], there["@change-vector"]);
    assert_eq!(here["@last-modified"], there["@last-modified"]);
    replicate(&other, &one);
    other.put("users/1", r#"{"Name":"b","@metadata":{"@collection":"Users"}}"#);
    wait_until(|| one.document("users/1")["Name"] == "b");
    one.batch(r#"{"Type":"DELETE","Id":"users/1"}"#);
    wait_until(|| other.document("users/1").is_null());
    let tombstones = other.get("/databases/db/replication/tombstones").json();
    assert_eq!(tombstones["Results"][0]["Id"], "users/1");
    let task = one.get(&format!("/databases/db/task?key={id}&type=Replication")).json();
    assert_eq!(task["TaskName"], "east");
    assert_eq!(task["TaskConnectionStatus"], "Active");
    assert_eq!(task["DestinationUrl"], format!("http://{}", other.address));
    let listed = one.get("/databases/db/tasks").json();
    assert_eq!(listed["OngoingTasksList"][0]["TaskType"], "Replication");
    let connections = one.get("/databases/db/replication/active-connections").json();
    assert_eq!(connections["OutgoingConnections"][0]["Database"], "db");
    assert_eq!(connections["IncomingConnections"][0]["SourceDatabaseName"], "db");
    let performance = other.get("/databases/db/replication/performance").json();
    assert_eq!(performance["Incoming"][0]["Performance"][0]["Network"]["DocumentReadCount"], 1);
}

#[test]
fn a_task_that_is_disabled_or_deleted_sends_nothing() {
    let (one, other) = (TestServer::with_database(), TestServer::with_database());
    one.put("a", "{}");
    let id = replicate(&one, &other);
    wait_until(|| !other.document("a").is_null());
    let state = format!("/databases/db/admin/tasks/state?key={id}&type=Replication&disable=");
    assert_eq!(one.send("POST", &format!("{state}true"), b"").status, 200);
    wait_until(|| {
        let task = one.get(&format!("/databases/db/task?key={id}&type=Replication")).json();
        task["TaskConnectionStatus"] == "NotActive"
    });
    one.put("b", "{}");
    assert_eq!(one.send("POST", &format!("{state}false"), b"").status, 200);
    wait_until(|| !other.document("b").is_null());
    let delete = format!("/databases/db/admin/tasks?id={id}&type=Replication");
    assert_eq!(one.send("DELETE", &delete, b"").status, 200);
    assert_eq!(one.get(&format!("/databases/db/task?key={id}&type=Replication")).status, 404);
}

#[test]
fn messages_that_are_none_are_refused() {
    let server = TestServer::with_database();
    let reply = server.send("POST", "/databases/db/replication/messages", b"CRVR");
    assert_eq!(reply.status, 200);
    let path = "/databases/db/admin/tasks/external-replication";
    for body in
        ["{}", r#"{"Watcher":{"ConnectionStringName":"missing"}}"#, r#"{"Watcher":{"Name":"x"}}"#]
    {
        let reply = server.send("POST", path, body.as_bytes());
        assert!((400..=500).contains(&reply.status), "{body}: {}", reply.text());
    }
    assert_eq!(server.get("/databases/db/tasks").json()["OngoingTasksList"], json!([]));
}

/// Whether this process has a thread of that name.
fn has_thread(name: &str) -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| {
        // A thread that has ended meanwhile has no name.
        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    });
    names.into_iter().any(|other| other.trim() == name)
}

#[test]
fn an_idle_link_has_no_thread_and_sends_what_is_written_later() {
    let (one, other) = (TestServer::with_database(), TestServer::with_database());
    for server in [&one, &other] {
        server.create("parked");
    }
    connect(&one, &other, "parked");
    put_task(&one, "parked", &json!({"Name": "east", "ConnectionStringName": "to"}));
    for id in ["first", "second"] {
        let path = format!("/databases/parked/docs?id={id}");
        assert_eq!(one.send("PUT", &path, b"{}").status, 201);
        wait_until(|| other.get(&path).status == 200);
        wait_until(|| !has_thread("link parked"));
    }
}
