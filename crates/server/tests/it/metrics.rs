//! What metrics report, in the format of RavenDB.

use serde_json::{Value, json};

use crate::test_server::TestServer;

/// The groups of metrics, with the meters in each.
const SHAPE: &[(&str, &[&str])] = &[
    ("Requests", &["RequestsPerSec", "ConcurrentRequestsCount", "AverageDuration"]),
    ("Docs", &["PutsPerSec", "BytesPutsPerSec"]),
    ("Attachments", &["PutsPerSec", "BytesPutsPerSec"]),
    ("Counters", &["PutsPerSec", "BytesPutsPerSec"]),
    ("TimeSeries", &["PutsPerSec", "BytesPutsPerSec"]),
    ("MapIndexes", &["IndexedPerSec"]),
    ("MapReduceIndexes", &["MappedPerSec", "ReducedPerSec"]),
];
const METER: [&str; 6] =
    ["Current", "Count", "MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate"];

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn count(metrics: &Value, group: &str, meter: &str) -> u64 {
    metrics[group][meter]["Count"].as_u64().unwrap_or_else(|| panic!("{group} {meter}: {metrics}"))
}

#[test]
fn metrics_have_the_format_of_the_protocol() {
    let server = TestServer::with_database();
    for path in ["/admin/metrics", "/databases/db/metrics"] {
        let metrics = server.get(path).json();
        assert_eq!(keys(&metrics), SHAPE.iter().map(|(group, _)| *group).collect::<Vec<_>>());
        for (group, meters) in SHAPE {
            assert_eq!(keys(&metrics[group]), *meters, "{path}");
            for meter in meters.iter().filter(|meter| meter.ends_with("PerSec")) {
                assert_eq!(keys(&metrics[group][meter]), METER, "{path} {group} {meter}");
            }
        }
    }
    let missing = server.get("/databases/none/metrics").json();
    assert_eq!(missing["Type"], "Raven.Client.Exceptions.Database.DatabaseDoesNotExistException");
}

