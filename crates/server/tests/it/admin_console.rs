//! The administrators' console.

use platform::Platform;
use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

fn run_on(server: &TestServer, query: &str, script: &str) -> Reply {
    let body = json!({"Script": script}).to_string();
    server.send("POST", &format!("/admin/console?{query}"), body.as_bytes())
}

fn result_of(server: &TestServer, script: &str) -> Value {
    let reply = run_on(server, "serverScript=true", script);
    assert_eq!(reply.status, 200, "{script}: {}", reply.text());
    reply.json()["Result"].clone()
}

#[test]
fn a_script_returns_what_it_sees_of_the_server() {
    let server = TestServer::start(Platform::memory(), &[]);
    server.create("db");
    assert_eq!(result_of(&server, "return {a: 1, b: [1, 2]}"), json!({"a": 1, "b": [1, 2]}));
    assert_eq!(result_of(&server, "return undefined"), Value::Null);
    assert_eq!(result_of(&server, "return server.ServerStore.NodeTag"), "A");
    assert_eq!(result_of(&server, "return server.ServerStore.Nope.Nah"), Value::Null);
    let licensed = "return server.ServerStore.LicenseManager.LicenseStatus.Type !== 'Invalid'";
    assert_eq!(result_of(&server, licensed), true);
    assert_eq!(result_of(&server, "return server.ServerStore.Engine.CurrentLeader !== null"), true);
    let name = run_on(&server, "database=DB", "return database.Name");
    assert_eq!(name.json()["Result"], "db", "{}", name.text());
}

#[test]
fn a_script_that_fails_is_an_error_of_its_kind() {
    let server = TestServer::start(Platform::memory(), &[]);
    for (query, script, kind) in [
        ("serverScript=true", "throw new Error('x')", "JavaScriptException"),
        ("serverScript=true", "syntax error here", "JavaScriptParseException"),
        ("serverScript=true", "server.ServerStore.Nope()", "JavaScriptException"),
        ("serverScript=true", "for (;;);", "JavaScriptException"),
        ("serverScript=true", "server.ServerStore.RemoveFromClusterAsync('Z')", "Exception"),
        ("serverScript=true", "server.ServerStore.EnsureNotPassiveAsync(null, 'B')", "Exception"),
        ("database=nope", "return 1", "DatabaseDoesNotExistException"),
        ("", "return 1", "System.InvalidOperationException"),
    ] {
        let reply = run_on(&server, query, script);
        assert!(500 <= reply.status, "{script}: {}", reply.text());
        let shown = reply.json()["Type"].as_str().unwrap_or_default().to_owned();
        assert!(shown.ends_with(kind), "{script}: {}", reply.text());
    }
    let without = server.send("POST", "/admin/console?serverScript=true", b"{}");
    assert!(without.text().contains("Field Script was not found."), "{}", without.text());
}

#[test]
fn a_script_adds_and_removes_a_node() {
    let first = TestServer::start(Platform::memory(), &[]);
    let second = TestServer::start(Platform::memory(), &[]);
    let add = format!(
        "server.ServerStore.ValidateFixedPort = false; \
         server.ServerStore.AddNodeToClusterAsync('http://{}', 'B', false, false, \
         server.ServerStore.ServerShutdown).Wait();",
        second.address
    );
    assert_eq!(result_of(&first, &add), Value::Null);
    let wait = "server.ServerStore.WaitForTopology(0, server.ServerStore.ServerShutdown).Wait(); \
                return server.ServerStore.NodeTag";
    assert_eq!(result_of(&second, wait), "B");
    let created = first.send(
        "PUT",
        "/admin/databases?name=db&replicationFactor=2",
        br#"{"DatabaseName":"db"}"#,
    );
    let index = created.json()["RaftCommandIndex"].clone();
    assert!(index.is_u64(), "{}", created.text());
    let wait = format!("server.ServerStore.Cluster.WaitForIndexNotification(\"{index}\").Wait()");
    assert_eq!(result_of(&second, &wait), Value::Null);
    assert_eq!(second.get("/databases/db/stats").status, 200);
    let deleted =
        first.send("DELETE", "/admin/databases", br#"{"DatabaseNames":["db"],"HardDelete":true}"#);
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(
        result_of(&first, "server.ServerStore.RemoveFromClusterAsync('B').Wait()"),
        Value::Null
    );
    let members = first.get("/cluster/topology").json()["Topology"]["Members"].clone();
    assert_eq!(members.as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn a_script_stops_the_server() {
    let server = TestServer::start(Platform::memory(), &[]);
    assert_eq!(result_of(&server, "server.Dispose()"), Value::Null);
    server.stop_is_requested();
    server.stop();
}
