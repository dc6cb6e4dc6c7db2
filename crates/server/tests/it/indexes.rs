//! There are no indexes, and every route says so in its own way.

use serde_json::json;

use crate::test_server::TestServer;

#[test]
fn lists_of_indexes_are_empty() {
    let server = TestServer::with_database();
    for path in ["", "?namesOnly=true", "/stats", "/errors", "/performance", "/progress"] {
        let reply = server.get(&format!("/databases/db/indexes{path}"));
        assert_eq!((reply.status, &reply.json()["Results"]), (200, &json!([])), "{path}");
    }
    let status = || server.get("/databases/db/indexes/status").json();
    assert_eq!(status(), json!({"Status": "Running", "Indexes": []}));
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    assert_eq!(status()["Status"], "Paused");
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/start", b"").status, 204);
    assert_eq!(status()["Status"], "Running");
    assert_eq!(server.send("DELETE", "/databases/db/indexes/errors", b"").status, 204);
    let changed = br#"{"Name":"nope","Maps":["from d in docs select new { d.A }"]}"#;
    let changed = server.send("POST", "/databases/db/indexes/has-changed", changed).json();
    assert_eq!(changed, json!({"Changed": true}));
}

#[test]
fn an_index_by_its_name_is_missing() {
    let server = TestServer::with_database();
    for (method, path) in [
        ("GET", "indexes?name=nope"),
        ("GET", "indexes/stats?name=nope"),
        ("GET", "indexes/source?name=nope"),
        ("DELETE", "indexes?name=nope"),
    ] {
        let reply = server.send(method, &format!("/databases/db/{path}"), b"");
        assert_eq!((reply.status, reply.body.len()), (404, 0), "{method} {path}");
    }
    for (method, path, body) in [
        ("GET", "indexes/errors?name=nope", ""),
        ("DELETE", "indexes/errors?name=nope", ""),
        ("GET", "indexes/staleness?name=nope", ""),
        ("GET", "indexes/terms?name=nope&field=a", ""),
        ("RESET", "indexes?name=nope", ""),
        ("POST", "admin/indexes/stop?name=nope", ""),
        ("POST", "admin/indexes/enable?name=nope", ""),
        ("POST", "indexes/set-lock", r#"{"IndexNames":["nope"],"Mode":"Unlock"}"#),
        ("POST", "indexes/set-priority", r#"{"IndexNames":["nope"],"Priority":"Low"}"#),
    ] {
        let reply = server.send(method, &format!("/databases/db/{path}"), body.as_bytes());
        assert_eq!(reply.status, 500, "{method} {path}");
        let error = reply.json();
        let kind = "Raven.Client.Exceptions.Documents.Indexes.IndexDoesNotExistException";
        assert_eq!(error["Type"], kind, "{method} {path}");
        assert_eq!(error["Message"], "There is no index with 'nope' name.", "{method} {path}");
    }
    for path in ["admin/indexes", "indexes"] {
        let reply = server.send("PUT", &format!("/databases/db/{path}"), b"{}");
        assert_eq!(reply.json()["Type"], "System.NotSupportedException", "{path}");
    }
}

#[test]
fn a_query_on_an_index_is_not_found() {
    let server = TestServer::with_database();
    let body = br#"{"Query":"from index 'no/such' where a = $p"}"#;
    let reply = server.send("POST", "/databases/db/queries", body);
    assert_eq!((reply.status, reply.body.len()), (404, 0));
    let target = "queries?query=from%20index%20%27no/such%27";
    assert_eq!(server.get(&format!("/databases/db/{target}")).status, 404);
    for extra in ["", "&format=jsonl"] {
        let reply = server.get(&format!("/databases/db/streams/{target}{extra}"));
        let expected = json!({"Error": "Index no/such does not exist"});
        assert_eq!((reply.status, reply.json()), (404, expected), "{extra}");
    }
    let inner = br#"{"Requests":[{"Url":"/databases/db/queries","Query":"?q=1","Method":"POST",
        "Content":{"Query":"from index 'no/such'"}}]}"#;
    let reply = server.send("POST", "/databases/db/multi_get", inner).json();
    let expected = json!({"Results": [{"Result": null, "StatusCode": 404, "Headers": {}}]});
    assert_eq!(reply, expected);
}
