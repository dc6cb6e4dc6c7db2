//! Automatic indexes as queries create and use them, and what every route reports about indexes.

use serde_json::json;

use crate::{
    index_rows::{boats_of_users, queried},
    test_server::TestServer,
};

#[test]
fn lists_of_indexes_are_empty() {
    let server = TestServer::with_database();
    for path in ["", "?namesOnly=true", "/stats", "/errors", "/performance", "/progress"] {
        let reply = server.get(&format!("/databases/db/indexes{path}"));
        assert_eq!((reply.status, &reply.json()["Results"]), (200, &json!([])), "{path}");
    }
    let status = || server.get("/databases/db/indexes/status").json();
    assert_eq!(status(), json!({"Status": "Running", "Indexes": []}));
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    assert_eq!(status()["Status"], "Paused");
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/start", b"").status, 204);
    assert_eq!(status()["Status"], "Running");
    assert_eq!(server.send("DELETE", "/databases/db/indexes/errors", b"").status, 204);
    let changed = br#"{"Name":"nope","Maps":["from d in docs select new { d.A }"]}"#;
    let changed = server.send("POST", "/databases/db/indexes/has-changed", changed).json();
    assert_eq!(changed, json!({"Changed": true}));
}

#[test]
fn each_route_reports_a_missing_index() {
    let server = TestServer::with_database();
    for (method, path) in [
        ("GET", "indexes?name=nope"),
        ("GET", "indexes/stats?name=nope"),
        ("GET", "indexes/source?name=nope"),
        ("DELETE", "indexes?name=nope"),
    ] {
        let reply = server.send(method, &format!("/databases/db/{path}"), b"");
        assert_eq!((reply.status, reply.body.len()), (404, 0), "{method} {path}");
    }
    for (method, path, body) in [
        ("GET", "indexes/errors?name=nope", ""),
        ("DELETE", "indexes/errors?name=nope", ""),
        ("GET", "indexes/staleness?name=nope", ""),
        ("GET", "indexes/terms?name=nope&field=a", ""),
        ("RESET", "indexes?name=nope", ""),
        ("POST", "admin/indexes/stop?name=nope", ""),
        ("POST", "admin/indexes/enable?name=nope", ""),
        ("POST", "indexes/set-lock", r#"{"IndexNames":["nope"],"Mode":"Unlock"}"#),
        ("POST", "indexes/set-priority", r#"{"IndexNames":["nope"],"Priority":"Low"}"#),
    ] {
        let reply = server.send(method, &format!("/databases/db/{path}"), body.as_bytes());
        assert_eq!(reply.status, 500, "{method} {path}");
        let error = reply.json();
        let kind = "Raven.Client.Exceptions.Documents.Indexes.IndexDoesNotExistException";
        assert_eq!(error["Type"], kind, "{method} {path}");
        assert_eq!(error["Message"], "There is no index with 'nope' name.", "{method} {path}");
    }
    for path in ["admin/indexes", "indexes"] {
        let reply = server.send("PUT", &format!("/databases/db/{path}"), b"{}");
        assert_eq!(reply.json()["Type"], "System.ArgumentException", "{path}");
    }
}

pub(crate) fn put(server: &TestServer, id: &str, json: &str) {
    let path = format!("/databases/db/docs?id={id}");
    let body = json.replacen('{', r#"{"@metadata":{"@collection":"Users"},"#, 1);
    assert_eq!(server.send("PUT", &path, body.as_bytes()).status, 201, "{id}");
}

/// The ids that a query finds when it waits for its index.
pub(crate) fn found(server: &TestServer, text: &str) -> (Vec<String>, serde_json::Value) {
    let body = json!({"Query": text, "WaitForNonStaleResults": true}).to_string();
    let reply = server.send("POST", "/databases/db/queries", body.as_bytes());
    assert_eq!(reply.status, 200, "{text}: {}", reply.text());
    let answer = reply.json();
    assert_eq!(answer["IsStale"], false, "{text}");
    let rows = answer["Results"].as_array().unwrap().iter();
    (rows.map(|row| row["@metadata"]["@id"].as_str().unwrap().to_owned()).collect(), answer)
}

#[test]
fn a_query_creates_the_index_that_it_needs_and_others_reuse_it() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann","Age":30}"#);
    put(&server, "users/2", r#"{"Name":"Bob","Age":7.5}"#);
    put(&server, "users/3", r#"{"Name":null}"#);
    let (ids, answer) = found(&server, "from Users where Name = 'ann'");
    assert_eq!(ids, ["users/1"]);
    assert_eq!(answer["IndexName"], "Auto/Users/ByName");
    assert!(answer["Results"][0]["@metadata"]["@index-score"].is_number());
    let (ids, answer) = found(&server, "from Users where Age > 5 order by Age as double");
    assert_eq!(ids, ["users/2", "users/1"]);
    assert_eq!(answer["IndexName"], "Auto/Users/ByAgeAndName");
    let (ids, answer) = found(&server, "from Users where Name != 'bob' order by Name desc");
    assert_eq!(ids, ["users/1", "users/3"]);
    assert_eq!(answer["IndexName"], "Auto/Users/ByAgeAndName", "one index answers both");
    let record = server.get("/admin/databases?name=db").json();
    assert_eq!(record["AutoIndexes"]["Auto/Users/ByName"]["Collection"], "Users");
}

/// Each change of the record is a write that blocks all requests to the database.
#[test]
fn concurrent_queries_for_the_same_index_change_the_record_once() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann"}"#);
    let etag = || server.get("/databases/db/admin/record").json()["Etag"].as_u64().unwrap();
    let before = etag();
    std::thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| {
                assert_eq!(found(&server, "from Users where Name = 'ann'").0, ["users/1"])
            });
        }
    });
    assert_eq!(etag(), before + 1);
}

