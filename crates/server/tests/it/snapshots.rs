//! Snapshots that are kept for a client: the header `Corvus-Snapshot`.

use std::{sync::Arc, time::Duration};

use platform::{Platform, simulated::SimulatedClock};
use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

const HEADER: &str = "Corvus-Snapshot";

fn open(server: &TestServer, query: &str) -> Reply {
    server.send("POST", &format!("/databases/db/snapshots{query}"), b"")
}

fn token(server: &TestServer) -> String {
    let reply = open(server, "");
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["Snapshot"].as_str().unwrap().to_owned()
}

fn read(server: &TestServer, token: &str, method: &str, target: &str, body: &str) -> Reply {
    let target = format!("/databases/db{target}");
    server.send_with(method, &target, &[(HEADER, token)], body.as_bytes())
}

/// The reason why a read with the token is rejected.
fn refusal(server: &TestServer, token: &str) -> String {
    let reply = read(server, token, "GET", "/docs?id=a", "");
    assert_eq!(reply.status, 412, "{}", reply.text());
    reply.json()["Message"].as_str().unwrap().to_owned()
}

/// One request for each route that reads from snapshots; the changes in the test change its
/// response.
const READS: &[(&str, &str, &str, &str)] = &[
    ("GET", "/databases/*/docs", "?id=t/1&id=t/2&id=t/3&include=other", ""),
    ("GET", "/databases/*/docs", "?startsWith=t/", ""),
    ("GET", "/databases/*/docs", "?etag=1", ""),
    ("GET", "/databases/*/docs", "", ""),
    ("POST", "/databases/*/docs", "", r#"{"Ids":["t/1","t/2","t/3"]}"#),
    ("HEAD", "/databases/*/docs", "?id=t/2", ""),
    ("GET", "/databases/*/docs/size", "?id=t/1", ""),
    ("GET", "/databases/*/streams/docs", "?startsWith=t/", ""),
    ("GET", "/databases/*/collections/docs", "?name=T", ""),
    ("GET", "/databases/*/collections/stats", "", ""),
    ("GET", "/databases/*/queries", "?query=from%20T", ""),
    ("GET", "/databases/*/queries", "?query=from%20index%20'ByN'%20where%20N%20%3E%200", ""),
    ("POST", "/databases/*/queries", "", r#"{"Query":"from T where N > 0 include other"}"#),
    ("POST", "/databases/*/queries", "", r#"{"Query":"from index 'ByN' select facet(N)"}"#),
    ("GET", "/databases/*/streams/queries", "?query=from%20index%20'ByN'", ""),
    (
        "POST",
        "/databases/*/streams/queries",
        "",
        r#"{"Query":"from T where startsWith(id(),'t/')"}"#,
    ),
    ("GET", "/databases/*/revisions", "?id=t/1", ""),
    ("GET", "/databases/*/revisions/count", "?id=t/1", ""),
    ("GET", "/databases/*/revisions/bin", "", ""),
    ("GET", "/databases/*/counters", "?docId=t/1", ""),
    ("GET", "/databases/*/timeseries", "?docId=t/1&name=s", ""),
    ("GET", "/databases/*/timeseries/ranges", "?docId=t/1&name=s&from=&to=", ""),
    ("GET", "/databases/*/timeseries/stats", "?docId=t/1", ""),
    ("GET", "/databases/*/streams/timeseries", "?docId=t/1&name=s", ""),
    ("GET", "/databases/*/docs", "?id=t/1&counter=c", ""),
    (
        "POST",
        "/databases/*/multi_get",
        "",
        r#"{"Requests":[{"Url":"/databases/db/docs","Query":"?id=t/1&id=t/2"},
            {"Url":"/databases/db/docs","Query":"?id=t/3"}]}"#,
    ),
];

fn request(server: &TestServer, read: &(&str, &str, &str, &str), token: Option<&str>) -> Reply {
    let (method, path, query, body) = read;
    let target = format!("{}{query}", path.replace('*', "db"));
    let headers: Vec<_> = token.map(|token| (HEADER, token)).into_iter().collect();
    let reply = server.send_with(method, &target, &headers, body.as_bytes());
    assert!(matches!(reply.status, 200 | 404), "{method} {target}: {}", reply.text());
    reply
}

/// A response without durations and the time of the last query of an index.
fn content(reply: &Reply) -> Value {
    let etag = reply.header("etag").unwrap_or_default().to_owned();
    // Some streams of the protocol are not JSON.
    let mut body: Value =
        serde_json::from_slice(&reply.body).unwrap_or_else(|_| reply.text().into());
    if let Some(object) = body.as_object_mut() {
        object.remove("DurationInMs");
        object.remove("LastQueryTime");
    }
    json!([reply.status, etag, body])
}

#[test]
fn every_route_that_reads_snapshots_uses_the_requested_one() {
    let server = TestServer::with_database();
    let revisions = br#"{"Default":{"Disabled":false}}"#;
    assert_eq!(server.send("POST", "/databases/db/admin/revisions/config", revisions).status, 200);
    let index = br#"{"Indexes":[{"Name":"ByN","Maps":["from t in docs.T select new { t.N }"]}]}"#;
    assert_eq!(server.send("PUT", "/databases/db/admin/indexes", index).status, 201);
    let document =
        |n: u32| format!(r#"{{"N":{n},"other":"o/{n}","@metadata":{{"@collection":"T"}}}}"#);
    for (id, n) in [("t/1", 1), ("t/2", 2), ("o/1", 7), ("o/2", 8), ("t/gone", 9)] {
        server.put(id, &document(n));
    }
    let measuring = |day: u32| {
        let entry = format!(
            r#"{{"Name":"s","Appends":[{{"Timestamp":"2026-01-0{day}T00:00:00.0000000Z",
                "Values":[{day}]}}]}}"#
        );
        let target = "/databases/db/timeseries?docId=t/1";
        assert_eq!(server.send("POST", target, entry.as_bytes()).status, 204);
    };
    let counting = |delta: u32| {
        let command = json!({"Id": "t/1", "ChangeVector": null, "Type": "Counters", "Counters": {
            "DocumentId": "t/1",
            "Operations": [{"Type": "Increment", "CounterName": "c", "Delta": delta}]}});
        assert_eq!(server.batch(&command.to_string()).status, 201);
    };
    counting(1);
    measuring(1);
    let delete = |id: &str| {
        let target = format!("/databases/db/docs?id={id}");
        assert_eq!(server.send("DELETE", &target, b"").status, 204);
    };
    delete("t/gone");
    let query = |text: &str| {
        let body = json!({"Query": text, "WaitForNonStaleResults": true});
        server.send("POST", "/databases/db/queries", body.to_string().as_bytes()).json()
    };
    let catch_up = || {
        for text in ["from T where N > 0", "from index 'ByN'"] {
            assert_eq!(query(text)["IsStale"], false);
        }
    };
    catch_up();

    let opened = open(&server, "?lifetimeInSec=30").json();
    assert_eq!(opened["LifetimeInSec"], 30);
    let token = opened["Snapshot"].as_str().unwrap();
    let before: Vec<_> = READS.iter().map(|read| request(&server, read, Some(token))).collect();
    for (read, reply) in READS.iter().zip(&before) {
        assert_eq!(reply.header(HEADER), Some(token), "{read:?}");
    }
    for (id, n) in [("t/1", 10), ("t/3", 30), ("t/4", 40), ("o/1", 70)] {
        server.put(id, &document(n));
    }
    delete("t/2");
    counting(5);
    measuring(2);
    catch_up();
    for (read, before) in READS.iter().zip(&before) {
        let held = content(&request(&server, read, Some(token)));
        assert_eq!(held, content(before), "{read:?}");
        let newest = request(&server, read, None);
        assert_ne!(held, content(&newest), "{read:?} does not show the changes");
        assert_eq!(newest.header(HEADER), None, "{read:?}");
    }
    for (method, path) in server::snapshot_routes() {
        assert!(
            READS.iter().any(|read| (read.0, read.1) == (*method, *path)),
            "{method} {path} is not tried"
        );
    }
}

