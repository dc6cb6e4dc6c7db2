//! Indexes with a reduce, and `group by`, over HTTP.

use serde_json::{Value, json};

use crate::http_client::Reply;
use crate::test_server::TestServer;

/// Queries in the order in which they were sent to RavenDB 5.4, and its responses: the
/// name of the index and the rows, or the type and message of the error. The documents are [`GROUPED`].
const MEASURED: &str = include_str!("group_by.txt");

const GROUPED: [&str; 5] = [
    r#"{"C":"x","N":1,"D":1.5,"T":["a","b"],"L":[{"P":"p","Q":1},{"P":"q","Q":2},{"P":"p","Q":5}],
        "A":{"City":"Oz"},"When":"2020-01-02T03:04:05Z","B":true,"S p":7}"#,
    r#"{"C":"X","N":2,"T":["b"],"L":[{"P":"q","Q":2.5}],"A":{"City":"oz"},
        "When":"2020-01-02T03:04:05Z","B":false}"#,
    r#"{"C":null,"N":3,"D":2,"L":[]}"#,
    r#"{"N":4,"L":null}"#,
    r#"{"C":"x","N":null,"T":[],"A":null}"#,
];

fn put(server: &TestServer, collection: &str, number: usize, json: &str) {
    let path = format!("/databases/db/docs?id={collection}/{number}");
    let metadata = format!(r#"{{"@metadata":{{"@collection":"{collection}"}},"#);
    let body = json.replacen('{', &metadata, 1);
    assert_eq!(server.send("PUT", &path, body.as_bytes()).status, 201, "{json}");
}

fn grouped() -> TestServer {
    let server = TestServer::with_database();
    GROUPED.iter().enumerate().for_each(|(number, json)| put(&server, "G", number, json));
    server
}

fn ask(server: &TestServer, text: &str) -> Reply {
    let body = json!({"Query": text, "WaitForNonStaleResults": true}).to_string();
    server.send("POST", "/databases/db/queries", body.as_bytes())
}

/// The rows without their metadata.
fn rows(answer: &Value) -> Vec<String> {
    let rows = answer["Results"].as_array().unwrap_or_else(|| panic!("{answer}")).iter();
    rows.map(|row| {
        let mut row = row.clone();
        row.as_object_mut().unwrap().remove("@metadata").unwrap();
        row.to_string()
    })
    .collect()
}

#[test]
fn group_by_matches_recorded_results() {
    let server = grouped();
    for line in MEASURED.lines() {
        let (text, expected) = line.split_once(" → ").unwrap();
        let reply = ask(&server, text);
        if let Some(error) = expected.strip_prefix("! ") {
            let (kind, message) = error.split_once(' ').unwrap();
            let message = message.split(" for index ").next().unwrap();
            let answer = reply.json();
            assert_eq!((reply.status, &answer["Type"]), (500, &json!(kind)), "{text}");
            let returned = answer["Message"].as_str().unwrap();
            assert!(returned.starts_with(message), "{text}: {returned}");
            continue;
        }
        assert_eq!(reply.status, 200, "{text}: {}", reply.text());
        let (index, expected) = expected.split_once(" | ").unwrap();
        let answer = reply.json();
        assert_eq!(answer["IndexName"], index, "{text}");
        let parsed = expected.split("  ").map(|row| serde_json::from_str::<Value>(row).unwrap());
        let (mut expected, mut found) =
            (parsed.map(|row| row.to_string()).collect::<Vec<_>>(), rows(&answer));
        if !text.contains("order by") {
            expected.sort();
            found.sort();
        }
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_reduce_result_has_no_document_metadata() {
    let server = grouped();
    let metadata = |text: &str| ask(&server, text).json()["Results"][0]["@metadata"].clone();
    let whole = json!({"@change-vector": null, "@index-score": 1});
    let projected = json!({"@projection": true, "@change-vector": null, "@index-score": 1});
    assert_eq!(metadata("from G group by C"), whole);
    assert_eq!(metadata("from G group by C select key(), count()"), projected);
    assert_eq!(metadata("from G as g group by g.C select { K: g.C }"), projected);
    let stream = server.get("/databases/db/streams/queries?query=from%20G%20group%20by%20C").json();
    assert_eq!(stream["Results"][0]["@metadata"], whole);
    assert_eq!(
        (&stream["TotalResults"], stream["Results"].as_array().unwrap().len()),
        (&json!(3), 3)
    );
    let body = json!({"Query": "from G group by C"}).to_string();
    let reply = server.send("POST", "/databases/db/queries?metadataOnly=true", body.as_bytes());
    assert_eq!(reply.json()["Results"][0], json!({"@metadata": whole}));
}

fn define(server: &TestServer, definition: &Value) -> Reply {
    let body = json!({"Indexes": [definition]}).to_string();
    server.send("PUT", "/databases/db/admin/indexes", body.as_bytes())
}

const MAP: &str = "from g in docs.G select new { g.C, N = g.N, Count = 1 }";
const REDUCE: &str = "from r in results group r by r.C into g \
                      select new { C = g.Key, N = g.Sum(x => x.N), Count = g.Sum(x => x.Count) }";

#[test]
fn a_static_map_reduce_index_is_queried_paged_projected_and_reported() {
    let server = grouped();
    let definition = json!({"Name": "S", "Maps": [MAP], "Reduce": REDUCE});
    assert_eq!(define(&server, &definition).status, 201);
    let ask = |text: &str| ask(&server, text);
    let found = |text: &str| rows(&ask(text).json());
    assert_eq!(
        found("from index 'S'"),
        [
            r#"{"C":"x","N":1,"Count":2}"#,
            r#"{"C":"X","N":2,"Count":1}"#,
            r#"{"C":null,"N":7,"Count":2}"#
        ]
        .map(|row| serde_json::from_str::<Value>(row).unwrap().to_string())
    );
    let row = |json: Value| vec![json.to_string()];
    assert_eq!(found("from index 'S' where N = 7 select C"), row(json!({"C": null})));
    assert_eq!(
        found("from index 'S' order by N as long desc select Count as Q, Nope limit 1, 1"),
        row(json!({"Q": 1, "Nope": null}))
    );
    assert_eq!(
        found("from index 'S' where C = 'x' and N = 1 select id(), C"),
        row(json!({"id()": null, "C": "x"}))
    );
    assert_eq!(
        found("from index 'S' as s where s.N = 2 select { K: s.C, I: id(s) }"),
        row(json!({"K": "X", "I": null}))
    );
    for (text, kind) in [
        ("from index 'S' where id() = 'x'", "System.ArgumentException"),
        ("from index 'S' order by id()", "System.ArgumentException"),
        ("from index 'S' group by C", "System.ArgumentException"),
    ] {
        assert_eq!(ask(text).json()["Type"], kind, "{text}");
    }
    let body = json!({"Query": "from index 'S' where N = 7"}).to_string();
    let entries =
        server.send("POST", "/databases/db/queries?debug=entries", body.as_bytes()).json();
    let entry = entries["Results"][0].as_object().unwrap();
    assert_eq!((&entry["C"], &entry["N"]), (&json!("NULL_VALUE"), &json!("7")));
    assert!(entry["hash(key())"].is_string() && !entry.contains_key("id()"));
    let stats = server.get("/databases/db/indexes/stats?name=S").json()["Results"][0].clone();
    assert_eq!((&stats["Type"], &stats["EntriesCount"]), (&json!("MapReduce"), &json!(3)));
    assert_eq!((&stats["ReduceAttempts"], &stats["ReduceErrors"]), (&json!(5), &json!(0)));
}

#[test]
fn errors_of_a_reduce_are_listed_with_their_key() {
    let server = TestServer::with_database();
    for number in 0..20 {
        put(&server, "G", number, &format!(r#"{{"C":"c{number}","N":{}}}"#, number + 1));
    }
    let map = "from g in docs.G select new { g.C, N = g.N, Q = 0 }";
    let reduce = "from r in results group r by r.C into g select new { C = g.Key, \
                  N = g.Sum(x => x.N), Q = 1 / (g.Sum(x => x.N) - 5) }";
    let definition = json!({"Name": "Bad", "Maps": [map], "Reduce": reduce});
    assert_eq!(define(&server, &definition).status, 201);
    assert_eq!(ask(&server, "from index 'Bad'").json()["TotalResults"], 19);
    let errors = server.get("/databases/db/indexes/errors?name=Bad").json();
    let error = &errors["Results"][0]["Errors"][0];
    assert_eq!(error["Document"], "Reduce key: { 'C' : c4 }");
    assert_eq!(error["Action"], "Reduce");
}

#[test]
fn invalid_map_reduce_indexes_are_rejected() {
    let server = TestServer::with_database();
    let fields = "from r in results group r by r.C into g select new { C = g.Key }";
    let place =
        json!({"Name": "P", "Maps": [MAP], "Reduce": REDUCE, "Fields": {"C": {"Spatial": {}}}});
    let fields = json!({"Name": "F", "Maps": [MAP], "Reduce": fields});
    for definition in [place, fields] {
        let reply = define(&server, &definition);
        assert_eq!(reply.status, 500, "{definition}");
        let kind = "Raven.Client.Exceptions.Documents.Compilation.IndexCompilationException";
        assert_eq!(reply.json()["Type"], kind, "{definition}");
    }
}

#[test]
fn a_query_on_groups_cannot_delete_documents() {
    let server = grouped();
    let definition = json!({"Name": "S", "Maps": [MAP], "Reduce": REDUCE});
    assert_eq!(define(&server, &definition).status, 201);
    let body = json!({"Query": "from index 'S'"}).to_string();
    let reply = server.send("DELETE", "/databases/db/queries", body.as_bytes()).json();
    let path = format!("/databases/db/operations/state?id={}", reply["OperationId"]);
    let mut state = server.get(&path).json();
    while state["Status"] == "InProgress" {
        state = server.get(&path).json();
    }
    assert_eq!(state["Status"], "Faulted");
    assert_eq!(state["Result"]["Message"], "Cannot execute bulk operation on Map-Reduce indexes.");
}
