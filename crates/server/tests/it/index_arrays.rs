//! `X_IsArray` among the terms of an index: which fields contain arrays, as listed by RavenDB 5.4.

use serde_json::{Value, json};

use crate::{
    exchange_indexes::terms,
    indexes::{define, put},
    test_server::TestServer,
};

fn server() -> TestServer {
    let server = TestServer::with_database();
    for (id, body) in [
        ("users/1", r#"{"A":[1,2],"E":[],"S":"x","G":1,"@metadata":{"@collection":"Users"}}"#),
        ("users/2", r#"{"A":3,"E":null,"G":1,"@metadata":{"@collection":"Users"}}"#),
    ] {
        put(&server, id, body);
    }
    server
}

fn marked(server: &TestServer, index: &str) -> String {
    let is_marked = |field: &char| terms(server, index, &format!("{field}_IsArray")) == ["true"];
    "AESQBLUWG".chars().filter(is_marked).collect()
}

#[test]
fn array_fields_are_marked_in_the_terms() {
    let server = server();
    let options = json!({"A": {"Indexing": "Search"}, "E": {"Indexing": "No", "Storage": "Yes"}});
    for (name, map, reduce, expected) in [
        ("cs", "from d in docs.Users select new { A = d.A, E = d.E, S = d.S }", Value::Null, "AE"),
        (
            "created",
            "from d in docs.Users select new { _ = CreateField(\"A\", d.A), \
             E = new[] { CreateField(\"Q\", d.A) }, S = new { X = d.A }, L = new[] { 1, 2 } }",
            Value::Null,
            "AQL",
        ),
        (
            "reduced",
            "from d in docs.Users select new { G = d.G, A = new[] { d.S } }",
            json!(
                "from r in results group r by r.G into g \
                 select new { G = g.Key, A = g.SelectMany(x => x.A) }"
            ),
            "A",
        ),
        (
            "js-reduced",
            "map('Users', d => ({ G: d.G, A: [d.S] }))",
            json!("groupBy(r => r.G).aggregate(g => ({ G: g.key, A: g.values.map(v => v.A[0]) }))"),
            "A",
        ),
        (
            "js",
            "map('Users', d => ({ A: [], E: boost([1], 2), B: [1].concat([2]), \
             _: createField('Q', [1], {}), U: [undefined], W: [null] }))",
            Value::Null,
            "AEQBUW",
        ),
    ] {
        let fields = if name == "cs" { options.clone() } else { json!({}) };
        let index = json!({"Name": name, "Maps": [map], "Reduce": reduce, "Fields": fields});
        assert_eq!(define(&server, &index).status, 201, "{name}");
        assert_eq!(marked(&server, name), expected, "{name}");
    }
}

#[test]
fn array_marks_are_updated_with_the_documents_and_cannot_be_queried() {
    let server = server();
    let query = "/databases/db/queries?query=from+Users+where+A+=+1+and+E+=+null";
    assert_eq!(server.get(query).status, 200);
    let auto = "Auto/Users/ByAAndE";
    assert_eq!(marked(&server, auto), "AE");
    let queried = format!("/databases/db/queries?query=from+index+'{auto}'");
    let refused = server.get(&format!("{queried}+where+A_IsArray+=+'true'"));
    assert_eq!(refused.status, 500, "{}", refused.text());
    let shown = server.get(&format!("{queried}&debug=entries")).json()["Results"].to_string();
    assert!(shown.contains(r#""A":["1","2"]"#) && !shown.contains("rray"), "{shown}");
    put(&server, "users/1", r#"{"A":1,"@metadata":{"@collection":"Users"}}"#);
    assert_eq!(marked(&server, auto), "");
}
