//! Boosts that maps assign to values and to whole entries.

use serde_json::{Value, json};

use crate::test_server::TestServer;

/// Four documents, which indexes boost by `W`.
fn server_with(maps: &[(&str, &str)]) -> TestServer {
    let server = TestServer::with_database();
    for (id, document) in [
        ("d/1", r#"{"Name":"ann","W":1,"D":1,"T":["a","b"],"B":"quick brown fox","N":null,"X":5}"#),
        ("d/2", r#"{"Name":"ann","W":8,"D":1,"T":["a","b"],"B":"quick brown fox","N":null,"X":5}"#),
        ("d/3", r#"{"Name":"ann","W":2,"D":4,"T":["a"],"B":"quick brown fox","N":null,"X":5}"#),
        ("d/4", r#"{"Name":"bob","W":1,"D":1,"T":["c"],"B":"dog","N":1,"X":6}"#),
    ] {
        let body = document.replacen('{', r#"{"@metadata":{"@collection":"Docs"},"#, 1);
        server.put(id, &body);
    }
    put_indexes(&server, maps);
    server
}

fn put_indexes(server: &TestServer, maps: &[(&str, &str)]) {
    let indexes: Vec<Value> = maps
        .iter()
        .map(|(name, map)| {
            json!({"Name": name, "Maps": [map], "Fields": {"B": {"Indexing": "Search"}}})
        })
        .collect();
    let body = json!({"Indexes": indexes}).to_string();
    let reply = server.send("PUT", "/databases/db/admin/indexes", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// The ids of the rows and their scores as multiples of the lowest score.
fn ask(server: &TestServer, text: &str) -> Vec<(String, f64)> {
    let body = json!({"Query": text, "WaitForNonStaleResults": true}).to_string();
    let reply = server.send("POST", "/databases/db/queries", body.as_bytes());
    assert_eq!(reply.status, 200, "{text}: {}", reply.text());
    let answer = reply.json();
    let rows = answer["Results"].as_array().expect("has rows").iter().map(|row| {
        let metadata = &row["@metadata"];
        let id = metadata["@id"].as_str().expect("has an id").to_owned();
        (id, metadata["@index-score"].as_f64().expect("has a score"))
    });
    let mut rows: Vec<(String, f64)> = rows.collect();
    let least = rows.iter().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
    rows.iter_mut().for_each(|(_, score)| *score = (*score / least * 1000.0).round() / 1000.0);
    rows
}

fn check(server: &TestServer, text: &str, expected: &[(&str, f64)]) {
    let rows = ask(server, text);
    let rows: Vec<(&str, f64)> = rows.iter().map(|(id, score)| (id.as_str(), *score)).collect();
    assert_eq!(rows, expected, "{text}");
}

/// Highest score first, by the boost of each document.
const BY_WEIGHT: &[(&str, f64)] = &[("d/2", 8.0), ("d/3", 2.0), ("d/1", 1.0)];
const ALIKE: &[(&str, f64)] = &[("d/1", 1.0), ("d/2", 1.0), ("d/3", 1.0)];

const OF_FIELDS: &[(&str, &str)] = &[
    (
        "Sharp",
        "from d in docs.Docs select new { Name = d.Name.Boost(d.W), Other = d.Name, \
         N = d.N.Boost(d.W), B = d.B.Boost(d.W), X = d.X.Boost(d.W) }",
    ),
    (
        "Script",
        "map('Docs', d => ({ Name: boost(d.Name, d.W), Other: d.Name, N: boost(d.N, d.W), \
         B: { $value: d.B, $boost: d.W }, X: boost(d.X, d.W) }))",
    ),
];

#[test]
fn a_boost_of_a_field_multiplies_scores_by_its_terms() {
    let server = server_with(OF_FIELDS);
    for (index, _) in OF_FIELDS {
        for condition in [
            "Name='ann'",
            "Name in ('ann','x')",
            "Name all in ('ann')",
            "exact(Name='ann')",
            "lucene(Name,'ann')",
            "N=null",
            "boost(Name='ann',3)",
            "search(B,'quick')",
            "search(B,'\"quick brown\"')",
        ] {
            check(&server, &format!("from index '{index}' where {condition}"), BY_WEIGHT);
        }
        for condition in ["Other='ann'", "startsWith(Name,'an')", "search(B,'qui*')", "X=5"] {
            check(&server, &format!("from index '{index}' where {condition}"), ALIKE);
        }
        let all = [("d/1", 1.0), ("d/2", 1.0), ("d/3", 1.0), ("d/4", 1.0)];
        check(&server, &format!("from index '{index}'"), &all);
        let by_id = [("d/1", 1.0), ("d/2", 8.0), ("d/3", 2.0)];
        check(&server, &format!("from index '{index}' where Name='ann' order by id()"), &by_id);
    }
}

#[test]
fn a_boost_of_an_entry_multiplies_scores_by_all_its_fields() {
    let maps = [
        ("Sharp", "from d in docs.Docs select new { d.Name, d.B, d.X }.Boost(d.W)"),
        ("Chained", "docs.Docs.Select(d => new { Name = d.Name, B = d.B, X = d.X }.Boost(d.W))"),
        ("Script", "map('Docs', d => boost({ Name: d.Name, B: d.B, X: d.X }, d.W))"),
        ("Object", "map('Docs', d => ({ $value: { Name: d.Name, B: d.B, X: d.X }, $boost: d.W }))"),
    ];
    let server = server_with(&maps);
    for (index, _) in maps {
        for condition in ["Name='ann'", "search(B,'quick')"] {
            check(&server, &format!("from index '{index}' where {condition}"), BY_WEIGHT);
        }
        check(&server, &format!("from index '{index}' where X=5"), ALIKE);
        check(&server, &format!("from index '{index}' where id()='d/2'"), &[("d/2", 1.0)]);
    }
}

#[test]
fn boosts_of_entry_and_field_and_of_several_values_are_multiplied() {
    let server = server_with(&[
        ("Both", "from d in docs.Docs select new { Name = d.Name.Boost(d.W), d.B }.Boost(d.D)"),
        ("Many", "from d in docs.Docs select new { T = d.T.Select(t => t.Boost(d.W)), d.Name }"),
        ("Twice", "from d in docs.Docs select new { Name = d.Name.Boost(9).Boost(d.W) }"),
        ("Made", "from d in docs.Docs select new { _ = CreateField(\"Name\", d.Name).Boost(d.W) }"),
        ("Text", "from d in docs.Docs select new { Name = d.Name.Boost(d.W.ToString()) }"),
    ]);
    let both = [("d/2", 8.0), ("d/3", 8.0), ("d/1", 1.0)];
    check(&server, "from index 'Both' where Name='ann'", &both);
    check(
        &server,
        "from index 'Both' where search(B,'quick')",
        &[("d/3", 4.0), ("d/1", 1.0), ("d/2", 1.0)],
    );
    check(&server, "from index 'Many' where T='a'", &[("d/2", 64.0), ("d/3", 2.0), ("d/1", 1.0)]);
    for index in ["Twice", "Made", "Text"] {
        check(&server, &format!("from index '{index}' where Name='ann'"), BY_WEIGHT);
    }
}

#[test]
fn a_boost_is_removed_with_its_document() {
    let server = server_with(OF_FIELDS);
    let text = "from index 'Sharp' where Name='ann'";
    check(&server, text, BY_WEIGHT);
    server.put("d/2", r#"{"@metadata":{"@collection":"Docs"},"Name":"ann","W":4}"#);
    check(&server, text, &[("d/2", 4.0), ("d/3", 2.0), ("d/1", 1.0)]);
    assert_eq!(server.send("DELETE", "/databases/db/docs?id=d%2F2", b"").status, 204);
    server.put("d/3", r#"{"@metadata":{"@collection":"Docs"},"Name":"ann","W":1}"#);
    check(&server, text, &[("d/1", 1.0), ("d/3", 1.0)]);
}

#[test]
fn documents_without_the_boosted_field_have_no_entry() {
    let server = server_with(&[]);
    server.put("d/5", r#"{"@metadata":{"@collection":"Docs"},"W":5}"#);
    server.put("d/6", r#"{"@metadata":{"@collection":"Docs"},"Name":"ann","W":-2}"#);
    put_indexes(&server, &[("I", "from d in docs.Docs select new { Name = d.Name.Boost(d.W) }")]);
    let ids = |text: &str| ask(&server, text).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids("from index 'I'"), ["d/1", "d/2", "d/3", "d/4", "d/6"]);
    let best_first = ["d/2", "d/3", "d/1", "d/6"];
    assert_eq!(ids("from index 'I' where Name='ann'"), best_first, "no boost is below 0");
}

#[test]
fn explanations_show_the_boost() {
    let server = server_with(OF_FIELDS);
    let text = "from index 'Sharp' where Name='ann' include explanations()";
    let body = json!({"Query": text, "WaitForNonStaleResults": true}).to_string();
    let answer = server.send("POST", "/databases/db/queries", body.as_bytes()).json();
    for row in answer["Results"].as_array().expect("has rows") {
        let metadata = &row["@metadata"];
        let id = metadata["@id"].as_str().expect("has an id");
        let explained = answer["Explanations"][id][0].as_str().expect("is explained");
        let (score, _) = explained.split_once(" = ").expect("has a score");
        let score: f64 = score.parse().expect("is a number");
        assert!((score - metadata["@index-score"].as_f64().expect("a score")).abs() < 1e-4);
        let weight = row["W"].to_string();
        let has_boost = explained.contains(&format!("{weight} = boost of the indexed value"));
        assert_eq!(has_boost, weight != "1", "{explained}");
    }
}
