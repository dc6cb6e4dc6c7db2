//! Single documents, loads and lists.

use std::io::Read as _;

use platform::Platform;
use serde_json::{Value, json};

use crate::test_server::TestServer;

#[test]
fn a_document_is_stored_loaded_and_deleted() {
    let server = TestServer::with_database();
    let reply = server.send(
        "PUT",
        "/databases/db/docs?id=users/1",
        br#"{"Name":"a","@metadata":{"@collection":"Users"}}"#,
    );
    assert_eq!(reply.status, 201);
    let stored = reply.json();
    assert_eq!(stored["Id"], "users/1");
    let version = stored["ChangeVector"].as_str().unwrap();
    assert!(version.starts_with("A:1-"));

    let reply = server.get("/databases/DB/docs?&id=USERS%2F1");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("ETag"), Some(format!("\"{version}\"").as_str()));
    assert_eq!(reply.header("Content-Type"), Some("application/json; charset=utf-8"));
    assert_eq!(reply.header("Raven-Server-Version"), Some("5.4.207.54178"));
    assert_eq!(reply.header("Database-Cluster-Tx-Id").map(str::len), Some(22));
    let json = reply.json();
    assert_eq!(json["Includes"], json!({}));
    let document = &json["Results"][0];
    assert_eq!(document["Name"], "a");
    assert_eq!(document["@metadata"]["@id"], "users/1");
    assert_eq!(document["@metadata"]["@change-vector"], version);
    assert_eq!(document["@metadata"]["@last-modified"].as_str().unwrap().len(), 28);

    let reply = server.send("DELETE", "/databases/db/docs?id=users/1", b"");
    assert_eq!((reply.status, reply.body.len()), (204, 0));
    let reply = server.get("/databases/db/docs?id=users/1");
    assert_eq!((reply.status, reply.body.len()), (404, 0));
    assert_eq!(server.send("DELETE", "/databases/db/docs?id=users/1", b"").status, 204);
}

#[test]
fn conditional_requests_return_no_body_when_unchanged() {
    let server = TestServer::with_database();
    let version = server.put("a", "{}");
    let known = format!("\"{version}\"");
    let table = [
        ("GET", "/databases/db/docs?id=a", known.as_str(), 304),
        ("HEAD", "/databases/db/docs?id=a", known.as_str(), 304),
        ("HEAD", "/databases/db/docs?id=a", "\"A:9-x\"", 200),
        ("HEAD", "/databases/db/docs?id=b", known.as_str(), 404),
        ("GET", "/databases/db/docs?start=0", known.as_str(), 304),
        ("GET", "/databases/db/docs?startsWith=a", "\"A:9-x\"", 200),
    ];
    for (method, target, etag, status) in table {
        let reply = server.send_with(method, target, &[("If-None-Match", etag)], b"");
        assert_eq!(reply.status, status, "{method} {target}");
    }
    let several = server.get("/databases/db/docs?id=a&id=b");
    let etag = several.header("etag").unwrap();
    assert!(etag.starts_with("\"Hash-") && etag.len() == 51, "{etag}");
    let again = [("If-None-Match", etag)];
    assert_eq!(server.send_with("GET", "/databases/db/docs?id=a&id=b", &again, b"").status, 304);
    server.put("b", "{}");
    assert_eq!(server.send_with("GET", "/databases/db/docs?id=a&id=b", &again, b"").status, 200);
}