#[test]
fn every_other_route_rejects_a_snapshot_token_without_effect() {
    let server = TestServer::with_database();
    server.put("a", "{}");
    let token = token(&server);
    let statistics = |server: &TestServer| server.get("/databases/db/stats").json();
    let before = statistics(&server)["LastDatabaseEtag"].clone();
    for (method, path, _) in server::route_requirements() {
        if server::snapshot_routes().contains(&(method, path)) {
            continue;
        }
        let target = format!("{}?id=a", path.replace('*', "db"));
        let reply = server.send_with(method, &target, &[(HEADER, &token)], b"{}");
        assert_eq!(reply.status, 400, "{method} {path}: {}", reply.text());
        if method != "HEAD" {
            let message = reply.json()["Message"].as_str().unwrap().to_owned();
            assert!(message.contains("does not read from a snapshot"), "{method} {path}");
        }
    }
    assert_eq!(statistics(&server)["LastDatabaseEtag"], before);
    let inner = r#"{"Requests":[{"Url":"/databases/db/docs","Query":"?id=b","Method":"PUT",
        "Content":{}},{"Url":"/databases/db/stats","Query":"?"}]}"#;
    let parts = read(&server, &token, "POST", "/multi_get", inner).json();
    for part in parts["Results"].as_array().unwrap() {
        assert_eq!(part["StatusCode"], 400, "{part}");
    }
    let debug = "/queries?debug=entries&query=from%20T";
    assert_eq!(read(&server, &token, "GET", debug, "").status, 400);
}

