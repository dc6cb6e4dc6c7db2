//! Patching the documents that match a query: `PATCH /queries` and `PATCH /queries/test`.

use serde_json::{Value, json};

use crate::{http_client::Reply, operations::wait, test_server::TestServer};

/// Documents `us/0` to `us/4` with `Age` 0 to 4, each with one of two companies.
fn people() -> TestServer {
    let server = TestServer::with_database();
    for age in 0..5 {
        let (company, metadata) = (format!("cs/{}", age % 2), json!({"@collection": "Us"}));
        let person =
            json!({"Age": age, "C": company, "Cs": ["cs/0", "no", "cs/1"], "@metadata": metadata});
        server.put(&format!("us/{age}"), &person.to_string());
    }
    for (id, name) in [("cs/0", "zero"), ("cs/1", "one")] {
        server.put(id, &json!({"N": name, "@metadata": {"@collection": "Cs"}}).to_string());
    }
    server
}

fn start(server: &TestServer, options: &str, query: &str, parameters: &Value) -> Reply {
    let body = json!({"Query": {"Query": query, "QueryParameters": parameters}}).to_string();
    server.send("PATCH", &format!("/databases/db/queries?{options}"), body.as_bytes())
}

fn patch(server: &TestServer, options: &str, query: &str) -> Value {
    let reply = start(server, options, query, &json!({"v": [7, 8]}));
    assert_eq!(reply.status, 200, "{query}: {}", reply.text());
    wait(server, "/databases/db", &reply.json())
}

fn ages(server: &TestServer, name: &str) -> Vec<Value> {
    (0..5).map(|age| server.document(&format!("us/{age}"))[name].clone()).collect()
}

#[test]
fn documents_that_match_a_query_are_patched() {
    let server = people();
    let none = Value::Null;
    let stale = "staleTimeout=00:01:00";
    #[rustfmt::skip]
    let queries = [
        ("from Us update { this.X = 1 }", 5, json!([1, 1, 1, 1, 1])),
        ("from Us update { this.X = 1 }", 5, json!([1, 1, 1, 1, 1])),
        ("from Us as u update { u.X = u.Age; this.X += 1; u.X += args.v[0] + $v.length }", 5, json!([10, 11, 12, 13, 14])),
        ("from Us as u update { u.X = 0 } limit 2, 2", 2, json!([10, 11, 0, 0, 14])),
        ("from Us where id() in ('us/1', 'us/3', 'nope') update { this.X = 3 }", 2, json!([10, 3, 0, 3, 14])),
        ("from Us where startsWith(id(), 'us/4') update { delete this.X }", 1, json!([10, 3, 0, 3, none])),
        ("from Us as u where u.Age > 2 update { u.X = 'old' }", 2, json!([10, 3, 0, "old", "old"])),
        ("from Us where Age < 2 order by Age update { this.X = 'young' // not more\n}", 2, json!(["young", "young", 0, "old", "old"])),
        ("declare function f(x) { return x * 2 /* twice */; } from Us as u update { u.X = f(u.Age) }", 5, json!([0, 2, 4, 6, 8])),
        ("from Us as u load u.C as c update { u.X = c.N + id(c) }", 5, json!(["zerocs/0", "onecs/1", "zerocs/0", "onecs/1", "zerocs/0"])),
        ("from Us as u load u.Cs as cs[], u.Nope as no update { u.X = cs.map(c => c.N).join() + no }", 5, json!(["zero,onenull", "zero,onenull", "zero,onenull", "zero,onenull", "zero,onenull"])),
        ("from Us as u filter u.Age > 3 update { u.X = 'filtered' }", 1, json!(["zero,onenull", "zero,onenull", "zero,onenull", "zero,onenull", "filtered"])),
        ("from Us update { var l = load('us/0'); this.X = 5; put('us/0', l) }", 5, json!([5, 5, 5, 5, 5])),
        ("from @all_docs update { if (this.Age === 2) this.X = 'all' }", 7, json!([5, 5, "all", 5, 5])),
    ];
    for (query, total, expected) in queries {
        let state = patch(&server, stale, query);
        assert_eq!(state["Status"], "Completed", "{query}: {state}");
        let result = &state["Result"];
        assert_eq!(result["Total"], total, "{query}");
        assert_eq!(result["Message"], format!("Processed {total} items."));
        assert_eq!(json!(ages(&server, "X")), expected, "{query}");
    }
    let operations = server.get("/databases/db/operations?id=1").json();
    let first = &operations["Results"][0]["Description"];
    let expected = (&json!("collection/Us"), &json!("UpdateByQuery"));
    assert_eq!((&first["Description"], &first["TaskType"]), expected);
    assert_eq!(first["DetailedDescription"]["Query"], "from Us update { this.X = 1 }");
}