#[test]
fn a_write_at_another_version_returns_a_conflict_with_its_three_properties() {
    let server = TestServer::with_database();
    let version = server.put("u/1", "{}");
    let put = |id: &str, expected: &str| {
        let target = format!("/databases/db/docs?id={id}");
        server.send_with("PUT", &target, &[("If-Match", expected)], b"{}")
    };
    let table = [
        ("u/1", "\"A:9-x\"", "A:9-x", Some(version.as_str())),
        ("u/1", "\"\"", "", Some(version.as_str())),
        ("nope", "\"A:9-x\"", "A:9-x", None),
    ];
    for (id, expected, shown, actual) in table {
        let reply = put(id, expected);
        assert_eq!(reply.status, 409, "{}", reply.text());
        let error = reply.json();
        assert_eq!(error["Type"], "Raven.Client.Exceptions.ConcurrencyException");
        assert_eq!(error["Id"], id);
        assert_eq!(error["ExpectedChangeVector"], shown);
        assert_eq!(error["ActualChangeVector"], json!(actual));
        let message = error["Message"].as_str().unwrap();
        let details = error["Error"].as_str().unwrap();
        assert!(details.contains(message) && details.contains("What to do: "), "{details}");
    }
    assert_eq!(put("u/1", &format!("\"{version}\"")).status, 201);
    assert_eq!(put("new", "\"\"").status, 201);
}

#[test]
fn the_server_generates_ids() {
    let server = TestServer::with_database();
    let id = |requested: &str| {
        let target = format!("/databases/db/docs?id={requested}");
        server.send("PUT", &target, b"{}").json()["Id"].as_str().unwrap().to_owned()
    };
    assert_eq!(id("plain"), "plain");
    assert_eq!(id("orders/"), "orders/0000000000000000002-A");
    assert_eq!(id("invoices%7C"), "invoices/1");
    assert_eq!(id("invoices|"), "invoices/2");
    assert_eq!(id("%20").len(), 36);
}

