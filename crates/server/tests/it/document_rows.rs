//! Documents in CSV and in JSON lines, both ways.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::{http_client::Reply, test_server::TestServer};

fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, content) in parts {
        let head = format!("--bound\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--bound--\r\n");
    body
}

fn try_import(server: &TestServer, target: &str, parts: &[(&str, &[u8])]) -> Reply {
    let headers = [("Content-Type", "multipart/form-data; boundary=bound")];
    let target = format!("/databases/db/smuggler/import/{target}");
    server.send_with("POST", &target, &headers, &form(parts))
}

fn import(server: &TestServer, target: &str, text: &[u8]) -> Value {
    let reply = try_import(server, target, &[("file", text)]);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn errors(result: &Value) -> Vec<&str> {
    let messages = result["Messages"].as_array().unwrap().iter().filter_map(Value::as_str);
    messages.filter(|message| message.contains(" ERROR] ")).collect()
}

/// Documents in the order of their ids, without versions and times.
fn documents(server: &TestServer, database: &str) -> Vec<Value> {
    let read = server.get(&format!("/databases/{database}/docs?pageSize=10000")).json();
    let mut documents = read["Results"].as_array().unwrap().clone();
    documents.sort_by_key(|document| document["@metadata"]["@id"].to_string());
    for document in &mut documents {
        let metadata = document["@metadata"].as_object_mut().unwrap();
        metadata.retain(|name, _| name != "@change-vector" && name != "@last-modified");
    }
    documents
}

#[test]
fn rows_are_stored_as_ravendb_stores_them_and_bad_ones_are_told_by_their_number() {
    let server = TestServer::with_database();
    let text = "\u{feff}@id,N.A,N.B,L,T,@metadata.@collection,@metadata.own\r\n\
                x/1,1.50,true,\"[1,{\"\"a\"\":2}]\",\"a,\"\"b\"\"\nc\",,7\r\n\
                x/2,too,few\r\n\
                ,1,1,1,1,,\r\n\
                x/3,1,1,[oops],1,,\r\n\
                x/4,,null,[],007,Others,\r\n\
                x|,1,1,1,1,,\r\n\
                y/,1,1,1,1,,\r\n";
    let target = "csv?collection=Xs&operationId=7";
    let result = import(&server, target, text.as_bytes());
    let counts = &result["Documents"];
    assert_eq!((&counts["ReadCount"], &counts["ErroredCount"]), (&json!(7), &json!(4)));
    let errors = errors(&result);
    for (number, reason) in
        [(3, "has 3 fields"), (4, "'@id' is empty"), (5, "'L' is in brackets"), (7, "'x|'")]
    {
        let begin = format!("Row {number} could not be imported: ");
        let found = errors.iter().any(|text| text.contains(&begin) && text.contains(reason));
        assert!(found, "{number} {errors:?}");
    }
    let stored = documents(&server, "db");
    assert_eq!(
        stored[..2],
        [
            json!({"N": {"A": 1.50, "B": true}, "L": [1, {"a": 2}], "T": "a,\"b\"\nc",
                "@metadata": {"@collection": "Xs", "own": "7", "@id": "x/1"}}),
            json!({"N": {"A": null, "B": null}, "L": [], "T": 7,
                "@metadata": {"@collection": "Others", "@id": "x/4"}}),
        ]
    );
    let numbered = stored[2]["@metadata"]["@id"].as_str().unwrap();
    assert!(numbered.starts_with("y/000") && numbered.ends_with("-A"), "{numbered}");
    let state = server.get("/databases/db/operations/state?id=7").json();
    assert_eq!(state["Status"], "Completed");
    let listed = server.get("/databases/db/operations").json()["Results"][0]["Description"].clone();
    assert_eq!(listed["TaskType"], "CollectionImportFromCsv");
    assert_eq!(listed["Description"], "Collection import from CSV: 'Xs'");
}

#[test]
fn documents_without_ids_are_numbered_in_their_collection() {
    let server = TestServer::with_database();
    let text = (0..5000).fold("a\n".to_owned(), |text, n| text + &format!("{n}\n"));
    let result = import(&server, "csv?collection=Xs", text.as_bytes());
    assert_eq!(result["Documents"]["ReadCount"], 5000);
    assert!(errors(&result).is_empty());
    let stored = documents(&server, "db");
    assert_eq!(stored.len(), 5000);
    for (n, document) in stored.iter().enumerate() {
        assert_eq!(document["a"], n);
        let id = document["@metadata"]["@id"].as_str().unwrap();
        assert!(id.starts_with("Xs/000") && id.ends_with("-A"), "{id}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused_with_the_reason() {
    let server = TestServer::with_database();
    for (target, parts, reason) in [
        ("csv", &[("file", &b"@id,a\nx,1"[..])][..], "names no 'collection'"),
        ("csv?collection=X", &[("file", b"a,a.b\n1,2")], "the column 'a.b' is a value"),
        ("csv?collection=X", &[("file", b"\"a")], "begins with a quote"),
        (
            "csv?collection=X",
            &[("csvImportOptions", b"{\"Delimiter\":\"||\"}"), ("file", b"a")],
            "'Delimiter' must be one ASCII character",
        ),
        ("csv?collection=X", &[], "no file"),
    ] {
        let reply = try_import(&server, target, parts);
        assert!(400 <= reply.status && reply.text().contains(reason), "{}", reply.text());
    }
    let reply = server.send("POST", "/databases/db/smuggler/import/csv?collection=X", b"a\n1");
    assert_eq!(reply.status, 400);
    assert!(documents(&server, "db").is_empty());
}

#[test]
fn fields_are_separated_as_the_options_say_and_files_may_be_compressed() {
    let server = TestServer::with_database();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(b"@id;a\n#x/0;y\nx/1;'q;q'\nx/2; q \n").unwrap();
    let options = br##"{"Delimiter":";","Quote":"'","AllowComments":true,"TrimOptions":"Trim"}"##;
    let file = gzip.finish().unwrap();
    let parts = [("csvImportOptions", &options[..]), ("file", &file[..])];
    let reply = try_import(&server, "csv?collection=X", &parts);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let stored = documents(&server, "db");
    assert_eq!((&stored[0]["a"], &stored[1]["a"]), (&json!("q;q"), &json!("q")));
    assert_eq!(stored.len(), 2);
}

#[test]
fn what_queries_send_as_csv_comes_back() {
    let server = TestServer::with_database();
    server.put("a/1", r#"{"N":-1.50,"O":{"T":"1,\"2\"\n","E":[1,{"x":null}]},"Z":null,"@metadata":{"@collection":"Cs"}}"#);
    server
        .put("a/2", r#"{"N":12,"O":{"T":" x ","E":[]},"Z":"z","@metadata":{"@collection":"Cs"}}"#);
    let before = documents(&server, "db");
    let csv = server.get("/databases/db/streams/queries?query=from%20Cs&format=csv").body;
    server.send("DELETE", "/databases/db/docs?id=a/1", b"");
    server.send("DELETE", "/databases/db/docs?id=a/2", b"");
    assert!(errors(&import(&server, "csv", &csv)).is_empty());
    assert_eq!(documents(&server, "db"), before);
}

#[test]
fn json_lines_are_documents_of_lists_and_of_queries() {
    let server = TestServer::with_database();
    for n in 0..20 {
        let body = format!(
            r#"{{"N":{n},"S":"{}","@metadata":{{"@collection":"Cs"}}}}"#,
            "x".repeat(n * 100)
        );
        server.put(&format!("a/{n}"), &body);
    }
    let before = documents(&server, "db");
    for target in ["docs?format=jsonl", "queries?query=from%20Cs&format=jsonl"] {
        let lines = server.get(&format!("/databases/db/streams/{target}")).body;
        for n in 0..20 {
            server.send("DELETE", &format!("/databases/db/docs?id=a/{n}"), b"");
        }
        let result = import(&server, "jsonl", &lines);
        assert!(errors(&result).is_empty(), "{result}");
        assert_eq!(result["Documents"]["ReadCount"], 20);
        assert_eq!(documents(&server, "db"), before);
    }
}

#[test]
fn lines_of_other_tools_are_given_a_collection_and_bad_ones_are_told_by_their_number() {
    let server = TestServer::with_database();
    let text = b"{\"a\":1}\r\n\n{\"a\":2,\"@metadata\":{\"@id\":\"b/1\",\"@collection\":\"Bs\"}}\n\
                 {\"a\":\n[1]\n{\"a\":3,\"@metadata\":{\"own\":1}}";
    let result = import(&server, "jsonl?collection=As", text);
    let errors = errors(&result);
    let numbers = errors.iter().map(|text| text.split("Line ").nth(1).unwrap().as_bytes()[0]);
    assert_eq!(numbers.collect::<Vec<_>>(), b"45");
    let stored = documents(&server, "db");
    assert_eq!(stored.len(), 3);
    assert_eq!(stored[0]["@metadata"]["@collection"], "As");
    assert_eq!(stored[1]["@metadata"]["own"], 1);
    assert_eq!(stored[2]["@metadata"], json!({"@collection": "Bs", "@id": "b/1"}));
    let result = import(&server, "jsonl", b"{\"a\":1}\n{\"Error\":\"the disk is gone\"}");
    let errors = self::errors(&result);
    assert!(errors[0].contains("neither an id nor a collection"), "{errors:?}");
    assert!(errors[1].contains("not complete") && errors[1].contains("the disk"), "{errors:?}");
}