#[test]
fn an_index_newer_than_the_snapshot_is_refused_and_none_is_created() {
    let server = TestServer::with_database();
    server.put("t/1", r#"{"N":1,"@metadata":{"@collection":"T"}}"#);
    let token = token(&server);
    let query = r#"{"Query":"from T where N > 0"}"#;
    let refused = read(&server, &token, "POST", "/queries", query);
    assert_eq!(refused.status, 500);
    assert!(refused.text().contains("Auto/T/ByN"), "{}", refused.text());
    assert_eq!(server.get("/databases/db/indexes").json()["Results"], json!([]));
    let made = server.send("POST", "/databases/db/queries", query.as_bytes());
    assert_eq!(made.json()["TotalResults"], 1);
    assert_eq!(read(&server, &token, "POST", "/queries", query).status, 500);
    let newer = self::token(&server);
    assert_eq!(read(&server, &newer, "POST", "/queries", query).json()["TotalResults"], 1);
}

#[test]
fn a_query_whose_index_is_behind_the_snapshot_is_stale_and_does_not_wait() {
    let server = TestServer::with_database();
    server.put("t/1", r#"{"N":1,"@metadata":{"@collection":"T"}}"#);
    let query = r#"{"Query":"from T where N > 0","WaitForNonStaleResults":true}"#;
    let target = "/databases/db/queries";
    assert_eq!(server.send("POST", target, query.as_bytes()).json()["IsStale"], false);
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    server.put("t/2", r#"{"N":2,"@metadata":{"@collection":"T"}}"#);
    let token = token(&server);
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/start", b"").status, 204);
    assert_eq!(server.send("POST", target, query.as_bytes()).json()["TotalResults"], 2);
    let held = read(&server, &token, "POST", "/queries", query).json();
    assert_eq!((&held["TotalResults"], &held["IsStale"]), (&json!(1), &json!(true)));
}

#[test]
fn a_snapshot_ends_by_release_or_timeout_and_errors_say_which() {
    let clock = Arc::new(SimulatedClock::default());
    let platform = Platform { clock: Arc::clone(&clock) as _, ..Platform::memory() };
    let server = TestServer::start(platform, &["--Snapshots.MaxLifetimeInSec=20"]);
    server.create("db");
    server.put("a", "{}");
    let (released, kept) = (token(&server), token(&server));
    let release = |token: &str| {
        server.send("DELETE", &format!("/databases/db/snapshots?id={token}"), b"").status
    };
    assert_eq!((release(&released), release(&released), release("x")), (204, 404, 404));
    assert!(refusal(&server, &released).contains("it was released"));
    assert_eq!(read(&server, &kept, "GET", "/docs?id=a", "").status, 200);
    clock.advance(Duration::from_millis(4_900));
    assert_eq!(read(&server, &kept, "GET", "/docs?id=a", "").status, 200);
    clock.advance(Duration::from_millis(100));
    assert!(refusal(&server, &kept).contains("its lifetime has expired"));
    assert!(refusal(&server, "none").contains("no snapshot with this token"));
    for (lifetime, status) in [("20", 201), ("21", 500), ("0", 500), ("-1", 500), ("x", 500)] {
        let reply = open(&server, &format!("?lifetimeInSec={lifetime}"));
        assert_eq!(reply.status, status, "{lifetime}: {}", reply.text());
    }
}

#[test]
fn the_number_of_snapshots_is_limited_and_each_has_its_own_state() {
    let server = TestServer::start(Platform::memory(), &["--Snapshots.MaxOpenPerDatabase=2"]);
    server.create("db");
    server.create("other");
    server.put("a", r#"{"N":1}"#);
    let first = token(&server);
    server.put("a", r#"{"N":2}"#);
    let second = token(&server);
    server.put("a", r#"{"N":3}"#);
    let refused = open(&server, "");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("Snapshots.MaxOpenPerDatabase"));
    for (token, n) in [(&first, 1), (&second, 2)] {
        let loaded = read(&server, token, "GET", "/docs?id=a", "").json();
        assert_eq!(loaded["Results"][0]["N"], n);
    }
    let elsewhere = [(HEADER, first.as_str())];
    assert_eq!(server.send_with("GET", "/databases/other/docs?id=a", &elsewhere, b"").status, 412);
    assert_eq!(
        server.send("DELETE", &format!("/databases/db/snapshots?id={first}"), b"").status,
        204
    );
    assert_eq!(open(&server, "").status, 201);
}

#[test]
fn a_snapshot_that_retains_too_much_memory_ends_before_a_write_is_refused() {
    let server = TestServer::start(Platform::memory(), &["--Storage.MaxUnflushedInMb=8"]);
    server.create("db");
    server.put("a", r#"{"N":0}"#);
    let token = token(&server);
    // Long texts are compressed, so this one contains no repetitions.
    let words = (0..12_000u32).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9)));
    let filler: String = words.collect();
    for n in 0..400 {
        server.put(&format!("d/{n}"), &format!(r#"{{"F":"{filler}"}}"#));
    }
    assert!(refusal(&server, &token).contains("retained too much"));
    assert_eq!(server.document("d/399")["F"], filler);
}
