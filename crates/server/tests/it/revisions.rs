//! Revisions over the wire, with the responses of RavenDB 5.4.

use platform::Platform;
use serde_json::{Value, json};

use crate::test_server::TestServer;

const CONFIG: &str = "/databases/db/admin/revisions/config";

fn user(name: &str) -> String {
    json!({"Name": name, "@metadata": {"@collection": "Users"}}).to_string()
}

fn keeping(count: u64) -> TestServer {
    let server = TestServer::with_database();
    configure(&server, &json!({"Default": {"MinimumRevisionsToKeep": count}}));
    server
}

fn configure(server: &TestServer, configuration: &Value) {
    let reply = server.send("POST", CONFIG, configuration.to_string().as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.json()["RaftCommandIndex"].is_u64());
}

/// Names and flags of a document's revisions, newest first.
fn revisions(server: &TestServer, id: &str) -> Vec<String> {
    let reply = server.get(&format!("/databases/db/revisions?id={id}"));
    let results = reply.json()["Results"].as_array().unwrap().clone();
    assert_eq!(reply.json()["TotalResults"], results.len());
    let shown = results.iter().map(|revision| {
        let flags = revision["@metadata"]["@flags"].as_str().unwrap();
        format!("{} {flags}", revision["Name"].as_str().unwrap_or("-"))
    });
    shown.collect()
}

fn finished(server: &TestServer, started: &Value) -> Value {
    let id = started["OperationId"].as_i64().unwrap();
    loop {
        let state = server.get(&format!("/databases/db/operations/state?id={id}")).json();
        if state["Status"] != "InProgress" {
            assert_eq!(state["Status"], "Completed", "{state}");
            return state["Result"].clone();
        }
    }
}

