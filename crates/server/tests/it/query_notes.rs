//! `include highlight()` and `include explanations()`.

use serde_json::{Value, json};

use crate::test_server::TestServer;

fn server_with_texts() -> TestServer {
    let server = TestServer::with_database();
    for (id, document) in [
        ("t/1", r#"{"B":"The quick brown fox","C":"fox hunting","N":1}"#),
        ("t/3", r#"{"B":"brown bear","C":"Fox & <b>bear</b>"}"#),
        ("t/4", r#"{"B":["quick one","two fox","three quick foxes"],"C":null}"#),
    ] {
        let body = document.replacen('{', r#"{"@metadata":{"@collection":"T"},"#, 1);
        server.put(id, &body);
    }
    let words =
        json!({"Indexing": "Search", "Storage": "Yes", "TermVector": "WithPositionsAndOffsets"});
    let positions = json!({"Indexing": "Search", "Storage": "Yes", "TermVector": "WithPositions"});
    let map = "from d in docs.T select new { d.B, d.C, d.N }";
    let indexes = json!({"Indexes": [
        {"Name": "HL", "Maps": [map], "Fields": {"B": words, "C": words}},
        {"Name": "SN", "Maps": [map], "Fields": {"B": positions, "C": {
            "Storage": "Yes", "TermVector": "WithPositionsAndOffsets"}}},
    ]});
    let reply = server.send("PUT", "/databases/db/admin/indexes", indexes.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    server
}

fn ask(server: &TestServer, text: &str, parameters: &Value) -> Value {
    let body = json!({
        "Query": text, "QueryParameters": parameters, "WaitForNonStaleResults": true,
    });
    server.send("POST", "/databases/db/queries", body.to_string().as_bytes()).json()
}

#[test]
fn matches_are_highlighted() {
    let server = server_with_texts();
    let none = json!({});
    let yellow = |text: &str| format!("<b style=\"background:yellow\">{text}</b>");
    let green = |text: &str| format!("<b style=\"background:lawngreen\">{text}</b>");
    let brown_fox = format!("The quick brown {}", yellow("fox"));
    let two_fox = format!("quick one two {} three quick foxes", yellow("fox"));
    for (text, expected) in [
        (
            "from index 'HL' where search(B,'fox') include highlight(B,50,2)",
            json!({"B": {"t/1": [brown_fox], "t/4": [two_fox]}}),
        ),
        (
            "from T where search(B,'fox') include highlight(B,50,2)",
            json!({"B": {"t/1": [brown_fox], "t/4": [two_fox]}}),
        ),
        (
            "from T where search(B,'fox') select N include highlight(B,50,2)",
            json!({"B": {"t/1": [brown_fox], "t/4": [two_fox]}}),
        ),
        (
            "from index 'HL' as h where search(h.B,'fox') limit 1 include highlight(h.B,50,2)",
            Value::Null,
        ),
        (
            "from index 'HL' where B = 'bear' include highlight('B',50,2)",
            json!({"B": {"t/3": [format!("brown {}", yellow("bear"))]}}),
        ),
        (
            "from index 'HL' where search(B,'quick fox') include highlight(B,60,2)",
            json!({"B": {
                "t/1": [format!("The {} brown {}", yellow("quick"), green("fox"))],
                "t/4": [format!(
                    "{} one two {} three {} foxes", yellow("quick"), green("fox"), yellow("quick")
                )],
            }}),
        ),
        (
            "from index 'HL' where startsWith(B,'bro') include highlight(B,60,2)",
            json!({"B": {
                "t/1": [format!("The quick {} fox", yellow("brown"))],
                "t/3": [format!("{} bear", yellow("brown"))],
            }}),
        ),
        (
            "from index 'HL' where search(B,'\"quick brown\"') include highlight(B,60,2)",
            json!({"B": {"t/1": [format!("The {} fox", yellow("quick brown"))]}}),
        ),
        (
            "from index 'HL' where search(B,'fox') or search(C,'fox') \
             include highlight(B,60,2), highlight(C,60,2)",
            json!({
                "B": {"t/1": [brown_fox], "t/4": [two_fox]},
                "C": {
                    "t/1": [format!("{} hunting", green("fox"))],
                    "t/3": [format!("{} & <b>bear</b>", green("Fox"))],
                },
            }),
        ),
        ("from index 'HL' where search(B,'*ick') include highlight(B,60,2)", json!({})),
        ("from index 'HL' where search(B,'fox') include highlight(Nope,20,1)", json!({})),
        ("from index 'SN' where search(B,'fox') include highlight(B,20,1)", json!({})),
        (
            "from index 'SN' where C = 'fox hunting' include highlight(C,20,1)",
            json!({"C": {"t/1": [yellow("fox hunting")]}}),
        ),
        ("from T where search(B,'zzz') include highlight(B,60,2)", Value::Null),
        ("from T include highlight(B,60,2)", Value::Null),
    ] {
        let answer = ask(&server, text, &none);
        assert_eq!(answer["Highlightings"], expected, "{text}: {answer}");
    }
    assert_eq!(
        ask(&server, "from T where search(B,'fox') include highlight(B,50,2)", &none)["IndexName"],
        "Auto/T/BySearch(B)AndHighlight(B)"
    );
}

#[test]
fn tags_and_keys_of_fragments_are_configurable() {
    let server = server_with_texts();
    let text = "from index 'HL' where search(B,'quick fox') include highlight(B,60,2,$o)";
    let found = |options: Value| ask(&server, text, &json!({"o": options}));
    let highlighted = |options: Value| found(options)["Highlightings"]["B"].clone();
    let expected = json!({
        "t/1": ["The <i>quick</i> brown <u>fox</u>"],
        "t/4": ["<i>quick</i> one two <u>fox</u> three <i>quick</i> foxes"],
    });
    let tags = json!({"preTags": ["<i>", "<u>"], "postTags": ["</i>", "</u>"]});
    assert_eq!(highlighted(tags), expected);
    let one = json!({"PreTags": ["<i>"], "PostTags": ["</i>"], "GroupKey": "C"});
    let expected = json!({
        "fox hunting": ["The <i>quick</i> brown <i>fox</i>"],
        "NULL_VALUE": ["<i>quick</i> one two <i>fox</i> three <i>quick</i> foxes"],
    });
    assert_eq!(highlighted(one), expected);
    for (options, kind, message) in [
        (
            json!({"PreTags": ["<i>"], "PostTags": []}),
            "System.InvalidOperationException",
            "Number of pre-tags and post-tags must match.",
        ),
        (json!(5), "System.InvalidOperationException", "Parameter 'o' should contain JSON object."),
        (
            json!({"PreTags": "x"}),
            "System.InvalidOperationException",
            "Could not convert document options to entity of type \
             Raven.Client.Documents.Queries.Highlighting.HighlightingOptions",
        ),
        (
            json!({"GroupKey": "N"}),
            "System.ArgumentException",
            "The field 'N' cannot be the GroupKey, because the index does not store a value of it \
             for 't/1'",
        ),
    ] {
        let answer = found(options);
        assert_eq!((&answer["Type"], &answer["Message"]), (&json!(kind), &json!(message)));
    }
    for (include, message) in [
        ("highlight(B,60)", "Method 'highlight()' expects three or four arguments to be provided"),
        ("highlight(B,'a',2)", "FragmentLength can only be passed as long, but was 'String'."),
        ("highlight(B,$a,2)", "FragmentLength can only be passed as long, but was 'Parameter'."),
        ("highlight(B,10,1)", "fragCharSize(10) is too small. It must be 18 or higher."),
        ("highlight(B,20,-1)", "maxNumFragments(-1) must be positive number."),
        ("highlight(B,20,1), highlight(B,30,2)", "Query cannot highlight the field 'B' twice."),
        ("highlght(B,20,1)", "Method 'highlght' is not supported. Did you mean 'highlight'?"),
    ] {
        let text = format!("from index 'HL' where search(B,'fox') include {include}");
        let answer = ask(&server, &text, &json!({"a": 1}));
        let said = answer["Message"].as_str().unwrap_or_default();
        assert_eq!(said.lines().next(), Some(message), "{include}: {answer}");
    }
}

#[test]
fn scores_are_explained() {
    let server = server_with_texts();
    let none = json!({});
    let answer = ask(
        &server,
        "from index 'HL' where search(B,'fox') include explanations(), timings(), highlight(B,20,1)",
        &none,
    );
    let explained = answer["Explanations"].as_object().unwrap();
    assert_eq!(explained.keys().collect::<Vec<_>>(), ["t/1", "t/4"]);
    for row in answer["Results"].as_array().unwrap() {
        let metadata = &row["@metadata"];
        let text = explained[metadata["@id"].as_str().unwrap()][0].as_str().unwrap();
        let (score, what) = text.split_once(" = ").unwrap();
        let explained_score: f64 = score.parse().unwrap();
        assert!(
            (explained_score - metadata["@index-score"].as_f64().unwrap()).abs() < 1e-4,
            "{text}"
        );
        assert!(what.starts_with("(MATCH) weight(B:fox in "), "{text}");
        assert!(text.contains("\n  ") && text.contains("idf(docFreq=2, maxDocs=3)"), "{text}");
    }
    let text = "from T where search(B,'quick fox') and N > 0 include explanations()";
    let explained = ask(&server, text, &none)["Explanations"]["t/1"][0].clone();
    let explained = explained.as_str().unwrap();
    assert_eq!(explained.matches("(MATCH) sum of:").count(), 2, "{explained}");
    assert!(explained.contains("\n  1 = (MATCH) ConstantScoreQuery(N:"), "{explained}");
    let text = "from index 'HL' where search(B,'fox') include explanations($o)";
    let explained = ask(&server, text, &json!({"o": {"groupKey": "C"}}))["Explanations"].clone();
    let keys: Vec<_> = explained.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys.len(), 2, "{explained}");
    assert!(keys.contains(&"fox hunting".to_owned()), "{explained}");
    assert!(keys.contains(&"NULL_VALUE".to_owned()), "{explained}");
    for (text, message) in [
        ("from T include explanations()", "Collection queries cannot return explanations."),
        (
            "from T where B='x' include explanations(1)",
            "ExplanationOptions can only be passed as JSON string or as a parameter pointing to JSON \
             object, but was 'Long'.",
        ),
        (
            "from T where B='x' include explanations($o,$o)",
            "Method 'explanations()' expects zero or one argument(s) to be provided",
        ),
        (
            "from T where B='x' include explanations($p)",
            "Parameter 'p' containing 'ExplanationOptions' was not present in the list of \
             parameters.",
        ),
        (
            "from T where B='x' include explanations(), explanations()",
            "Query cannot include duplicate explanations.",
        ),
        (
            "from T where B='x' include timings(1)",
            "Method 'timings()' expects zero arguments to be provided",
        ),
        ("from T where B='x' include foo()", "Method 'foo' is not supported."),
    ] {
        let answer = ask(&server, text, &json!({"o": {}}));
        let said = answer["Message"].as_str().unwrap_or_default();
        assert_eq!(said.lines().next(), Some(message), "{text}: {answer}");
    }
    for include in ["explanations()", "highlight(B,20,1)"] {
        let query = format!("from index 'HL' where search(B,'fox') include {include}");
        let query = query.replace(' ', "%20").replace('\'', "%27");
        let reply = server.get(&format!("/databases/db/streams/queries?query={query}"));
        assert!(reply.text().contains("supported by this type of query."), "{}", reply.text());
    }
}
