//! The index definitions that the official clients' own tests send, and RavenDB 5.4's result for
//! each.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::test_server::TestServer;

const DEFINITIONS: &str = include_str!("client_definitions.txt");
const DOCUMENTS: &str = include_str!("client_definitions.jsonl");

/// A definition and the lines below it.
fn definitions() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut definitions: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in DEFINITIONS.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix('\t') {
            None => definitions.push((line, Vec::new())),
            Some(result) => definitions.last_mut().unwrap().1.push(result),
        }
    }
    definitions
}

/// Defines an index; the type of the error when it is refused.
fn define(server: &TestServer, text: &str) -> Option<Value> {
    let (maps, reduce) = match text.split_once(" ||| ") {
        Some((maps, reduce)) => (maps, Some(reduce)),
        None => (text, None),
    };
    let maps: Vec<&str> = maps.split(" && ").collect();
    let body = json!({"Indexes": [{"Name": "I", "Maps": maps, "Reduce": reduce}]}).to_string();
    let reply = server.send("PUT", "/databases/db/admin/indexes", body.as_bytes());
    (reply.status != 201).then(|| reply.json()["Type"].clone())
}

/// The properties of a row sorted by name, without the metadata.
fn line(row: &Value) -> String {
    let members = row.as_object().unwrap().iter().filter(|(name, _)| *name != "@metadata");
    json!(members.collect::<BTreeMap<_, _>>()).to_string()
}

/// What the table lists for an index: its results or its entries, and the documents with errors.
fn found(server: &TestServer, has_reduce: bool) -> Vec<String> {
    let body = json!({"Query": "from index 'I'", "WaitForNonStaleResults": true}).to_string();
    let path = match has_reduce {
        true => "/databases/db/queries",
        false => "/databases/db/queries?debug=entries",
    };
    let answer = server.send("POST", path, body.as_bytes()).json();
    let rows = answer["Results"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let mut found: Vec<String> = rows.iter().map(line).collect();
    let errors = server.get("/databases/db/indexes/errors?name=I").json();
    let errors = errors["Results"][0]["Errors"].as_array().unwrap().clone();
    found.extend(errors.iter().map(|error| format!("? {}", error["Document"].as_str().unwrap())));
    found.sort();
    found
}

#[test]
fn definitions_of_the_clients_match_recorded_results() {
    let server = TestServer::with_database();
    for line in DOCUMENTS.lines() {
        let mut document: Value = serde_json::from_str(line).unwrap();
        let id = document.as_object_mut().unwrap().remove("id").unwrap();
        let path = format!("/databases/db/docs?id={}", id.as_str().unwrap());
        assert_eq!(server.send("PUT", &path, document.to_string().as_bytes()).status, 201);
    }
    let definitions = definitions();
    assert!(60 < definitions.len());
    for (text, expected) in definitions {
        let text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r");
        let refused = define(&server, &text);
        if let ["!"] = expected.as_slice() {
            let kind = "Raven.Client.Exceptions.Documents.Compilation.IndexCompilationException";
            assert_eq!(refused, Some(json!(kind)), "{text}");
            continue;
        }
        assert_eq!(refused, None, "{text}");
        let parsed = expected.iter().map(|text| match text.starts_with('{') {
            true => line(&serde_json::from_str(text).unwrap()),
            false => (*text).to_owned(),
        });
        let mut expected: Vec<String> = parsed.collect();
        expected.sort();
        assert_eq!(found(&server, text.contains(" ||| ")), expected, "{text}");
        assert_eq!(server.send("DELETE", "/databases/db/indexes?name=I", b"").status, 204);
    }
}
