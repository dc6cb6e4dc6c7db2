//! Counters over HTTP: one by one, in batches and bulk inserts, given along with documents.

use serde_json::{Value, json};

use crate::test_server::TestServer;

const AT: &str = "/databases/db/counters";

fn server() -> TestServer {
    let server = TestServer::with_database();
    server.put("u/1", r#"{"Name":"a","@metadata":{"@collection":"Us"}}"#);
    server
}

fn change(server: &TestServer, id: &str, operations: &Value) -> Value {
    let body = json!({ "Documents": [{ "DocumentId": id, "Operations": operations }] });
    let reply = server.send("POST", AT, body.to_string().as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["Counters"].clone()
}

fn increment(name: &str, by: i64) -> Value {
    json!({ "Type": "Increment", "CounterName": name, "Delta": by })
}

fn detail(id: &str, name: &str, total: i64) -> Value {
    json!({ "DocumentId": id, "CounterName": name, "TotalValue": total, "CounterValues": null })
}

#[test]
fn increments_and_looks_are_answered_in_order_and_deletions_are_not() {
    let server = server();
    let operations = json!([
        increment("likes", 2),
        increment("LIKES", 2),
        { "Type": "Get", "CounterName": "nope" },
        { "Type": "Delete", "CounterName": "likes" },
        { "Type": "Get", "CounterName": "likes" },
        { "Type": "Put", "CounterName": "likes", "Delta": 99 },
        increment("likes", 5),
    ]);
    let expected = json!([
        detail("u/1", "likes", 2),
        detail("u/1", "LIKES", 4),
        null,
        null,
        detail("u/1", "likes", 5),
    ]);
    assert_eq!(change(&server, "u/1", &operations), expected);
    assert_eq!(server.document("u/1")["@metadata"]["@counters"], json!(["likes"]));
    assert_eq!(change(&server, "u/1", &json!([])), json!([]));
    let looks = json!([{ "Type": "Get", "CounterName": null }, { "Type": "Get" }]);
    assert_eq!(change(&server, "nobody", &looks), json!([null, null]));
}

#[test]
fn a_document_shows_its_counters_in_the_order_of_their_bytes() {
    let server = server();
    change(&server, "u/1", &json!([increment("a", 1), increment("B", 2), increment("_x", 3)]));
    let all = server.get(&format!("{AT}?docId=u/1")).json();
    let expected = [detail("u/1", "B", 2), detail("u/1", "_x", 3), detail("u/1", "a", 1)];
    assert_eq!(all["Counters"], json!(expected));
    let some = server.get(&format!("{AT}?docId=U/1&counter=b&counter=&counter=zz&full=true"));
    let some = some.json()["Counters"].clone();
    assert_eq!((&some[1], &some[2], &some[3]), (&Value::Null, &Value::Null, &Value::Null));
    assert_eq!((&some[0]["DocumentId"], &some[0]["CounterName"]), (&json!("U/1"), &json!("b")));
    let values = some[0]["CounterValues"].as_object().unwrap();
    let (node, value) = values.iter().next().unwrap();
    assert!(node.starts_with("A-") && node.len() == 24, "{node}");
    assert_eq!((values.len(), value), (1, &json!(2)));
    assert_eq!(server.get(&format!("{AT}?docId=none")).json(), json!({ "Counters": [] }));
    assert_eq!(server.get(AT).status, 500);
    assert_eq!(server.get("/databases/db/stats").json()["CountOfCounterEntries"], 3);
}

#[test]
fn what_cannot_be_counted_fails_with_everything_around_it() {
    let server = server();
    change(&server, "u/1", &json!([increment("big", i64::MAX)]));
    let send = |id: &str, operations: Value| {
        let body = json!({ "Documents": [{ "DocumentId": id, "Operations": operations }] });
        let reply = server.send("POST", AT, body.to_string().as_bytes());
        assert_eq!(reply.status, 500);
        let error = reply.json();
        format!("{} {}", error["Type"].as_str().unwrap(), error["Message"].as_str().unwrap())
    };
    assert_eq!(
        send("u/1", json!([increment("new", 1), increment("big", 1)])),
        "Raven.Client.Exceptions.Documents.Counters.CounterOverflowException Could not increment \
         counter 'big' from document 'u/1' with value '9223372036854775807' by '1'."
    );
    assert_eq!(
        send("nobody", json!([{ "Type": "Delete", "CounterName": "a" }])),
        "Raven.Client.Exceptions.Documents.DocumentDoesNotExistException Document 'nobody' does \
         not exist. Cannot operate on counters of a missing document."
    );
    let long = send("u/1", json!([increment(&"x".repeat(600), 1)]));
    assert!(
        long.starts_with("System.ArgumentException Counter name cannot exceed 512 bytes, but counter name has 600 characters."),
        "{long}"
    );
    assert!(send("u/1", json!([increment("", 1)])).contains("cannot be empty"));
    assert_eq!(server.document("u/1")["@metadata"]["@counters"], json!(["big"]));
}

#[test]
fn a_batch_tells_the_version_of_a_document_that_was_touched() {
    let server = server();
    let counters = |operations: Value| {
        json!({
            "Type": "Counters", "Id": "u/1",
            "Counters": { "DocumentId": "u/1", "Operations": operations }
        })
    };
    let batch = |commands: Value| {
        let body = json!({ "Commands": commands }).to_string();
        let reply = server.send("POST", "/databases/db/bulk_docs", body.as_bytes());
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()["Results"].clone()
    };
    let results = batch(json!([
        counters(json!([increment("a", 1), { "Type": "Get", "CounterName": "zz" }])),
        counters(json!([increment("a", 1)])),
    ]));
    let version = server.document("u/1")["@metadata"]["@change-vector"].clone();
    let shown = json!({ "Counters": [detail("u/1", "a", 1), null] });
    let expected = json!({
        "Id": "u/1", "ChangeVector": version, "Type": "Counters", "CountersDetail": shown,
        "DocumentChangeVector": version
    });
    assert_eq!(results[0], expected);
    assert_eq!(results[1]["DocumentChangeVector"], Value::Null);
    assert_eq!(results[1]["CountersDetail"]["Counters"][0]["TotalValue"], 2);
    let results =
        batch(json!([counters(json!([{ "Type": "Put", "CounterName": "a", "Delta": 9 }]))]));
    assert_eq!(results[0]["ChangeVector"], Value::Null);
}

#[test]
fn a_bulk_insert_counts() {
    let server = server();
    let body = json!([
        { "Id": "b/1", "Type": "PUT", "Document": { "@metadata": { "@collection": "Us" } } },
        {
            "Id": "b/1", "Type": "Counters",
            "Counters": { "DocumentId": "b/1", "Operations": [increment("a", 1), increment("b", 2)] }
        }
    ]);
    let reply = server.send("POST", "/databases/db/bulk_insert?id=77", body.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(server.document("b/1")["@metadata"]["@counters"], json!(["a", "b"]));
    let state = server.get("/databases/db/operations/state?id=77").json();
    assert_eq!(
        (&state["Result"]["Total"], &state["Result"]["CountersProcessed"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(state["Result"]["DocumentsProcessed"], 1);
}
