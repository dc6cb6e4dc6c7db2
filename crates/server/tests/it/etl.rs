//! ETL tasks between two servers in this process.

use std::{collections::BTreeMap, time::Duration};

use platform::{Platform, simulated::Random};
use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

/// Waits until something is so, for at most half a minute.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "polls as clients do")]
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// Leads from `db` of one server to a database of another one.
fn connect(source: &TestServer, destination: &str, database: &str) {
    let string = json!({
        "Type": "Raven", "Name": "to", "Database": database, "TopologyDiscoveryUrls": [destination]
    });
    let body = string.to_string();
    let reply = source.send("PUT", "/databases/db/admin/connection-strings", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn url(server: &TestServer) -> String {
    format!("http://{}", server.address)
}

fn task(name: &str, transforms: Value) -> Value {
    json!({
        "EtlType": "Raven", "Name": name, "ConnectionStringName": "to", "Transforms": transforms
    })
}

fn put_task(source: &TestServer, task: &Value) -> Reply {
    source.send("PUT", "/databases/db/admin/etl", task.to_string().as_bytes())
}

fn added(source: &TestServer, task: &Value) -> u64 {
    let reply = put_task(source, task);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["TaskId"].as_u64().unwrap()
}

fn details(source: &TestServer, id: u64) -> Value {
    source.get(&format!("/databases/db/task?key={id}&type=RavenEtl")).json()
}

fn statistics(source: &TestServer) -> Value {
    source.get("/databases/db/etl/stats").json()["Results"][0]["Stats"][0]["Statistics"].clone()
}

/// The documents of `db`, by id, without what the server says of them.
fn documents(server: &TestServer) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for start in (0..).step_by(1000) {
        let reply = server.get(&format!("/databases/db/docs?start={start}&pageSize=1000")).json();
        let results = reply["Results"].as_array().unwrap();
        for document in results {
            let mut document = document.clone();
            let metadata = document["@metadata"].as_object_mut().unwrap();
            let id = metadata["@id"].as_str().unwrap().to_owned();
            metadata.retain(|name, _| name == "@collection" || name == "@attachments");
            found.insert(id, document);
        }
        if results.len() < 1000 {
            break;
        }
    }
    found
}

#[test]
fn a_document_arrives_and_goes_with_its_deletion() {
    let (source, destination) = (TestServer::with_database(), TestServer::with_database());
    source.put("users/1", r#"{"Name":"a","@metadata":{"@collection":"Users"}}"#);
    connect(&source, &url(&destination), "db");
    let id = added(&source, &task("t", json!([{"Name": "all", "ApplyToAllDocuments": true}])));
    wait_until("it arrives", || destination.document("users/1")["Name"] == "a");
    source.put("users/1", r#"{"Name":"b","@metadata":{"@collection":"Users"}}"#);
    wait_until("a change arrives", || destination.document("users/1")["Name"] == "b");
    source.batch(r#"{"Type":"DELETE","Id":"users/1"}"#);
    wait_until("the deletion arrives", || destination.document("users/1").is_null());
    let shown = details(&source, id);
    assert_eq!(shown["TaskState"], "Enabled");
    assert_eq!(shown["TaskConnectionStatus"], "Active");
    assert_eq!(shown["DestinationUrl"], url(&destination));
    assert_eq!(shown["Configuration"]["Transforms"][0]["Name"], "all");
    wait_until("it is counted", || statistics(&source)["LoadSuccesses"] == 3);
    let listed = source.get("/databases/db/tasks").json();
    assert_eq!(listed["OngoingTasksList"][0]["TaskType"], "RavenEtl");
}