#[test]
fn a_response_reports_that_an_index_was_created_for_it() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann"}"#);
    let created = |text: &str| {
        let body = json!({"Query": text}).to_string();
        let reply = server.send("POST", "/databases/db/queries", body.as_bytes());
        reply.header("corvus-index-created").map(str::to_owned)
    };
    assert_eq!(created("from Users"), None);
    assert_eq!(created("from Users where Name = 'ann'").as_deref(), Some("true"));
    assert_eq!(created("from Users where Name = 'ann'"), None);
}

#[test]
fn explain_lists_the_indexes_that_were_considered() {
    let server = TestServer::with_database();
    for number in 0..20 {
        put(&server, &format!("users/{number}"), &format!(r#"{{"N":{number}}}"#));
    }
    found(&server, "from Users where N >= 15");
    let body = json!({"Query": "from Users where N >= 15 limit 2"}).to_string();
    let explained = server.send("POST", "/databases/db/queries?debug=explain", body.as_bytes());
    let execution = explained.json()["Execution"].clone();
    assert_eq!(execution["Index"], "Auto/Users/ByN");
    assert_eq!(
        (&execution["EntriesMatched"], &execution["EntriesReturned"]),
        (&json!(5), &json!(2))
    );
    let scanned = execution["EntriesScanned"].as_u64().unwrap();
    assert!((1..=20).contains(&scanned), "{scanned}");
}

#[test]
fn document_changes_update_the_index() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann"}"#);
    let query = "from Users where Name = 'ann'";
    assert_eq!(found(&server, query).0, ["users/1"]);
    put(&server, "users/2", r#"{"Name":"ANN"}"#);
    assert_eq!(found(&server, query).0, ["users/1", "users/2"]);
    put(&server, "users/1", r#"{"Name":"Eve"}"#);
    assert_eq!(found(&server, query).0, ["users/2"]);
    assert_eq!(server.send("DELETE", "/databases/db/docs?id=users/2", b"").status, 204);
    assert_eq!(found(&server, query).0, Vec::<String>::new());
    assert_eq!(found(&server, "from Users where exists(Name)").0, ["users/1"]);
}

#[test]
fn an_index_reports_statistics_and_errors() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann","Tags":["b","a",null,""]}"#);
    found(&server, "from Users where Name = 'x' or Tags = 'y'");
    let name = "Auto/Users/ByNameAndTags";
    let path = |path: &str| format!("/databases/db/indexes{path}name={name}");
    let stats = server.get(&path("/stats?")).json()["Results"][0].clone();
    assert_eq!(stats["Name"], name);
    assert_eq!(stats["EntriesCount"], 1);
    assert_eq!(stats["Collections"]["Users"]["LastProcessedDocumentEtag"], 1);
    assert_eq!((&stats["Type"], &stats["Status"]), (&json!("AutoMap"), &json!("Running")));
    let definition = server.get(&path("?")).json()["Results"][0].clone();
    assert_eq!(definition["Maps"], json!(["Users:[<Name:Name>;<Name:Tags>]"]));
    let terms = server.get(&path("/terms?field=Tags&")).json();
    assert_eq!(terms["Terms"], json!(["EMPTY_STRING", "NULL_VALUE", "a", "b"]));
    for (more, expected) in [
        ("pageSize=1", json!(["EMPTY_STRING"])),
        ("pageSize=2&fromValue=EMPTY_STRING", json!(["NULL_VALUE", "a"])),
        ("fromValue=NULL_VALUE", json!(["a", "b"])),
        ("fromValue=a", json!(["b"])),
    ] {
        let terms = server.get(&path(&format!("/terms?field=Tags&{more}&"))).json();
        assert_eq!(terms["Terms"], expected, "{more}");
    }
    let staleness = server.get(&path("/staleness?")).json();
    assert_eq!(staleness, json!({"IsStale": false, "StalenessReasons": []}));
    assert_eq!(server.get("/databases/db/stats").json()["CountOfIndexes"], 1);
    let names = server.get("/databases/db/indexes?namesOnly=true").json();
    assert_eq!(names["Results"], json!([name]));
}

#[test]
fn an_index_is_reset_paused_and_deleted() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"Name":"Ann"}"#);
    let query = "from Users where Name = 'ann'";
    found(&server, query);
    let name = "name=Auto/Users/ByName";
    let reset = server.send("RESET", &format!("/databases/db/indexes?{name}"), b"");
    assert_eq!(reset.json()["Index"]["Name"], "Auto/Users/ByName");
    assert_eq!(found(&server, query).0, ["users/1"]);
    let stop = format!("/databases/db/admin/indexes/stop?{name}");
    assert_eq!(server.send("POST", &stop, b"").status, 204);
    put(&server, "users/2", r#"{"Name":"Ann"}"#);
    let body = json!({"Query": query}).to_string();
    let stale = server.send("POST", "/databases/db/queries", body.as_bytes()).json();
    assert_eq!((&stale["IsStale"], &stale["TotalResults"]), (&json!(true), &json!(1)));
    let reasons = server.get(&format!("/databases/db/indexes/staleness?{name}")).json();
    assert_eq!(reasons["StalenessReasons"].as_array().unwrap().len(), 1);
    let start = format!("/databases/db/admin/indexes/start?{name}");
    assert_eq!(server.send("POST", &start, b"").status, 204);
    assert_eq!(found(&server, query).0, ["users/1", "users/2"]);
    let delete = || server.send("DELETE", &format!("/databases/db/indexes?{name}"), b"").status;
    assert_eq!((delete(), delete()), (204, 404));
    let record = server.get("/admin/databases?name=db").json();
    assert_eq!(record["AutoIndexes"], json!({}));
    assert_eq!(found(&server, query).0, ["users/1", "users/2"], "a query creates it again");
}

#[test]
fn a_batch_waits_for_the_indexes_of_what_it_changed() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"N":1}"#);
    found(&server, "from Users where N = 1");
    let batch = |options: &str, collection: &str| {
        let command = json!({"Commands": [{
            "Type": "PUT", "Id": "x/1", "Document": {"N": 1, "@metadata": {"@collection": collection}}
        }]});
        let path = format!("/databases/db/bulk_docs?&waitForIndexesTimeout={options}");
        server.send("POST", &path, command.to_string().as_bytes())
    };
    assert_eq!(batch("00:01:00", "Users").status, 201);
    let body = json!({"Query": "from Users where N = 1"}).to_string();
    let seen = server.send("POST", "/databases/db/queries", body.as_bytes()).json();
    assert_eq!((&seen["IsStale"], &seen["TotalResults"]), (&json!(false), &json!(2)));
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    for (options, collection, status) in [
        ("00:00:00.01", "Users", 408),
        ("00:00:00.01&waitForIndexThrow=false", "Users", 201),
        ("00:00:00.01&waitForSpecificIndex=nope", "Users", 201),
        ("00:00:00.01&waitForSpecificIndex=nope&waitForSpecificIndex=auto/users/byn", "Users", 408),
    ] {
        assert_eq!(batch(options, collection).status, status, "{options}");
    }
    let reply = batch("00:00:00.01", "Users").json();
    assert_eq!(reply["Type"], "Raven.Client.Exceptions.RavenTimeoutException");
    assert_eq!(reply["FailImmediately"], true);
    let message = reply["Message"].as_str().unwrap();
    let end = "could not verify that all indexes has caught up with the changes as of etag: 7. Total \
               relevant indexes: 1, total stale indexes: 1 (Auto/Users/ByN), total paused indexes: 1 \
               (Auto/Users/ByN)";
    assert!(message.ends_with(end), "{message}");
}

