//! The rows of a query on an index: documents, stored fields, fields that documents name.

use serde_json::json;

use crate::{
    indexes::{define, found, put},
    test_server::TestServer,
};

pub(crate) fn queried(server: &TestServer, body: &serde_json::Value) -> serde_json::Value {
    let mut body = body.clone();
    body["WaitForNonStaleResults"] = json!(true);
    server.send("POST", "/databases/db/queries", body.to_string().as_bytes()).json()
}

/// The rows of an answer, without their metadata.
fn shown(answer: &serde_json::Value) -> serde_json::Value {
    let mut rows = answer["Results"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("@metadata")));
    json!(rows)
}

/// Two entries of the first user, two of the second, none of the third.
pub(crate) fn boats_of_users(server: &TestServer) {
    put(server, "users/1", r#"{"N":1,"Boats":["ada","bee"],"Born":"2020-01-02T03:04:05"}"#);
    put(server, "users/2", r#"{"N":2,"Boats":["cat","dog"],"Old":null}"#);
    put(server, "users/3", r#"{"N":3,"Boats":[]}"#);
    let reply = define(
        server,
        &json!({
            "Name": "Boats",
            "Maps": ["from u in docs.Users from b in u.Boats
                      select new { u.N, Boat = b, Twice = u.N * 2, Hidden = u.N + 1, u.Born, u.Old }"],
            "Fields": {
                "Twice": {"Storage": "Yes"}, "Boat": {"Storage": "Yes"}, "Born": {"Storage": "Yes"},
                "Old": {"Storage": "Yes"}
            },
        }),
    );
    assert_eq!(reply.status, 201, "{}", reply.text());
}

#[test]
fn a_document_with_several_entries_is_one_row() {
    let server = TestServer::with_database();
    boats_of_users(&server);
    for (page, ids, skipped) in [
        (json!({}), "users/1 users/2", 2),
        (json!({"PageSize": 2}), "users/1 users/2", 1),
        (json!({"Start": 2, "PageSize": 2}), "users/2", 1),
        (json!({"Start": 1, "PageSize": 9}), "users/2", 2),
        (json!({"PageSize": 2, "SkipDuplicateChecking": true}), "users/1 users/1", 0),
    ] {
        let mut body = page.clone();
        body["Query"] = json!("from index Boats");
        let answer = queried(&server, &body);
        let rows = answer["Results"].as_array().unwrap().iter();
        let found: Vec<_> = rows.map(|row| row["@metadata"]["@id"].as_str().unwrap()).collect();
        assert_eq!(found.join(" "), ids, "{page}");
        assert_eq!(
            (&answer["TotalResults"], &answer["SkippedResults"]),
            (&json!(4), &json!(skipped))
        );
    }
    let answer =
        queried(&server, &json!({"Query": "from index Boats order by Twice as long desc"}));
    assert_eq!(shown(&answer)[0]["N"], 2);
    assert_eq!((&answer["Results"][2], &answer["SkippedResults"]), (&json!(null), &json!(2)));
    let answer = queried(&server, &json!({"Query": "from index Boats select N"}));
    assert_eq!(shown(&answer), json!([{"N": 1}, {"N": 1}, {"N": 2}, {"N": 2}]));
    let stream = server.get("/databases/db/streams/queries?query=from%20index%20Boats").json();
    assert_eq!(stream["Results"].as_array().unwrap().len(), 2);
}

#[test]
fn a_projection_returns_stored_fields() {
    let server = TestServer::with_database();
    boats_of_users(&server);
    let from = |behavior: &str, select: &str| {
        let query = format!("from index Boats where Boat in ('ada', 'dog') select {select}");
        queried(&server, &json!({"Query": query, "ProjectionBehavior": behavior}))
    };
    for (behavior, select, expected) in [
        (
            "Default",
            "Twice, Boat",
            json!([{"Twice": "2", "Boat": "ada"}, {"Twice": "4", "Boat": "dog"}]),
        ),
        (
            "Default",
            "Twice as T, Born, Old, N, Hidden",
            json!([
                {"T": "2", "Born": "2020-01-02T03:04:05.0000000", "N": 1},
                {"T": "4", "Old": null, "N": 2}
            ]),
        ),
        ("Default", "Hidden, N", json!([{"Hidden": null, "N": 1}, {"Hidden": null, "N": 2}])),
        ("FromIndex", "Twice, N", json!([{"Twice": "2"}, {"Twice": "4"}])),
        ("FromDocument", "Twice, N", json!([{"Twice": null, "N": 1}, {"Twice": null, "N": 2}])),
        ("FromIndexOrThrow", "Boat", json!([{"Boat": "ada"}, {"Boat": "dog"}])),
    ] {
        assert_eq!(shown(&from(behavior, select)), expected, "{behavior} {select}");
    }
    let metadata = from("Default", "Twice")["Results"][0]["@metadata"].clone();
    assert_eq!((&metadata["@change-vector"], &metadata["@id"]), (&json!(null), &json!("users/1")));
    assert!(from("Default", "Twice, N")["Results"][0]["@metadata"]["@change-vector"].is_string());
    for (behavior, kind, start) in [
        (
            "FromIndexOrThrow",
            "Raven.Client.Exceptions.InvalidQueryException",
            "Could not extract field 'N' from index 'Boats', because index does not contain",
        ),
        (
            "FromDocumentOrThrow",
            "Raven.Client.Exceptions.InvalidQueryException",
            "Could not extract field 'Twice' from document, because document does not contain",
        ),
        (
            "Nope",
            "System.FormatException",
            "Could not convert Sparrow.Json.LazyStringValue ('Nope')",
        ),
    ] {
        let refused = from(behavior, "Twice, N");
        assert_eq!(refused["Type"], kind, "{behavior}");
        assert!(refused["Message"].as_str().unwrap().starts_with(start), "{refused}");
    }
}

#[test]
fn missing_fields_are_found_as_the_index_defines_them() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann"}"#);
    let define_with = |name: &str, configuration: serde_json::Value| {
        let reply = define(
            &server,
            &json!({
                "Name": name, "Maps": ["from u in docs.Users select new { u.Nick }"],
                "Configuration": configuration
            }),
        );
        assert_eq!(reply.status, 201, "{}", reply.text());
    };
    define_with("Plain", json!({}));
    define_with("Null", json!({"Indexing.IndexMissingFieldsAsNull": "true"}));
    define_with("Kept", json!({"Indexing.IndexEmptyEntries": "True"}));
    for (query, rows) in [
        ("from index Plain", 0),
        ("from index Plain where Nick = null", 0),
        ("from index Null", 1),
        ("from index Null where Nick = null", 1),
        ("from index Kept", 1),
        ("from index Kept where Nick = null", 0),
    ] {
        assert_eq!(queried(&server, &json!({"Query": query}))["TotalResults"], rows, "{query}");
    }
}

#[test]
fn parts_of_an_intersection_may_match_other_entries_of_a_document() {
    let server = TestServer::with_database();
    boats_of_users(&server);
    for (parts, ids) in [
        ("Boat = 'ada', Boat = 'bee'", "users/1"),
        ("N > 0, Boat = 'dog'", "users/2"),
        ("Boat = 'ada', Boat = 'cat'", ""),
        ("N > 0, Twice > 0, N < 9", "users/1 users/2"),
    ] {
        let query = format!("from index Boats where intersect({parts})");
        assert_eq!(found(&server, &query).0.join(" "), ids, "{parts}");
    }
    let query = "from index Boats where intersect(Boat = 'bee', Boat = 'ada') select Boat";
    assert_eq!(shown(&queried(&server, &json!({"Query": query}))), json!([{"Boat": "bee"}]));
}

#[test]
fn proximity_matches_the_recorded_results() {
    let server = TestServer::with_database();
    for (number, text) in
        ["a quick brown fox", "the fox is quick", "fox of the quick", "quick, red and brown fox"]
            .iter()
            .enumerate()
    {
        put(&server, &format!("f/{}", number + 1), &json!({"F": text}).to_string());
    }
    let reply = define(
        &server,
        &json!({
            "Name": "Fox", "Maps": ["from u in docs.Users select new { u.F }"],
            "Fields": {"F": {"Indexing": "Search"}}
        }),
    );
    assert_eq!(reply.status, 201);
    let near = |text: &str| format!("from index Fox where proximity(search(F, {text})");
    for (text, ids) in [
        ("'quick fox'), 0", ""),
        ("'fox quick'), 0", "f/2 f/3"),
        ("'quick fox'), 1", "f/1"),
        ("'quick fox'), 2", "f/1 f/2 f/3 f/4"),
        ("'fox quick'), 2", "f/2 f/3"),
        ("'fox quick'), 3", "f/1 f/2 f/3"),
        ("'fox quick'), 4", "f/1 f/2 f/3 f/4"),
        ("'quick the fox'), 1", "f/1"),
    ] {
        assert_eq!(found(&server, &near(text)).0.join(" "), ids, "{text}");
    }
    for text in ["'*uick fox'), 2", "'quick fox*'), 2", "'quick'), 2"] {
        let refused = queried(&server, &json!({"Query": near(text)}));
        assert_eq!(refused["Type"], "Raven.Client.Exceptions.InvalidQueryException", "{text}");
    }
}

#[test]
fn fields_named_by_documents_are_projected_when_they_are_stored() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann","Shown":"x"}"#);
    let reply = define(
        &server,
        &json!({"Name": "Made", "Maps": [
            "from u in docs.Users select new { u.Name, \
             _ = CreateField(\"Nick\" , u.Name + \"ie\", true, false) }"
        ]}),
    );
    assert_eq!(reply.status, 201, "{}", reply.text());
    let rows = |query: &str| shown(&queried(&server, &json!({"Query": query})));
    for condition in ["exact(Nick = 'Annie')", "startsWith(Name, 'a')"] {
        let query = format!("from index Made where {condition} select Nick");
        assert_eq!(rows(&query), json!([{"Nick": "Annie"}]), "{condition}");
    }
    assert_eq!(rows("from index Made where Nick = 'Annie'"), json!([]));
    let script = json!({"Indexes": [{"Name": "Inline", "Maps": [
        "map('Users', u => ({ Name: u.Name, _: { $name: 'Nick', $value: u.Name + 'ie', \
         $options: { storage: true } } }))"
    ]}]});
    let reply = server.send("PUT", "/databases/db/indexes", script.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(rows("from index Inline select Nick"), json!([{"Nick": "Annie"}]));
    assert_eq!(rows("from index Inline select Nope"), json!([{"Nope": null}]));
    assert_eq!(rows("from index Made select Shown"), json!([{"Shown": "x"}]));
}