#[test]
fn writes_are_counted_by_database_and_by_server() {
    let server = TestServer::with_database();
    server.create("other");
    let put = |target: &str, body: &str| {
        assert_eq!(server.send("PUT", target, body.as_bytes()).status, 201, "{target}");
    };
    put("/databases/db/docs?id=a/1", r#"{"x":1}"#);
    put("/databases/db/docs?id=a/2", r#"{"x":1,"long":"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"}"#);
    put("/databases/other/docs?id=a/1", r#"{"x":1}"#);
    // Neither deletions nor failed writes count as puts.
    assert_eq!(server.send("DELETE", "/databases/db/docs?id=a/1", b"").status, 204);
    let refused =
        server.send_with("PUT", "/databases/db/docs?id=a/2", &[("If-Match", "\"A:9-x\"")], b"{}");
    assert_eq!(refused.status, 409);
    let metrics = server.get("/databases/db/metrics").json();
    assert_eq!(count(&metrics, "Docs", "PutsPerSec"), 2, "{metrics}");
    assert!(50 < count(&metrics, "Docs", "BytesPutsPerSec"), "{metrics}");
    assert_eq!(count(&metrics, "Requests", "RequestsPerSec"), 5, "{metrics}");
    assert_eq!(metrics["Requests"]["ConcurrentRequestsCount"], 1, "this one");
    assert!(0.0 < metrics["Requests"]["AverageDuration"].as_f64().unwrap());
    // An attachment and a new counter are listed in the metadata of their document, which is
    // therefore put again.
    put("/databases/db/attachments?id=a/2&name=f", "hello");
    let counters = json!({"Documents": [{"DocumentId": "a/2", "Operations": [
        {"Type": "Increment", "CounterName": "likes", "Delta": 3},
        {"Type": "Increment", "CounterName": "shares", "Delta": 3},
        {"Type": "Get", "CounterName": "shares"}
    ]}]});
    let reply = server.send("POST", "/databases/db/counters", counters.to_string().as_bytes());
    assert_eq!(reply.status, 200);
    let series = json!({"Name": "HeartRates", "Appends": [
        {"Timestamp": "2020-01-01T00:00:00Z", "Values": [5.0]},
        {"Timestamp": "2020-01-01T00:00:01Z", "Values": [5.0]}
    ]});
    let target = "/databases/db/timeseries?docId=a/2";
    assert_eq!(server.send("POST", target, series.to_string().as_bytes()).status, 204);
    let metrics = server.get("/databases/db/metrics").json();
    let counted =
        SHAPE[1..5].iter().map(|(group, _)| (*group, count(&metrics, group, "PutsPerSec")));
    assert_eq!(
        counted.collect::<Vec<_>>(),
        [("Docs", 5), ("Attachments", 1), ("Counters", 2), ("TimeSeries", 2)]
    );
    assert_eq!(count(&metrics, "Attachments", "BytesPutsPerSec"), 5);
    let of_all = server.get("/admin/metrics").json();
    assert_eq!(count(&of_all, "Docs", "PutsPerSec"), 6, "{of_all}");
    assert_eq!(count(&of_all, "TimeSeries", "PutsPerSec"), 2, "{of_all}");
    assert!(
        count(&metrics, "Requests", "RequestsPerSec")
            < count(&of_all, "Requests", "RequestsPerSec")
    );
}

#[test]
fn mapped_and_reduced_items_are_counted() {
    let server = TestServer::with_database();
    for number in 1..=3 {
        server.put(&format!("a/{number}"), r#"{"l":[1,2],"@metadata":{"@collection":"A"}}"#);
    }
    let indexes = json!({"Indexes": [
        {"Name": "Map", "Maps": ["from d in docs.A from x in d.l select new { x }"]},
        {"Name": "Reduce", "Maps": ["from d in docs.A from x in d.l select new { x, n = 1 }"],
         "Reduce": "from r in results group r by r.x into g select new { x = g.Key, n = g.Sum(z => z.n) }"}
    ]});
    let reply = server.send("PUT", "/databases/db/admin/indexes", indexes.to_string().as_bytes());
    assert_eq!(reply.status, 201);
    for index in ["Map", "Reduce"] {
        let query = format!("from index '{index}'");
        let query = json!({"Query": query, "WaitForNonStaleResults": true}).to_string();
        assert_eq!(server.send("POST", "/databases/db/queries", query.as_bytes()).status, 200);
    }
    let metrics = server.get("/databases/db/metrics").json();
    assert_eq!(count(&metrics, "MapIndexes", "IndexedPerSec"), 6, "{metrics}");
    assert_eq!(count(&metrics, "MapReduceIndexes", "MappedPerSec"), 6, "{metrics}");
    assert_eq!(count(&metrics, "MapReduceIndexes", "ReducedPerSec"), 6, "{metrics}");
}

#[test]
fn per_second_values_of_the_last_15_minutes_are_returned_on_request() {
    let server = TestServer::with_database();
    server.put("a/1", "{}");
    let of_documents = |target: &str| server.get(target).json()["Docs"].clone();
    for (path, name) in [("puts", "PutsPerSec"), ("bytes", "BytesPutsPerSec")] {
        let path = format!("/databases/db/metrics/{path}");
        let meter = of_documents(&format!("{path}?empty=false"))[name].clone();
        assert_eq!(keys(&meter), [&METER[..], &["Raw"]].concat());
        assert_eq!(meter["Raw"].as_object().unwrap().len(), 900, "{meter}");
        // The second of the put has to end first.
        let raw = loop {
            let meter = of_documents(&path)[name].clone();
            if !meter["Raw"].as_object().unwrap().is_empty() {
                break meter["Raw"].clone();
            }
        };
        let (time, events) = raw.as_object().unwrap().iter().next().unwrap();
        assert_eq!(time.split(':').map(str::len).collect::<Vec<_>>(), [2, 2, 2], "{raw}");
        assert!(1.0 <= events.as_f64().unwrap());
    }
    let refused = server.get("/databases/db/metrics/puts?empty=x");
    assert_eq!(refused.status, 500);
    assert_eq!(refused.json()["Type"], "System.ArgumentException");
}