#[test]
fn details_report_the_outcome_for_each_document() {
    let server = people();
    let query = "from Us as u where u.Age > 2 update { if (u.Age === 4) u.X = 1 }";
    let state = patch(&server, "details=true", query);
    let mut details = state["Result"]["Details"].as_array().unwrap().clone();
    details.sort_by_key(|detail| detail["Id"].to_string());
    let version = server.document("us/4")["@metadata"]["@change-vector"].clone();
    let kind = "Raven.Client.Documents.Operations.BulkOperationResult+PatchDetails, Raven.Client";
    let expected = json!([
        {"$type": kind, "Id": "us/3", "ChangeVector": null, "Status": "NotModified"},
        {"$type": kind, "Id": "us/4", "ChangeVector": version, "Status": "Patched"},
    ]);
    assert_eq!(json!(details), expected);
}

#[test]
fn a_script_can_delete_and_create_documents() {
    let server = people();
    let query = "from Us update { del(id(this)); put('made/', { Of: id(this), '@metadata': { '@collection': 'Us' } }) }";
    let state = patch(&server, "", query);
    assert_eq!((&state["Status"], &state["Result"]["Total"]), (&json!("Completed"), &json!(5)));
    let found = server.get("/databases/db/queries?query=from%20Us").json();
    let results = found["Results"].as_array().unwrap();
    assert_eq!(results.len(), 5);
    assert!(results.iter().all(|made| made["Of"].as_str().unwrap().starts_with("us/")));
}

#[test]
fn documents_in_several_batches_are_patched_once_each() {
    let server = TestServer::with_database();
    let put = |n: usize| {
        format!(
            r#"{{"Type":"PUT","Id":"n/{n}","Document":{{"N":0,"@metadata":{{"@collection":"Ns"}}}}}}"#
        )
    };
    let commands: Vec<String> = (0..3000).map(put).collect();
    assert_eq!(server.batch(&commands.join(",")).status, 201);
    let state = patch(&server, "", "from Ns update { this.N++ }");
    assert_eq!(state["Result"]["Total"], 3000, "{state}");
    let changed = server.get("/databases/db/queries?query=from%20Ns%20where%20N%20=%201&waitForNonStaleResultsTimeout=00:01:00");
    assert_eq!(changed.json()["TotalResults"], 3000, "{}", changed.text());
}