#[test]
fn a_cluster_wide_transaction_waits_for_the_indexes_of_what_it_changed() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"N":1}"#);
    found(&server, "from Users where N = 1");
    let transaction = |id: &str, options: &str, collection: &str| {
        let document = json!({"N": 1, "@metadata": {"@collection": collection}});
        let command = json!({"Type": "PUT", "Id": id, "ChangeVector": null, "Document": document});
        let body = json!({"Commands": [command], "TransactionMode": "ClusterWide"});
        let path = format!("/databases/db/bulk_docs?waitForIndexesTimeout={options}");
        server.send("POST", &path, body.to_string().as_bytes())
    };
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    let late = transaction("users/2", "00:00:00.01", "Users");
    assert_eq!(late.status, 408, "{}", late.text());
    assert!(late.json()["Message"].as_str().unwrap().contains("Auto/Users/ByN"), "{}", late.text());
    assert_eq!(transaction("users/3", "00:00:00.01&waitForIndexThrow=false", "Users").status, 201);
    assert_eq!(transaction("dogs/1", "01:00:00", "Dogs").status, 201);
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/start", b"").status, 204);
    assert_eq!(transaction("users/4", "00:01:00", "Users").status, 201);
    let body = json!({"Query": "from Users where N = 1"}).to_string();
    let seen = server.send("POST", "/databases/db/queries", body.as_bytes()).json();
    assert_eq!((&seen["IsStale"], &seen["TotalResults"]), (&json!(false), &json!(4)));
}

