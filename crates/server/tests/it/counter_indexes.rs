//! Indexes of counters: their entries, and that they are updated by every change.

use serde_json::{Value, json};

use crate::{
    indexed_rows::{define, rows},
    test_server::TestServer,
};

fn server() -> TestServer {
    let server = TestServer::with_database();
    server.put("u/1", r#"{"Name":"a","@metadata":{"@collection":"Us"}}"#);
    server.put("U/2", r#"{"Name":"b","@metadata":{"@collection":"Us"}}"#);
    server.put("o/1", r#"{"Name":"c","@metadata":{"@collection":"Os"}}"#);
    count(&server, "u/1", &[("likes", 5), ("Views", 1)]);
    count(&server, "u/2", &[("Likes", 2)]);
    count(&server, "o/1", &[("likes", 100)]);
    server
}

fn send(server: &TestServer, id: &str, operations: Vec<Value>) {
    let body = json!({ "Documents": [{ "DocumentId": id, "Operations": operations }] });
    let reply = server.send("POST", "/databases/db/counters", body.to_string().as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn count(server: &TestServer, id: &str, counters: &[(&str, i64)]) {
    let operations = counters
        .iter()
        .map(|(name, by)| json!({ "Type": "Increment", "CounterName": name, "Delta": by }));
    send(server, id, operations.collect());
}

fn remove(server: &TestServer, id: &str, name: &str) {
    send(server, id, vec![json!({ "Type": "Delete", "CounterName": name })]);
}

#[test]
fn counters_are_mapped_by_collection_and_name_in_both_languages() {
    let server = server();
    let maps = [
        ("One", "counters.Us.likes.Select(c => new { c.Value, c.Name, c.DocumentId })"),
        ("Two", "from c in counters.Us select new { c.Value, c.Name, c.DocumentId }"),
        ("All", "from c in counters select new { c.Value, c.Name, c.DocumentId }"),
        (
            "Js",
            "counters.map('Us', 'LIKES', c => ({ Value: c.Value, Name: c.Name, DocumentId: c.DocumentId }))",
        ),
        (
            "JsAll",
            "counters.map('Us', c => ({ Value: c.Value, Name: c.Name, DocumentId: c.DocumentId }))",
        ),
    ];
    for (name, map) in maps {
        define(&server, name, map, None);
    }
    let row = |id: &str, name: &str, value: i64| {
        json!({ "DocumentId": id, "Name": name, "Value": value }).to_string()
    };
    let likes = [row("u/1", "likes", 5), row("u/2", "Likes", 2)];
    let of_users = [row("u/1", "Views", 1), row("u/1", "likes", 5), row("u/2", "Likes", 2)];
    let all = [
        row("o/1", "likes", 100),
        row("u/1", "Views", 1),
        row("u/1", "likes", 5),
        row("u/2", "Likes", 2),
    ];
    assert_eq!(rows(&server, "from index One"), likes);
    assert_eq!(rows(&server, "from index Two"), of_users);
    assert_eq!(rows(&server, "from index All"), all);
    assert_eq!(rows(&server, "from index Js"), likes);
    assert_eq!(rows(&server, "from index JsAll"), of_users);
    assert_eq!(rows(&server, "from index Two where Value > 1 and Name = 'likes'"), likes);
    assert_eq!(
        rows(&server, "from index Two where Value = 1 select Name"),
        [r#"{"Name":"Views"}"#]
    );
    let stats = server.get("/databases/db/indexes/stats?name=One").json()["Results"][0].clone();
    assert_eq!((&stats["SourceType"], &stats["EntriesCount"]), (&json!("Counters"), &json!(2)));
    let shown = server.get("/databases/db/indexes?name=Js").json()["Results"][0].clone();
    assert_eq!(
        (&shown["SourceType"], &shown["Type"]),
        (&json!("Counters"), &json!("JavaScriptMap"))
    );
}

#[test]
fn an_index_is_updated_by_changes_of_its_counters_only() {
    let server = server();
    define(&server, "Cs", "from c in counters.Us select new { c.Name, c.Value }", None);
    let values = || rows(&server, "from index Cs");
    assert_eq!(values().len(), 3);
    count(&server, "u/1", &[("LIKES", 2)]);
    assert_eq!(
        values(),
        [
            r#"{"Name":"Likes","Value":2}"#,
            r#"{"Name":"Views","Value":1}"#,
            r#"{"Name":"likes","Value":7}"#
        ]
    );
    remove(&server, "u/1", "likes");
    assert_eq!(values(), [r#"{"Name":"Likes","Value":2}"#, r#"{"Name":"Views","Value":1}"#]);
    count(&server, "u/1", &[("likes", 1)]);
    server.send("DELETE", "/databases/db/docs?id=u/2", b"");
    assert_eq!(values(), [r#"{"Name":"Views","Value":1}"#, r#"{"Name":"likes","Value":1}"#]);
    let mapped = || {
        let stats = server.get("/databases/db/indexes/stats?name=Cs").json();
        stats["Results"][0]["MapAttempts"].as_u64().unwrap()
    };
    let before = mapped();
    count(&server, "o/1", &[("likes", 1)]);
    server.put("u/1", r#"{"Name":"z","@metadata":{"@collection":"Us"}}"#);
    assert_eq!(values().len(), 2);
    assert_eq!(mapped(), before, "documents and other collections do not affect it");
}

#[test]
fn counters_are_reduced() {
    let server = server();
    let map = "from c in counters.Us select new { Name = c.Name.ToLower(), Count = 1, c.Value }";
    let reduce = "from r in results group r by r.Name into g select new { Name = g.Key, Count = \
                  g.Sum(x => x.Count), Value = g.Sum(x => x.Value) }";
    define(&server, "Sums", map, Some(reduce));
    let js = "counters.map('Us', c => ({ Name: c.Name.toLowerCase(), Value: c.Value }))";
    let js_reduce = "groupBy(x => x.Name).aggregate(g => ({ Name: g.key, Value: \
                     g.values.reduce((sum, x) => sum + x.Value, 0) }))";
    define(&server, "JsSums", js, Some(js_reduce));
    let expected =
        [r#"{"Count":1,"Name":"views","Value":1}"#, r#"{"Count":2,"Name":"likes","Value":7}"#];
    assert_eq!(rows(&server, "from index Sums"), expected);
    let expected = [r#"{"Name":"likes","Value":7}"#, r#"{"Name":"views","Value":1}"#];
    assert_eq!(rows(&server, "from index JsSums"), expected);
    remove(&server, "u/1", "likes");
    count(&server, "u/2", &[("views", 9)]);
    let expected =
        [r#"{"Count":1,"Name":"likes","Value":2}"#, r#"{"Count":2,"Name":"views","Value":10}"#];
    assert_eq!(rows(&server, "from index Sums"), expected);
    let expected = [r#"{"Name":"likes","Value":2}"#, r#"{"Name":"views","Value":10}"#];
    assert_eq!(rows(&server, "from index JsSums"), expected);
}

#[test]
fn maps_of_counters_load_documents_and_are_updated_with_them() {
    let server = server();
    let map = "from c in counters.Us.likes let u = LoadDocument(c.DocumentId, \"Us\") \
               select new { c.Value, u.Name }";
    define(&server, "Loading", map, None);
    let values = || rows(&server, "from index Loading");
    assert_eq!(values(), [r#"{"Name":"a","Value":5}"#, r#"{"Name":"b","Value":2}"#]);
    server.put("u/1", r#"{"Name":"changed","@metadata":{"@collection":"Us"}}"#);
    assert_eq!(values(), [r#"{"Name":"b","Value":2}"#, r#"{"Name":"changed","Value":5}"#]);
    count(&server, "u/1", &[("likes", 1)]);
    assert_eq!(values(), [r#"{"Name":"b","Value":2}"#, r#"{"Name":"changed","Value":6}"#]);
}

#[test]
fn maps_of_documents_can_read_counter_names() {
    let server = server();
    define(&server, "Names", "from u in docs.Us select new { N = CounterNamesFor(u) }", None);
    define(&server, "JsNames", "map('Us', u => ({ N: counterNamesFor(u) }))", None);
    let found = |index: &str, name: &str| {
        let query = format!("from index {index} where N = '{name}'");
        let body = json!({ "Query": query, "WaitForNonStaleResults": true }).to_string();
        server.send("POST", "/databases/db/queries", body.as_bytes()).ids()
    };
    for index in ["Names", "JsNames"] {
        assert_eq!(found(index, "likes"), ["u/1", "U/2"], "{index}");
        assert_eq!(found(index, "views"), ["u/1"], "{index}");
    }
    remove(&server, "u/1", "likes");
    for index in ["Names", "JsNames"] {
        assert_eq!(found(index, "likes"), ["U/2"], "{index}");
    }
    define(&server, "Joined", "map('Us', u => ({ N: counterNamesFor(u).join('|') }))", None);
    server.put("u/none", r#"{"@metadata":{"@collection":"Us"}}"#);
    assert_eq!(found("Joined", ""), ["u/none"]);
}

#[test]
fn invalid_counter_indexes_are_rejected() {
    let server = server();
    let maps =
        ["from c in counters.Us select new { c.Name }", "from u in docs.Us select new { u.Name }"];
    let body = json!({ "Indexes": [{ "Name": "Mixed", "Maps": maps }] }).to_string();
    let reply = server.send("PUT", "/databases/db/admin/indexes", body.as_bytes());
    assert_eq!(
        reply.json()["Message"],
        "Index definition cannot contain Maps with different source types."
    );
    define(&server, "Cs", "from c in counters.Us select new { c.Name }", None);
    rows(&server, "from index Cs");
    let pause = |verb: &str| {
        server.send("POST", &format!("/databases/db/admin/indexes/{verb}?name=Cs"), b"");
    };
    pause("stop");
    count(&server, "u/1", &[("likes", 1)]);
    let staleness = server.get("/databases/db/indexes/staleness?name=Cs").json();
    assert_eq!(staleness["IsStale"], true);
    let reason = staleness["StalenessReasons"][0].as_str().unwrap();
    assert!(reason.contains("still some counters to process from collection 'Us'"), "{reason}");
    pause("start");
    assert_eq!(rows(&server, "from index Cs").len(), 3);
    let delete = br#"{"Query":"from index Cs"}"#;
    let operation = server.send("DELETE", "/databases/db/queries", delete).json();
    let state = format!("/databases/db/operations/state?id={}", operation["OperationId"]);
    let state = loop {
        let state = server.get(&state).json();
        if state["Status"] != "InProgress" {
            break state;
        }
        std::thread::yield_now();
    };
    assert_eq!(state["Status"], "Faulted");
}
