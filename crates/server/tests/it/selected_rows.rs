//! The rows of `select`: whole documents within rows, parameters, stored fields, distinct rows.

use serde_json::{Value, json};

use crate::test_server::TestServer;

fn server_with_rows() -> TestServer {
    let server = TestServer::with_database();
    for (id, document) in [
        ("t/1", r#"{"A":"x","N":1,"R":"t/2"}"#),
        ("t/2", r#"{"A":"y","N":2,"R":"t/9"}"#),
        ("t/3", r#"{"A":"x","N":3,"R":null}"#),
        ("t/4", r#"{"A":null,"N":4}"#),
    ] {
        let body = document.replacen('{', r#"{"@metadata":{"@collection":"T"},"#, 1);
        server.put(id, &body);
    }
    let index = json!({"Indexes": [{
        "Name": "I",
        "Maps": ["from d in docs.T select new { d.A, Z = d.N * 2, Y = d.N > 1 }"],
        "Fields": {"Z": {"Storage": "Yes"}, "Y": {"Storage": "Yes"}},
    }]});
    let reply = server.send("PUT", "/databases/db/admin/indexes", index.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    server
}

fn ask(server: &TestServer, text: &str, more: &Value) -> Value {
    let mut body = json!({"Query": text, "WaitForNonStaleResults": true});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    server.send("POST", "/databases/db/queries", body.to_string().as_bytes()).json()
}

/// The rows without their metadata.
fn rows(answer: &Value) -> Vec<Value> {
    let Some(rows) = answer["Results"].as_array() else { panic!("{answer}") };
    let without = |row: &Value| {
        let mut row = row.as_object().unwrap().clone();
        row.remove("@metadata");
        Value::Object(row)
    };
    rows.iter().map(without).collect()
}

#[test]
fn rows_contain_documents_parameters_and_metadata() {
    let server = server_with_rows();
    let whole =
        json!({"A": "x", "N": 1, "R": "t/2", "@metadata": {"@collection": "T", "@id": "t/1"}});
    let second =
        json!({"A": "y", "N": 2, "R": "t/9", "@metadata": {"@collection": "T", "@id": "t/2"}});
    let parameters = json!({"QueryParameters": {"p": {"a": [1, null]}}});
    for (text, expected) in [
        ("from T select $p as X, N limit 1", json!([{"X": {"a": [1, null]}, "N": 1}])),
        ("from T select A, $p limit 1", json!([{"A": "x", "p": {"a": [1, null]}}])),
        ("from T as t select t, t.A limit 1", json!([{"t": whole, "A": "x"}])),
        ("from T as t select t as X, t.A limit 1", json!([{"X": whole, "A": "x"}])),
        (
            "from T as t load t.R as r select r as X, t.A limit 2",
            json!([{"X": second, "A": "x"}, {"A": "y"}]),
        ),
        ("from T as t load t.R as r select r limit 2", json!([{"A": "y", "N": 2, "R": "t/9"}, {}])),
        ("from T select @metadata as M, A limit 1", json!([{"M": {"@collection": "T"}, "A": "x"}])),
        (
            "from index 'I' select __all_stored_fields limit 2",
            json!([
                {"Z": "2", "Y": "false"}, {"Z": "4", "Y": "true"}
            ]),
        ),
    ] {
        assert_eq!(json!(rows(&ask(&server, text, &parameters))), expected, "{text}");
    }
    let answer = ask(&server, "from T as t load t.R as r select r limit 1", &json!({}));
    assert_eq!(answer["Results"][0]["@metadata"]["@id"], "t/2");
}

#[test]
fn scripts_and_functions_may_end_with_a_comment() {
    let server = server_with_rows();
    let text = "declare function one(n) { return n + 1; // next\n } \
                from T as t where id() = 't/1' select { A: one(t.N) // it\n }";
    assert_eq!(rows(&ask(&server, text, &json!({}))), [json!({"A": 2})]);
}

#[test]
fn a_projection_function_gets_the_parameters_as_its_last_argument() {
    let server = server_with_rows();
    let f = "declare function f(t, p, q) { return { P: p, Q: q, N: arguments.length }; }";
    // As RavenDB 5.4 and 7.1 respond.
    for (call, parameters, expected) in [
        ("f(t)", json!({"p": 1, "if": [2]}), json!({"P": {"p": 1, "if": [2]}, "Q": null, "N": 2})),
        ("f(t, 5)", json!({"p": 1}), json!({"P": 5, "Q": {"p": 1}, "N": 3})),
        ("f(t, $p)", json!({"p": 1}), json!({"P": 1, "Q": {"p": 1}, "N": 3})),
        ("f(t)", Value::Null, json!({"P": null, "Q": null, "N": 2})),
        ("{ X: f(t) }", json!({"p": 1}), json!({"X": {"P": null, "Q": null, "N": 1}})),
    ] {
        let text = format!("{f} from T as t where id() = 't/1' select {call}");
        let answer = ask(&server, &text, &json!({"QueryParameters": parameters}));
        assert_eq!(rows(&answer), [expected], "{call}");
    }
}

#[test]
fn selected_metadata_is_that_of_the_row() {
    let server = server_with_rows();
    for select in ["", "select A", "select { A: t.A }", "select { A: t.A, '@metadata': { M: 1 } }"]
    {
        let text = format!("from T as t where t.N > 0 {select}");
        let metadata_of = |target: &str| {
            let body = json!({"Query": text}).to_string();
            let answer = server.send("POST", target, body.as_bytes()).json();
            let rows = answer["Results"].as_array().unwrap().clone();
            rows.into_iter().map(|row| json!({"@metadata": row["@metadata"]})).collect::<Vec<_>>()
        };
        let target = "/databases/db/queries";
        let body = json!({"Query": text}).to_string();
        let alone = server.send("POST", &format!("{target}?metadataOnly=true"), body.as_bytes());
        let with_rows = metadata_of(target);
        assert!(!with_rows.is_empty(), "{text}");
        assert_eq!(alone.json()["Results"], json!(with_rows), "{text}");
    }
}

#[test]
fn scripts_see_stored_fields() {
    let server = server_with_rows();
    let text = "from index 'I' as i where i.A = 'y' select { A: i.A, Z: i.Z, Y: i.Y, N: i.N }";
    let mut etags = std::collections::HashSet::new();
    for (behavior, expected) in [
        ("Default", json!([{"A": "y", "Z": 4, "Y": "true", "N": 2}])),
        ("FromIndex", json!([{"A": null, "Z": 4, "Y": "true", "N": null}])),
        ("FromDocument", json!([{"A": "y", "Z": null, "Y": null, "N": 2}])),
    ] {
        let answer = ask(&server, text, &json!({"ProjectionBehavior": behavior}));
        assert_eq!(json!(rows(&answer)), expected, "{behavior}");
        assert!(etags.insert(answer["ResultEtag"].as_i64()), "{behavior} has an etag of its own");
    }
    let refused = ask(&server, text, &json!({"ProjectionBehavior": "FromIndexOrThrow"}));
    let message = refused["Message"].as_str().unwrap();
    assert!(message.starts_with("Queries with a script and a ProjectionBehavior"), "{message}");
}

#[test]
fn distinct_applies_to_scripts_loads_and_descending_order() {
    let server = server_with_rows();
    let f = "declare function f(t) { return { A: t.A }; }";
    for (text, more, expected, skipped) in [
        (
            "from T as t select distinct { A: t.A }".to_owned(),
            json!({}),
            json!([{"A": "x"}, {"A": "y"}, {"A": null}]),
            1,
        ),
        (
            "from T as t where t.N > 0 select distinct { A: t.A }".to_owned(),
            json!({"PageSize": 1, "Start": 1}),
            json!([{"A": "y"}]),
            0,
        ),
        (
            format!("{f} from T as t select distinct f(t)"),
            json!({}),
            json!([{"A": "x"}, {"A": "y"}, {"A": null}]),
            1,
        ),
        (
            "declare function f(t) { return [{ A: t.A }, { A: 'q' }]; } from T as t \
             select distinct f(t)"
                .to_owned(),
            json!({}),
            json!([{"A": "x"}, {"A": "q"}, {"A": "y"}, {"A": null}]),
            4,
        ),
        (
            "from T as t load t.R as r select distinct r.A as RA".to_owned(),
            json!({}),
            json!([{"RA": "y"}, {}]),
            2,
        ),
        (
            "from T order by id() desc select distinct A".to_owned(),
            json!({"PageSize": 2}),
            json!([{"A": null}, {"A": "x"}]),
            0,
        ),
    ] {
        let answer = ask(&server, &text, &more);
        assert_eq!((json!(rows(&answer)), &answer["SkippedResults"]), (expected, &json!(skipped)));
    }
}

#[test]
fn invalid_projections_and_orders_are_rejected() {
    let server = server_with_rows();
    for (text, kind, message) in [
        (
            "from T order by custom(A,'x')",
            "Raven.Client.Exceptions.Documents.Sorters.SorterDoesNotExistException",
            "There is no sorter with 'x' name.",
        ),
        (
            "from T order by custom(A)",
            "Raven.Client.Exceptions.InvalidQueryException",
            "Invalid ORDER BY 'custom()' call, expected two arguments, got 1",
        ),
        (
            "from T select foo(A)",
            "Raven.Client.Exceptions.InvalidQueryException",
            "Unknown method call in SELECT clause: 'foo' method",
        ),
        (
            "from T select count()",
            "Raven.Client.Exceptions.InvalidQueryException",
            "count may only be used in group by queries",
        ),
        (
            "from T where cmpxchg('x') = 1",
            "System.ArgumentException",
            "The method CompareExchange on the left side inside the WHERE clause is not supported.",
        ),
        (
            "from T where A = cmpxchg(B)",
            "Raven.Client.Exceptions.InvalidQueryException",
            "Method cmpxchg() expects value token as second argument, got <Field>: B type",
        ),
        ("from T where A = id()", "System.ArgumentException", "Unknown method id"),
        (
            "from T where serch(A, 'x')",
            "System.NotSupportedException",
            "Method 'serch' is not supported. Did you mean 'search'?",
        ),
    ] {
        let answer = ask(&server, text, &json!({}));
        let said = answer["Message"].as_str().unwrap_or_default().lines().next();
        assert_eq!((&answer["Type"], said), (&json!(kind), Some(message)), "{text}: {answer}");
    }
}

#[test]
fn a_page_can_be_larger_than_one_chunk_of_the_response() {
    let server = TestServer::with_database();
    let text = "x".repeat(300_000);
    let document = json!({"W": text, "@metadata": {"@collection": "T"}});
    server.put("t/1", &document.to_string());
    let operations: Vec<_> = (0..2000)
        .map(|number| {
            let name = format!("{number:04}{}", "n".repeat(200));
            json!({"Type": "Increment", "CounterName": name, "Delta": number})
        })
        .collect();
    let counters = json!({"Documents": [{"DocumentId": "t/1", "Operations": operations}]});
    let counted = server.send("POST", "/databases/db/counters", counters.to_string().as_bytes());
    assert_eq!(counted.status, 200, "{}", counted.text());
    let projected = ask(&server, "from T as t select { A: t.W, B: t.W }", &json!({}));
    assert_eq!(projected["Results"][0]["B"], text);
    let included = ask(&server, "from T include counters()", &json!({}));
    assert_eq!(included["CounterIncludes"]["t/1"].as_array().unwrap().len(), 2000);
    assert_eq!(included["IncludedCounterNames"], json!({"t/1": []}));
    let changed = json!({"W": text, "V": 2, "@metadata": {"@collection": "T"}});
    let configuration = br#"{"Default":{"Disabled":false}}"#;
    server.send("POST", "/databases/db/admin/revisions/config", configuration);
    server.put("t/1", &changed.to_string());
    let moment = "2100-01-01T00:00:00.0000000Z";
    let revised = ask(&server, &format!("from T include revisions('{moment}')"), &json!({}));
    assert_eq!(revised["RevisionIncludes"][0]["Revision"]["W"], text);
    let listed = server.get("/databases/db/revisions?id=t/1").json();
    assert_eq!(listed["Results"][0]["W"], text);
    assert_eq!(listed["TotalResults"], 2);
}
