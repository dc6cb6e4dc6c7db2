//! Results of a reduce as documents, over HTTP.

use std::collections::BTreeMap;

use platform::Platform;
use serde_json::{Value, json};

use crate::http_client::Reply;
use crate::resources::wait_until;
use crate::test_server::TestServer;

const MAP: &str = "from o in docs.Orders select new { o.Company, o.Total, o.Day, Count = 1 }";
const REDUCE: &str = "from r in results group r by new { r.Company, r.Day } into g \
                      select new { g.Key.Company, g.Key.Day, Total = g.Sum(x => x.Total), \
                      Count = g.Sum(x => x.Count) }";

fn put(server: &TestServer, id: &str, mut body: Value, collection: &str) {
    body["@metadata"] = json!({"@collection": collection});
    let path = format!("/databases/db/docs?id={id}");
    let reply = server.send("PUT", &path, body.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
}

fn order(server: &TestServer, number: usize, company: &str, total: u32, month: usize) {
    let day = format!("2020-{month:02}-02T00:00:00.0000000");
    let body = json!({"Company": company, "Total": total, "Day": day});
    put(server, &format!("orders/{number}"), body, "Orders");
}

fn define(server: &TestServer, definition: &Value) -> Reply {
    let body = json!({"Indexes": [definition]}).to_string();
    server.send("PUT", "/databases/db/admin/indexes", body.as_bytes())
}

fn sums() -> Value {
    json!({
        "Name": "S", "Maps": [MAP], "Reduce": REDUCE, "OutputReduceToCollection": "Sums",
        "PatternForOutputReduceToCollectionReferences": "sums/{Day:yyyy-MM}",
    })
}

/// Waits until no index is stale and none is being built.
fn settle(server: &TestServer) {
    wait_until(|| {
        let stats = server.get("/databases/db/stats").json();
        let is_open = |index: &Value| {
            index["IsStale"] == true
                || index["Name"].as_str().unwrap().starts_with("ReplacementOf/")
        };
        !stats["Indexes"].as_array().unwrap().iter().any(is_open)
    });
}

/// The documents of a collection by their ids, with their metadata.
fn documents(server: &TestServer, collection: &str) -> BTreeMap<String, Value> {
    let body = json!({"Query": format!("from '{collection}'")}).to_string();
    let answer = server.send("POST", "/databases/db/queries", body.as_bytes()).json();
    let rows = answer["Results"].as_array().unwrap().iter().map(|row| {
        let id = row["@metadata"]["@id"].as_str().unwrap().to_owned();
        (id, row.clone())
    });
    rows.collect()
}

/// Company and total of each output.
fn totals(server: &TestServer, collection: &str) -> Vec<String> {
    let outputs = documents(server, collection).into_values();
    let mut totals: Vec<_> =
        outputs.map(|row| format!("{} {}", row["Company"], row["Total"])).collect();
    totals.sort();
    totals
}

/// The companies that each document refers to.
fn referred(server: &TestServer, collection: &str) -> BTreeMap<String, Vec<String>> {
    let outputs = documents(server, "Sums");
    let referring = documents(server, collection).into_iter().map(|(id, row)| {
        assert_eq!(row["@metadata"]["@flags"], "Artificial, FromIndex");
        let listed = row["ReduceOutputs"].as_array().unwrap().iter();
        let company = |output: &Value| outputs[output.as_str().unwrap()]["Company"].to_string();
        let mut companies: Vec<_> = listed.map(company).collect();
        companies.sort();
        (id, companies)
    });
    referring.collect()
}

fn of(pairs: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let texts = |texts: &[&str]| texts.iter().map(|text| format!("\"{text}\"")).collect();
    pairs.iter().map(|(id, companies)| ((*id).to_owned(), texts(companies))).collect()
}

#[test]
fn output_documents_are_updated_with_their_sources() {
    let server = TestServer::with_database();
    order(&server, 1, "a", 1, 1);
    order(&server, 2, "b", 2, 1);
    order(&server, 3, "a", 3, 2);
    let reply = define(&server, &sums());
    let number = reply.json()["Results"][0]["RaftCommandIndex"].as_u64().unwrap();
    settle(&server);
    assert_eq!(totals(&server, "Sums"), ["\"a\" 1", "\"a\" 3", "\"b\" 2"]);
    let months = of(&[("sums/2020-01", &["a", "b"]), ("sums/2020-02", &["a"])]);
    assert_eq!(referred(&server, "Sums/References"), months);
    for (id, row) in documents(&server, "Sums") {
        let metadata = &row["@metadata"];
        assert_eq!(metadata["@flags"], "Artificial, FromIndex");
        assert_eq!(metadata["@collection"], "Sums");
        let key = id.strip_prefix(&format!("Sums/{number}/")).unwrap();
        assert!(key.parse::<u128>().is_ok(), "{id}");
    }
    let shown = server.get("/databases/db/indexes?name=S").json()["Results"][0].clone();
    assert_eq!(shown["ReduceOutputIndex"], number);
    let stats = server.get("/databases/db/indexes/stats?name=S").json()["Results"][0].clone();
    assert_eq!(stats["ReduceOutputCollection"], "Sums");
    assert_eq!(stats["ReduceOutputReferencePattern"], "sums/{Day:yyyy-MM}");

    order(&server, 1, "c", 1, 2);
    server.send("DELETE", "/databases/db/docs?id=orders/2", b"");
    settle(&server);
    assert_eq!(totals(&server, "Sums"), ["\"a\" 3", "\"c\" 1"]);
    assert_eq!(referred(&server, "Sums/References"), of(&[("sums/2020-02", &["a", "c"])]));
    server.send("DELETE", "/databases/db/docs?id=orders/1", b"");
    server.send("DELETE", "/databases/db/docs?id=orders/3", b"");
    settle(&server);
    assert_eq!(
        (documents(&server, "Sums").len(), referred(&server, "Sums/References").len()),
        (0, 0)
    );
}

#[test]
fn a_changed_definition_removes_the_outputs_of_the_previous_one() {
    let platform = Platform::memory();
    let server = TestServer::start(platform.clone(), &[]);
    server.create("db");
    for number in 0..20 {
        order(&server, number, &format!("c{number:02}"), 1, 1 + number % 2);
    }
    define(&server, &sums());
    settle(&server);
    let first = documents(&server, "Sums");
    let again = define(&server, &sums());
    assert_eq!(again.status, 201);
    let mut numbered = sums();
    numbered["ReduceOutputIndex"] = json!(7777);
    define(&server, &numbered);
    settle(&server);
    assert_eq!(documents(&server, "Sums"), first, "the same definition changes nothing");
    put(&server, "mine/1", json!({"Company": "mine", "Total": 0}), "Sums");

    let mut changed = sums();
    changed["Reduce"] = json!(REDUCE.replace("x.Total)", "x.Total) + 100"));
    define(&server, &changed);
    settle(&server);
    let expected = || (0..20).map(|number| format!("\"c{number:02}\" 101"));
    let mut expected: Vec<_> = expected().chain(["\"mine\" 0".to_owned()]).collect();
    expected.sort();
    assert_eq!(totals(&server, "Sums"), expected);
    let second = documents(&server, "Sums");
    assert!(second.keys().all(|id| id == "mine/1" || !first.contains_key(id)));
    assert_eq!(referred(&server, "Sums/References")["sums/2020-01"].len(), 10);

    server.send("RESET", "/databases/db/indexes?name=S", b"");
    settle(&server);
    assert_eq!(documents(&server, "Sums"), second, "unchanged outputs are not written again");
    server.stop();
    let server = TestServer::start(platform, &[]);
    settle(&server);
    assert_eq!(documents(&server, "Sums"), second);

    changed["PatternForOutputReduceToCollectionReferences"] = json!("by/{Company}");
    changed["PatternReferencesCollectionName"] = json!("Refs");
    define(&server, &changed);
    settle(&server);
    assert_eq!(referred(&server, "Sums/References").len(), 0);
    assert_eq!(referred(&server, "Refs").len(), 20);
    assert_eq!(referred(&server, "Refs")["by/c07"], ["\"c07\""]);

    changed["OutputReduceToCollection"] = json!("Others");
    define(&server, &changed);
    settle(&server);
    assert_eq!(totals(&server, "Sums"), ["\"mine\" 0"]);
    assert_eq!(totals(&server, "Others").len(), 20);

    // Outputs of a deleted index are kept, as in RavenDB.
    server.send("DELETE", "/databases/db/indexes?name=S", b"");
    assert_eq!(totals(&server, "Others").len(), 20);
    let refused = define(&server, &changed);
    assert_eq!(refused.status, 500);
    let kind = "Raven.Client.Exceptions.Documents.Indexes.IndexInvalidException";
    assert_eq!(refused.json()["Type"], kind);
    let message = "Index 'S' is defined to output the Reduce results to documents in Collection \
                   'Others'. This collection currently has 20 documents. All documents in \
                   Collection 'Others' must be deleted first.";
    assert_eq!(refused.json()["Message"], message);
}

#[test]
fn outputs_are_indexed_like_other_documents() {
    let server = TestServer::with_database();
    for number in 0..30 {
        order(&server, number, &format!("c{}", number % 5), 1, 1 + number % 3);
    }
    define(&server, &sums());
    let yearly = json!({
        "Name": "Y", "OutputReduceToCollection": "Totals",
        "Maps": ["from s in docs.Sums select new { s.Company, s.Total, Months = 1 }"],
        "Reduce": "from r in results group r by r.Company into g select new { Company = g.Key, \
                   Total = g.Sum(x => x.Total), Months = g.Sum(x => x.Months) }",
    });
    assert_eq!(define(&server, &yearly).status, 201);
    let cycle = json!({
        "Name": "Z", "OutputReduceToCollection": "Orders2",
        "Maps": ["from t in docs.Totals select new { t.Company, Count = 1 }",
                 "from t in docs.Orders2 select new { t.Company, Count = 1 }"],
        "Reduce": "from r in results group r by r.Company into g select new { Company = g.Key, \
                   Count = g.Sum(x => x.Count) }",
    });
    assert_eq!(define(&server, &cycle).status, 500);
    // The second check covers outputs that were written between the checks of two indexes.
    let total = |company: &str| {
        settle(&server);
        settle(&server);
        let outputs = documents(&server, "Totals").into_values();
        let mut own = outputs.filter(|row| row["Company"] == company);
        own.next().map(|row| (row["Total"].as_u64().unwrap(), row["Months"].as_u64().unwrap()))
    };
    assert_eq!(total("c1"), Some((6, 3)));
    order(&server, 1, "c9", 10, 1);
    assert_eq!(total("c1"), Some((5, 3)));
    assert_eq!(total("c9"), Some((10, 1)));
    for number in 0..30 {
        order(&server, number, "c0", 1, 1);
    }
    assert_eq!(total("c1"), None);
    assert_eq!(total("c0"), Some((30, 1)));
}