#[test]
fn errors_are_returned_at_once_or_by_the_operation() {
    let server = people();
    let before = server.get("/databases/db/docs").text();
    let options = "";
    #[rustfmt::skip]
    let refused = [
        (options, "from Us", "ParseException", "1:8 Update operations must end with UPDATE clause but got to the end of the query"),
        (options, "from Us select Name update { this.x = 1 }", "ParseException", "1:9 Update operations must end with UPDATE clause but got: select"),
        (options, "from Us update { this.x = }", "InvalidQueryException", "Update clause contains invalid script"),
        (options, "from Us as u load x.C as c update { }", "InvalidQueryException", "Unknown alias x in the LOAD clause"),
        (options, "", "InvalidOperationException", "Index query does not contain 'Query' field."),
        ("maxOpsPerSec=0", "from Us update { }", "InvalidOperationException", "MaxOpsPerSecond must be greater than 0"),
        ("allowStale=abc", "from Us update { }", "ArgumentException", "Could not parse query string 'allowStale' as bool, val abc"),
    ];
    for (options, query, kind, message) in refused {
        let reply = start(&server, options, query, &Value::Null);
        let error = reply.json();
        assert_eq!(reply.status, 500, "{query}");
        let name = error["Type"].as_str().unwrap();
        assert!(name.ends_with(kind), "{query}: {name}");
        assert!(error["Message"].as_str().unwrap().starts_with(message), "{query}: {error}");
    }
    #[rustfmt::skip]
    let faulted = [
        ("from index 'nope' update { this.x = 3 }", "IndexDoesNotExistException", "There is no index with 'nope' name."),
        ("from Us group by Age update { this.x = 3 }", "InvalidOperationException", "Cannot execute bulk operation on Map-Reduce indexes."),
        ("from Us update { this.x = 1; throw 'no' }", "JavaScriptException", "Script failed for document ID 'us/"),
        ("from Us update { while (true) {} }", "JavaScriptException", "The maximum number of statements executed have been reached - 10000."),
        ("from Us update { incrementCounter('nobody', 'c') }", "DocumentDoesNotExistException", "Document 'nobody' does not exist. Cannot operate on counters of a missing document."),
    ];
    for (query, kind, message) in faulted {
        let state = patch(&server, "", query);
        assert_eq!(state["Status"], "Faulted", "{query}: {state}");
        let result = &state["Result"];
        assert_eq!(
            result["$type"],
            "Raven.Client.Documents.Operations.OperationExceptionResult, Raven.Client"
        );
        assert!(result["Type"].as_str().unwrap().ends_with(kind), "{query}: {result}");
        assert!(result["Message"].as_str().unwrap().starts_with(message), "{query}: {result}");
        assert_eq!(server.get("/databases/db/docs").text(), before, "{query}");
    }
    let long = "from Us update { for (var i = 0; i < 50000; i++) this.N = i }";
    assert_eq!(patch(&server, "", long)["Status"], "Faulted");
    let state = patch(&server, "ignoreMaxStepsForScript=true", long);
    assert_eq!(state["Status"], "Completed", "{state}");
    assert_eq!(ages(&server, "N"), vec![json!(49_999); 5]);
}

#[test]
fn a_killed_operation_stops_soon_and_keeps_committed_changes() {
    let server = people();
    let started =
        start(&server, "maxOpsPerSec=1", "from Us update { this.K = 1 }", &Value::Null).json();
    let id = started["OperationId"].as_i64().unwrap();
    let state = || server.get(&format!("/databases/db/operations/state?id={id}")).json();
    while state()["Progress"]["Processed"] == 0 {}
    let progress = state()["Progress"].clone();
    assert_eq!(progress["Total"], 5, "{progress}");
    let kill = server.send("POST", &format!("/databases/db/operations/kill?id={id}"), b"");
    assert_eq!(kill.status, 204, "{}", kill.text());
    let ended = wait(&server, "/databases/db", &started);
    assert_eq!((&ended["Status"], &ended["Result"]), (&json!("Canceled"), &Value::Null));
    let changed = ages(&server, "K").iter().filter(|value| **value == 1).count();
    assert!(0 < changed && changed < 5, "{changed}");
}

#[test]
fn an_update_can_be_tested_on_one_document() {
    let server = people();
    let test = |id: &str, query: &str| {
        let body = json!({"Query": {"Query": query, "QueryParameters": {"a": 5}}}).to_string();
        server.send("PATCH", &format!("/databases/db/queries/test{id}"), body.as_bytes())
    };
    let query = "from Us as u load u.C as c update { u.Z = c.N; output(args.a); put('p/1', {}) }";
    let reply = test("?id=us/1", query);
    let person = r#""Age":1,"C":"cs/1","Cs":["cs/0","no","cs/1"],"@metadata":{"@collection":"Us"}"#;
    let expected = format!(
        r#"{{"Status":"Patched","ModifiedDocument":{{{person},"Z":"one"}},"OriginalDocument":{{{person}}},"Debug":{{"Output":["5"],"Actions":{{"LoadDocument":[{{"Id":"cs/1","Exists":true}}],"PutDocument":[{{"Id":"p/1","Data":{{}}}}],"DeleteDocument":[],"GetCounter":[],"IncrementCounter":[],"DeleteCounter":[],"GetTimeSeries":[],"AppendTimeSeries":[],"IncrementTimeSeries":[],"DeleteTimeSeries":[]}}}}}}"#
    );
    assert_eq!((reply.status, reply.text()), (200, expected));
    assert!(server.document("p/1").is_null() && server.document("us/1")["Z"].is_null());
    assert_eq!(test("?id=nope", query).status, 404);
    let reply = test("", query);
    assert_eq!(reply.json()["Message"], "Query string value 'id' must have a non empty value");
}
