//! `lucene(field, 'text')` on static and automatic indexes; the rows are those of RavenDB.

use serde_json::{Value, json};

use crate::test_server::TestServer;

const DOCUMENTS: [&str; 10] = [
    r#"{"B":"The quick brown fox","N":1,"T":"x"}"#,
    r#"{"B":"quick red fox jumps","N":2,"T":"y"}"#,
    r#"{"B":"brown bear","N":10,"T":"x y"}"#,
    r#"{"B":"John's e-mail is john@x.com","N":4.5}"#,
    r#"{"B":"foo_bar 10,000 C# C++","N":5,"T":"Ab"}"#,
    r#"{"B":"quickly brownish","N":-3}"#,
    r#"{"B":"","N":0}"#,
    r#"{"B":null,"N":null}"#,
    r#"{"N":7,"T":"2020-01-02T03:04:05Z"}"#,
    r#"{"B":["quick one","two fox"],"N":8}"#,
];

fn server_with_texts() -> TestServer {
    let server = TestServer::with_database();
    for (number, document) in (1..).zip(DOCUMENTS) {
        let body = document.replacen('{', r#"{"@metadata":{"@collection":"T"},"#, 1);
        server.put(&format!("t/{number}"), &body);
    }
    let index = json!({"Indexes": [{
        "Name": "TS",
        "Maps": ["from d in docs.T select new { d.B, d.N, d.T, K = d.B }"],
        "Fields": {"B": {"Indexing": "Search"}, "K": {"Indexing": "Exact"}},
    }]});
    let reply = server.send("PUT", "/databases/db/admin/indexes", index.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    server
}

fn ask(server: &TestServer, source: &str, text: &str) -> Value {
    let body = json!({
        "Query": format!("from {source} where lucene(B, $p)"),
        "QueryParameters": {"p": text},
        "WaitForNonStaleResults": true,
    });
    server.send("POST", "/databases/db/queries", body.to_string().as_bytes()).json()
}

/// The numbers of the matching documents.
fn found(server: &TestServer, source: &str, text: &str) -> String {
    let answer = ask(server, source, text);
    let Some(rows) = answer["Results"].as_array() else { return answer["Message"].to_string() };
    let ids = rows.iter().map(|row| row["@metadata"]["@id"].as_str().unwrap().replace("t/", ""));
    ids.collect::<Vec<_>>().join(" ")
}

#[test]
fn texts_match_recorded_results() {
    let server = server_with_texts();
    for (text, expected) in [
        ("Quick", "1 2 10"),
        ("+quick +fox", "1 2 10"),
        ("quick AND fox", "1 2 10"),
        ("quick || bear", "1 2 3 10"),
        ("quick -red", "1 10"),
        ("quick NOT red", "1 10"),
        ("NOT red", ""),
        ("-red -brown", ""),
        ("\"quick brown\"", "1"),
        ("\"quick fox\"", ""),
        ("\"quick fox\"~1", "1 2"),
        ("\"quick fox\"~2", "1 2 10"),
        ("\"fox quick\"~3", "1 2"),
        ("\"the quick\"", "1 2 10"),
        ("qu?ck", "1 2 10"),
        ("qu*k", "1 2 10"),
        ("QUICK*", "1 2 6 10"),
        ("*ick", "1 2 10"),
        ("*ui*", "1 2 6 10"),
        ("*", "1 2 3 4 5 6 7 8 10"),
        ("quikc~", "1 2 10"),
        ("quick~0.5", "1 2 6 10"),
        ("quick~0.9", "1 2 10"),
        ("[bear TO fox]", "1 2 3 4 5 6 10"),
        ("{bear TO fox}", "1 3 4 5 6"),
        ("bear TO", "3"),
        ("(quick fox)^3 bear", "1 2 3 10"),
        ("e-mail", "4"),
        ("10,000", "5"),
        ("c#", "5"),
        ("c\\+\\+", "5"),
        ("john@x.com", "4"),
        ("the", ""),
        ("the quick", "1 2 10"),
        ("quick AND (red OR brown)", "1 2"),
        ("quick AND NOT (red OR brown)", "10"),
        ("NULL_VALUE", ""),
        ("*:*", "1 2 3 4 5 6 7 8 9 10"),
        ("quick brown fox", "1 2 3 10"),
        ("+quick fox -red", "1 10"),
        ("+(quick bear) -fox", "3"),
        ("not red", "2"),
        ("zzz quick", "1 2 10"),
        ("\"one two\"", "10"),
        ("Nope:1", ""),
    ] {
        for source in ["index 'TS'", "T"] {
            assert_eq!(found(&server, source, text), expected, "{source}: {text}");
        }
    }
    for (text, expected) in [
        ("N:[1 TO 5]", "1 2 3 4 5"),
        ("N:{1 TO 5}", "2 3 4"),
        ("N:10", "3"),
        ("N:\\-3", "6"),
        ("T:Ab", "5"),
        ("T:\"x y\"", "3"),
        ("T:x y", "1"),
        ("T:20*", "9"),
        ("K:quick", ""),
        ("K:brown\\ bear", "3"),
        ("B:quick AND T:x", "1"),
        ("B:(quick fox)", "1 2 10"),
        ("T:[a TO y]", "1 2 3 5"),
    ] {
        assert_eq!(found(&server, "index 'TS'", text), expected, "{text}");
    }
    assert_eq!(ask(&server, "T", "quick")["IndexName"], "Auto/T/BySearch(B)");
}

#[test]
fn an_invalid_text_is_rejected_with_the_position_of_the_error() {
    let server = server_with_texts();
    for (text, message) in [
        ("a AND (", "Cannot parse 'a AND (': Encountered \"<EOF>\" at line 1, column 7."),
        ("quick)", "Cannot parse 'quick)': Encountered \")\" at line 1, column 5."),
        ("", "Cannot parse '': Encountered \"<EOF>\" at line 1, column 0."),
    ] {
        let answer = ask(&server, "index 'TS'", text);
        assert_eq!(answer["Type"], "Lucene.Net.QueryParsers.ParseException", "{text}");
        let said = answer["Message"].as_str().unwrap();
        assert!(said.starts_with(message), "{text}: {said}");
    }
    let body = br#"{"Query":"from index 'TS' where lucene(B)"}"#;
    let answer = server.send("POST", "/databases/db/queries", body).json();
    let message = answer["Message"].as_str().unwrap();
    assert!(message.starts_with("Method lucene() expects second argument"), "{message}");
}