#[test]
fn the_configuration_is_replaced_persisted_and_returned_in_full() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    assert_eq!(server.get("/databases/db/revisions/config").status, 404);
    configure(&server, &json!({"Collections": {"Users": {"MinimumRevisionsToKeep": 3}}}));
    let shown = "{\"Default\":null,\"Collections\":{\"Users\":{\"Disabled\":false,\
                 \"MinimumRevisionsToKeep\":3,\"MinimumRevisionAgeToKeep\":null,\
                 \"PurgeOnDelete\":false,\"MaximumRevisionsToDeleteUponDocumentUpdate\":null}}}";
    assert_eq!(server.get("/databases/db/revisions/config").text(), shown);
    let listed = server.get("/databases?name=db").json();
    assert_eq!(listed["HasRevisionsConfiguration"], true);
    let refused = server.send("POST", CONFIG, br#"{"Default":{"MinimumRevisionsToKeep":"x"}}"#);
    assert_eq!(refused.status, 500);
    assert_eq!(refused.json()["Type"], "System.InvalidOperationException");
    server.put("u/1", &user("a"));
    server.stop();
    let server = TestServer::start(platform, &[]);
    assert_eq!(server.get("/databases/db/revisions/config").text(), shown);
    server.put("u/1", &user("b"));
    assert_eq!(revisions(&server, "u/1").len(), 2);
    configure(&server, &json!({}));
    server.put("u/1", &user("c"));
    assert_eq!(revisions(&server, "u/1").len(), 2);
    let conflicts = "/databases/db/revisions/conflicts/config";
    assert_eq!(server.get(conflicts).json()["MinimumRevisionsToKeep"], 1024);
    let target = "/databases/db/admin/revisions/conflicts/config";
    assert_eq!(server.send("POST", target, br#"{"MinimumRevisionsToKeep":5}"#).status, 200);
    assert_eq!(server.get(conflicts).json()["MinimumRevisionsToKeep"], 5);
}

#[test]
fn revisions_of_a_document_are_listed_newest_first() {
    let server = keeping(3);
    let versions: Vec<String> =
        ["a", "b", "c", "d"].iter().map(|name| server.put("u/1", &user(name))).collect();
    let kept = ["d HasRevisions, Revision", "c HasRevisions, Revision", "b HasRevisions, Revision"];
    assert_eq!(revisions(&server, "U/1"), kept);
    let reply = server.get("/databases/db/revisions?id=u/1&start=1&pageSize=1&metadataOnly=true");
    assert_eq!(reply.header("etag"), Some(format!("\"{}\"", versions[2]).as_str()));
    let metadata = json!({"Results": [{"@metadata": {
        "@collection": "Users", "@change-vector": versions[2],
        "@flags": "HasRevisions, Revision", "@id": "u/1",
        "@last-modified": reply.json()["Results"][0]["@metadata"]["@last-modified"]
    }}], "TotalResults": 3});
    assert_eq!(reply.json(), metadata);
    let nothing = server.get("/databases/db/revisions?id=u/2");
    assert_eq!(nothing.text(), "{\"Results\":[],\"TotalResults\":0}");
    assert_eq!(nothing.header("etag"), Some("\"\""));
    let count = server.get("/databases/db/revisions/count?id=u/1");
    assert_eq!(count.text(), "{\"RevisionsCount\":3}");
    let etag = format!("\"{}\"", versions[3]);
    let headers = [("If-None-Match", etag.as_str())];
    let target = "/databases/db/revisions?id=u/1";
    assert_eq!(server.send_with("GET", target, &headers, b"").status, 304);
    let statistics = server.get("/databases/db/stats").json();
    assert_eq!(statistics["CountOfRevisionDocuments"], 3);
    assert_eq!(
        (&statistics["LastDocEtag"], &statistics["LastDatabaseEtag"]),
        (&json!(7), &json!(8))
    );
}

#[test]
fn revisions_are_found_by_version_and_by_time() {
    let server = keeping(9);
    let first = server.put("u/1", &user("a"));
    let second = server.put("u/1", &user("b"));
    let by = |versions: &[&str]| {
        let parameters: Vec<_> = versions
            .iter()
            .map(|one| format!("changeVector={}", one.replace('+', "%2B")))
            .collect();
        server.get(&format!("/databases/db/revisions?{}", parameters.join("&")))
    };
    let one = by(&[&first]);
    assert_eq!((one.status, &one.json()["Results"][0]["Name"]), (200, &json!("a")));
    assert_eq!(one.header("etag"), Some(format!("\"{first}\"").as_str()));
    assert!(one.json().get("TotalResults").is_none());
    assert_eq!(by(&["A:1-x"]).status, 404);
    let unescaped = server.get(&format!("/databases/db/revisions?changeVector={first}"));
    assert_eq!(unescaped.status, 200, "a plus arrives as a blank: {first}");
    let several = by(&[&second, "A:1-x", &first]).json();
    let names = several["Results"].as_array().unwrap().iter().map(|one| one["Name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), [json!("b"), Value::Null, json!("a")]);
    let before = |moment: &str| {
        server.get(&format!("/databases/db/revisions?id=u/1&before={moment}")).json()
    };
    assert_eq!(before("2999-01-01T00:00:00.0000000Z")["Results"][0]["Name"], "b");
    let nothing = json!({"Results": [], "TotalResults": 0});
    assert_eq!(before("2000-01-01T00:00:00.0000000Z"), nothing);
    assert_eq!(before("abc")["Type"], "System.ArgumentException");
    let version = first.replace('+', "%2B");
    let size = server.get(&format!("/databases/db/revisions/size?changeVector={version}")).json();
    assert_eq!(size["ChangeVector"], first);
    assert!(size["ActualSize"].as_u64().unwrap() > 50);
    assert_eq!(server.get("/databases/db/revisions/size?changeVector=x").status, 404);
    for target in ["revisions", "revisions/count", "revisions/size"] {
        assert_eq!(server.get(&format!("/databases/db/{target}")).status, 500, "{target}");
    }
    let log = server.get("/databases/db/debug/documents/get-revisions?etag=3").json();
    let entry = &log["Revisions"][0];
    assert_eq!((&entry["Id"], &entry["Etag"]), (&json!("u/1"), &json!(4)));
    assert_eq!(log["Revisions"].as_array().unwrap().len(), 1);
}

#[test]
fn deleted_documents_are_listed_in_the_revisions_bin() {
    let server = keeping(3);
    for id in ["u/1", "u/2", "u/3"] {
        server.put(id, &user("a"));
        server.send("DELETE", &format!("/databases/db/docs?id={id}"), b"");
    }
    let bin = |parameters: &str| server.get(&format!("/databases/db/revisions/bin{parameters}"));
    let ids = |parameters: &str| -> Vec<String> {
        let results = bin(parameters).json()["Results"].as_array().unwrap().clone();
        results.iter().map(|one| one["@metadata"]["@id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(""), ["u/3", "u/2", "u/1"]);
    assert_eq!(ids("?start=1&pageSize=1"), ["u/2"]);
    assert_eq!(ids("?etag=0"), ["u/3", "u/2", "u/1"]);
    assert_eq!(ids("?etag=1"), ["u/2", "u/1"], "as clients of 5.4 ask for the second");
    let shown = bin("?pageSize=1").json()["Results"][0]["@metadata"].clone();
    assert_eq!(shown["@flags"], "HasRevisions, DeleteRevision");
    assert_eq!(shown["@collection"], "Users");
    let etag = bin("").header("etag").unwrap().to_owned();
    assert!(etag.ends_with("/6\""), "{etag}");
    server.put("u/2", &user("b"));
    assert_eq!(ids(""), ["u/3", "u/1"]);
    let removed = br#"{"DocumentIds":["U/3","u/1","nope"]}"#;
    let reply = server.send("DELETE", "/databases/db/admin/revisions", removed);
    assert_eq!(reply.text(), "{\"TotalDeletes\":4}");
    assert!(ids("").is_empty());
    assert_eq!(bin("").header("etag"), Some("\"\""));
    assert_eq!(revisions(&server, "u/1").len(), 0);
    let refused = server.send("DELETE", "/databases/db/admin/revisions", br#"{"DocumentIds":"x"}"#);
    assert_eq!(refused.status, 500);
}

#[test]
fn a_batch_can_ask_for_revisions() {
    let server = TestServer::with_database();
    server.put("u/1", &user("a"));
    let reply = server.batch(r#"{"Type":"ForceRevisionCreation","Id":"u/1"}"#);
    let result = reply.json()["Results"][0].clone();
    let keys: Vec<_> = result.as_object().unwrap().keys().collect();
    let expected = ["RevisionCreated", "Type", "@id", "@change-vector", "@last-modified", "@flags"];
    assert_eq!(keys, expected);
    assert_eq!(
        (&result["RevisionCreated"], &result["@flags"]),
        (&json!(true), &json!("HasRevisions"))
    );
    let again = server.batch(r#"{"Type":"ForceRevisionCreation","Id":"u/1"}"#).json();
    let expected = json!([{"RevisionCreated": false, "Type": "ForceRevisionCreation"}]);
    assert_eq!(again["Results"], expected);
    server.put("u/1", &user("b"));
    let put = |strategy: &str| {
        format!(
            r#"{{"Type":"PUT","Id":"u/1","Document":{},"ForceRevisionCreationStrategy":{strategy}}}"#,
            user("c")
        )
    };
    let reply = server.batch(&format!("{},{}", put("\"Before\""), put("null")));
    assert_eq!(reply.json()["Results"].as_array().unwrap().len(), 2, "{}", reply.text());
    assert_eq!(reply.json()["Results"][1]["Type"], "PUT");
    let kept = ["b HasRevisions, Revision, ForceCreated", "a HasRevisions, Revision, ForceCreated"];
    assert_eq!(revisions(&server, "u/1"), kept);
    let refused = [
        (put("\"After\""), "Invalid property name: After"),
        (r#"{"Type":"ForceRevisionCreation","Id":"zz"}"#.to_owned(), "Failed to create revision"),
        (r#"{"Type":"ForceRevisionCreation"}"#.to_owned(), "Argument is null or whitespace"),
        (
            r#"{"Type":"PUT","Id":"new","Document":{},"ForceRevisionCreationStrategy":"Before"}"#
                .to_owned(),
            "Can't force revision creation",
        ),
    ];
    for (command, message) in refused {
        let reply = server.batch(&command);
        assert_eq!(reply.status, 500, "{command}");
        let text = reply.json()["Message"].as_str().unwrap().to_owned();
        assert!(text.starts_with(message), "{text}");
    }
    assert!(server.document("new").is_null());
}

#[test]
fn revisions_are_included_with_documents() {
    let server = keeping(9);
    let first = server.put("r/1", &user("a"));
    let second = server.put("r/1", &user("b"));
    let document = json!({
        "Rev": second, "Revs": [second, first, "A:9-x", 5], "Sub": {"Rev": first}, "Null": null,
        "@metadata": {"@collection": "Contracts"}
    });
    server.put("c/1", &document.to_string());
    let along = |answer: &Value| -> Vec<String> {
        let included = answer["RevisionIncludes"].as_array().cloned().unwrap_or_default();
        included.iter().map(|one| one["Revision"]["Name"].to_string()).collect()
    };
    let load = |parameters: &str| server.get(&format!("/databases/db/docs?id=c/1&{parameters}"));
    assert_eq!(along(&load("revisions=Rev").json()), ["\"b\""]);
    assert_eq!(along(&load("revisions=Revs").json()), ["\"b\"", "\"a\""]);
    assert_eq!(along(&load("revisions=Rev&revisions=Sub.Rev").json()), ["\"b\"", "\"a\""]);
    assert!(load("revisions=Null").json().get("RevisionIncludes").is_none());
    let included = load("revisions=Rev").json()["RevisionIncludes"][0].clone();
    let keys: Vec<_> = included.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ChangeVector", "Id", "Revision"]);
    let missing = load("revisions=Nope");
    assert_eq!(missing.status, 500);
    let message =
        "Field `Nope` (which is mentioned inside `include revisions(..)`) is missing in document.";
    assert_eq!(missing.json()["Message"], message);
    let before = "2999-01-01T00:00:00.0000000Z";
    let by_moment = load(&format!("revisionsBefore={before}")).json();
    let included = &by_moment["RevisionIncludes"][0];
    assert_eq!((&included["Id"], &included["Before"]), (&json!("c/1"), &json!(before)));
    assert!(load("revisionsBefore=abc").json().get("RevisionIncludes").is_none());
    let query = |text: &str| {
        let body = json!({"Query": text, "QueryParameters": {"path": "Rev", "moment": before}});
        server.send("POST", "/databases/db/queries", body.to_string().as_bytes())
    };
    let cases = [
        ("from Contracts include revisions('Rev')", vec!["\"b\""]),
        ("from Contracts as c include revisions(c.Revs)", vec!["\"b\"", "\"a\""]),
        (
            "from Contracts as c select c.Rev include revisions(c.Rev, c.Sub.Rev)",
            vec!["\"b\"", "\"a\""],
        ),
        ("from Contracts include revisions($path)", vec!["\"b\""]),
        ("from Contracts include revisions('Rev', $moment)", vec!["null", "\"b\""]),
        (
            "from Contracts where exists(Rev) include revisions('Rev'), revisions('Rev')",
            vec!["\"b\""],
        ),
        ("from Contracts include revisions()", vec![]),
    ];
    for (text, names) in cases {
        let answer = query(text).json();
        assert_eq!(along(&answer), names, "{text}: {answer}");
        assert_eq!(answer["IncludedPaths"], Value::Null);
    }
    let refused = query("from Contracts include revisions('Nope')");
    assert_eq!(refused.json()["Type"], "System.InvalidOperationException");
    let stream = server
        .get("/databases/db/streams/queries?query=from%20Contracts%20include%20revisions('Rev')");
    assert_eq!(stream.status, 500);
}

#[test]
fn the_configuration_is_enforced_on_existing_revisions() {
    let server = keeping(9);
    for name in ["a", "b", "c"] {
        server.put("u/1", &user(name));
        server.put("o/1", &format!(r#"{{"N":"{name}","@metadata":{{"@collection":"Orders"}}}}"#));
    }
    let enforce = |body: &str| {
        let target = "/databases/db/admin/revisions/config/enforce";
        let reply = server.send("POST", target, body.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.text());
        finished(&server, &reply.json())
    };
    configure(&server, &json!({"Default": {"MinimumRevisionsToKeep": 2}}));
    let result = enforce(r#"{"Collections":["Orders","Nope"]}"#);
    let kind =
        "Raven.Client.Documents.Operations.Revisions.EnforceConfigurationResult, Raven.Client";
    assert_eq!(result["$type"], kind);
    assert_eq!((&result["ScannedDocuments"], &result["ScannedRevisions"]), (&json!(1), &json!(3)));
    assert_eq!(result["RemovedRevisions"], 1);
    assert_eq!(result["Warnings"].as_object().unwrap().len(), 1);
    assert_eq!(revisions(&server, "u/1").len(), 3);
    let target = "/databases/db/admin/revisions/config/enforce";
    let unclear = server.send("POST", target, br#"{"Collections":"Orders"}"#);
    assert_eq!(unclear.json()["Type"], "System.FormatException", "not all collections");
    assert_eq!(enforce("{}")["RemovedRevisions"], 1);
    configure(&server, &json!({}));
    assert_eq!(enforce("{}")["RemovedRevisions"], 4);
    assert!(server.document("u/1")["@metadata"].get("@flags").is_none());
    assert_eq!(server.get("/databases/db/stats").json()["CountOfRevisionDocuments"], 0);
}

#[test]
fn the_database_is_reverted_to_a_point_in_time() {
    let server = keeping(9);
    server.put("u/1", &user("a"));
    server.put("u/2", &user("a"));
    server.put("o/1", r#"{"N":1,"@metadata":{"@collection":"Orders"}}"#);
    let then = server.document("o/1")["@metadata"]["@last-modified"].as_str().unwrap().to_owned();
    server.put("u/1", &user("b"));
    server.send("DELETE", "/databases/db/docs?id=u/2", b"");
    server.put("u/3", &user("new"));
    server.put("o/1", r#"{"N":2,"@metadata":{"@collection":"Orders"}}"#);
    let revert = |collections: Value| {
        let body = json!({"Time": then, "WindowInSec": 3600, "Collections": collections});
        let reply =
            server.send("POST", "/databases/db/revisions/revert", body.to_string().as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.text());
        finished(&server, &reply.json())
    };
    let result = revert(json!(["Users"]));
    assert_eq!((&result["RevertedDocuments"], &result["ScannedDocuments"]), (&json!(3), &json!(3)));
    assert_eq!(server.document("u/1")["Name"], "a");
    assert_eq!(server.document("u/1")["@metadata"]["@flags"], "HasRevisions, Reverted");
    assert_eq!(server.document("u/2")["Name"], "a");
    assert!(server.document("u/3").is_null());
    assert_eq!(server.document("o/1")["N"], 2, "of another collection");
    assert_eq!(revert(Value::Null)["RevertedDocuments"], 3);
    assert_eq!(server.document("o/1")["N"], 1);
    for body in [r#"{"WindowInSec":5}"#, r#"{"Time":"abc"}"#, "{", "[]"] {
        let reply = server.send("POST", "/databases/db/revisions/revert", body.as_bytes());
        assert_eq!(reply.status, 500, "{body}");
    }
}

#[test]
fn the_diff_of_two_revisions_is_a_patch() {
    let server = keeping(9);
    let first =
        server.put("u/1", r#"{"Name":"a","Tags":[1,2],"@metadata":{"@collection":"Users"}}"#);
    let second =
        server.put("u/1", r#"{"Name":"b","Tags":[1],"@metadata":{"@collection":"Users"}}"#);
    let other = server.put("u/2", &user("x"));
    let difference =
        |parameters: &str| server.get(&format!("/databases/db/revisions/difference?{parameters}"));
    let answer = difference(&format!("from={first}&to={second}")).json();
    let expected = json!([
        {"op": "replace", "path": "/Name", "value": "b", "old": "a"},
        {"op": "remove", "path": "/Tags/1", "old": 2}
    ]);
    assert_eq!((&answer["Id"], &answer["Patch"]), (&json!("u/1"), &expected));
    assert_eq!(answer["From"]["ChangeVector"], first);
    let to_document = difference(&format!("from={first}")).json();
    assert_eq!(to_document["Patch"], expected);
    assert_eq!(to_document["To"]["ChangeVector"], second);
    assert_eq!(difference(&format!("from={second}")).json()["Patch"], json!([]));
    assert_eq!(difference(&format!("from={first}&to={other}")).status, 500);
    assert_eq!(difference(&format!("from={first}&to=A:1-x")).status, 404);
    assert_eq!(difference("from=A:1-x").status, 404);
    assert_eq!(difference("").status, 500);
}

#[test]
fn long_histories_are_listed_to_their_end() {
    let server = TestServer::with_database();
    configure(&server, &json!({"Default": {}}));
    let filler = "x".repeat(4000);
    for batch in 0..15 {
        let puts = (0..100).map(|number| {
            let name = format!("{filler}{}", batch * 100 + number);
            format!(r#"{{"Type":"PUT","Id":"u/1","Document":{}}}"#, user(&name))
        });
        let reply = server.batch(&puts.collect::<Vec<_>>().join(","));
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    let all = server.get("/databases/db/revisions?id=u/1").json();
    let results = all["Results"].as_array().unwrap();
    assert_eq!((results.len(), &all["TotalResults"]), (1500, &json!(1500)));
    assert!(results[0]["Name"].as_str().unwrap().ends_with("x1499"));
    assert!(results[1499]["Name"].as_str().unwrap().ends_with("x0"));
    let page = server.get("/databases/db/revisions?id=u/1&start=1490&pageSize=3&metadataOnly=true");
    assert_eq!(page.json()["Results"].as_array().unwrap().len(), 3);
    let first = &results[1499]["@metadata"]["@last-modified"];
    let target = format!("/databases/db/revisions?id=u/1&before={}", first.as_str().unwrap());
    assert_eq!(server.get(&target).json()["TotalResults"], 1);
}

#[test]
fn the_size_of_a_collection_is_reported_by_kind() {
    let server = keeping(10);
    for number in 0..3 {
        let target = format!("/databases/db/docs?id=users/{number}");
        assert_eq!(server.send("PUT", &target, user("a").as_bytes()).status, 201);
    }
    assert_eq!(server.send("DELETE", "/databases/db/docs?id=users/0", b"").status, 204);
    let detailed = server.get("/databases/db/collections/stats/detailed").json();
    let users = &detailed["Collections"]["Users"];
    let bytes = |kind: &str| users[kind]["SizeInBytes"].as_u64().unwrap();
    let kinds = ["DocumentsSize", "TombstonesSize", "RevisionsSize"].map(bytes);
    assert!(kinds.iter().all(|bytes| 0 < *bytes), "{users}");
    assert_eq!(bytes("Size"), kinds.iter().sum::<u64>());
}
