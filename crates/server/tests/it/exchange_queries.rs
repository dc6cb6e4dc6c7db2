//! `cmpxchg()` in queries: caching and streams, in addition to the recorded responses.

use serde_json::{Value, json};

use crate::{operations::wait, test_server::TestServer};

fn server() -> TestServer {
    let server = TestServer::with_database();
    server.put("u/1", r#"{"Name":"a","Age":5,"Key":"limit","@metadata":{"@collection":"Us"}}"#);
    server.put("u/2", r#"{"Name":"b","Age":12,"@metadata":{"@collection":"Us"}}"#);
    put_value(&server, "Limit", &json!(5));
    server
}

fn put_value(server: &TestServer, key: &str, value: &Value) -> u64 {
    let found = server.get(&format!("/databases/db/cmpxchg?key={key}"));
    let index =
        if found.status == 200 { found.json()["Results"][0]["Index"].clone() } else { 0.into() };
    let target = format!("/databases/db/cmpxchg?key={key}&index={index}");
    let reply = server.send("PUT", &target, json!({ "Object": value }).to_string().as_bytes());
    assert_eq!(reply.json()["Successful"], true, "{}", reply.text());
    reply.json()["Index"].as_u64().unwrap()
}

fn ask(server: &TestServer, query: &str) -> Value {
    let body = json!({ "Query": query, "WaitForNonStaleResults": true }).to_string();
    let reply = server.send("POST", "/databases/db/queries", body.as_bytes());
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    reply.json()
}

fn ids(answer: &Value) -> Vec<&str> {
    let rows = answer["Results"].as_array().unwrap().iter();
    rows.map(|row| row["@metadata"]["@id"].as_str().unwrap()).collect()
}

#[test]
fn a_changed_value_changes_the_etag_of_a_result() {
    let server = server();
    let queries = [
        "from Us where Age = cmpxchg('limit')",
        "from Us select cmpxchg('limit') as X",
        "from Us as u select { X: cmpxchg('limit') }",
        "from Us include cmpxchg(Key)",
        "from Us filter Age = cmpxchg('limit')",
        "declare function f(u) { return { X: cmpxchg('limit') }; } from Us as u select f(u)",
        "declare function f(u) { includes.cmpxchg('limit'); return u; } from Us as u select f(u)",
        "from Us where id() = cmpxchg('limit')",
    ];
    let etag = |query: &str| ask(&server, query)["ResultEtag"].as_i64().unwrap();
    let before: Vec<i64> = queries.iter().map(|query| etag(query)).collect();
    let without = etag("from Us where Age = 5");
    assert_eq!(before, queries.iter().map(|query| etag(query)).collect::<Vec<_>>());
    put_value(&server, "limit", &json!(12));
    for (query, before) in queries.iter().zip(&before) {
        assert_ne!(etag(query), *before, "{query}");
        let body = json!({ "Query": query }).to_string();
        let before = before.to_string();
        let headers = [("if-none-match", before.as_str())];
        let reply = server.send_with("POST", "/databases/db/queries", &headers, body.as_bytes());
        assert_eq!(reply.status, 200, "{query}");
    }
    assert_eq!(etag("from Us where Age = 5"), without);
    assert_eq!(ids(&ask(&server, queries[0])), ["u/2"]);
    server.stop();
}

#[test]
fn a_deleted_value_is_null() {
    let server = server();
    let query = "from Us where Age = cmpxchg('limit') select cmpxchg('limit') as X";
    assert_eq!(ask(&server, query)["Results"][0]["X"], 5);
    let index = put_value(&server, "limit", &json!(7));
    assert_eq!(ask(&server, query)["Results"], json!([]));
    let reply =
        server.send("DELETE", &format!("/databases/db/cmpxchg?key=limit&index={index}"), b"");
    assert_eq!(reply.json()["Successful"], true);
    assert_eq!(ask(&server, query)["Results"], json!([]));
    let given = ask(&server, "from Us where id() = 'u/1' include cmpxchg(Key)");
    let missing = json!({ "limit": { "Key": "limit", "Index": -1, "Value": null } });
    assert_eq!(given["CompareExchangeValueIncludes"], missing);
    server.stop();
}

#[test]
fn streams_read_values_and_include_none() {
    let server = server();
    let stream = |query: &str| {
        let body = json!({ "Query": query }).to_string();
        server.send("POST", "/databases/db/streams/queries", body.as_bytes())
    };
    ask(&server, "from Us where Age = 1");
    let reply = stream("from Us where Age = cmpxchg('limit') select Name, cmpxchg('limit') as X");
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.json()["Results"][0]["X"], 5);
    let reply = stream("from Us include cmpxchg(Key)");
    assert_eq!(reply.json()["Type"], "System.NotSupportedException", "{}", reply.text());
    server.stop();
}

#[test]
fn patches_and_deletes_by_query_filter_by_values() {
    let server = server();
    let query = json!({ "Query": "from Us where Age = cmpxchg('limit') update { this.Hit = cmpxchg('limit'); }" });
    ask(&server, "from Us where Age = 1");
    let body = json!({ "Query": query }).to_string();
    let reply = server.send("PATCH", "/databases/db/queries?allowStale=false", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    let state = wait(&server, "/databases/db", &reply.json());
    assert_eq!(state["Status"], "Completed", "{state}");
    assert_eq!(server.document("u/1")["Hit"], 5);
    assert_eq!(server.document("u/2")["Hit"], Value::Null);
    server.stop();
}

#[test]
fn subscriptions_filter_and_project_by_values() {
    let server = server();
    let tried = |query: &str| {
        let body = json!({ "Query": query }).to_string();
        let reply = server.send("POST", "/databases/db/subscriptions/try", body.as_bytes());
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        reply.json()
    };
    assert_eq!(ids(&tried("from Us where Age = cmpxchg('LIMIT')")), ["u/1"]);
    let shown = tried("from Us as u select { X: cmpxchg('limit'), N: u.Name }");
    assert_eq!(shown["Results"][1]["X"], 5);
    server.stop();
}
