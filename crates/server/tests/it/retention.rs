//! Documents that expire or are refreshed at a set time, over HTTP.

use platform::Platform;
use serde_json::Value;

use crate::test_server::TestServer;

const PAST: &str = r#"{"@metadata":{"@expires":"2020-01-01T00:00:00.0000000Z"}}"#;
const REFRESHED: &str = r#"{"@metadata":{"@refresh":"2020-01-01T00:00:00.0000000Z"}}"#;

fn configure(server: &TestServer, what: &str, body: &str) -> u16 {
    let target = format!("/databases/db/admin/{what}/config");
    server.send("POST", &target, body.as_bytes()).status
}

#[test]
fn configurations_are_persisted_and_returned_in_full() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    for what in ["expiration", "refresh", "data-archival"] {
        let target = format!("/databases/db/{what}/config");
        assert_eq!(server.get(&target).status, 404);
        assert_eq!(configure(&server, what, r#"{"Disabled":true}"#), 200);
        assert_eq!(server.get(&target).json()["Disabled"], true);
        assert_eq!(server.get(&target).json()["MaxItemsToProcess"], Value::Null);
    }
    assert_eq!(configure(&server, "expiration", r#"{"DeleteFrequencyInSec":0}"#), 500);
    assert_eq!(configure(&server, "refresh", r#"{"RefreshFrequencyInSec":"x"}"#), 500);
    let listed = server.get("/databases?name=db").json();
    assert_eq!(listed["HasExpirationConfiguration"], true);
    assert_eq!(listed["HasRefreshConfiguration"], true);
    server.stop();
    let server = TestServer::start(platform, &[]);
    assert_eq!(server.get("/databases/db/expiration/config").json()["Disabled"], true);
}

#[test]
fn expiration_and_refresh_run_automatically() {
    let server = TestServer::with_database();
    server.put("t/expires", PAST);
    let version = server.put("t/refreshed", REFRESHED);
    assert_eq!(configure(&server, "expiration", r#"{"DeleteFrequencyInSec":1}"#), 200);
    assert_eq!(configure(&server, "refresh", r#"{"RefreshFrequencyInSec":1}"#), 200);
    // Ends when both have happened; if the server never does it, the test does not end.
    while !server.document("t/expires").is_null()
        || !server.document("t/refreshed")["@metadata"]["@refresh"].is_null()
    {
        std::thread::yield_now();
    }
    assert_ne!(server.document("t/refreshed")["@metadata"]["@change-vector"], version.as_str());
}

#[test]
fn archived_documents_are_removed_from_indexes_that_exclude_them() {
    let server = TestServer::with_database();
    let map = r#"{"Name":"@","Maps":["from t in docs.Ts select new { t.N }"]#}"#;
    let index = |name: &str, behavior: &str| {
        let behavior = format!(r#","ArchivedDataProcessingBehavior":{behavior}"#);
        map.replace('@', name).replace('#', &behavior)
    };
    let definitions = [
        index("Without", "null"),
        index("With", "\"IncludeArchived\""),
        index("Only", "\"ArchivedOnly\""),
    ]
    .join(",");
    let body = format!(r#"{{"Indexes":[{definitions}]}}"#);
    assert_eq!(server.send("PUT", "/databases/db/admin/indexes", body.as_bytes()).status, 201);
    let collection = r#""@collection":"Ts""#;
    server.put("t/1", &format!(r#"{{"N":1,"@metadata":{{{collection}}}}}"#));
    let at = r#""@archive-at":"2020-01-01T00:00:00.0000000Z""#;
    server.put("t/2", &format!(r#"{{"N":2,"@metadata":{{{collection},{at}}}}}"#));
    let found = |query: &str| {
        let body = format!(r#"{{"Query":"{query}","WaitForNonStaleResults":true}}"#);
        let answer = server.send("POST", "/databases/db/queries", body.as_bytes()).json();
        let rows = answer["Results"].as_array().unwrap().clone();
        let mut found: Vec<_> = rows.iter().map(|row| row["N"].as_i64().unwrap()).collect();
        found.sort_unstable();
        found
    };
    let all = || {
        ["from index 'Without'", "from index 'With'", "from index 'Only'", "from Ts where N > 0"]
            .map(found)
    };
    assert_eq!(all(), [vec![1, 2], vec![1, 2], vec![], vec![1, 2]]);
    assert_eq!(configure(&server, "data-archival", r#"{"ArchiveFrequencyInSec":1}"#), 200);
    while server.document("t/2")["@metadata"]["@archived"].is_null() {
        std::thread::yield_now();
    }
    assert_eq!(all(), [vec![1], vec![1, 2], vec![2], vec![1]]);
    assert_eq!(found("from Ts"), [1, 2], "a collection has all its documents");
    let patch = br#"{"Patch":{"Script":"archived.unarchive(this)"}}"#;
    let patched = server.send("PATCH", "/databases/db/docs?id=t/2", patch).json();
    assert_eq!(patched["Status"], "Patched");
    assert_eq!(all(), [vec![1, 2], vec![1, 2], vec![], vec![1, 2]]);
    let patch = br#"{"Patch":{"Script":"archived.archiveAt(this, '2020-01-01T00:00:00.000Z')"}}"#;
    server.send("PATCH", "/databases/db/docs?id=t/1", patch);
    while server.document("t/1")["@metadata"]["@archived"].is_null() {
        std::thread::yield_now();
    }
    assert_eq!(all(), [vec![2], vec![1, 2], vec![1], vec![2]]);
}

#[test]
fn one_node_has_no_conflicts_and_no_connections() {
    let server = TestServer::with_database();
    let get = |path: &str| server.get(&format!("/databases/db/replication/{path}"));
    assert_eq!(get("conflicts").text(), r#"{"TotalResults":0,"Results":[]}"#);
    assert_eq!(get("conflicts?docId=u/1").text(), r#"{"Id":"u/1","LargestEtag":0,"Results":[]}"#);
    assert_eq!(get("conflicts/solver").status, 404);
    let connections = r#"{"IncomingConnections":[],"OutgoingConnections":[]}"#;
    assert_eq!(get("active-connections").text(), connections);
    assert_eq!(get("performance").text(), r#"{"Incoming":[],"Outgoing":[]}"#);
}