#[test]
fn a_cluster_wide_transaction_that_only_deletes_waits_for_the_indexes() {
    let server = TestServer::with_database();
    (1..=2).for_each(|number| put(&server, &format!("users/{number}"), r#"{"N":1}"#));
    found(&server, "from Users where N = 1");
    let delete = |id: &str, options: &str| {
        let command = json!({"Type": "DELETE", "Id": id, "ChangeVector": null});
        let body = json!({"Commands": [command], "TransactionMode": "ClusterWide"});
        let path = format!("/databases/db/bulk_docs?waitForIndexesTimeout={options}");
        server.send("POST", &path, body.to_string().as_bytes())
    };
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    let late = delete("users/1", "00:00:00.01");
    assert_eq!(late.status, 408, "{}", late.text());
    assert!(late.json()["Message"].as_str().unwrap().contains("Auto/Users/ByN"), "{}", late.text());
    assert_eq!(delete("nobody", "01:00:00").status, 201, "nothing changed");
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/start", b"").status, 204);
    assert_eq!(delete("users/2", "00:01:00").status, 201);
    let body = json!({"Query": "from Users where N = 1"}).to_string();
    let seen = server.send("POST", "/databases/db/queries", body.as_bytes()).json();
    assert_eq!((&seen["IsStale"], &seen["TotalResults"]), (&json!(false), &json!(0)));
}

#[test]
fn a_batch_does_not_wait_for_indexes_of_other_collections() {
    let server = TestServer::with_database();
    put(&server, "users/1", r#"{"N":1}"#);
    found(&server, "from Users where N = 1");
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    put(&server, "users/2", r#"{"N":1}"#);
    let command = br#"{"Commands":[{"Type":"PUT","Id":"d/1","Document":{"@metadata":{"@collection":"Dogs"}}}]}"#;
    let path = "/databases/db/bulk_docs?waitForIndexesTimeout=01:00:00";
    assert_eq!(server.send("POST", path, command).status, 201);
}

#[test]
fn invalid_index_definitions_are_rejected() {
    let server = TestServer::with_database();
    let refused = |path: &str, definition: serde_json::Value| {
        let body = json!({"Indexes": [definition]}).to_string();
        let reply = server.send("PUT", &format!("/databases/db/{path}"), body.as_bytes());
        assert_eq!(reply.status, 500, "{body}");
        reply.json()["Message"].as_str().unwrap().to_owned()
    };
    let map = "from u in docs.Users select new { u.Name }";
    let long = "x".repeat(207);
    for (definition, message) in [
        (json!({"Name": "I"}), "Index must have a 'Maps' fields"),
        (
            json!({"Name": "Auto/X", "Maps": [map]}),
            "Index name 'Auto/X' is not permitted. Static index name cannot start with 'Auto/'",
        ),
        (
            json!({"Name": "ReplacementOf/X", "Maps": [map]}),
            "Index name must not start with 'ReplacementOf/'. Provided index name: \
             'ReplacementOf/X'",
        ),
        (
            json!({"Name": "a<b>|c?", "Maps": [map]}),
            "Index name 'a<b>|c?' is not permitted. Only letters, digits and characters ('_', '-', \
             '.', '/') are allowed.",
        ),
        (
            json!({"Name": "two words", "Maps": [map]}),
            "Index name 'two words' is not permitted. Only letters, digits and characters ('_', '-', \
             '.', '/') are allowed.",
        ),
        (
            json!({"Name": "a//b", "Maps": [map]}),
            "Index name 'a//b' is not permitted. Index name cannot contain // (double slashes)",
        ),
        (
            json!({"Name": "a..b", "Maps": [map]}),
            "Index name 'a..b' is not permitted. If a name contains '.' character then it must be \
             surrounded by other allowed characters.",
        ),
        (
            json!({"Name": long, "Maps": [map]}),
            &format!(
                "Index name '{long}' is not permitted. Index name cannot exceed 206 characters."
            ),
        ),
    ] {
        assert_eq!(refused("admin/indexes", definition), message);
    }
    let message = refused("indexes", json!({"Name": "Q", "Maps": [map]}));
    assert!(message.starts_with("Index Q is a C# index but was sent through a non-admin endpoint"));
}

/// Measured on RavenDB 5.4: the text of an object that the definition creates is analyzed, that of
/// an object in the document is not; doubles have an exponent from 1E+17 on.
#[test]
fn terms_of_objects_and_of_large_numbers() {
    let server = TestServer::with_database();
    put(&server, "i/1", r#"{"O": {"X": "AbC"}, "F": 1e15, "@metadata": {"@collection": "Items"}}"#);
    let made =
        "Made = new { A = i.O.X, B = 2 }, Kept = i.O, Double = i.F + 0.5, Large = i.F * 100.0";
    let map = format!("from i in docs.Items select new {{ {made} }}");
    define(&server, &json!({ "Name": "I", "Maps": [map] }));
    for (field, term) in [
        ("Made", r#"{"a":"abc","b":2}"#),
        ("Kept", r#"{"X":"AbC"}"#),
        ("Double", "1000000000000000.5"),
        ("Large", "1E+17"),
    ] {
        assert_eq!(crate::exchange_indexes::terms(&server, "I", field), [term]);
    }
}

#[test]
fn a_query_on_an_index_is_not_found() {
    let server = TestServer::with_database();
    let body = br#"{"Query":"from index 'no/such' where a = $p"}"#;
    let reply = server.send("POST", "/databases/db/queries", body);
    assert_eq!((reply.status, reply.body.len()), (404, 0));
    let target = "queries?query=from%20index%20%27no/such%27";
    assert_eq!(server.get(&format!("/databases/db/{target}")).status, 404);
    for extra in ["", "&format=jsonl"] {
        let reply = server.get(&format!("/databases/db/streams/{target}{extra}"));
        let expected = json!({"Error": "Index no/such does not exist"});
        assert_eq!((reply.status, reply.json()), (404, expected), "{extra}");
    }
    let inner = br#"{"Requests":[{"Url":"/databases/db/queries","Query":"?q=1","Method":"POST",
        "Content":{"Query":"from index 'no/such'"}}]}"#;
    let reply = server.send("POST", "/databases/db/multi_get", inner).json();
    let expected = json!({"Results": [{"Result": null, "StatusCode": 404, "Headers": {}}]});
    assert_eq!(reply, expected);
}

/// The names of the indexes.
pub(crate) fn names_of(server: &TestServer) -> Vec<String> {
    let answer = server.get("/databases/db/indexes?namesOnly=true").json();
    serde_json::from_value(answer["Results"].clone()).unwrap()
}

pub(crate) fn define(
    server: &TestServer,
    definition: &serde_json::Value,
) -> crate::http_client::Reply {
    let body = json!({"Indexes": [definition]}).to_string();
    server.send("PUT", "/databases/db/admin/indexes", body.as_bytes())
}

#[test]
fn the_index_entries_of_a_query_are_returned() {
    let server = TestServer::with_database();
    boats_of_users(&server);
    found(&server, "from index Boats");
    let entries = |query: &str| {
        let body = json!({"Query": query}).to_string();
        server.send("POST", "/databases/db/queries?debug=entries", body.as_bytes()).json()
    };
    let answer = entries("from index Boats where N = 1 limit 1");
    assert_eq!(answer["TotalResults"], 2);
    assert_eq!(
        answer["Results"],
        json!([{
            "Boat": "ada", "Born": "2020-01-02T03:04:05.0000000", "Hidden": "2", "N": "1",
            "Twice": "2", "id()": "users/1"
        }])
    );
    assert_eq!(entries("from index Boats where Old = null")["Results"][0]["Old"], "NULL_VALUE");
    for (query, kind) in [
        ("from Users", "System.NotSupportedException"),
        (
            "from Users where N = 1",
            "Raven.Client.Exceptions.Documents.Indexes.IndexDoesNotExistException",
        ),
        ("from index Nope", "Raven.Client.Exceptions.Documents.Indexes.IndexDoesNotExistException"),
    ] {
        assert_eq!(entries(query)["Type"], kind, "{query}");
    }
    found(&server, "from Users where Boats = 'x'");
    let rows = entries("from Users where Boats = 'ada'")["Results"].clone();
    assert_eq!(rows, json!([{"Boats": ["ada", "bee"], "id()": "users/1"}]));
}

#[test]
fn explain_names_the_index_that_a_query_uses() {
    let server = TestServer::with_database();
    let explained = |query: &str| {
        let body = json!({"Query": query}).to_string();
        let target = "/databases/db/queries?debug=explain";
        let mut answer = server.send("POST", target, body.as_bytes()).json();
        answer.as_object_mut().unwrap().remove("Execution");
        answer
    };
    let nothing = json!({"IndexName": "Failure/None", "Results": []});
    assert_eq!(explained("from Users where N = 1"), nothing);
    put(&server, "users/1", r#"{"N":1}"#);
    found(&server, "from Users where N = 1");
    let missing = json!({
        "IndexName": "Auto/Users/ByN",
        "Results": [{"Index": "Auto/Users/ByN", "Reason": "The following field is missing: Name"}]
    });
    assert_eq!(explained("from Users where Name = 'x'"), missing);
    found(&server, "from Users where Name = 'x'");
    let narrow = json!({
        "IndexName": "Auto/Users/ByNAndName",
        "Results": [
            {"Index": "Auto/Users/ByN", "Reason": "Wasn't the widest index matching this query"}
        ]
    });
    assert_eq!(explained("from Users where N = 1"), narrow);
    assert_eq!(explained("from users"), narrow);
    assert_eq!(explained("from Dogs where N = 1"), nothing);
    let refused = explained("from index 'Auto/Users/ByN'");
    assert_eq!(refused["Message"], "Explain can only work on dynamic indexes");
}

#[test]
fn rows_are_returned_as_csv() {
    let server = TestServer::with_database();
    boats_of_users(&server);
    found(&server, "from index Boats");
    let csv = |query: &str| {
        let target = format!("/databases/db/streams/queries?format=csv&query={query}");
        let reply = server.get(&target);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/csv")));
        let disposition = reply.header("content-disposition").unwrap().to_owned();
        (reply.text().to_owned(), disposition)
    };
    let (text, disposition) = csv("from%20index%20Boats%20where%20N=2%20select%20Twice,Boat");
    let rows = "\u{feff}@id,Twice,Boat,@metadata.@projection\r\nusers/2,4,cat,True\r\n\
                users/2,4,dog,True\r\n";
    assert_eq!(text, rows);
    assert!(disposition.starts_with("attachment; filename=\"db_query_result_"), "{disposition}");
    let (text, disposition) = csv("from%20Users&field=N&field=Boats");
    assert_eq!(
        text,
        "\u{feff}N,Boats\r\n1,\"[\"\"ada\"\",\"\"bee\"\"]\"\r\n2,\"[\"\"cat\"\",\"\"dog\"\"]\"\r\n3,[]\r\n"
    );
    assert!(disposition.starts_with("attachment; filename=\"db_Users_collection_"));
    assert_eq!(csv("from%20Nothing").0, "\u{feff}");

    // A browser requests a download by submitting a form.
    let form =
        b"ExportOptions=%7B%22Query%22%3A%22from+index+Boats+where+N=2+select+Twice,Boat%22%7D";
    let target = "/databases/db/streams/queries?format=csv";
    assert_eq!(server.send("POST", target, form).text(), rows);
    let no_form = br#"{"Query":"from index Boats where Boat = 'a&ExportOptions=b'"}"#;
    assert_eq!(server.send("POST", target, no_form).status, 200);
}

#[test]
fn a_response_echoes_the_query_and_has_an_etag() {
    let server = TestServer::with_database();
    boats_of_users(&server);
    let query = "from index 'Boats' as b where b.N = 1 order by b.N as long desc limit 1";
    found(&server, query);
    let body = json!({"Query": query}).to_string();
    let target = "/databases/db/queries?includeServerSideQuery=true&metadataOnly=true";
    let answer = server.send("POST", target, body.as_bytes()).json();
    assert_eq!(answer["ServerSideQuery"], query);
    let debug = "/databases/db/queries?debug=serverSideQuery";
    let alone = server.send("POST", debug, body.as_bytes()).json();
    assert_eq!(alone, json!({"ServerSideQuery": query}));
    assert_eq!(answer["Results"][0].as_object().unwrap().len(), 1);
    assert_eq!(answer["Results"][0]["@metadata"]["@id"], "users/1");
    let etag = answer["ResultEtag"].to_string();
    let again = |etag: &str| {
        let headers = [("If-None-Match", etag)];
        server.send_with("POST", "/databases/db/queries", &headers, body.as_bytes()).status
    };
    assert_eq!(again(&etag), 304);
    put(&server, "dogs/1", "{}");
    put(&server, "users/4", r#"{"N":1,"Boats":["eel"]}"#);
    found(&server, query);
    assert_eq!(again(&etag), 200);
}

#[test]
fn a_waiting_query_is_listed_and_can_be_killed() {
    let server = TestServer::with_database();
    boats_of_users(&server);
    found(&server, "from index Boats");
    let running = || server.get("/databases/db/debug/queries/running").json();
    assert!(running().get("Boats").is_none());
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    put(&server, "users/4", r#"{"N":4}"#);
    let body = json!({
        "Query": "from index Boats", "WaitForNonStaleResults": true,
        "WaitForNonStaleResultsTimeout": "01:00:00"
    });
    let body = body.to_string();
    let kill = |id: &serde_json::Value| {
        let path = format!("/databases/db/debug/queries/kill?indexName=boats&id={id}");
        server.send("POST", &path, b"").status
    };
    let reply = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.send("POST", "/databases/db/queries", body.as_bytes()));
        let listed = loop {
            if let Some(listed) = running().get("Boats") {
                break listed[0].clone();
            }
        };
        assert_eq!(listed["QueryInfo"]["Query"], "from index Boats");
        assert_eq!(listed["QueryInfo"]["WaitForNonStaleResultsTimeout"], "01:00:00");
        assert_eq!(kill(&json!(0)), 404);
        assert_eq!(kill(&listed["QueryId"]), 204);
        waiting.join().unwrap()
    });
    assert_eq!(reply.status, 500);
    assert_eq!(reply.json()["Type"], "System.OperationCanceledException");
    assert!(running().get("Boats").is_none());
}

#[test]
fn a_query_reports_the_duration_of_its_stages() {
    let server = TestServer::with_database();
    boats_of_users(&server);
    for (query, stages, parts) in [
        ("from index Boats where N > 0", "Query Staleness", "Retriever Search"),
        ("from Users where N > 0 select N", "Optimizer Query Staleness", "Retriever Search"),
        ("from Users", "Query", "Retriever"),
    ] {
        let answer = queried(&server, &json!({"Query": format!("{query} include timings()")}));
        let names = |timings: &serde_json::Value| {
            let stages = timings["Timings"].as_object().unwrap().keys();
            stages.cloned().collect::<Vec<_>>().join(" ")
        };
        let timings = &answer["Timings"];
        assert!(0 < timings["DurationInMs"].as_i64().unwrap(), "{query}");
        assert_eq!(names(timings), stages, "{query}");
        assert_eq!(names(&timings["Timings"]["Query"]), parts, "{query}");
        assert_eq!(answer["IncludedPaths"], json!(null), "{query}");
    }
}
