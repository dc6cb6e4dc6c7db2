//! Documents that expire or are refreshed at a time, over the wire.

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
fn configurations_are_kept_and_shown_in_full() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    for what in ["expiration", "refresh"] {
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
fn what_is_due_is_done_by_itself() {
    let server = TestServer::with_database();
    server.put("t/expires", PAST);
    let version = server.put("t/refreshed", REFRESHED);
    assert_eq!(configure(&server, "expiration", r#"{"DeleteFrequencyInSec":1}"#), 200);
    assert_eq!(configure(&server, "refresh", r#"{"RefreshFrequencyInSec":1}"#), 200);
    // Ends when it is done; a server that never does it is a test that never ends.
    while !server.document("t/expires").is_null()
        || !server.document("t/refreshed")["@metadata"]["@refresh"].is_null()
    {
        std::thread::yield_now();
    }
    assert_ne!(server.document("t/refreshed")["@metadata"]["@change-vector"], version.as_str());
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
