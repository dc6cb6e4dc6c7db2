//! Details of responses that clients rely on, as measured on RavenDB 5.4.

use serde_json::{Value, json};

use crate::{
    exchange_indexes::{define, errors, terms},
    test_server::TestServer,
};

fn server() -> TestServer {
    let server = TestServer::with_database();
    let first = r#"{"Name":"A","Ref":"u/2","Refs":["u/2","u/2","u/3","u/2"],"Big":9007199254740993,
        "P":{"A":1},"Lat":1.5,"Lng":2.5,"@metadata":{"@collection":"Users"}}"#;
    server.put("u/1", first);
    server.put("u/2", r#"{"Name":"B","Ref":"u/1","@metadata":{"@collection":"Users","Foo":1}}"#);
    server.put("u/3", r#"{"Name":"C","@metadata":{"@collection":"Users"}}"#);
    server
}

fn queried(server: &TestServer, body: &Value) -> (String, Value) {
    let reply = server.send("POST", "/databases/db/queries", body.to_string().as_bytes());
    assert_eq!(reply.status, 200, "{body}: {}", reply.text());
    (reply.text(), reply.json())
}

/// The first row of a query over the document `id`.
fn row(server: &TestServer, id: &str, rest: &str) -> Value {
    let (declared, shown) = rest.split_once(" | ").unwrap_or(("", rest));
    let text = format!("{declared} from Users as u where id() = '{id}' {shown}");
    let (text, answer) = queried(server, &json!({ "Query": text }));
    let row = answer["Results"][0].clone();
    let rows = answer["Results"].as_array().map_or(0, Vec::len);
    assert_eq!(text.matches("\"@metadata\":").count(), rows, "metadata once in a row: {text}");
    row
}

#[test]
fn a_row_returned_by_a_script_has_metadata_once() {
    let server = server();
    for (id, query, fields, metadata) in [
        (
            "u/1",
            "declare function f(u) { return load(u.Ref) } | select f(u)",
            json!({"Name": "B"}),
            json!({"@id": "u/2", "@collection": "Users", "Foo": 1, "@projection": null}),
        ),
        (
            "u/2",
            "declare function f(u) { return u } | select f(u)",
            json!({"Name": "B"}),
            json!({"@id": "u/2", "Foo": 1, "@projection": null}),
        ),
        (
            "u/2",
            "declare function f(u) { u.Z = 1; return u } | select f(u)",
            json!({"Name": "B", "Z": 1}),
            json!({"@id": "u/2", "Foo": 1, "@projection": true, "@collection": "Users"}),
        ),
        (
            "u/1",
            "select { a: 1, '@metadata': { x: 1, '@id': 'zz' } }",
            json!({"a": 1}),
            json!({"@id": "u/1", "x": 1, "@projection": true}),
        ),
        (
            "u/1",
            "select { a: 1, '@metadata': 5 }",
            json!({"a": 1}),
            json!({"@id": "u/1", "@projection": true}),
        ),
    ] {
        let row = row(&server, id, query);
        for (name, value) in fields.as_object().unwrap() {
            assert_eq!(&row[name], value, "{query}: {row}");
        }
        for (name, value) in metadata.as_object().unwrap() {
            assert_eq!(&row["@metadata"][name], value, "{query}: {row}");
        }
        assert!(row["@metadata"]["@change-vector"].is_string(), "{query}: {row}");
    }
}

#[test]
fn repeated_references_are_loaded_once() {
    let server = server();
    for (query, field, expected) in [
        ("load u.Refs as rs[] select { N: rs.map(r => r.Name) }", "N", json!(["B", "C"])),
        ("load u.Refs as rs[] select { N: rs.length }", "N", json!(2)),
        ("load u.Refs as rs[] select rs.Name", "Name", json!(["B", "C"])),
    ] {
        assert_eq!(row(&server, "u/1", query)[field], expected, "{query}");
    }
}

#[test]
fn a_raw_scalar_keeps_a_large_integer() {
    let server = server();
    let big = row(&server, "u/1", "select { B: scalarToRawString(u, x => x.Big) }");
    assert_eq!(big["B"], json!(9_007_199_254_740_993_i64));
}

#[test]
fn scripts_over_stored_values_know_the_collection() {
    let server = server();
    let definition = json!({"Indexes": [{
        "Name": "N", "Maps": ["from u in docs.Users select new { u.Name }"],
        "Fields": {"Name": {"Storage": "Yes"}},
    }]});
    let path = "/databases/db/admin/indexes";
    assert_eq!(server.send("PUT", path, definition.to_string().as_bytes()).status, 201);
    let query = "from index 'N' as o select { M: getMetadata(o)['@collection'], N: o.Name }";
    let (_, answer) = queried(
        &server,
        &json!({
            "Query": query, "ProjectionBehavior": "FromIndex", "WaitForNonStaleResults": true,
        }),
    );
    assert_eq!(answer["Results"][0]["M"], "Users", "{answer}");
}

#[test]
fn all_stored_fields_of_a_reduce_are_shown() {
    let server = server();
    let definition = json!({"Indexes": [{
        "Name": "R", "Maps": ["from u in docs.Users select new { u.Ref, Count = 1 }"],
        "Reduce": "from r in results group r by r.Ref into g select new { Ref = g.Key, Count = g.Sum(x => x.Count) }",
        "Fields": {"__all_fields": {"Storage": "Yes"}},
    }]});
    let path = "/databases/db/admin/indexes";
    assert_eq!(server.send("PUT", path, definition.to_string().as_bytes()).status, 201);
    let query = "from index 'R' where Ref = 'u/1' select __all_stored_fields";
    let (_, answer) = queried(&server, &json!({ "Query": query, "WaitForNonStaleResults": true }));
    let row = &answer["Results"][0];
    assert_eq!((&row["Ref"], &row["Count"]), (&json!("u/1"), &json!("1")), "{answer}");
}

#[test]
fn a_document_known_to_be_missing_is_not_modified() {
    let server = server();
    for (id, tag, status) in [
        ("nope", "\"404 Response\"", 304),
        ("nope", "\"x\"", 404),
        ("u/1", "\"404 Response\"", 200),
    ] {
        let path = format!("/databases/db/docs?id={id}");
        let reply = server.send_with("GET", &path, &[("If-None-Match", tag)], b"");
        assert_eq!(reply.status, status, "{id} {tag}");
    }
}

#[test]
fn an_empty_page_of_a_series_still_includes_its_document() {
    let server = server();
    let body = json!({"Name": "HR", "Appends": [
        {"Timestamp": "2020-01-01T00:00:00.0000000Z", "Values": [1.0], "Tag": "u/2"},
    ]});
    let path = "/databases/db/timeseries?docId=u%2F1";
    assert_eq!(server.send("POST", path, body.to_string().as_bytes()).status, 204);
    let page = |rest: &str| server.get(&format!("{path}&name=HR&start=10&{rest}")).json();
    let included = page("includeDocument=true");
    assert_eq!(included["Entries"], json!([]));
    assert_eq!(included["Includes"]["u/1"]["Name"], "A");
    assert_eq!(page("includeTags=true")["Includes"], Value::Null);
}

#[test]
fn an_order_by_distance_is_not_rounded_by_null() {
    let server = server();
    let map = "from u in docs.Users select new { L = CreateSpatialField(u.Lat, u.Lng) }";
    define(&server, "Places", map, None);
    let query = "from index 'Places' order by spatial.distance(L, spatial.point($a, $b), $round)";
    let parameters = json!({"a": 1, "b": 2, "round": null});
    let body = json!({
        "Query": query, "QueryParameters": parameters, "WaitForNonStaleResults": true,
    });
    assert_eq!(queried(&server, &body).1["Results"][0]["@metadata"]["@id"], "u/1");
}

#[test]
fn index_sources_and_dates_are_accepted_in_every_form_that_clients_send() {
    let server = server();
    let body = json!({"Name": "HR", "Appends": [
        {"Timestamp": "2020-01-01T00:00:00.0000000Z", "Values": [7.0]},
    ]});
    let path = "/databases/db/timeseries?docId=u%2F1";
    assert_eq!(server.send("POST", path, body.to_string().as_bytes()).status, 204);
    for (name, map, expected) in [
        (
            "a",
            "timeseries.Users.HR.SelectMany(ts => ts.Entries, (ts, entry) => new { V = entry.Value })",
            "7",
        ),
        (
            "b",
            "from ts in TimeSeries.Users.HR from e in ts.Entries select new { V = e.Value }",
            "7",
        ),
        ("c", "TIMESERIES.users.hr.Select(ts => new { V = ts.Count })", "1"),
        (
            "d",
            "docs.Users.Where(u => u.Name == \"A\").Select(u => new { V = \
               new DateTimeOffset(2020, 1, 1, 5, 6, 7, TimeSpan.FromHours(2)) })",
            "2020-01-01T03:06:07.0000000Z",
        ),
        (
            "e",
            "docs.Users.Where(u => u.Name == \"A\").Select(u => new { V = \
               new DateTimeOffset(new DateTime(2020, 1, 1), TimeSpan.FromHours(1)) })",
            "2019-12-31T23:00:00.0000000Z",
        ),
    ] {
        define(&server, name, map, None);
        assert_eq!(terms(&server, name, "V"), [expected], "{map}");
        assert_eq!(errors(&server, name), Vec::<String>::new(), "{map}");
    }
}

#[test]
fn text_before_a_wildcard_is_analyzed() {
    let server = TestServer::with_database();
    for (id, text) in
        [("d/1", "the wi-fi network is here"), ("d/2", "wi and fiber"), ("d/3", "fish")]
    {
        server.put(id, &json!({"T": text, "@metadata": {"@collection": "Texts"}}).to_string());
    }
    let found = |query: &str| {
        let body = json!({ "Query": query, "WaitForNonStaleResults": true });
        let answer = queried(&server, &body).1;
        let rows = answer["Results"].as_array().unwrap().iter();
        let mut ids: Vec<String> =
            rows.map(|row| row["@metadata"]["@id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(found("from Texts where search(T, 'wi-f*')"), ["d/1", "d/2"]);
    assert_eq!(found("from Texts where search(T, 'wi-n*')"), ["d/1"]);
    assert_eq!(found("from Texts where search(T, 'wi-x*')"), [""; 0]);
    let definition = json!({"Indexes": [{
        "Name": "Parts", "Maps": ["from t in docs.Texts select new { t.T }"],
        "Fields": {"T": {"Indexing": "Search", "Analyzer": "NGramAnalyzer"}},
    }]});
    let path = "/databases/db/admin/indexes";
    assert_eq!(server.send("PUT", path, definition.to_string().as_bytes()).status, 201);
    for (word, ids) in
        [("ish", ["d/3"].as_slice()), ("work", &["d/1"]), ("fis", &["d/3"]), ("iber", &["d/2"])]
    {
        assert_eq!(found(&format!("from index 'Parts' where search(T, '{word}')")), ids, "{word}");
    }
}
