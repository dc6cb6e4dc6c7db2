//! Counters over HTTP: single ones, in batches and bulk inserts, included with documents.

use serde_json::{Value, json};

use crate::test_server::TestServer;

const AT: &str = "/databases/db/counters";

fn server() -> TestServer {
    let server = TestServer::with_database();
    server.put("u/1", r#"{"Name":"a","@metadata":{"@collection":"Us"}}"#);
    server
}

fn change(server: &TestServer, id: &str, operations: &Value) -> Value {
    let body = json!({ "Documents": [{ "DocumentId": id, "Operations": operations }] });
    let reply = server.send("POST", AT, body.to_string().as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["Counters"].clone()
}

fn increment(name: &str, by: i64) -> Value {
    json!({ "Type": "Increment", "CounterName": name, "Delta": by })
}

fn detail(id: &str, name: &str, total: i64) -> Value {
    json!({ "DocumentId": id, "CounterName": name, "TotalValue": total, "CounterValues": null })
}

#[test]
fn increments_and_reads_return_results_in_order_and_deletions_return_none() {
    let server = server();
    let operations = json!([
        increment("likes", 2),
        increment("LIKES", 2),
        { "Type": "Get", "CounterName": "nope" },
        { "Type": "Delete", "CounterName": "likes" },
        { "Type": "Get", "CounterName": "likes" },
        { "Type": "Put", "CounterName": "likes", "Delta": 99 },
        increment("likes", 5),
    ]);
    let expected = json!([
        detail("u/1", "likes", 2),
        detail("u/1", "LIKES", 4),
        null,
        null,
        detail("u/1", "likes", 5),
    ]);
    assert_eq!(change(&server, "u/1", &operations), expected);
    assert_eq!(server.document("u/1")["@metadata"]["@counters"], json!(["likes"]));
    assert_eq!(change(&server, "u/1", &json!([])), json!([]));
    let looks = json!([{ "Type": "Get", "CounterName": null }, { "Type": "Get" }]);
    assert_eq!(change(&server, "nobody", &looks), json!([null, null]));
}

#[test]
fn a_document_lists_its_counters_in_byte_order() {
    let server = server();
    change(&server, "u/1", &json!([increment("a", 1), increment("B", 2), increment("_x", 3)]));
    let all = server.get(&format!("{AT}?docId=u/1")).json();
    let expected = [detail("u/1", "B", 2), detail("u/1", "_x", 3), detail("u/1", "a", 1)];
    assert_eq!(all["Counters"], json!(expected));
    let some = server.get(&format!("{AT}?docId=U/1&counter=b&counter=&counter=zz&full=true"));
    let some = some.json()["Counters"].clone();
    assert_eq!((&some[1], &some[2], &some[3]), (&Value::Null, &Value::Null, &Value::Null));
    assert_eq!((&some[0]["DocumentId"], &some[0]["CounterName"]), (&json!("U/1"), &json!("b")));
    let values = some[0]["CounterValues"].as_object().unwrap();
    let (node, value) = values.iter().next().unwrap();
    assert!(node.starts_with("A-") && node.len() == 24, "{node}");
    assert_eq!((values.len(), value), (1, &json!(2)));
    assert_eq!(server.get(&format!("{AT}?docId=none")).json(), json!({ "Counters": [] }));
    assert_eq!(server.get(AT).status, 500);
    assert_eq!(server.get("/databases/db/stats").json()["CountOfCounterEntries"], 1);
}

#[test]
fn an_invalid_counter_change_fails_the_whole_batch() {
    let server = server();
    change(&server, "u/1", &json!([increment("big", i64::MAX)]));
    let send = |id: &str, operations: Value| {
        let body = json!({ "Documents": [{ "DocumentId": id, "Operations": operations }] });
        let reply = server.send("POST", AT, body.to_string().as_bytes());
        assert_eq!(reply.status, 500);
        let error = reply.json();
        format!("{} {}", error["Type"].as_str().unwrap(), error["Message"].as_str().unwrap())
    };
    assert_eq!(
        send("u/1", json!([increment("new", 1), increment("big", 1)])),
        "Raven.Client.Exceptions.Documents.Counters.CounterOverflowException Could not increment \
         counter 'big' from document 'u/1' with value '9223372036854775807' by '1'."
    );
    assert_eq!(
        send("nobody", json!([{ "Type": "Delete", "CounterName": "a" }])),
        "Raven.Client.Exceptions.Documents.DocumentDoesNotExistException Document 'nobody' does \
         not exist. Cannot operate on counters of a missing document."
    );
    let long = send("u/1", json!([increment(&"x".repeat(600), 1)]));
    assert!(
        long.starts_with("System.ArgumentException Counter name cannot exceed 512 bytes, but counter name has 600 characters."),
        "{long}"
    );
    assert!(send("u/1", json!([increment("", 1)])).contains("cannot be empty"));
    assert_eq!(server.document("u/1")["@metadata"]["@counters"], json!(["big"]));
}

#[test]
fn a_batch_returns_the_new_version_of_a_touched_document() {
    let server = server();
    let counters = |operations: Value| {
        json!({
            "Type": "Counters", "Id": "u/1",
            "Counters": { "DocumentId": "u/1", "Operations": operations }
        })
    };
    let batch = |commands: Value| {
        let body = json!({ "Commands": commands }).to_string();
        let reply = server.send("POST", "/databases/db/bulk_docs", body.as_bytes());
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()["Results"].clone()
    };
    let results = batch(json!([
        counters(json!([increment("a", 1), { "Type": "Get", "CounterName": "zz" }])),
        counters(json!([increment("a", 1)])),
    ]));
    let version = server.document("u/1")["@metadata"]["@change-vector"].clone();
    let shown = json!({ "Counters": [detail("u/1", "a", 1), null] });
    let expected = json!({
        "Id": "u/1", "ChangeVector": version, "Type": "Counters", "CountersDetail": shown,
        "DocumentChangeVector": version
    });
    assert_eq!(results[0], expected);
    assert_eq!(results[1]["DocumentChangeVector"], Value::Null);
    assert_eq!(results[1]["CountersDetail"]["Counters"][0]["TotalValue"], 2);
    let results =
        batch(json!([counters(json!([{ "Type": "Put", "CounterName": "a", "Delta": 9 }]))]));
    assert_eq!(results[0]["ChangeVector"], Value::Null);
}

#[test]
fn a_bulk_insert_increments_counters() {
    let server = server();
    let body = json!([
        { "Id": "b/1", "Type": "PUT", "Document": { "@metadata": { "@collection": "Us" } } },
        {
            "Id": "b/1", "Type": "Counters",
            "Counters": { "DocumentId": "b/1", "Operations": [increment("a", 1), increment("b", 2)] }
        }
    ]);
    let reply = server.send("POST", "/databases/db/bulk_insert?id=77", body.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(server.document("b/1")["@metadata"]["@counters"], json!(["a", "b"]));
    let state = server.get("/databases/db/operations/state?id=77").json();
    assert_eq!(
        (&state["Result"]["Total"], &state["Result"]["CountersProcessed"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(state["Result"]["DocumentsProcessed"], 1);
}

/// Two documents, of which one has counters and refers to the other.
fn server_with_counters() -> TestServer {
    let server = server();
    server.put("p/1", r#"{"N":1,"B":"U/1","@metadata":{"@collection":"Ps"}}"#);
    change(&server, "p/1", &json!([increment("likes", 3), increment("_x", 1)]));
    change(&server, "u/1", &json!([increment("likes", 5)]));
    server
}

fn query(server: &TestServer, text: &str) -> Value {
    let body =
        json!({ "Query": text, "QueryParameters": { "n": "likes", "all": ["likes", "zz"] } });
    let reply = server.send("POST", "/databases/db/queries", body.to_string().as_bytes());
    reply.json()
}

fn included(id: &str, name: &str, total: i64) -> Value {
    json!({ "DocumentId": id, "CounterName": name, "TotalValue": total })
}

#[test]
fn a_load_includes_counters_and_its_etag_changes_with_them() {
    let server = server_with_counters();
    let load = |rest: &str| server.get(&format!("/databases/db/docs?id=p/1&{rest}"));
    let some = load("counter=LIKES&counter=zz&id=none/1");
    let expected = json!({ "p/1": [included("p/1", "LIKES", 3), null] });
    assert_eq!(some.json()["CounterIncludes"], expected);
    let all = load("counter=@all_counters");
    let expected = json!({ "p/1": [included("p/1", "_x", 1), included("p/1", "likes", 3)] });
    assert_eq!(all.json()["CounterIncludes"], expected);
    assert_eq!(load("metadataOnly=true").json().get("CounterIncludes"), None);
    let before = load("counter=likes").header("etag").unwrap().to_owned();
    assert_eq!(load("counter=likes").header("etag").unwrap(), before);
    change(&server, "p/1", &json!([increment("likes", 1)]));
    assert_ne!(load("counter=likes").header("etag").unwrap(), before);
}

#[test]
fn a_query_includes_counters() {
    let server = server_with_counters();
    let likes = json!({ "p/1": [included("p/1", "likes", 3)] });
    let with_missing = json!({ "p/1": [included("p/1", "likes", 3), null] });
    let all = json!({ "p/1": [included("p/1", "_x", 1), included("p/1", "likes", 3)] });
    let related = json!({ "U/1": [included("U/1", "likes", 5)] });
    let table = [
        ("from Ps include counters('likes')", &likes, json!({ "p/1": ["likes"] })),
        ("from Ps as p include counters(p, $n)", &likes, json!({ "p/1": ["likes"] })),
        ("from Ps include counters($all)", &with_missing, json!({ "p/1": ["likes", "zz"] })),
        (
            "from Ps include counters('likes'), counters('zz')",
            &with_missing,
            json!({ "p/1": ["likes", "zz"] }),
        ),
        ("from Ps include counters()", &all, json!({ "p/1": [] })),
        ("from Ps include counters('likes'), counters()", &all, json!({ "p/1": [] })),
        ("from Ps as p include counters(p)", &all, json!({ "p/1": [] })),
        ("from Ps as p include counters(p.B, 'likes')", &related, json!({ "U/1": ["likes"] })),
        ("from Ps where N > 5 include counters('likes')", &json!({}), json!({})),
        (
            "from Ps as p select p.N include counters(p, 'likes')",
            &likes,
            json!({ "p/1": ["likes"] }),
        ),
    ];
    for (text, counters, names) in table {
        let answer = query(&server, text);
        assert_eq!(&answer["CounterIncludes"], counters, "{text}");
        assert_eq!(answer["IncludedCounterNames"], names, "{text}");
    }
    let answer = query(&server, "from Ps include counters(C, 'likes')");
    assert_eq!(
        answer["Message"],
        "Cannot include counters for related document 'C', document p/1 doesn't have a field named \
         'C'. "
    );
    let answer = query(&server, "from Ps include counters(5)");
    assert!(
        answer["Message"].as_str().unwrap().starts_with("Parameters of method `counters` must")
    );
    let etag = || query(&server, "from Ps include counters('likes')")["ResultEtag"].clone();
    let before = etag();
    change(&server, "p/1", &json!([increment("likes", 1)]));
    assert_ne!(etag(), before, "an increment does not change the document, but the result");
}

#[test]
fn a_query_projects_counter_values() {
    let server = server_with_counters();
    let selected = |text: &str| {
        let answer = query(&server, text);
        let mut row = answer["Results"][0].clone();
        match row.as_object_mut() {
            Some(members) => drop(members.remove("@metadata")),
            None => return answer["Message"].clone(),
        }
        row
    };
    let database = query(&server, "from Ps select counterRaw('likes') as r")["Results"][0]["r"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    let table = [
        ("from Ps select counter('likes')", json!({ "likes": 3 })),
        ("from Ps as p select counter(p, 'LIKES') as x, p.N", json!({ "x": 3, "N": 1 })),
        ("from Ps select counter($n)", json!({ "likes": 3 })),
        ("from Ps select counter('zz'), counterRaw('zz') as r", json!({ "zz": null, "r": {} })),
        ("from Ps select counterRaw('likes')", json!({ "likes": { database.as_str(): 3 } })),
        ("from Ps as p load p.B as b select counter(b, 'likes') as l", json!({ "l": 5 })),
        ("from Ps as p select counter(p.B, 'likes') as l", json!({ "l": 5 })),
        (
            "from Ps as p load p.B as b select { own: counter(p, 'likes'), other: counter(b, 'likes'), \
             raw: counterRaw(p, 'likes'), none: counter(p, 'zz'), id: counter('u/1', 'likes') }",
            json!({ "own": 3, "other": 5, "raw": { database.as_str(): 3 }, "none": null, "id": 5 }),
        ),
        ("from Ps where N = 1 select counter('likes')", json!({ "likes": 3 })),
    ];
    for (text, expected) in table {
        assert_eq!(selected(text), expected, "{text}");
    }
    let refused = selected("from Ps select counter()");
    assert!(refused.as_str().unwrap().contains("that takes 0 arguments"), "{refused}");
}

#[test]
fn patches_increment_and_read_counters() {
    let server = server();
    let patch = |script: &str| {
        let body = json!({ "Patch": { "Script": script } }).to_string();
        server.send("PATCH", "/databases/db/docs?id=u/1&debug=true", body.as_bytes()).json()
    };
    let answer = patch("this.A = incrementCounter(this, 'pc', 3.7); this.V = counter(this, 'pc')");
    assert_eq!(
        (&answer["ModifiedDocument"]["A"], &answer["ModifiedDocument"]["V"]),
        (&json!(true), &json!(3))
    );
    let note = json!({
        "Name": "pc", "OldValue": null, "AddedValue": 3.7, "NewValue": 3, "Created": true
    });
    assert_eq!(answer["Debug"]["Actions"]["IncrementCounter"], json!([note]));
    let note = json!({ "Name": "pc", "Value": "3", "Exists": true });
    assert_eq!(answer["Debug"]["Actions"]["GetCounter"], json!([note]));
    assert_eq!(server.document("u/1")["@metadata"]["@counters"], json!(["pc"]));
    assert_eq!(patch("incrementCounter(this, 'pc')")["Status"], "NotModified");
    let made = patch("incrementCounter(this, 'new')");
    assert_eq!(made["Status"], "Patched");
    let version = &server.document("u/1")["@metadata"]["@change-vector"];
    assert_eq!(&made["ChangeVector"], version);
    let answer = patch("deleteCounter(this, 'pc'); this.V = counter(this, 'pc')");
    assert_eq!(answer["ModifiedDocument"]["V"], Value::Null);
    assert_eq!(server.document("u/1")["@metadata"]["@counters"], json!(["new"]));
    let table = [
        (
            "incrementCounter('nobody', 'c')",
            "Document 'nobody' does not exist. Cannot operate on counters of a missing document.",
        ),
        (
            "incrementCounter(this)",
            "There is no overload of method 'incrementCounter' that takes 1 arguments.Supported overloads are : 'incrementCounter(doc, name)' , 'incrementCounter(doc, name, value)'",
        ),
        (
            "incrementCounter(this, 5)",
            "incrementCounter(doc, name): 'name' must be a non-empty string argument",
        ),
        (
            "incrementCounter(this, 'x', 'y')",
            "incrementCounter(doc, name, value): 'value' must be a number argument",
        ),
        ("counter(this)", "counter(doc, name) must be called with exactly 2 arguments"),
        (
            "counter(5, 'x')",
            "counter(doc, name): 'doc' must be a string argument (the document id) or the actual document instance itself",
        ),
        ("deleteCounter(this)", "deleteCounter(doc, name) must be called with exactly 2 arguments"),
        (
            "incrementCounter(this, 'b', 9223372036854775807); incrementCounter(this, 'b')",
            "Could not increment counter 'b' from document 'u/1' with value '9223372036854775807' by '1'.",
        ),
    ];
    for (script, message) in table {
        assert_eq!(patch(script)["Message"], message, "{script}");
    }
    assert_eq!(server.document("u/1")["@metadata"]["@counters"], json!(["new"]));
}
