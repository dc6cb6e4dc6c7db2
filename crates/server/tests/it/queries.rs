//! Collection queries and their streams.

use serde_json::json;

use crate::test_server::TestServer;

fn three_users() -> TestServer {
    let server = TestServer::with_database();
    for n in 1..=3 {
        let id = format!("users/{n}");
        let document = format!(r#"{{"N":{n},"C":"c/{n}","@metadata":{{"@collection":"Users"}}}}"#);
        server.put(&id, &document);
    }
    server.put("c/1", "{}");
    server
}

fn query(server: &TestServer, body: &str) -> crate::http_client::Reply {
    server.send("POST", "/databases/db/queries", body.as_bytes())
}

#[test]
fn a_collection_query_returns_the_envelope_of_the_protocol() {
    let server = three_users();
    let reply = query(&server, r#"{"Query":"from Users","PageSize":2,"QueryParameters":null}"#);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.ids(), ["users/1", "users/2"]);
    let answer = reply.json();
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "TotalResults",
            "LongTotalResults",
            "ScannedResults",
            "SkippedResults",
            "DurationInMs",
            "IncludedPaths",
            "IndexName",
            "Results",
            "Includes",
            "IndexTimestamp",
            "LastQueryTime",
            "IsStale",
            "ResultEtag",
            "NodeTag",
        ]
    );
    assert_eq!((&answer["TotalResults"], &answer["IsStale"]), (&json!(3), &json!(false)));
    assert_eq!(answer["IndexName"], "collection/Users");
    assert_eq!(reply.header("etag"), Some(answer["ResultEtag"].to_string().as_str()));
    let by_get = server.get("/databases/db/queries?query=from%20Users&pageSize=2");
    assert_eq!(by_get.ids(), reply.ids());
}

