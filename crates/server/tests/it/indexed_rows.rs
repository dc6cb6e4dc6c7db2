//! Indexes whose rows are the results of their maps: indexes of counters and of time series.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::test_server::TestServer;

/// Defines an index and returns the response.
pub(crate) fn define(server: &TestServer, name: &str, map: &str, reduce: Option<&str>) -> Value {
    let index = json!({ "Name": name, "Maps": [map], "Reduce": reduce });
    let body = json!({ "Indexes": [index] }).to_string();
    let reply = server.send("PUT", "/databases/db/admin/indexes", body.as_bytes());
    reply.json()
}

/// The rows of a query that waits for its index, without their metadata, by the names of their properties
/// and in the order of their text.
pub(crate) fn rows(server: &TestServer, query: &str) -> Vec<String> {
    let body = json!({ "Query": query, "WaitForNonStaleResults": true }).to_string();
    let reply = server.send("POST", "/databases/db/queries", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    let answer = reply.json();
    assert_eq!(answer["IsStale"], false);
    let mut rows = Vec::new();
    for row in answer["Results"].as_array().unwrap() {
        let row = row.as_object().unwrap().clone();
        let mut row: BTreeMap<String, Value> = row.into_iter().collect();
        let metadata = row.remove("@metadata").unwrap();
        assert_eq!(metadata["@change-vector"], Value::Null, "{query}");
        assert_eq!(metadata.get("@id"), None, "{query}");
        rows.push(json!(row).to_string());
    }
    rows.sort();
    rows
}
