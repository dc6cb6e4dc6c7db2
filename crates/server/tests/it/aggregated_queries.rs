//! Facets, suggestions and more-like-this over HTTP.

use serde_json::{Value, json};

use crate::test_server::TestServer;

fn put(server: &TestServer, id: &str, collection: &str, document: &Value) {
    let mut document = document.clone();
    document["@metadata"] = json!({"@collection": collection});
    let path = format!("/databases/db/docs?id={id}");
    assert_eq!(server.send("PUT", &path, document.to_string().as_bytes()).status, 201, "{id}");
}

fn define(server: &TestServer, definition: &Value) {
    let body = json!({"Indexes": [definition]}).to_string();
    let reply = server.send("PUT", "/databases/db/admin/indexes", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
}

fn ask(server: &TestServer, text: &str, parameters: &Value) -> Value {
    let body =
        json!({"Query": text, "QueryParameters": parameters, "WaitForNonStaleResults": true});
    server.send("POST", "/databases/db/queries", body.to_string().as_bytes()).json()
}

fn results(server: &TestServer, text: &str, parameters: &Value) -> Value {
    let answer = ask(server, text, parameters);
    assert_eq!(answer["IsStale"], false, "{text}: {answer}");
    answer["Results"].clone()
}

fn refused(server: &TestServer, text: &str, parameters: &Value) -> (String, String) {
    let answer = ask(server, text, parameters);
    let text_of = |name: &str| answer[name].as_str().unwrap_or_else(|| panic!("{text}: {answer}"));
    let kind = text_of("Type").rsplit('.').next().unwrap().to_owned();
    (kind, text_of("Message").lines().next().unwrap_or_default().to_owned())
}

fn boats() -> TestServer {
    let server = TestServer::with_database();
    for (number, (maker, price, sails, built, owner)) in [
        (json!("Ada"), json!(100.5), json!(1), json!("2020-01-01T00:00:00.0000000Z"), "people/1"),
        (json!("ada"), json!(140), json!(3), json!("2020-03-01T00:00:00.0000000Z"), "people/2"),
        (json!("Nora"), json!(200), json!(null), json!(null), "people/1"),
        (json!(null), json!(99), json!(2), json!("2021-01-01T00:00:00.0000000Z"), "people/3"),
        (json!(""), json!(null), json!(2.5), json!("2021-01-01T00:00:00.0000000Z"), "people/1"),
    ]
    .into_iter()
    .enumerate()
    {
        let boat = json!({"Maker": maker, "Price": price, "Sails": sails, "Built": built,
            "Owner": owner});
        put(&server, &format!("boats/{}", number + 1), "Boats", &boat);
    }
    put(&server, "boats/6", "Boats", &json!({"Price": -3}));
    put(&server, "people/1", "People", &json!({"Name": "Eve"}));
    define(
        &server,
        &json!({"Name": "Boats", "Maps": [
            "from b in docs.Boats select new { b.Maker, b.Price, b.Sails, b.Built, b.Owner }"]}),
    );
    server
}

/// Ranges and their counts.
fn counts(facet: &Value) -> Vec<(String, u64)> {
    let values = facet["Values"].as_array().unwrap_or_else(|| panic!("{facet}"));
    let pair = |value: &Value| {
        (value["Range"].as_str().unwrap().to_owned(), value["Count"].as_u64().unwrap())
    };
    values.iter().map(pair).collect()
}

fn counted(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs.iter().map(|(range, count)| ((*range).to_owned(), *count)).collect()
}

#[test]
fn a_facet_counts_the_terms_of_a_field() {
    let server = boats();
    let body = json!({"Query": "from index 'Boats' select facet(Maker)",
        "WaitForNonStaleResults": true});
    let reply = server.send("POST", "/databases/db/queries", body.to_string().as_bytes());
    let head = r#"{"TotalResults":1,"LongTotalResults":1,"DurationInMs":"#;
    assert!(reply.text().starts_with(head), "{}", reply.text());
    let results = r#","IndexName":"Boats","Results":[{"Name":"Maker","Values":[{"Name":null,"Count":2,"Range":"ada"},{"Name":null,"Count":1,"Range":"EMPTY_STRING"},{"Name":null,"Count":1,"Range":"nora"},{"Name":null,"Count":1,"Range":"NULL_VALUE"}],"RemainingHits":0,"RemainingTermsCount":0,"RemainingTerms":[]}],"Includes":{},"IndexTimestamp":"#;
    assert!(reply.text().contains(results), "{}", reply.text());
    let etag = reply.header("etag").unwrap().to_owned();
    assert_eq!(reply.json()["ResultEtag"].to_string(), etag);
    let again = server.send_with(
        "POST",
        "/databases/db/queries",
        &[("If-None-Match", &etag)],
        body.to_string().as_bytes(),
    );
    assert_eq!(again.status, 304);
}

#[test]
fn a_facet_sums_numbers_and_skips_other_values() {
    let server = boats();
    let text = "from index 'Boats' where Price > 0 \
                select facet(Maker, sum(Price) as Total, avg(Sails), max(Sails)) as By";
    let expected = json!([{"Name": "By", "Values": [
        {"Name": "Total", "Sum": 240.5, "Count": 2, "Range": "ada"},
        {"Name": "Sails", "Average": 2, "Max": 3, "Count": 2, "Range": "ada"},
        {"Name": "Total", "Sum": 200, "Count": 1, "Range": "nora"},
        {"Name": "Sails", "Average": 0, "Max": 0, "Count": 1, "Range": "nora"},
        {"Name": "Total", "Sum": 99, "Count": 1, "Range": "NULL_VALUE"},
        {"Name": "Sails", "Average": 2, "Max": 2, "Count": 1, "Range": "NULL_VALUE"},
    ], "RemainingHits": 0, "RemainingTermsCount": 0, "RemainingTerms": []}]);
    assert_eq!(results(&server, text, &json!({})), expected);
    let all =
        results(&server, "from index 'Boats' select facet(avg(Sails), min(Sails))", &json!({}));
    let value = json!({"Name": "Sails", "Average": 2.125, "Min": 1, "Count": 6,
        "Range": "@AllResults"});
    assert_eq!((&all[0]["Name"], &all[0]["Values"]), (&json!("@AllResults"), &json!([value])));
}

#[test]
fn all_ranges_are_listed_with_parameters_substituted() {
    let server = boats();
    let text = "from index 'Boats' select facet(Price < $a, Price >= $a and Price < $b, \
                Price > 5000, sum(Sails)), facet(Built < '2020-02-01', Built >= $d) as When";
    let parameters = json!({"a": 100.0, "b": 150, "d": "2020-02-01T00:00:00.0000000Z"});
    let facets = results(&server, text, &parameters);
    assert_eq!(facets[0]["Name"], "Price");
    assert_eq!(
        facets[0]["Values"],
        json!([
            {"Name": "Sails", "Sum": 2, "Count": 2, "Range": "Price < 100.0"},
            {"Name": "Sails", "Sum": 4, "Count": 2, "Range": "Price >= 100.0 and Price < 150"},
            {"Name": "Sails", "Count": 0, "Range": "Price > 5000"},
        ])
    );
    let expected =
        counted(&[("Built < 2020-02-01", 1), ("Built >= 2020-02-01T00:00:00.0000000Z", 3)]);
    assert_eq!((&facets[1]["Name"], counts(&facets[1])), (&json!("When"), expected));
}

#[test]
fn options_order_and_page_the_terms() {
    let server = boats();
    let text = "from index 'Boats' select facet(Maker, $o)";
    let by_count = json!({"o": {"TermSortMode": "CountDesc", "PageSize": 2,
        "IncludeRemainingTerms": true}});
    let facet = results(&server, text, &by_count)[0].clone();
    assert_eq!(counts(&facet), counted(&[("ada", 2), ("EMPTY_STRING", 1)]));
    assert_eq!(facet["RemainingHits"], 2);
    assert_eq!(facet["RemainingTermsCount"], 2);
    assert_eq!(facet["RemainingTerms"], json!(["nora", "NULL_VALUE"]));
    let other = json!({"o": {"termSortMode": "ValueDesc", "start": 1, "pageSize": 1}});
    let facet = results(&server, text, &other)[0].clone();
    assert_eq!(counts(&facet), counted(&[("nora", 1)]));
    assert_eq!((&facet["RemainingHits"], &facet["RemainingTerms"]), (&json!(3), &json!([])));
    for (options, message) in [
        (json!({"TermSortMode": "Nope"}), "The option 'TermSortMode' of facet() must be one of"),
        (json!({"PageSize": "x"}), "The option 'PageSize' of facet() must be a number"),
        (json!(5), "The options of facet() must be a JSON object, but were: 5"),
        (json!(null), "The options of facet() must be a JSON object, but were: null"),
    ] {
        let (kind, said) = refused(&server, text, &json!({"o": options}));
        assert_eq!(kind, "InvalidOperationException");
        assert!(said.starts_with(message), "{said}");
    }
}

#[test]
fn a_setup_document_lists_facets() {
    let server = boats();
    put(
        &server,
        "facets/1",
        "Setups",
        &json!({
            "Facets": [{"FieldName": "Maker", "DisplayFieldName": "By",
                "Options": {"TermSortMode": "CountDesc", "PageSize": 1},
                "Aggregations": {"Sum": "Price", "Max": [{"Name": "Sails", "DisplayName": "Most"}]}}],
            "RangeFacets": [{"Ranges": ["Price < $low", "Price >= 100"],
                "Aggregations": {"Average": "Sails"}}],
        }),
    );
    let text = "from index 'Boats' select facet(id('facets/1'))";
    let facets = results(&server, text, &json!({"low": 100}));
    assert_eq!(
        facets,
        json!([
            {"Name": "By", "Values": [
                {"Name": "Price", "Sum": 240.5, "Count": 2, "Range": "ada"},
                {"Name": "Most", "Max": 3, "Count": 2, "Range": "ada"},
            ], "RemainingHits": 3, "RemainingTermsCount": 3, "RemainingTerms": []},
            {"Name": "Price", "Values": [
                {"Name": "Sails", "Average": 2, "Count": 2, "Range": "Price < 100"},
                {"Name": "Sails", "Average": 2, "Count": 3, "Range": "Price >= 100"},
            ], "RemainingHits": 0, "RemainingTermsCount": 0, "RemainingTerms": []},
        ])
    );
    let other =
        results(&server, "from index 'Boats' select facet(id($id))", &json!({"id": "people/1"}));
    assert_eq!(other, json!([]));
    for (id, setup, kind, message) in [
        ("nope", json!(null), "DocumentDoesNotExistException", "Document 'nope' does not exist."),
        ("facets/2", json!({"Facets": "x"}), "InvalidOperationException", "'Facets' must be"),
        (
            "facets/2",
            json!({"RangeFacets": [{}]}),
            "InvalidOperationException",
            "must have 'Ranges'",
        ),
        (
            "facets/2",
            json!({"RangeFacets": [{"Ranges": ["Price !! 3"]}]}),
            "InvalidOperationException",
            "the range 'Price !! 3' cannot be read",
        ),
        (
            "facets/2",
            json!({"RangeFacets": [{"Ranges": ["Price < 3", "Sails > 2"]}]}),
            "InvalidQueryException",
            "The ranges of a facet must be of one field",
        ),
        (
            "facets/2",
            json!({"Facets": [{"FieldName": "Maker", "Aggregations": {"Nope": "Price"}}]}),
            "InvalidOperationException",
            "there is no aggregation 'Nope'",
        ),
    ] {
        if !setup.is_null() {
            put(&server, id, "Setups", &setup);
        }
        let text = format!("from index 'Boats' select facet(id('{id}'))");
        let (found, said) = refused(&server, &text, &json!({}));
        assert_eq!(found, kind, "{setup}");
        assert!(said.contains(message), "{setup}: {said}");
    }
}

#[test]
fn an_included_field_includes_the_documents_named_by_its_terms() {
    let server = boats();
    let text = "from index 'Boats' select facet(Owner) include Owner";
    let answer = ask(&server, text, &json!({}));
    assert_eq!(counts(&answer["Results"][0])[0], ("people/1".to_owned(), 3));
    let includes = answer["Includes"].as_object().unwrap();
    assert_eq!(includes.keys().collect::<Vec<_>>(), ["people/1"]);
    let other = ask(&server, "from index 'Boats' select facet(Maker) include Owner", &json!({}));
    assert_eq!(other["Includes"], json!({}));
}

#[test]
fn invalid_facets_are_rejected() {
    let server = boats();
    for (text, kind, message) in [
        ("from Boats select facet(Maker)", "InvalidQueryException", "Facet query must be executed"),
        (
            "from index 'Boats' select facet(Maker), Price",
            "InvalidQueryException",
            "'Price' cannot",
        ),
        ("from index 'Boats' select distinct facet(Maker)", "InvalidQueryException", "Cannot use"),
        (
            "from index 'Boats' select facet(Price = 3)",
            "InvalidQueryException",
            "'Price = 3' is no",
        ),
        (
            "from index 'Boats' select facet(Price < 3, Sails > 1)",
            "InvalidQueryException",
            "The ra",
        ),
        (
            "from index 'Boats' select facet(Maker, Price < 1)",
            "InvalidQueryException",
            "'Price < 1",
        ),
        ("from index 'Boats' select facet(Maker, nope(Price))", "NotSupportedException", "Method"),
        ("from index 'Boats' select facet(Maker), facet(Maker)", "InvalidQueryException", "Duplic"),
        ("from index 'Boats' select facet(id())", "InvalidQueryException", "id() in facet() takes"),
        ("from index 'Boats' where Nope = 1 select facet(Maker)", "ArgumentException", "The field"),
        ("from index 'Boats' order by Nope select facet(Maker)", "ArgumentException", "The field"),
        ("from index 'Nope' select facet(Maker)", "IndexDoesNotExistException", "There is no"),
    ] {
        let (found, said) = refused(&server, text, &json!({}));
        assert_eq!(found, kind, "{text}");
        assert!(said.starts_with(message), "{text}: {said}");
    }
    let unknown =
        results(&server, "from index 'Boats' select facet(Nope), facet(No < 3)", &json!({}));
    assert_eq!((&unknown[0]["Values"], &unknown[1]["Values"][0]["Count"]), (&json!([]), &json!(0)));
    let stream = json!({"Query": "from index 'Boats' select facet(Maker)"}).to_string();
    let reply = server.send("POST", "/databases/db/streams/queries", stream.as_bytes());
    assert_eq!(reply.json()["Type"], "System.NotSupportedException");
}

#[test]
fn facets_can_be_requested_in_a_multi_get() {
    let server = boats();
    results(&server, "from index 'Boats' select facet(Maker)", &json!({}));
    let content = json!({"Query": "from index 'Boats' select facet(Maker)"}).to_string();
    let inner = json!({"Requests": [{"Url": "/databases/db/queries", "Query": "?queryHash=1",
        "Method": "POST", "Content": content}]});
    let reply = server.send("POST", "/databases/db/multi_get", inner.to_string().as_bytes()).json();
    let facet = &reply["Results"][0]["Result"]["Results"][0];
    assert_eq!(counts(facet)[0], ("ada".to_owned(), 2));
}

fn words() -> TestServer {
    let server = TestServer::with_database();
    let words =
        ["apple", "Apply", "ape", "maple", "apples", "banana", "john", "jon", "joan", "big house"];
    for (number, word) in words.iter().enumerate() {
        put(&server, &format!("w/{number}"), "W", &json!({"V": word, "T": word, "N": number}));
    }
    define(
        &server,
        &json!({
            "Name": "I", "Maps": ["from w in docs.W select new { w.V, w.T, E = w.V, w.N }"],
            "Fields": {"V": {"Suggestions": true}, "E": {"Suggestions": true, "Indexing": "Exact"},
                "T": {"Suggestions": true, "Indexing": "Search"}},
        }),
    );
    server
}

#[test]
fn near_terms_are_suggested() {
    let server = words();
    let suggest = |rest: &str, parameters: Value| -> Value {
        results(&server, &format!("from index 'I' select {rest}"), &parameters)
    };
    let of_one =
        |rest: &str, parameters: Value| suggest(rest, parameters)[0]["Suggestions"].clone();
    let all = json!([{"Name": "V", "Suggestions": ["apple", "maple", "ape", "apply"]}]);
    assert_eq!(suggest("suggest(V, 'aple')", json!({})), all);
    assert_eq!(of_one("suggest(V, $t)", json!({"t": "APLE"})), all[0]["Suggestions"]);
    assert_eq!(suggest("suggest(V, 'aple') as X", json!({}))[0]["Name"], "X");
    assert_eq!(
        suggest("suggest(V, 'aple', $o), suggest(T, 'huose')", json!({"o": {"pageSize": 1}})),
        json!([{"Name": "V", "Suggestions": ["apple"]}, {"Name": "T", "Suggestions": ["house"]}])
    );
    let merged =
        of_one("suggest(V, $t, $o)", json!({"t": ["aple", "jonh"], "o": {"Accuracy": 0.6}}));
    assert_eq!(merged, json!(["apple", "maple", "ape", "apply", "jon"]));
    assert_eq!(
        of_one("suggest(V, 'apple')", json!({})),
        json!(["apples", "apply", "ape", "maple"])
    );
    let known = json!({"o": {"SortMode": "None"}});
    assert_eq!(of_one("suggest(V, 'apple', $o)", known), json!(["apple"]));
    assert_eq!(of_one("suggest(E, 'aply')", json!({})), json!(["Apply", "apple", "maple", "ape"]));
    let distance = |name: &str| json!({"o": {"Distance": name, "Accuracy": 0.7}});
    let nearest = json!(["apple", "maple", "ape"]);
    assert_eq!(of_one("suggest(V, 'aple', $o)", distance("Levenshtein")), nearest);
    let pairs = json!(["apple", "apply", "maple"]);
    assert_eq!(of_one("suggest(V, 'aple', $o)", distance("NGram")), pairs);
}

#[test]
fn suggestions_create_the_index_that_they_need() {
    let server = words();
    let answer = ask(&server, "from W where N > 3 select suggest(V, 'Aple')", &json!({}));
    assert_eq!(answer["IndexName"], "Auto/W/ByNAndSuggest(V)", "{answer}");
    let terms = json!(["apple", "maple", "ape", "apply"]);
    assert_eq!(answer["Results"][0]["Suggestions"], terms);
    let other = results(&server, "from W as w select suggest(w.T, 'big huose')", &json!({}));
    assert_eq!(other, json!([{"Name": "T", "Suggestions": ["big house"]}]));
}

#[test]
fn invalid_suggestions_are_rejected() {
    let server = words();
    for (rest, parameters, kind, message) in [
        ("suggest(V)", json!({}), "InvalidQueryException", "Method suggest() must contain two or"),
        (
            "suggest(Nope, 'x')",
            json!({}),
            "InvalidOperationException",
            "Index 'I' does not have a f",
        ),
        (
            "suggest(N, 'x')",
            json!({}),
            "InvalidOperationException",
            "Index 'I' does not have sugges",
        ),
        ("suggest(V, 5)", json!({}), "InvalidOperationException", "suggest() takes a text or"),
        (
            "suggest(V, $t)",
            json!({"t": [1]}),
            "InvalidOperationException",
            "suggest() takes a text",
        ),
        ("suggest(V, $t)", json!({}), "InvalidQueryException", "Value of parameter 't' was not"),
        ("suggest(V, 'x', $o)", json!({"o": {"PageSize": 0}}), "ArgumentException", "The option"),
        ("suggest(V, 'x', $o)", json!({"o": {"Distance": "x"}}), "InvalidOperationException", ""),
        ("suggest(V, 'x'), V", json!({}), "InvalidQueryException", "'V' cannot be combined with"),
        ("suggest(V, 'x'), suggest(V, 'y')", json!({}), "InvalidQueryException", "Duplicate alias"),
        ("distinct suggest(V, 'x')", json!({}), "InvalidQueryException", "Cannot use SELECT DIST"),
    ] {
        let text = format!("from index 'I' select {rest}");
        let (found, said) = refused(&server, &text, &parameters);
        assert_eq!(found, kind, "{rest}");
        assert!(said.starts_with(message), "{rest}: {said}");
    }
}

fn notes() -> TestServer {
    let server = TestServer::with_database();
    let texts = [
        "a river boat with a river crew",
        "river crews and river boats of the river",
        "the boat went down the river",
        "a mountain hut",
        "hut",
        "the crew of a train",
    ];
    for (number, text) in texts.iter().enumerate() {
        let title = text.split(' ').next().unwrap();
        let note = json!({"Body": text, "Title": title, "N": number, "Next": "notes/0"});
        put(&server, &format!("notes/{number}"), "Notes", &note);
    }
    put(&server, "stop/1", "Stops", &json!({"StopWords": ["River", "boat"]}));
    put(&server, "stop/2", "Stops", &json!({}));
    let map = "from n in docs.Notes select new { n.Body, n.Title, n.N }";
    define(
        &server,
        &json!({"Name": "Notes", "Maps": [map],
            "Fields": {"Body": {"Indexing": "Search", "Storage": "Yes"}}}),
    );
    define(
        &server,
        &json!({"Name": "Plain", "Maps": [map], "Fields": {"Body": {"Indexing": "Search"}}}),
    );
    server
}

fn ids(answer: &Value) -> Vec<&str> {
    let rows = answer["Results"].as_array().unwrap_or_else(|| panic!("{answer}"));
    rows.iter().map(|row| row["@metadata"]["@id"].as_str().unwrap()).collect()
}

/// Ids with their scores, to four digits.
fn scores(answer: &Value) -> Vec<(&str, f64)> {
    let rows = answer["Results"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let score = |row: &Value| row["@metadata"]["@index-score"].as_f64().unwrap();
    let rounded = rows.iter().map(|row| (score(row) * 1e4).round() / 1e4);
    ids(answer).into_iter().zip(rounded).collect()
}

#[test]
fn similar_documents_are_found_best_first_without_the_document_itself() {
    let server = notes();
    let of_notes = |rest: &str, parameters: Value| {
        ask(&server, &format!("from index 'Notes' where {rest}"), &parameters)
    };
    let like = of_notes("moreLikeThis(id() = $p)", json!({"p": "Notes/0"}));
    assert_eq!(scores(&like), [("notes/2", 1.1626), ("notes/1", 0.4108), ("notes/5", 0.3442)]);
    assert_eq!(like["TotalResults"], 3);
    assert_eq!(ids(&of_notes("moreLikeThis(N = 3)", json!({}))), ["notes/4"]);
    let text = json!({"p": r#"{"Anything": {"Deep": ["a HUT", 7]}}"#});
    assert_eq!(ids(&of_notes("moreLikeThis($p)", text)).len(), 2);
    let object = json!({"p": {"Body": "train crew"}});
    let like = of_notes("moreLikeThis($p)", object);
    assert_eq!(scores(&like), [("notes/5", 2.6965), ("notes/0", 0.5316)]);
    let narrowed = of_notes("moreLikeThis(id() = 'notes/0') and Title = 'the'", json!({}));
    assert_eq!(ids(&narrowed), ["notes/2", "notes/5"]);
    let ordered = of_notes("moreLikeThis(id() = 'notes/0') order by N as long desc", json!({}));
    assert_eq!(ids(&ordered), ["notes/5", "notes/2", "notes/1"]);
    let paged = of_notes("moreLikeThis(id() = 'notes/0') include Next limit 1, 1", json!({}));
    assert_eq!(ids(&paged), ["notes/1"]);
    assert_eq!(paged["Includes"].as_object().unwrap().len(), 1);
    let plain = "from index 'Plain' where moreLikeThis(id() = 'notes/3')";
    // One has the title in common, one a word of the body; both terms are equally rare.
    assert_eq!(ids(&ask(&server, plain, &json!({}))), ["notes/0", "notes/4"]);
}

#[test]
fn options_select_the_terms_that_are_compared() {
    let server = notes();
    let like = |options: Value| {
        let text = "from index 'Notes' where moreLikeThis(id() = 'notes/0', $o)";
        let answer = ask(&server, text, &json!({"o": options}));
        ids(&answer).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(like(json!({})), ["notes/2", "notes/1", "notes/5"]);
    assert_eq!(like(json!(null)), ["notes/2", "notes/1", "notes/5"]);
    assert_eq!(like(json!(r#"{"MaximumDocumentFrequency": 2}"#)), ["notes/2", "notes/5"]);
    assert_eq!(like(json!({"MinimumTermFrequency": 2})), ["notes/1", "notes/2"]);
    assert_eq!(like(json!({"MaximumQueryTerms": 1})), ["notes/1", "notes/2"]);
    assert_eq!(like(json!({"minimumDocumentFrequency": 3})), ["notes/1", "notes/2"]);
    assert_eq!(like(json!({"MaximumDocumentFrequency": 2})), ["notes/2", "notes/5"]);
    assert_eq!(like(json!({"MaximumDocumentFrequencyPercentage": 40})), ["notes/2", "notes/5"]);
    assert_eq!(like(json!({"MinimumWordLength": 5})), ["notes/1", "notes/2"]);
    assert_eq!(like(json!({"MaximumWordLength": 4})), ["notes/2", "notes/5"]);
    assert_eq!(like(json!({"StopWordsDocumentId": "stop/1"})), ["notes/5"]);
    assert_eq!(like(json!({"StopWordsDocumentId": "stop/2"})).len(), 3);
    assert_eq!(like(json!({"Boost": true, "BoostFactor": 4})), ["notes/2", "notes/1", "notes/5"]);
    assert_eq!(like(json!({"Fields": ["Title"]})), ["notes/3"]);
    assert_eq!(like(json!({"Fields": ["Nope"]})), [""; 0]);
}

#[test]
fn invalid_comparisons_are_rejected() {
    let server = notes();
    let index = "from index 'Notes' where";
    for (text, parameters, kind, message) in [
        (
            "from Notes where moreLikeThis(id() = 'notes/0')",
            json!({}),
            "InvalidQueryException",
            "Method moreLikeThis() cannot be used in dynamic queries",
        ),
        (
            &format!("{index} moreLikeThis()"),
            json!({}),
            "InvalidQueryException",
            "Method moreLikeThis() expects to have one or two arguments",
        ),
        (
            &format!("{index} moreLikeThis(id() = 'nope')"),
            json!({}),
            "InvalidOperationException",
            "Given filtering expression did not yield any documents",
        ),
        (
            &format!("{index} moreLikeThis(exists(N))"),
            json!({}),
            "InvalidQueryException",
            "Method moreLikeThis() expects that first argument",
        ),
        (
            &format!("{index} moreLikeThis($p)"),
            json!({"p": "nojson"}),
            "ArgumentException",
            "moreLikeThis() takes a JSON document, but:",
        ),
        (
            &format!("{index} moreLikeThis($p)"),
            json!({"p": 5}),
            "ArgumentException",
            "moreLikeThis() takes a condition or a JSON document, but got: 5",
        ),
        (
            &format!("{index} moreLikeThis(N = 0, $o)"),
            json!({"o": {"StopWordsDocumentId": "no"}}),
            "InvalidOperationException",
            "Stop words document no could not be found",
        ),
        (
            &format!("{index} moreLikeThis(N = 0, $o)"),
            json!({"o": {"Fields": "Body"}}),
            "InvalidOperationException",
            "The option 'Fields' of moreLikeThis() must be an array",
        ),
        (
            &format!("{index} moreLikeThis(N = 0, $o)"),
            json!({"o": 5}),
            "InvalidOperationException",
            "The options of moreLikeThis() must be a JSON object",
        ),
    ] {
        let (found, said) = refused(&server, text, &parameters);
        assert_eq!(found, kind, "{text}");
        assert!(said.starts_with(message), "{text}: {said}");
    }
}
