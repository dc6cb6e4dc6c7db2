//! Indexes that read compare exchange values: their results, that they are updated when values
//! change, and what they report.

use std::collections::BTreeSet;

use platform::Platform;
use serde_json::{Value, json};

use crate::{resources::wait_until, test_server::TestServer};

fn put_value(server: &TestServer, key: &str, body: &Value) -> u64 {
    let found = server.get(&format!("/databases/db/cmpxchg?key={key}"));
    let index = match found.status {
        200 => found.json()["Results"][0]["Index"].clone(),
        _ => json!(0),
    };
    let target = format!("/databases/db/cmpxchg?key={key}&index={index}");
    let reply = server.send("PUT", &target, body.to_string().as_bytes());
    assert_eq!(reply.json()["Successful"], true, "{}", reply.text());
    reply.json()["Index"].as_u64().unwrap()
}

fn delete_value(server: &TestServer, key: &str, index: u64) {
    let target = format!("/databases/db/cmpxchg?key={key}&index={index}");
    let reply = server.send("DELETE", &target, b"");
    assert_eq!(reply.json()["Successful"], true, "{}", reply.text());
}

pub(crate) fn define(server: &TestServer, name: &str, map: &str, reduce: Option<&str>) {
    let index = json!({ "Name": name, "Maps": [map], "Reduce": reduce });
    let body = json!({ "Indexes": [index] }).to_string();
    let reply = server.send("PUT", "/databases/db/admin/indexes", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
}

fn ask(server: &TestServer, query: &str) -> Value {
    let body = json!({ "Query": query, "WaitForNonStaleResults": true }).to_string();
    let reply = server.send("POST", "/databases/db/queries", body.as_bytes());
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    let answer = reply.json();
    assert_eq!(answer["IsStale"], false, "{query}");
    answer
}

pub(crate) fn terms(server: &TestServer, index: &str, field: &str) -> Vec<String> {
    ask(server, &format!("from index '{index}' limit 0"));
    let target = format!("/databases/db/indexes/terms?name={index}&field={field}&pageSize=99");
    let terms = server.get(&target).json()["Terms"].clone();
    let terms = terms.as_array().unwrap().iter().map(|term| term.as_str().unwrap().to_owned());
    terms.collect()
}

pub(crate) fn errors(server: &TestServer, index: &str) -> Vec<String> {
    let reply = server.get(&format!("/databases/db/indexes/errors?name={index}")).json();
    let errors = reply["Results"][0]["Errors"].as_array().unwrap().clone();
    let texts = errors.iter().map(|error| error["Error"].as_str().unwrap().to_owned());
    let texts: BTreeSet<String> = texts.collect();
    texts.into_iter().collect()
}

fn get(server: &TestServer, target: &str) -> Value {
    let reply = server.get(&format!("/databases/db/{target}"));
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    reply.json()
}

fn fill(server: &TestServer) {
    for (id, document) in [
        ("u/1", json!({ "Name": "a", "K": "k1", "Ks": ["k1", "str"] })),
        ("u/2", json!({ "Name": "b", "K": "OBJ", "Ks": ["obj", "missing"] })),
        ("u/3", json!({ "Name": "c", "K": "missing", "Ks": [] })),
        ("u/4", json!({ "Name": "d", "K": null })),
        ("u/5", json!({ "Name": "e", "K": "list" })),
        ("u/6", json!({ "Name": "f", "K": "nothing" })),
    ] {
        let mut document = document;
        document["@metadata"] = json!({ "@collection": "Us" });
        server.put(id, &document.to_string());
    }
    put_value(server, "k1", &json!({ "Object": 5 }));
    put_value(server, "Str", &json!({ "Object": "Abc" }));
    put_value(server, "obj", &json!({ "Object": { "A": 1, "In": { "B": "x" } } }));
    put_value(server, "list", &json!({ "Object": [1, 7] }));
    put_value(server, "nul", &json!({ "Object": null }));
    put_value(server, "nothing", &json!({ "Other": 1 }));
}

#[test]
fn maps_find_the_same_values_as_ravendb() {
    let server = TestServer::with_database();
    fill(&server);
    let object = r#"{"A":1,"In":{"B":"x"}}"#;
    define(
        &server,
        "One",
        "from u in docs.Us select new { V = LoadCompareExchangeValue(u.K) }",
        None,
    );
    assert_eq!(terms(&server, "One", "V"), ["1", "5", "7", object]);
    define(
        &server,
        "Many",
        "from u in docs.Us from v in LoadCompareExchangeValue(u.Ks) select new { V = v }",
        None,
    );
    assert_eq!(terms(&server, "Many", "V"), ["5", "abc", object]);
    define(&server, "Script", "map('Us', u => ({ V: cmpxchg(u.K) }))", None);
    assert_eq!(terms(&server, "Script", "V"), ["1", "5", "7", object]);
    define(
        &server,
        "Scripts",
        "map('Us', u => ({ V: cmpxchg(u.Ks || []), B: cmpxchg('obj').In.B, N: cmpxchg('nul'), \
         M: cmpxchg('missing'), O: cmpxchg('nothing') }))",
        None,
    );
    // Missing values are omitted, also within a list.
    assert_eq!(terms(&server, "Scripts", "V"), ["5", "abc", object]);
    assert_eq!(terms(&server, "Scripts", "B"), ["x"]);
    assert_eq!(terms(&server, "Scripts", "N"), ["NULL_VALUE"]);
    assert_eq!(terms(&server, "Scripts", "M"), [""; 0]);
    assert_eq!(terms(&server, "Scripts", "O"), [""; 0]);
    define(
        &server,
        "Grouped",
        "map('Us', u => ({ V: cmpxchg('K1'), Count: 1 }))",
        Some(
            "groupBy(r => r.V).aggregate(g => ({ V: g.key, \
             Count: g.values.reduce((a, b) => a + b.Count, 0) }))",
        ),
    );
    let rows = ask(&server, "from index 'Grouped'")["Results"].clone();
    assert_eq!((&rows[0]["V"], &rows[0]["Count"]), (&json!(5), &json!(6)));
    server.stop();
}

#[test]
fn invalid_keys_fail_their_documents() {
    let server = TestServer::with_database();
    for number in 0..10 {
        let key = if number == 3 { json!(5) } else { json!("k") };
        let document = json!({ "K": key, "@metadata": { "@collection": "Us" } });
        server.put(&format!("u/{number}"), &document.to_string());
    }
    let linq = "from u in docs.Us select new { V = LoadCompareExchangeValue(u.K) }";
    define(&server, "Linq", linq, None);
    define(&server, "Script", "map('Us', u => ({ V: cmpxchg(u.K) }))", None);
    for (index, expected) in [
        ("Linq", "LoadCompareExchangeValue may only be called with a string or an enumerable"),
        ("Script", "Argument '5' was of type 'number', but either string or array of strings"),
    ] {
        ask(&server, &format!("from index '{index}' limit 0"));
        let errors = errors(&server, index);
        assert!(errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
    }
    server.stop();
}

#[test]
fn an_index_is_updated_when_its_values_change() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    fill(&server);
    define(
        &server,
        "I",
        "from u in docs.Us select new { V = LoadCompareExchangeValue(u.K), u.Name }",
        None,
    );
    let found = |server: &TestServer, value: &str| {
        let answer = ask(server, &format!("from index 'I' where V = '{value}' select Name"));
        let rows = answer["Results"].as_array().unwrap().clone();
        rows.iter().map(|row| row["Name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&server, "5"), ["a"]);
    let index = put_value(&server, "K1", &json!({ "Object": "six" }));
    assert_eq!(found(&server, "six"), ["a"]);
    assert_eq!(found(&server, "5"), [""; 0]);
    delete_value(&server, "k1", index);
    assert_eq!(found(&server, "six"), [""; 0]);
    put_value(&server, "missing", &json!({ "Object": "found" }));
    assert_eq!(found(&server, "found"), ["c"]);
    let etag = |query: &str| ask(&server, query)["ResultEtag"].clone();
    let before = etag("from index 'I' where V = 'found'");
    put_value(&server, "nobody/looks", &json!({ "Object": 1 }));
    put_value(&server, "missing", &json!({ "Object": "gone" }));
    assert_ne!(etag("from index 'I' where V = 'found'"), before);
    server.stop();
    let server = TestServer::start(platform, &[]);
    put_value(&server, "missing", &json!({ "Object": "after" }));
    assert_eq!(found(&server, "after"), ["c"]);
    server.stop();
}

#[test]
fn an_index_behind_compare_exchange_values_is_stale() {
    let server = TestServer::with_database();
    fill(&server);
    define(
        &server,
        "I",
        "from u in docs.Us select new { V = LoadCompareExchangeValue(u.K) }",
        None,
    );
    define(&server, "Other", "from u in docs.Us select new { u.Name }", None);
    ask(&server, "from index 'I' limit 0");
    ask(&server, "from index 'Other' limit 0");
    let seen = put_value(&server, "k1", &json!({ "Object": 6 }));
    ask(&server, "from index 'I' limit 0");
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop?name=I", b"").status, 204);
    let last = put_value(&server, "nobody/looks", &json!({ "Object": 6 }));
    let stale = get(&server, "indexes/staleness?name=I");
    let reason = format!(
        "There are still some compare exchange references to process for collection 'Us'. The last \
         compare exchange etag is '{last}', but last processed compare exchange etag for that collection \
         is '{seen}'."
    );
    assert_eq!(stale, json!({ "IsStale": true, "StalenessReasons": [reason] }));
    assert_eq!(get(&server, "indexes/staleness?name=Other")["IsStale"], false);
    assert_eq!(get(&server, "indexes/progress")["Results"][0]["Name"], "I");
    let body = json!({ "Query": "from index 'I'" }).to_string();
    let answer = server.send("POST", "/databases/db/queries", body.as_bytes()).json();
    assert_eq!(answer["IsStale"], true);
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/start?name=I", b"").status, 204);
    ask(&server, "from index 'I' limit 0");
    assert_eq!(get(&server, "indexes/staleness?name=I")["IsStale"], false);
    let metadata = get(&server, "indexes/debug/metadata");
    for index in metadata["Results"].as_array().unwrap() {
        assert_eq!(index["HasCompareExchange"], index["Name"] == "I", "{index}");
    }
    server.stop();
}

#[test]
fn a_definition_is_tested_with_values() {
    let server = TestServer::with_database();
    fill(&server);
    let map = "from u in docs.Us select new { V = LoadCompareExchangeValue(u.K) }";
    let body = json!({ "Definition": { "Name": "T", "Maps": [map] }, "Ids": ["u/1"] });
    let reply = server.send("POST", "/databases/db/indexes/try", body.to_string().as_bytes());
    assert_eq!(reply.text(), r#"{"MapResults":["{\"V\":5}"]}"#);
    server.stop();
}

#[test]
fn the_tombstone_of_a_value_is_kept_until_every_index_has_read_it() {
    let soon = ["--Databases.FrequencyToCheckForIdleInSec=1"];
    let server = TestServer::start(Platform::memory(), &soon);
    server.create("db");
    fill(&server);
    let remembered = || get(&server, "stats/detailed")["CountOfCompareExchangeTombstones"].clone();
    let delete = |key: &str| {
        let found = get(&server, &format!("cmpxchg?key={key}"));
        delete_value(&server, key, found["Results"][0]["Index"].as_u64().unwrap());
    };
    delete("list");
    wait_until(|| remembered() == 0);
    let map = "from u in docs.Us select new { V = LoadCompareExchangeValue(u.K) }";
    define(&server, "I", map, None);
    assert_eq!(terms(&server, "I", "V").len(), 2);
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop?name=I", b"").status, 204);
    delete("k1");
    // A cleanup round is over when the tombstone of another database is removed.
    server.create("other");
    let put = |key: &str| {
        let target = format!("/databases/other/cmpxchg?key={key}&index=0");
        server.send("PUT", &target, br#"{"Object":1}"#).json()["Index"].as_u64().unwrap()
    };
    let index = put("a");
    let target = format!("/databases/other/cmpxchg?key=a&index={index}");
    assert_eq!(server.send("DELETE", &target, b"").json()["Successful"], true);
    let of_other = || server.get("/databases/other/stats/detailed").json();
    wait_until(|| of_other()["CountOfCompareExchangeTombstones"] == 0);
    assert_eq!(remembered(), 1, "the index has not seen it");
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/start?name=I", b"").status, 204);
    assert_eq!(terms(&server, "I", "V").len(), 1);
    wait_until(|| remembered() == 0);
    server.stop();
}