#[test]
fn a_query_with_an_unchanged_result_returns_304() {
    let server = three_users();
    let body = r#"{"Query":"from Users"}"#;
    let etag = query(&server, body).header("etag").unwrap().to_owned();
    let again = |etag: &str| {
        let headers = [("If-None-Match", etag)];
        server.send_with("POST", "/databases/db/queries", &headers, body.as_bytes()).status
    };
    assert_eq!(again(&etag), 304);
    assert_eq!(again(&format!("\"{etag}\"")), 304);
    server.put("users/4", r#"{"@metadata":{"@collection":"Users"}}"#);
    assert_eq!(again(&etag), 200);
}

#[test]
fn queries_project_page_and_include() {
    let server = three_users();
    let answer = query(&server, r#"{"Query":"from Users select N","Start":1}"#).json();
    assert_eq!(answer["Results"][0]["N"], 2);
    assert_eq!(answer["Results"][0]["@metadata"]["@projection"], true);
    let answer = query(&server, r#"{"Query":"from Users include C"}"#).json();
    assert_eq!(answer["IncludedPaths"], json!(["C"]));
    assert_eq!(answer["Includes"].as_object().unwrap().keys().collect::<Vec<_>>(), ["c/1"]);
    let by_parameter =
        r#"{"Query":"from Users where id() = $p0","QueryParameters":{"p0":"users/2"}}"#;
    assert_eq!(query(&server, by_parameter).ids(), ["users/2"]);
}

#[test]
fn invalid_queries_return_the_reason() {
    let server = three_users();
    let table = [
        ("", "System.IO.EndOfStreamException"),
        ("[]", "Sparrow.Exceptions.InvalidStartOfObjectException"),
        ("{}", "System.InvalidOperationException"),
        (r#"{"Query":"fro"}"#, "Raven.Server.Documents.Queries.Parser.QueryParser+ParseException"),
        (r#"{"Query":"from Users group by $p"}"#, "System.NotSupportedException"),
    ];
    for (body, name) in table {
        let reply = query(&server, body);
        assert_eq!(reply.status, 500, "{body}");
        assert_eq!(reply.json()["Type"], name, "{body}");
    }
    let missing = server.get("/databases/db/queries");
    assert!(missing.json()["Message"].as_str().unwrap().contains("'query'"));
}

#[test]
fn streams_begin_with_statistics() {
    let server = three_users();
    let stream = |extra: &str| {
        server.get(&format!("/databases/db/streams/queries?query=from%20Users{extra}"))
    };
    let json = stream("").json();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    let expected =
        ["ResultEtag", "IsStale", "IndexName", "TotalResults", "IndexTimestamp", "Results"];
    assert_eq!(keys, expected);
    assert_eq!(json["Results"].as_array().unwrap().len(), 3);
    let lines = stream("&format=jsonl").text();
    let lines: Vec<serde_json::Value> = lines
        .split("\r\n")
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["Stats"]["TotalResults"], 3);
    assert_eq!(lines[3]["Item"]["N"], 3);
    let include = server.get("/databases/db/streams/queries?query=from%20Users%20include%20C");
    assert_eq!(include.json()["Type"], "System.NotSupportedException");
    assert_eq!(server.get("/databases/db/streams/docs?startsWith=users/").ids().len(), 3);
}

#[test]
fn scripts_project_rows_from_documents_and_loaded_documents() {
    let server = three_users();
    server.put("c/1", r#"{"City":"Oz"}"#);
    let rows = |text: &str, parameters: &str| {
        let body = json!({"Query": text}).to_string();
        let body = body.replacen('{', &format!(r#"{{"QueryParameters":{parameters},"#), 1);
        let reply = query(&server, &body);
        assert_eq!(reply.status, 200, "{text}: {}", reply.text());
        let mut answer = reply.json();
        for row in answer["Results"].as_array_mut().unwrap() {
            assert_eq!(row["@metadata"]["@projection"], true, "{text}");
            row.as_object_mut().unwrap().remove("@metadata");
        }
        answer
    };
    let answer = rows(
        "from Users as u where id() = 'users/2' select { Twice: u.N * 2, No: u.Nope.x }",
        "{}",
    );
    assert_eq!(answer["Results"], json!([{"Twice": 4, "No": null}]));
    let answer =
        rows("from Users as u where u.N < 2 select { Sum: u.N + $more }", r#"{"more":40}"#);
    assert_eq!(answer["Results"], json!([{"Sum": 41}]));
    let text = "declare function f(u, c) { return { N: u.N, City: c.City }; } \
                from Users as u load u.C as c select f(u, c)";
    assert_eq!(
        rows(text, "{}")["Results"],
        json!([{"N": 1, "City": "Oz"}, {"N": 2, "City": null}, {"N": 3, "City": null}])
    );
    let text = "from Users as u load u.C as c select u.N, c.City as Town";
    assert_eq!(rows(text, "{}")["Results"], json!([{"N": 1, "Town": "Oz"}, {"N": 2}, {"N": 3}]));
    let text = "from Users as u where id() = 'users/1' select { I: include(u.C) }";
    assert_eq!(rows(text, "{}")["Includes"]["c/1"]["City"], "Oz");
    for (text, part) in [
        ("from Users select { N: 1 }", "requires that aliases will be defined"),
        ("from Users as u select { N: ! }", "Select clause contains invalid script"),
        (
            "declare function f(u) { return 5; } from Users as u select f(u)",
            "must return an object",
        ),
        ("from Users as u load x.C as c select c.City", "Unknown alias x"),
    ] {
        let reply = query(&server, &json!({"Query": text}).to_string());
        let message = reply.json()["Message"].as_str().unwrap_or_default().to_owned();
        assert!(reply.status == 500 && message.contains(part), "{text}: {}", reply.text());
    }
}

#[test]
fn a_script_returns_any_number_of_rows_per_document() {
    let server = three_users();
    let text = "declare function f(u) { var rows = []; for (var i = 1; i < u.N; i++) \
                rows.push({ N: u.N, I: i }); return rows; } from Users as u select f(u)";
    let wanted = [json!({"N": 2, "I": 1}), json!({"N": 3, "I": 1}), json!({"N": 3, "I": 2})];
    let without_metadata = |mut row: serde_json::Value| {
        row.as_object_mut().unwrap().remove("@metadata");
        row
    };
    let page = query(&server, &json!({"Query": text}).to_string()).json();
    let rows = page["Results"].as_array().unwrap().iter().cloned();
    assert_eq!(rows.map(without_metadata).collect::<Vec<_>>(), wanted);
    let stream = |format: &str| {
        let body = json!({"Query": text}).to_string();
        let target = format!("/databases/db/streams/queries?format={format}");
        server.send("POST", &target, body.as_bytes())
    };
    let rows = stream("").json()["Results"].as_array().unwrap().clone();
    assert_eq!(rows.into_iter().map(without_metadata).collect::<Vec<_>>(), wanted);
    let lines = stream("jsonl").text();
    let items = lines.split("\r\n").filter(|line| !line.is_empty()).skip(1).map(|line| {
        let item: serde_json::Value = serde_json::from_str(line).unwrap();
        without_metadata(item["Item"].clone())
    });
    assert_eq!(items.collect::<Vec<_>>(), wanted);
    let table = stream("csv").text();
    let table: Vec<&str> = table.trim_end().split("\r\n").collect();
    assert_eq!(table.len(), 4, "{table:?}");
}

#[test]
fn a_short_page_of_a_long_result_is_not_streamed() {
    let server = TestServer::with_database();
    for batch in 0..4 {
        let commands: Vec<String> = (0..100)
            .map(|n| {
                let (id, document) = (batch * 100 + n, r#"{"@metadata":{"@collection":"D"}}"#);
                format!(r#"{{"Type":"PUT","Id":"d/{id:04}","Document":{document}}}"#)
            })
            .collect();
        assert_eq!(server.batch(&commands.join(",")).status, 201);
    }
    for (text, page_size, rows, is_streamed) in [
        ("from D", "null", 400, true),
        ("from D limit 300", "null", 300, true),
        ("from D limit 5", "null", 5, false),
        ("from D", "5", 5, false),
        ("from D limit 300", "5", 5, false),
    ] {
        let body = format!(r#"{{"Query":"{text}","PageSize":{page_size}}}"#);
        let reply = query(&server, &body);
        assert_eq!(reply.ids().len(), rows, "{text}: {}", reply.text());
        assert_eq!(reply.json()["TotalResults"], 400, "{text}");
        assert_eq!(reply.header("transfer-encoding").is_some(), is_streamed, "{text}");
    }
}