#[test]
fn several_documents_are_returned_in_request_order_with_null_for_missing_ones() {
    let server = TestServer::with_database();
    server.put("a", "{\"n\":1}");
    server.put("b", "{\"n\":2}");
    let by_query = server.get("/databases/db/docs?id=b&id=nope&id=a&id=b");
    assert_eq!(by_query.ids(), ["b", "", "a", "b"]);
    let by_body = server.send("POST", "/databases/db/docs", br#"{"Ids":["b","nope","a","b"]}"#);
    assert_eq!(by_body.body, by_query.body);
    assert_eq!(by_body.header("etag"), by_query.header("etag"));
    let metadata = server.get("/databases/db/docs?id=a&metadataOnly=true").json();
    assert_eq!(
        metadata["Results"][0].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["@metadata"]
    );
    let none = server.send("POST", "/databases/db/docs", br#"{"Ids":[]}"#);
    assert_eq!((none.status, none.text().as_str()), (200, r#"{"Results":[],"Includes":{}}"#));
    assert_eq!(server.send("POST", "/databases/db/docs", br#"{"Ids":["nope"]}"#).status, 404);
}

#[test]
fn included_documents_are_returned_once_and_not_when_requested_directly() {
    let server = TestServer::with_database();
    server.put(
        "o/1",
        r#"{"C":"c/1","L":[{"P":"p/1"},{"P":"p/2"},{"P":"p/1"},{"P":"nope"}],"T":["p/1"],"N":7}"#,
    );
    for id in ["c/1", "p/1", "p/2", "n/7"] {
        server.put(id, "{}");
    }
    let table: &[(&str, &[&str])] = &[
        ("include=C", &["c/1"]),
        ("include=L[].P", &["p/1", "p/2"]),
        ("include=L.P", &["p/1", "p/2"]),
        ("include=T&include=C", &["p/1", "c/1"]),
        ("include=N(n/)", &["n/7"]),
        ("include=C&id=c/1", &[]),
        ("include=Nope", &[]),
    ];
    for (query, expected) in table {
        let json = server.get(&format!("/databases/db/docs?id=o/1&{query}")).json();
        let includes = json["Includes"].as_object().unwrap();
        assert_eq!(includes.keys().collect::<Vec<_>>(), *expected, "{query}");
    }
}

#[test]
fn lists_are_paged_in_their_order() {
    let server = TestServer::with_database();
    for id in ["users/3", "users/1", "Users/2", "orders/1", "users/10"] {
        server.put(id, "{}");
    }
    let table: &[(&str, &[&str])] = &[
        ("", &["users/10", "orders/1", "Users/2", "users/1", "users/3"]),
        ("start=1&pageSize=2", &["orders/1", "Users/2"]),
        ("pageSize=-1", &[]),
        ("start=-1", &[]),
        ("etag=4", &["orders/1", "users/10"]),
        ("startsWith=users/", &["users/1", "users/10", "Users/2", "users/3"]),
        ("startsWith=USERS/&start=1&pageSize=2", &["users/10", "Users/2"]),
        ("startsWith=users/&startAfter=users/10", &["Users/2", "users/3"]),
        ("startsWith=users/&matches=1*|3", &["users/1", "users/10", "users/3"]),
        ("startsWith=users/&matches=?&exclude=2", &["users/1", "users/3"]),
        ("startsWith=nope", &[]),
    ];
    for (query, expected) in table {
        let reply = server.get(&format!("/databases/db/docs?{query}"));
        assert_eq!(reply.ids(), *expected, "{query}");
        assert!(reply.header("etag").unwrap().starts_with("\"A:5-"), "{query}");
    }
}

#[test]
fn a_streamed_list_equals_a_buffered_one() {
    let server = TestServer::with_database();
    let filler = "x".repeat(1000);
    for batch in 0..4 {
        let commands: Vec<String> = (0..100)
            .map(|n| {
                let id = batch * 100 + n;
                format!(r#"{{"Type":"PUT","Id":"d/{id:04}","Document":{{"f":"{filler}"}}}}"#)
            })
            .collect();
        assert_eq!(server.batch(&commands.join(",")).status, 201);
    }
    let expected: Vec<String> = (0..400).map(|n| format!("d/{n:04}")).collect();
    let streamed = server.get("/databases/db/docs?startsWith=d/");
    assert!(streamed.header("transfer-encoding").is_some());
    assert_eq!(streamed.ids(), expected);
    let gzip = server.send_with(
        "GET",
        "/databases/db/docs?startsWith=d/",
        &[("Accept-Encoding", "gzip")],
        b"",
    );
    assert_eq!(gzip.header("content-encoding"), Some("gzip"));
    let mut plain = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(&gzip.body[..]);
    decoder.read_to_end(&mut plain).unwrap();
    assert_eq!(plain, streamed.body);
    let lines = server.get("/databases/db/streams/docs?startsWith=d/&format=jsonl").text();
    assert_eq!(lines.split("\r\n").filter(|line| !line.is_empty()).count(), 400);
    let pages: Vec<String> = (0..400)
        .step_by(150)
        .flat_map(|start| {
            let page = format!("/databases/db/docs?startsWith=d/&start={start}&pageSize=150");
            server.get(&page).ids()
        })
        .collect();
    assert_eq!(pages, expected);
}

#[test]
fn responses_are_compressed_as_negotiated_unless_that_saves_nothing() {
    let server = TestServer::with_database();
    server.put("a", r#"{"t":"a short document"}"#);
    let plain = server.get("/databases/db/docs?id=a").body;
    for (accepted, expected) in
        [("gzip, deflate", "gzip"), ("deflate", "deflate"), ("zstd, gzip;q=0.5", "zstd")]
    {
        let headers = [("Accept-Encoding", accepted)];
        let reply = server.send_with("GET", "/databases/db/docs?id=a", &headers, b"");
        assert_eq!(reply.header("content-encoding"), Some(expected));
        assert_eq!(reply.header("vary"), Some("Accept-Encoding"));
        let mut decoded = Vec::new();
        let body = &reply.body[..];
        match expected {
            "gzip" => flate2::read::GzDecoder::new(body).read_to_end(&mut decoded),
            "deflate" => flate2::read::DeflateDecoder::new(body).read_to_end(&mut decoded),
            _ => zstd::stream::read::Decoder::new(body).unwrap().read_to_end(&mut decoded),
        }
        .unwrap();
        assert_eq!(decoded, plain, "{accepted}");
        let tiny = server.send_with("GET", "/build/version", &headers, b"");
        assert_eq!(tiny.header("content-encoding"), None);
    }
}

#[test]
fn hilo_ranges_and_identities_grow() {
    let server = TestServer::with_database();
    let next = |query: &str| {
        let reply = server.get(&format!("/databases/db/hilo/next?tag=users{query}"));
        assert_eq!(reply.status, 201, "{}", reply.text());
        let range = reply.json();
        assert_eq!(range["ServerTag"], "A");
        (range["Prefix"].clone(), range["Low"].clone(), range["High"].clone())
    };
    assert_eq!(next("&lastBatchSize=0&lastMax=0"), (json!("users/"), json!(1), json!(32)));
    assert_eq!(next("&lastRangeAt=&identityPartsSeparator=-").1, 33);
    let back = server.send("PUT", "/databases/db/hilo/return?tag=users&end=64&last=40", b"");
    assert_eq!(back.status, 204);
    assert_eq!(next("").1, 41);
    let last = format!("/databases/db/hilo/next?tag=users&lastBatchSize=10&lastMax={}", i64::MAX);
    let refused = server.get(&last);
    assert_eq!(refused.status, 500);
    let reason = "No range of numbers after 9223372036854775807 can be assigned to 'users'";
    assert!(refused.text().contains(reason), "{}", refused.text());
    assert_eq!(next("").1, 73);

    let post = |target: &str| server.send("POST", target, b"").json();
    assert_eq!(post("/databases/db/identity/next?name=i"), json!({"NewIdentityValue": 1}));
    assert_eq!(post("/databases/db/identity/seed?name=i|&value=7"), json!({"NewSeedValue": 7}));
    assert_eq!(post("/databases/db/identity/seed?name=i&value=3"), json!({"NewSeedValue": 7}));
    let last = format!("/databases/db/identity/seed?name=i&value={}", i64::MAX);
    let refused = server.send("POST", &last, b"");
    assert_eq!(refused.status, 500);
    assert!(refused.text().contains("the limit is 4611686018427387903"), "{}", refused.text());
    let forced = "/databases/db/identity/seed?name=i&value=3&force=true";
    assert_eq!(post(forced), json!({"NewSeedValue": 3}));
    assert_eq!(server.get("/databases/db/debug/identities").json(), json!({"i|": 3}));
}

#[test]
fn statistics_count_existing_documents() {
    let server = TestServer::with_database();
    server.put("users/1", r#"{"@metadata":{"@collection":"Users"}}"#);
    server.put("x", "{}");
    server.send("DELETE", "/databases/db/docs?id=x", b"");
    let stats = server.get("/databases/db/stats").json();
    assert_eq!(stats["CountOfDocuments"], 1);
    assert_eq!(stats["CountOfTombstones"], 1);
    assert_eq!(stats["LastDocEtag"], 1);
    assert_eq!(stats["LastDatabaseEtag"], 3);
    assert_eq!(stats["DatabaseId"].as_str().unwrap().len(), 22);
    assert_eq!(stats["@metadata"]["NodeTag"], "A");
    let collections = server.get("/databases/db/collections/stats").json();
    assert_eq!(collections["Collections"], json!({"Users": 1, "@empty": 0}));
    let documents = server.get("/databases/db/collections/docs?name=users");
    assert_eq!(documents.ids(), ["users/1"]);
    assert_eq!(server.get("/databases/db/collections/docs?name=Nope").json()["Results"], json!([]));
    let size = server.get("/databases/db/docs/size?id=users/1").json();
    assert_eq!(size["DocId"], "users/1");
    assert!(size["ActualSize"].as_u64().unwrap() > 0);
    let io = server.get("/databases/db/debug/io-metrics").json();
    let files = io["Environments"][0]["Files"].as_array().unwrap();
    let has_bytes = |operation: &Value| operation["Size"].as_u64() > Some(0);
    let was_written = |file: &Value| file["Recent"].as_array().unwrap().iter().any(has_bytes);
    assert!(files.iter().any(was_written), "{io}");
}

#[test]
fn a_load_of_many_large_documents_is_streamed_and_one_of_too_many_ids_is_refused() {
    let server = TestServer::with_database();
    server.put("big", &format!("{{\"t\":\"{}\",\"r\":\"other\"}}", "x".repeat(1 << 20)));
    server.put("other", r#"{"n":1}"#);
    let load = |ids: &[&str]| {
        let body = json!({"Ids": ids}).to_string();
        server.send("POST", "/databases/db/docs?include=r", body.as_bytes())
    };
    let mut ids = vec!["big"; 8];
    ids.insert(4, "missing");
    let reply = load(&ids);
    assert_eq!(reply.header("content-length"), None);
    let expected: Vec<&str> = ids.iter().map(|id| if *id == "big" { "big" } else { "" }).collect();
    assert_eq!(reply.ids(), expected);
    assert_eq!(reply.json()["Includes"]["other"]["n"], 1);
    assert!(reply.header("etag").is_some());
    let refused = load(&vec!["x"; (1 << 17) + 1]);
    assert_eq!(refused.json()["Type"], "System.ArgumentException");
    assert_eq!(load(&vec!["x"; 1 << 17]).json()["Results"].as_array().unwrap().len(), 1 << 17);
}

#[test]
fn large_documents_are_reported_when_they_are_used() {
    let setting = "--PerformanceHints.Documents.HugeDocumentSizeInMb=1";
    let server = TestServer::start(Platform::memory(), &[setting]);
    server.create("db");
    let document = |bytes: usize| format!(r#"{{"A":[{}7]}}"#, "123456,".repeat(bytes / 5));
    server.put("small", &document(1_000));
    server.put("large", &document(2_000_000));
    server.put("larger", &document(3_000_000));
    let noted = || {
        let answer = server.get("/databases/db/debug/documents/huge").json();
        let rows = answer["Results"].as_array().unwrap().clone();
        let ids = rows.iter().map(|row| row["Id"].as_str().unwrap().to_owned());
        assert!(rows.iter().all(|row| row["Size"].as_u64().unwrap() > 2_000_000));
        ids.collect::<Vec<_>>()
    };
    assert_eq!(noted(), ["larger", "large"]);
    server.get("/databases/db/docs?id=LARGE&id=small");
    assert_eq!(noted(), ["larger", "large"]);
}

#[test]
fn a_document_much_longer_as_text_than_as_stored_is_sent_in_chunks() {
    let server = TestServer::with_database();
    let text = "a \"quoted\" word, ü; ".repeat(20_000);
    let many: Vec<_> = (0..20).map(|_| text.clone()).collect();
    let document = serde_json::json!({"Many": many, "Nested": {"Text": text, "N": [1, null]}});
    let put = server.send("PUT", "/databases/db/docs?id=large/1", document.to_string().as_bytes());
    assert_eq!(put.status, 201, "{}", put.text());
    let targets = [
        "/databases/db/docs?id=large/1",
        "/databases/db/docs?startsWith=large",
        "/databases/db/docs?id=small/1&include=To",
        "/databases/db/streams/docs?startsWith=large",
    ];
    server.put("small/1", r#"{"To":"large/1"}"#);
    for target in targets {
        let answer = server.get(target).json();
        let found = match &answer["Includes"]["large/1"] {
            Value::Null => &answer["Results"][0],
            included => included,
        };
        assert_eq!(found["Many"], document["Many"], "{target}");
        assert_eq!(found["Nested"], document["Nested"], "{target}");
        assert_eq!(found["@metadata"]["@id"], "large/1", "{target}");
    }
}
