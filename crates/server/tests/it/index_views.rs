//! What an operator can see about indexes and do with them.

use std::net::TcpStream;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::{
    indexes::{define, found, put},
    resources::{server_with, wait_until},
    test_server::TestServer,
};

const BY_NAME: &str = "from u in docs.Users select new { u.Name, u.Age }";
const COUNTS: &str = "from u in docs.Users select new { u.Name, Count = 1 }";
const BY_COUNT: &str = "from r in results group r by r.Name into g \
                        select new { Name = g.Key, Count = g.Sum(x => x.Count) }";
const SCRIPT: &str = "map('Users', u => ({ Name: u.Name, Age: u.Age }))";

/// A server with users, a map index, a map-reduce index and an index in JavaScript.
fn server() -> TestServer {
    let server = TestServer::with_database();
    for number in 1..=5 {
        let name = ["Ann", "Bob"][number % 2];
        put(&server, &format!("users/{number}"), &format!(r#"{{"Name":"{name}","Age":{number}}}"#));
    }
    let reduced = json!({"Name": "R", "Maps": [COUNTS], "Reduce": BY_COUNT});
    for index in
        [json!({"Name": "M", "Maps": [BY_NAME]}), reduced, json!({"Name": "J", "Maps": [SCRIPT]})]
    {
        assert_eq!(define(&server, &index).status, 201);
    }
    for name in ["M", "R", "J"] {
        catch_up(&server, name);
    }
    server
}

/// Waits until an index is not stale.
fn catch_up(server: &TestServer, name: &str) {
    let query = json!({"Query": format!("from index '{name}'"), "WaitForNonStaleResults": true});
    let reply = server.send("POST", "/databases/db/queries", query.to_string().as_bytes());
    assert_eq!(reply.json()["IsStale"], false, "{name}: {}", reply.text());
}

fn get(server: &TestServer, path: &str) -> Value {
    let reply = server.get(&format!("/databases/db/{path}"));
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply.json()
}

/// Status, type and message of an error response.
fn refused(server: &TestServer, method: &str, path: &str, body: &str) -> (u16, String, String) {
    let reply = server.send(method, &format!("/databases/db/{path}"), body.as_bytes());
    let error = reply.json();
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (reply.status, text("Type"), text("Message"))
}

#[test]
fn the_fields_of_an_index_are_listed() {
    let server = server();
    let fields = |name: &str| get(&server, &format!("indexes/debug?name={name}&op=entries-fields"));
    let sorted = |value: &Value| {
        let mut names: Vec<_> = value.as_array().unwrap().iter().map(Value::to_string).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(sorted(&fields("M")["Static"]), r#""Age" "Name" "id()""#);
    assert_eq!(sorted(&fields("R")["Static"]), r#""Count" "Name""#);
    let created =
        "from u in docs.Users select new { u.Name, _ = CreateField(\"is_\" + u.Name, 1) }";
    assert_eq!(define(&server, &json!({"Name": "C", "Maps": [created]})).status, 201);
    catch_up(&server, "C");
    let fields = fields("C");
    assert_eq!(sorted(&fields["Static"]), r#""Name" "id()""#);
    assert_eq!(sorted(&fields["Dynamic"]), r#""is_Ann" "is_Bob""#);
}

#[test]
fn the_documents_and_the_tree_of_a_reduce_key_are_returned() {
    let server = server();
    let ids =
        get(&server, "indexes/debug?name=R&op=source-doc-ids&startsWith=USERS/&start=1&pageSize=2");
    assert_eq!(ids, json!({"Results": ["users/2", "users/3"], "Count": 2}));
    let tree = get(&server, "indexes/debug?name=R&op=map-reduce-tree&docId=users/2&docId=nope");
    let tree = &tree["Results"][0];
    assert!(tree["Name"].as_str().unwrap().starts_with("__raven/map-reduce/#nested-section-"));
    assert_eq!(tree["DisplayName"], r#"{"Name":"Ann"}"#);
    let (depth, pages, rows) = (&tree["Depth"], &tree["PageCount"], &tree["NumberOfEntries"]);
    assert_eq!(json!([depth, pages, rows]), json!([1, 1, 2]));
    let row = |source: Value| json!({"Data": {"Name": "Ann", "Count": 1}, "Source": source});
    assert_eq!(
        tree["Root"],
        json!({
            "PageNumber": 1, "AggregationResult": {"Name": "Ann", "Count": 2}, "Children": null,
            "Entries": [row(json!("users/2")), row(Value::Null)]
        })
    );
    assert_eq!(get(&server, "indexes/debug?name=R&op=map-reduce-tree"), json!({"Results": []}));
    let many: String = (0..500).map(|number| format!("&docId=u/{number}")).collect();
    let path = format!("indexes/debug?name=R&op=map-reduce-tree{many}");
    assert_eq!(refused(&server, "GET", &path, "").1, "System.ArgumentException");

    let reply = server.get("/databases/db/indexes/debug?name=M&op=map-reduce-tree");
    assert_eq!((reply.status, reply.json()), (400, json!({"Error": "M is not map-reduce index"})));
    let (status, kind, message) =
        refused(&server, "GET", "indexes/debug?name=M&op=source-doc-ids", "");
    assert_eq!((status, kind.as_str()), (500, "System.NotSupportedException"));
    assert_eq!(message, "Getting doc ids for map indexes is not supported");
    let (_, _, message) = refused(&server, "GET", "indexes/debug?name=M&op=bogus", "");
    assert_eq!(message, "bogus is not supported");
    let (_, _, message) = refused(&server, "GET", "indexes/debug?name=M", "");
    assert_eq!(message, "Query string op is mandatory, but wasn't specified.");
}

#[test]
fn a_definition_is_returned_as_compiled_and_as_a_c_sharp_class() {
    let server = server();
    let source = get(&server, "indexes/source?name=R");
    assert_eq!(source["Index"], "R");
    let text = source["Source"].as_str().unwrap();
    assert!(text.contains("// reduce by Name; fields: Name, Count"), "{text}");
    let reply = server.get("/databases/db/indexes/c-sharp-index-definition?name=R");
    assert!(reply.text().contains("public class Index_R : AbstractIndexCreationTask"));
    assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    found(&server, "from Users where Age = 3");
    for (path, message) in [
        ("indexes/source?name=J", "Could not retrieve source for given index."),
        (
            "indexes/source?name=Auto/Users/ByAge",
            "Source can be only retrieved for static indexes.",
        ),
        (
            "indexes/c-sharp-index-definition?name=Auto/Users/ByAge",
            "Can't create C# index definition from auto indexes",
        ),
    ] {
        let (status, kind, returned) = refused(&server, "GET", path, "");
        assert_eq!((status, kind.as_str()), (500, "System.InvalidOperationException"));
        assert_eq!(returned, message, "{path}");
    }
    for path in ["source", "c-sharp-index-definition", "debug"] {
        assert_eq!(server.get(&format!("/databases/db/indexes/{path}?name=nope")).status, 404);
    }
    let metadata = get(&server, "indexes/debug/metadata?name=R");
    let shown = &metadata["Results"][0];
    assert_eq!((&shown["Name"], &shown["Type"]), (&json!("R"), &json!("MapReduce")));
    assert_eq!(shown["HasDynamicFields"], false);
    assert_eq!(get(&server, "indexes/debug/metadata")["Results"].as_array().unwrap().len(), 4);
}

#[test]
fn a_definition_is_tested_without_creating_an_index() {
    let server = server();
    let try_out =
        |body: Value| server.send("POST", "/databases/db/indexes/try", body.to_string().as_bytes());
    let reply = try_out(json!({"Definition": {"Name": "T", "Maps": [SCRIPT]}, "Ids": ["users/1"]}));
    assert_eq!(reply.text(), r#"{"MapResults":["{\"Name\":\"Bob\",\"Age\":1}"]}"#);
    let definition = json!({"Name": "T", "Maps": [COUNTS], "Reduce": BY_COUNT});
    let trial = try_out(json!({"Definition": definition})).json();
    assert_eq!(trial["MapResults"].as_array().unwrap().len(), 5);
    let results = [r#"{"Name":"Bob","Count":3}"#, r#"{"Name":"Ann","Count":2}"#];
    assert_eq!(trial["ReduceResults"], json!(results));
    assert_eq!(get(&server, "indexes?namesOnly=true")["Results"], json!(["J", "M", "R"]));
    let large = "map('Users', u => Array(25).fill(0).map(() => ({ Text: 'x'.repeat(100000) })))";
    for (body, message) in [
        (json!({}), "Request should have a property name 'Definition' which is mandatory."),
        (json!({"Definition": null}), "Request should have a property name 'Definition'"),
        (json!({"Definition": {"Name": "T"}}), "Index must have a 'Maps' fields"),
        (json!({"Definition": 5}), ""),
        (json!({"Definition": {"Maps": [SCRIPT]}, "Ids": "users/1"}), "'Ids' is not an array"),
        (json!({"Definition": {"Maps": [SCRIPT]}, "Ids": vec!["a"; 2000]}), "at most 1000"),
        (json!({"Definition": {"Maps": ["map('Users', u => {"]}}), "Failed to compile"),
        (json!({"Definition": {"Maps": ["map('Users', u => { throw 'boo' })"]}}), "boo"),
        (json!({"Definition": {"Maps": [large]}}), "take more than 4194304 bytes"),
    ] {
        let reply = try_out(body.clone());
        assert_eq!(reply.status, 500, "{body}");
        let returned = reply.json()["Message"].as_str().unwrap().to_owned();
        assert!(returned.contains(message), "{body}: {returned}");
    }
    let post = |path: &str, body: Value| {
        server.send("POST", &format!("/databases/db/{path}"), body.to_string().as_bytes()).json()
    };
    let map = json!({"Map": "from u in docs.Users select new { u.Name }"});
    assert_eq!(post("studio/index-fields", map), json!({"Results": ["Name"]}));
    let kind = post("studio/index-type", json!({"Maps": [SCRIPT]}));
    assert_eq!(kind, json!({"IndexType": "JavaScriptMap", "IndexSourceType": "Documents"}));
}

#[test]
fn a_definition_under_test_is_built_over_a_few_documents_and_queried() {
    let server = TestServer::with_database();
    for (id, a, b) in [("items/1", 1, "x"), ("items/2", 2, "y"), ("items/3", 2, "x")] {
        let document = json!({"A": a, "B": b, "@metadata": {"@collection": "Items"}});
        put(&server, id, &document.to_string());
    }
    let test = |body: Value| {
        server.send("POST", "/databases/db/indexes/test", body.to_string().as_bytes())
    };
    let map = json!({"Maps": ["from i in docs.Items select new { i.A, i.B }"]});
    let tested = test(json!({"IndexDefinition": map, "QueryParameters": {}})).json();
    // As RavenDB 7.1 responds, except for the metadata of the documents.
    assert_eq!(
        tested["IndexEntries"],
        json!([
            {"A": "1", "B": "x", "id()": "items/1"}, {"A": "2", "B": "y", "id()": "items/2"},
            {"A": "2", "B": "x", "id()": "items/3"}
        ])
    );
    assert_eq!(tested["QueryResults"][0]["A"], 1);
    assert_eq!(tested["QueryResults"][0]["@metadata"]["@collection"], "Items");
    let mapped = json!([{"A": 1, "B": "x"}, {"A": 2, "B": "y"}, {"A": 2, "B": "x"}]);
    assert_eq!((&tested["MapResults"], &tested["ReduceResults"]), (&mapped, &json!([])));
    assert_eq!((&tested["HasDynamicFields"], &tested["IsStale"]), (&json!(false), &json!(false)));
    assert_eq!(tested["IndexType"], "Map");

    let two = test(json!({"IndexDefinition": map, "Query": null, "MaxDocumentsToProcess": 2}));
    let two = two.json();
    assert_eq!((two["MapResults"].as_array().unwrap().len(), &two["IsStale"]), (2, &json!(true)));
    assert_eq!(two["QueryResults"].as_array().unwrap().len(), 2);

    // The index named in the query is ignored: it always runs on the one under test; the entries
    // are those of all pages.
    let paged = test(json!({
        "IndexDefinition": map, "Query": "from index 'Other' where A = $a select A limit 1",
        "QueryParameters": {"a": 2}
    }));
    let paged = paged.json();
    assert_eq!(paged["IndexEntries"].as_array().unwrap().len(), 2);
    let row = json!({"A": 2, "@metadata": {"@projection": true}});
    assert_eq!(without_more(&paged["QueryResults"][0]), row);
    assert_eq!(paged["QueryResults"].as_array().unwrap().len(), 1);

    let reduce = json!({
        "Name": "T", "Maps": ["from i in docs.Items select new { i.B, N = 1 }"],
        "Reduce": "from r in results group r by r.B into g select new { B = g.Key, N = g.Sum(x => x.N) }",
        "OutputReduceToCollection": "Counts"
    });
    let counted = test(json!({"IndexDefinition": reduce, "Query": "from index 'T' where N > 1"}));
    let counted = counted.json();
    assert_eq!(counted["IndexEntries"][0]["B"], "x");
    assert_eq!(counted["QueryResults"][0]["N"], 2);
    assert_eq!(counted["ReduceResults"], json!([{"B": "x", "N": 2}, {"B": "y", "N": 1}]));
    assert_eq!(counted["IndexType"], "MapReduce");

    // Documents on which the map fails are omitted.
    let divides = json!({"Maps": ["from i in docs.Items select new { X = i.A / (i.A - 1) }"]});
    let divided = test(json!({"IndexDefinition": divides})).json();
    assert_eq!(divided["MapResults"], json!([{"X": 2}, {"X": 2}]));
    assert_eq!(divided["IndexEntries"].as_array().unwrap().len(), 2);

    let collections = server.get("/databases/db/collections/stats").json();
    assert_eq!(collections["Collections"], json!({"Items": 3}), "nothing is written");
    assert_eq!(get(&server, "indexes?namesOnly=true")["Results"], json!([]));
    let limits = "Number of documents to process cannot be bigger than 10000 or less than 1.";
    for (body, status, message) in [
        (json!({"QueryParameters": {}}), 400, "Index must have an IndexDefinition field"),
        (json!({"IndexDefinition": map, "MaxDocumentsToProcess": 0}), 400, limits),
        (json!({"IndexDefinition": map, "MaxDocumentsToProcess": 10_001}), 400, limits),
        (
            json!({"IndexDefinition": map, "Query": "from index 'T' include C"}),
            500,
            "Includes are not supported by this type of query.",
        ),
        (json!({"IndexDefinition": {"Maps": ["from i in docs.Items selec"]}}), 500, ""),
        (json!({"IndexDefinition": {"Maps": []}}), 500, "Index must have a 'Maps' fields"),
    ] {
        let reply = test(body.clone());
        assert_eq!(reply.status, status, "{body}");
        let message_of = reply.json()["Message"].as_str().unwrap().to_owned();
        assert!(message_of.contains(message), "{body}: {message_of}");
    }
}

/// A row without the metadata that RavenDB omits when a definition is tested.
fn without_more(row: &Value) -> Value {
    let mut row = row.clone();
    row["@metadata"].as_object_mut().unwrap().retain(|name, _| name == "@projection");
    row
}

#[test]
fn indexes_that_could_be_merged_are_listed() {
    let check = |indexes: &[(&str, &str)], expected: Value| {
        let server = TestServer::with_database();
        for (name, map) in indexes {
            assert_eq!(define(&server, &json!({"Name": name, "Maps": [map]})).status, 201, "{map}");
        }
        let mut suggested = get(&server, "indexes/suggest-index-merge");
        for suggestion in suggested["Suggestions"].as_array_mut().unwrap() {
            let map = suggestion["MergedIndex"].pointer("/Maps/0").cloned();
            suggestion["MergedIndex"] = map.unwrap_or_default();
        }
        assert_eq!(suggested, expected, "{indexes:?}");
    };
    let alone = "Can't find any other index to merge this index with.";
    let (name, age) = ("from u in docs.Users select new { u.Name }", BY_NAME);
    check(
        &[("A", name), ("B", age)],
        json!({"Unmergables": {}, "Errors": [], "Suggestions": [{
            "CanMerge": [], "CanDelete": ["A"], "MergedIndex": null, "Collection": "Users",
            "SurpassingIndex": "B"
        }]}),
    );
    check(
        &[("A", name), ("B", "docs.Users.Select(x => new { City = x.Address.City })")],
        json!({"Unmergables": {}, "Errors": [], "Suggestions": [{
            "CanMerge": ["A", "B"], "CanDelete": [], "Collection": "Users", "SurpassingIndex": "",
            "MergedIndex": "from doc in docs.Users\r\nselect new\r\n{\r\n    City = doc.Address.City,\r\n    \
                            Name = doc.Name\r\n}"
        }]}),
    );
    check(
        &[
            ("A", name),
            ("B", "from u in docs.Users select new { Name = u.FirstName }"),
            ("C", "from u in docs.Users where u.Age > 1 select new { u.Age }"),
            ("D", "from o in docs.Orders select new { o.Name }"),
            ("E", "map('Users', u => ({ Name: u.Name }))"),
        ],
        json!({
            "Unmergables": {
                "A": alone, "B": alone, "D": alone,
                "C": "Cannot merge indexes that have a where clause."
            },
            "Suggestions": [], "Errors": []
        }),
    );
}

#[test]
fn batches_report_the_duration_of_their_steps_and_indexes_the_total() {
    let server = server();
    let performance = get(&server, "indexes/performance?name=R&name=nope");
    let batches = performance["Results"][0]["Performance"].as_array().unwrap().clone();
    let outputs: u64 = batches.iter().map(|batch| batch["OutputCount"].as_u64().unwrap()).sum();
    assert_eq!(outputs, 5, "rows are outputs");
    let steps = batches[0]["Details"]["Operations"].as_array().unwrap().clone();
    let names: Vec<_> = steps.iter().filter_map(|step| step["Name"].as_str()).collect();
    let expected = ["Map", "Reduce", "Lucene/Commit", "Storage/UpdateReferences", "Storage/Commit"];
    assert_eq!(names, expected);
    assert_ne!(steps[1]["ReduceDetails"]["ReduceAttempts"], 0);
    assert_ne!(steps[4]["CommitDetails"]["NumberOfModifiedPages"], 0);
    let times = get(&server, "indexes/total-time?name=R");
    assert_eq!(times[0]["Name"], "R");
    assert_ne!(times[0]["TotalIndexingTime"], "00:00:00");
    assert_eq!(get(&server, "indexes/total-time?name=nope"), json!([]));
}

fn read_json(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        match socket.read().unwrap() {
            Message::Text(text) if text.as_str() != "\r\n" => {
                return serde_json::from_str(&text).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn new_batches_are_reported_live_and_none_twice() {
    let server = server();
    let connect = |names: &str| {
        let stream = TcpStream::connect(server.address).unwrap();
        let target = format!("/databases/db/indexes/performance/live{names}");
        client(format!("ws://{}{target}", server.address), stream).unwrap().0
    };
    assert_eq!(read_json(&mut connect("?name=nope")), json!({"Results": []}));
    let mut socket = connect("?name=m&name=J");
    let all = read_json(&mut socket);
    let batches_of = |shape: &Value, place: usize| {
        let index = &shape["Results"][place];
        let batches = index["Performance"].as_array().unwrap();
        let numbers = batches.iter().map(|batch| batch["Id"].as_u64().unwrap());
        (index["Name"].as_str().unwrap().to_owned(), numbers.collect::<Vec<_>>())
    };
    let ((first, _), (second, before)) = (batches_of(&all, 0), batches_of(&all, 1));
    assert_eq!((first.as_str(), second.as_str()), ("J", "M"));
    put(&server, "users/9", r#"{"Name":"Cid","Age":9}"#);
    assert_eq!(found(&server, "from index 'M' where Name = 'Cid'").0, ["users/9"]);
    let news = read_json(&mut socket);
    let results = news["Results"].as_array().unwrap().len();
    let (_, after) =
        (0..results).map(|place| batches_of(&news, place)).find(|(name, _)| name == "M").unwrap();
    assert_eq!(after, [before.last().unwrap() + 1]);
}

#[test]
fn progress_counts_all_and_remaining_items() {
    let server = server();
    assert_eq!(server.send("POST", "/databases/db/admin/indexes/stop", b"").status, 204);
    put(&server, "users/6", r#"{"Name":"Dan"}"#);
    assert_eq!(server.send("DELETE", "/databases/db/docs?id=users/1", b"").status, 204);
    let progress = get(&server, "indexes/progress");
    let of_index = |name: &str| {
        let listed = progress["Results"].as_array().unwrap();
        listed.iter().find(|index| index["Name"] == name).unwrap().clone()
    };
    let shown = of_index("R");
    assert_eq!((&shown["IsStale"], &shown["IndexRunningStatus"]), (&json!(true), &json!("Paused")));
    let users = &shown["Collections"]["Users"];
    let numbers = [
        "NumberOfItemsToProcess",
        "TotalNumberOfItems",
        "NumberOfTombstonesToProcess",
        "TotalNumberOfTombstones",
    ]
    .map(|name| users[name].clone());
    assert_eq!(json!(numbers), json!([1, 5, 1, 1]));
    let stats = get(&server, "indexes/stats?name=R");
    let users = &stats["Results"][0]["Collections"]["Users"];
    assert_eq!((&users["DocumentLag"], &users["TombstoneLag"]), (&json!(1), &json!(1)));
    assert_eq!(get(&server, "indexes/staleness?name=R")["IsStale"], true);
}

#[test]
fn documents_with_very_many_entries_are_reported() {
    let server = TestServer::with_database();
    put(&server, "big/1", &json!({"Items": (0..1100).collect::<Vec<_>>()}).to_string());
    put(&server, "big/2", r#"{"Items":[1,2,3]}"#);
    let map = "from b in docs.Bigs from i in b.Items select new { i }";
    let body = json!({"Name": "Fan", "Maps": [map.replace("Bigs", "Users")]});
    assert_eq!(define(&server, &body).status, 201);
    let script = "map('Users', b => b.Items.map(i => ({ i })))";
    let configuration = json!({"PerformanceHints.Indexing.MaxIndexOutputsPerDocument": "2"});
    let body = json!({"Name": "Few", "Maps": [script], "Configuration": configuration});
    assert_eq!(define(&server, &body).status, 201);
    assert_eq!(define(&server, &json!({"Name": "None", "Maps": [BY_NAME]})).status, 201);
    for name in ["Fan", "Few", "None"] {
        catch_up(&server, name);
    }
    let notifications = get(&server, "notifications");
    let listed = notifications["Results"].as_array().unwrap();
    let hint = listed.iter().find(|hint| hint["HintType"] == "Indexing").unwrap();
    assert_eq!((&hint["Type"], &hint["Severity"]), (&json!("PerformanceHint"), &json!("Warning")));
    let warnings = hint["Details"]["Warnings"].as_object().unwrap();
    assert_eq!(warnings.keys().collect::<Vec<_>>(), ["Fan", "Few"]);
    let fan = &warnings["Fan"][0];
    assert_eq!(
        json!([fan["SampleDocumentId"], fan["MaxNumberOutputsPerDocument"]]),
        json!(["big/1", 1100])
    );
    assert_eq!(warnings["Few"][0]["NumberOfExceedingDocuments"], 2);
}

#[test]
fn an_index_that_serves_needs_no_repair() {
    let server = server();
    let (status, kind, message) = refused(&server, "POST", "index/open-faulty-index?name=m", "");
    assert_eq!((status, kind.as_str()), (500, "System.InvalidOperationException"));
    assert_eq!(message, "Cannot open non faulty index named: M");
    for path in ["index/open-faulty-index?name=nope", "admin/indexes/optimize?name=nope"] {
        let (status, kind, _) = refused(&server, "POST", path, "");
        let expected = "Raven.Client.Exceptions.Documents.Indexes.IndexDoesNotExistException";
        assert_eq!((status, kind.as_str()), (500, expected));
    }
    let reply = server.send("POST", "/databases/db/admin/indexes/optimize?name=M", b"").json();
    let id = &reply["OperationId"];
    let state = get(&server, &format!("operations/state?id={id}"));
    assert_eq!(state["Status"], "Completed");
    assert_eq!(state["Result"]["IndexName"], "M");
    wait_until(|| get(&server, "operations")["Results"][0]["Description"]["EndTime"].is_string());
}

#[test]
fn additional_sources_in_c_sharp_are_rejected_with_an_alternative() {
    let server = TestServer::with_database();
    for prefix in ["/databases/db", ""] {
        for (kind, one) in [("analyzers", "Analyzers"), ("sorters", "Sorters")] {
            let listed = server.get(&format!("{prefix}/{kind}"));
            assert_eq!((listed.status, listed.json()), (200, json!({one: []})), "{prefix}{kind}");
            let path = format!("{prefix}/admin/{kind}");
            let body = json!({one: [{"Name": "Mine", "Code": "public class Mine {}"}]});
            let reply = server.send("PUT", &path, body.to_string().as_bytes());
            assert_eq!(reply.status, 500);
            let error = reply.json();
            assert_eq!(error["Type"], "System.NotSupportedException");
            let message = error["Message"].as_str().unwrap();
            assert!(message.contains("'Mine'") && message.contains("Instead"), "{message}");
            let reply = server.send("PUT", &path, b"{}");
            assert_eq!(reply.json()["Type"], "System.ArgumentException");
            assert_eq!(server.send("DELETE", &format!("{path}?name=Mine"), b"").status, 204);
            let reply = server.send("DELETE", &path, b"");
            assert_eq!(reply.json()["Type"], "System.ArgumentException");
        }
    }
    let sources = json!({"h": "public static class H { public static int F(int x) => x; }"});
    let map = "from u in docs.Users select new { A = H.F(u.Age) }";
    let body = json!({"Name": "S", "Maps": [map], "AdditionalSources": sources});
    let message = define(&server, &body).json()["Message"].as_str().unwrap().to_owned();
    assert!(message.contains("additional sources in C#"), "{message}");
    let assemblies = json!([{"AssemblyName": "System.Xml"}]);
    let body = json!({"Name": "S", "Maps": [BY_NAME], "AdditionalAssemblies": assemblies});
    let message = define(&server, &body).json()["Message"].as_str().unwrap().to_owned();
    assert!(message.contains("libraries of .NET"), "{message}");
    put(&server, "users/1", r#"{"Age":4}"#);
    let body = json!({
        "Name": "S", "Maps": ["map('Users', u => ({ A: twice(u.Age) }))"],
        "AdditionalSources": {"h": "function twice(x) { return 2 * x; }"}
    });
    assert_eq!(define(&server, &body).status, 201);
    assert_eq!(found(&server, "from index 'S' where A = 8").0, ["users/1"]);
}

#[test]
fn an_index_with_too_many_failed_reduces_reports_their_number() {
    let server = server();
    let reduce = BY_COUNT.replace("g.Sum(x => x.Count)", "1 / g.Sum(x => x.Count - x.Count)");
    let body = json!({"Name": "E", "Maps": [COUNTS], "Reduce": reduce});
    assert_eq!(define(&server, &body).status, 201);
    wait_until(|| get(&server, "indexes/stats?name=E")["Results"][0]["State"] == "Error");
    let query = r#"{"Query":"from index 'E'"}"#;
    let (_, _, message) = refused(&server, "POST", "queries", query);
    assert_eq!(
        message,
        "Index 'E' is marked as errored. Index E is invalid, out of 5 map attempts and 5 reduce \
         attempts, 0 and 5 has failed respectively. Error rate of 50% exceeds allowed 15% error rate"
    );
}

#[test]
fn an_index_that_cannot_be_opened_is_listed() {
    let server = TestServer::with_database();
    // A record written by another version of the server may contain such a definition.
    let record = json!({"DatabaseName": "old", "Indexes": {
        "Bad": {"Name": "Bad", "Maps": ["from u in docs.Users select new { X = "]},
        "Good": {"Name": "Good", "Maps": [BY_NAME]}
    }});
    let created = server.send("PUT", "/admin/databases", record.to_string().as_bytes());
    assert_eq!(created.status, 201, "{}", created.text());
    let get = |path: &str| server.get(&format!("/databases/old/{path}")).json();
    wait_until(|| get("indexes?namesOnly=true")["Results"] == json!(["Bad", "Good"]));
    let shown = get("indexes?name=bad")["Results"][0].clone();
    assert_eq!((&shown["Name"], &shown["State"]), (&json!("Bad"), &json!("Error")));
    let statistics = get("indexes/stats");
    let types: Vec<_> = statistics["Results"].as_array().unwrap().iter().collect();
    assert_eq!(json!([types[0]["Type"], types[1]["Type"]]), json!(["Faulty", "Map"]));
    assert_eq!(types[0]["IsInvalidIndex"], true);
    let errors = get("indexes/errors?name=Bad")["Results"][0].clone();
    let error = errors["Errors"][0]["Error"].as_str().unwrap();
    assert!(error.contains("Failed to compile index Bad"), "{error}");
    assert_eq!(get("indexes/errors")["Results"][1], json!({"Name": "Good", "Errors": []}));
    let status = get("indexes/status");
    assert_eq!(status["Indexes"][0], json!({"Name": "Bad", "Status": "Paused"}));
    let opened = server.send("POST", "/databases/old/index/open-faulty-index?name=bad", b"");
    assert_eq!(opened.status, 500);
    assert!(opened.json()["Message"].as_str().unwrap().contains("Failed to compile index Bad"));
}

/// A small memory limit: responses and index tests may take an eighth of it.
const LITTLE: &str = "--Memory.LimitInMb=96";

#[test]
fn the_memory_of_a_definition_under_test_is_limited() {
    let (server, _simulation) = server_with(&[LITTLE]);
    let tags: Vec<_> =
        (0..400).map(|n| format!("a tag of many letters with the number {n}")).collect();
    for number in 0..60 {
        let document = json!({"N": number, "Tags": tags, "@metadata": {"@collection": "Items"}});
        put(&server, &format!("items/{number}"), &document.to_string());
    }
    let test = |maps: &str, reduce: Option<&str>| {
        let definition = json!({
            "Name": "T", "Maps": [maps], "Reduce": reduce,
            "Fields": {"Text": {"Storage": "Yes"}, "More": {"Storage": "Yes"}}
        });
        let body = json!({"IndexDefinition": definition});
        server.send("POST", "/databases/db/indexes/test", body.to_string().as_bytes())
    };
    let small = || test("from i in docs.Items select new { i.N }", None);
    assert_eq!(small().status, 200, "{}", small().json());
    let literal = "x".repeat(200_000);
    // The results of the maps are small, those of the reduce are large.
    let reduced = test(
        "from i in docs.Items select new { i.N, Text = \"\" }",
        Some(&format!(
            "from r in results group r by r.N into g select new {{ N = g.Key, Text = \"{literal}\" }}"
        )),
    );
    let message = reduced.json()["Message"].as_str().unwrap().to_owned();
    assert_eq!(reduced.status, 500, "{message}");
    assert!(message.contains("of the reduce for these documents take more than"), "{message}");

    // One entry per tag of a document, each with two stored fields.
    let fanned = test(
        "from i in docs.Items from t in i.Tags select new { t, Text = t + t + t + i.N, More = t + i.N + t + t }",
        None,
    );
    let message = fanned.json()["Message"].as_str().unwrap().to_owned();
    assert_eq!(fanned.status, 503, "{message}");
    assert!(message.contains("Trials of indexes"), "{message}");

    // The memory of the previous tests is released when they end.
    wait_until(|| small().status == 200);
}
