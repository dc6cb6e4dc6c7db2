//! Tasks of external replication that every database of a server has.

use serde_json::{Value, json};

use crate::{replication::connect, resources::wait_until, test_server::TestServer};

const PUT: &str = "/admin/configuration/server-wide/external-replication";
const TASKS: &str = "/admin/configuration/server-wide/tasks?type=Replication";

fn put(server: &TestServer, task: &Value) -> Value {
    let reply = server.send("PUT", PUT, task.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

fn tasks_of(server: &TestServer, database: &str) -> Vec<Value> {
    let tasks = server.get(&format!("/databases/{database}/tasks")).json();
    tasks["OngoingTasksList"].as_array().unwrap().clone()
}

#[test]
fn every_database_has_it_also_those_that_are_created_later() {
    let (one, other) = (TestServer::with_database(), TestServer::with_database());
    for server in [&one, &other] {
        server.create("excluded");
    }
    let urls = json!([format!("http://{}", other.address)]);
    let answer = put(
        &one,
        &json!({"Name": "far", "TopologyDiscoveryUrls": urls, "ExcludedDatabases": ["Excluded"]}),
    );
    assert_eq!(answer["Name"], "far");
    assert!(answer["RaftCommandIndex"].is_u64());
    one.put("a", "{}");
    wait_until(|| !other.document("a").is_null());
    let task = &tasks_of(&one, "db")[0];
    assert_eq!(task["TaskName"], "Server Wide External Replication, far");
    assert_eq!(task["ConnectionStringName"], "Server Wide Raven Connection String, far");
    assert_eq!(task["DestinationDatabase"], "db");
    assert!(tasks_of(&one, "excluded").is_empty());

    for server in [&other, &one] {
        server.create("later");
    }
    assert_eq!(one.send("PUT", "/databases/later/docs?id=b", b"{}").status, 201);
    wait_until(|| other.get("/databases/later/docs?id=b").status == 200);
    let shown = one.get(TASKS).json();
    assert_eq!(shown["Results"][0]["Name"], "far");
    assert_eq!(shown["Results"][0]["ExcludedDatabases"], json!(["Excluded"]));
    assert_eq!(one.get(&format!("{TASKS}&name=FAR")).json()["Results"], shown["Results"]);
    assert_eq!(one.get(&format!("{TASKS}&name=x")).json(), json!({"Results": []}));
    let ongoing = one.get("/admin/server-wide/tasks").json();
    assert_eq!(ongoing["Tasks"][0]["TaskName"], "far");
}

#[test]
fn it_is_changed_switched_and_deleted_everywhere() {
    let (one, other) = (TestServer::with_database(), TestServer::with_database());
    let urls = json!([format!("http://{}", other.address)]);
    put(&one, &json!({"Name": "far", "TopologyDiscoveryUrls": urls}));
    let state = |disable: bool| {
        let path = format!(
            "/admin/configuration/server-wide/state?type=Replication&name=far&disable={disable}"
        );
        let reply = one.send("POST", &path, b"");
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.json()["Name"], "far");
    };
    state(true);
    assert_eq!(tasks_of(&one, "db")[0]["TaskState"], "Disabled");
    one.create("later");
    assert_eq!(tasks_of(&one, "later")[0]["TaskState"], "Disabled");
    state(false);
    one.put("a", "{}");
    wait_until(|| !other.document("a").is_null());

    // Under another name it is the same task.
    let id = one.get(TASKS).json()["Results"][0]["TaskId"].clone();
    put(&one, &json!({"TaskId": id, "Name": "farther", "TopologyDiscoveryUrls": urls}));
    let named = tasks_of(&one, "db");
    assert_eq!(named.len(), 1);
    assert_eq!(named[0]["TaskName"], "Server Wide External Replication, farther");

    // Of one database it cannot be changed.
    let own = named[0]["TaskId"].as_u64().unwrap();
    let tasks = "/databases/db/admin/tasks";
    for (method, path) in [
        ("DELETE", format!("{tasks}?id={own}&type=Replication")),
        ("POST", format!("{tasks}/state?key={own}&type=Replication&disable=true")),
    ] {
        let reply = one.send(method, &path, b"");
        assert_eq!(reply.status, 500, "{method}");
        assert!(reply.text().contains("server-wide task"), "{}", reply.text());
    }

    let delete = "/admin/configuration/server-wide/task?type=Replication&name=farther";
    assert_eq!(one.send("DELETE", delete, b"").json()["Name"], "farther");
    for database in ["db", "later"] {
        assert!(tasks_of(&one, database).is_empty());
        let strings = one.get(&format!("/databases/{database}/admin/connection-strings")).json();
        assert_eq!(strings["RavenConnectionStrings"], json!({}));
    }
    assert_eq!(one.send("DELETE", delete, b"").status, 500, "it is gone");
    assert_eq!(one.get(TASKS).json(), json!({"Results": []}));
}

/// Names that differ in case alone are one name, in any alphabet.
#[test]
fn a_task_that_is_renamed_by_case_alone_stays() {
    let server = TestServer::with_database();
    let task = json!({"Name": "\u{c9}", "TopologyDiscoveryUrls": ["http://127.0.0.1:1"]});
    put(&server, &task);
    let id = server.get(TASKS).json()["Results"][0]["TaskId"].clone();
    let mut renamed = task;
    renamed["Name"] = json!("\u{e9}");
    renamed["TaskId"] = id.clone();
    put(&server, &renamed);
    let tasks = server.get(TASKS).json();
    assert_eq!(tasks["Results"][0]["Name"], "\u{e9}");
    assert_eq!((&tasks["Results"][0]["TaskId"], &tasks["Results"][1]), (&id, &Value::Null));
}

/// Two links with one number are one link: the other one would never run.
#[test]
fn a_task_of_a_database_with_the_same_number_keeps_it_and_both_replicate() {
    let (one, far) = (TestServer::with_database(), TestServer::with_database());
    let near = TestServer::with_database();
    let urls = json!([format!("http://{}", far.address)]);
    put(&one, &json!({"Name": "far", "TopologyDiscoveryUrls": urls}));
    let id = one.get(TASKS).json()["Results"][0]["TaskId"].clone();
    // As a record that was restored from elsewhere.
    let mut record = one.get("/admin/databases?name=db").json();
    let etag = record["Etag"].to_string();
    record["ExternalReplications"] =
        json!([{"TaskId": id, "Name": "near", "ConnectionStringName": "near"}]);
    record["RavenConnectionStrings"] = json!({"near": {
        "Name": "near", "Database": "db",
        "TopologyDiscoveryUrls": [format!("http://{}", near.address)]
    }});
    let body = record.to_string();
    let reply =
        one.send_with("PUT", "/admin/databases?name=db", &[("ETag", &etag)], body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    one.put("a", "{}");
    wait_until(|| !near.document("a").is_null() && !far.document("a").is_null());
    let numbers = || tasks_of(&one, "db").into_iter().map(|task| task["TaskId"].clone());
    assert_eq!(numbers().next().as_ref(), Some(&id));
    assert_ne!(numbers().nth(1).as_ref(), Some(&id));
}

#[test]
fn a_record_that_lost_it_gets_it_back() {
    let (one, other) = (TestServer::with_database(), TestServer::with_database());
    let urls = json!([format!("http://{}", other.address)]);
    put(&one, &json!({"Name": "far", "TopologyDiscoveryUrls": urls}));
    let mut record = one.get("/admin/databases?name=db").json();
    let etag = record["Etag"].to_string();
    record["ExternalReplications"] = json!([]);
    record["RavenConnectionStrings"] = json!({});
    let body = record.to_string();
    let reply =
        one.send_with("PUT", "/admin/databases?name=db", &[("ETag", &etag)], body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    wait_until(|| !tasks_of(&one, "db").is_empty());
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let server = TestServer::with_database();
    for task in [
        json!({}),
        json!({"Name": "x", "TopologyDiscoveryUrls": []}),
        json!({"Name": "x", "TopologyDiscoveryUrls": ["ftp://x"]}),
        json!({"Name": "x", "TopologyDiscoveryUrls": ["http://x"], "ExcludedDatabases": [""]}),
    ] {
        let reply = server.send("PUT", PUT, task.to_string().as_bytes());
        assert!((400..=500).contains(&reply.status), "{task}: {}", reply.text());
    }
    for path in [
        "/admin/configuration/server-wide/tasks",
        "/admin/configuration/server-wide/tasks?type=Fax",
    ] {
        assert_eq!(server.get(path).status, 500, "{path}");
    }
    assert_eq!(
        server.get("/admin/configuration/server-wide/tasks?type=Backup").json(),
        json!({"Results": []})
    );
    let state = "/admin/configuration/server-wide/state?type=Backup&name=x&disable=true";
    assert_eq!(server.send("POST", state, b"").status, 500);
    // It would be taken for one that all databases have, and be removed.
    connect(&server, &server, "db");
    let name = "server wide external replication, mine";
    let task = json!({"Watcher": {"Name": name, "ConnectionStringName": "to"}}).to_string();
    let path = "/databases/db/admin/tasks/external-replication";
    let reply = server.send("POST", path, task.as_bytes());
    assert!(reply.status == 500 && reply.text().contains("can't start with"), "{}", reply.text());
    assert!(tasks_of(&server, "db").is_empty());
    assert_eq!(server.get("/admin/server-wide/tasks").json(), json!({"Tasks": []}));
}
