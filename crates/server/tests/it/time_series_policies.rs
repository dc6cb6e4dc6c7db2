//! Policies of time series: rollups, retention, and their effect on queries.

use serde_json::{Value, json};

use crate::test_server::TestServer;
use crate::time_series::{AT, moment, server};

#[test]
fn policies_and_value_names_are_persisted() {
    let server = server();
    let send = |method: &str, path: &str, body: &Value| {
        server.send(method, &format!("/databases/db{path}"), body.to_string().as_bytes())
    };
    let configuration = || server.get("/databases/db/timeseries/config");
    assert_eq!(configuration().status, 404);
    let names = json!({ "Collection": "Cos", "TimeSeries": "HR", "ValueNames": ["Bpm"] });
    assert!(
        send("POST", "/timeseries/names/config", &names).json()["RaftCommandIndex"].is_number()
    );
    assert_eq!(send("POST", "/timeseries/names/config", &names).text(), "");
    assert_eq!(configuration().json()["NamedValues"], json!({ "Cos": { "HR": ["Bpm"] } }));
    let policy =
        json!({ "Name": "byMin", "AggregationTime": span(60), "RetentionTime": span(3600) });
    let path = "/admin/timeseries/policy?collection=Cos";
    assert_eq!(send("PUT", path, &policy).status, 200);
    let stored = configuration().json();
    assert_eq!(stored["Collections"]["Cos"]["Policies"][0]["Name"], json!("byMin"));
    assert_eq!(stored["NamedValues"], json!({ "Cos": { "HR": ["Bpm"] } }));
    assert_eq!(send("DELETE", &format!("{path}&name=byMin"), &json!({})).status, 200);
    assert_eq!(configuration().json()["Collections"]["Cos"]["Policies"], json!([]));
    assert_eq!(send("DELETE", &format!("{path}&name=byMin"), &json!({})).text(), "");
    let bad = json!({ "Name": "a", "AggregationTime": span(0), "RetentionTime": span(3600) });
    assert_eq!(send("PUT", path, &bad).status, 500);
}

#[test]
fn names_that_contradict_each_other_are_not_both_acknowledged() {
    let server = server();
    for series in 0..20 {
        let name = |number: usize| {
            let series = format!("S{series}");
            let names = json!({
                "Collection": "Cos", "TimeSeries": series, "ValueNames": [format!("N{number}")]
            });
            let path = "/databases/db/timeseries/names/config";
            server.send("POST", path, names.to_string().as_bytes()).status
        };
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let sent: Vec<_> = (0..4).map(|number| scope.spawn(move || name(number))).collect();
            sent.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let acknowledged = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!(acknowledged, 1, "{statuses:?}");
    }
}

fn span(seconds: i64) -> Value {
    json!({ "Value": seconds, "Unit": "Second" })
}

/// Entries are kept for an hour, and rollups of two minutes forever.
fn configure(server: &TestServer) {
    let policies = json!({
        "PolicyCheckFrequency": "00:00:01",
        "Collections": { "Cos": {
            "RawPolicy": { "RetentionTime": span(3600) },
            "Policies": [{
                "Name": "by2Min", "AggregationTime": span(120),
                "RetentionTime": { "Value": 2_147_483_647, "Unit": "None" }
            }]
        } }
    });
    let path = "/databases/db/admin/timeseries/config";
    assert_eq!(server.send("POST", path, policies.to_string().as_bytes()).status, 200);
}

/// Waits until the old entries are removed; if the server never does it, the test does not end.
fn wait_for_policies(server: &TestServer) {
    while server.get(&format!("{AT}?docId=c/4&name=HR")).status != 404 {
        std::thread::yield_now();
    }
}

#[test]
fn rollups_are_created_and_old_entries_removed_automatically() {
    let server = server();
    configure(&server);
    wait_for_policies(&server);
    let rollup = server.get(&format!("{AT}?docId=c/4&name=HR@by2Min")).json();
    let entries = rollup["Entries"].as_array().unwrap();
    let row = |minute: i64, values: [f64; 6]| {
        let values: Vec<Value> = values.iter().map(|value| json!(*value as i64)).collect();
        json!({ "Timestamp": moment(minute), "Tag": null, "Values": values, "IsRollup": true })
    };
    assert_eq!(entries[0], row(0, [60.0, 61.0, 60.0, 61.0, 121.0, 2.0]));
    assert_eq!(entries[3], row(6, [67.0, 67.0, 67.0, 67.0, 67.0, 1.0]));
    assert_eq!(entries.len(), 5);
    assert_eq!(server.document("c/4")["@metadata"]["@timeseries"], json!(["HR@by2Min"]));
}

#[test]
fn queries_continue_with_rollups_where_entries_were_removed() {
    let server = server();
    configure(&server);
    let ask = |select: &str| {
        let text = format!("from Cos select timeseries(from HR {select})");
        let body = json!({ "Query": text }).to_string();
        server.send("POST", "/databases/db/queries", body.as_bytes()).json()["Results"][0].clone()
    };
    let totals = "group by 1d select count(), sum(), min(), last()";
    let before = ask(totals)["Results"].clone();
    assert_eq!(before[0]["Sum"], json!([510.0]));
    wait_for_policies(&server);
    assert_eq!(ask(totals)["Results"], before);
    let entries = ask("")["Results"].clone();
    assert_eq!(entries.as_array().unwrap().len(), 5);
    assert_eq!(
        (&entries[1]["Timestamp"], &entries[1]["IsRollup"]),
        (&json!(moment(2)), &json!(true))
    );
    // Values that only raw entries have are not invented.
    assert_eq!(ask("where Value > 0 group by 1d select count()")["Results"], json!([]));
}

#[test]
fn clients_can_write_rollups_of_existing_policies() {
    let server = server();
    let change = |id: &str, name: &str| {
        let values = [1, 2, 3, 4, 5, 6];
        let appends = json!([{ "Timestamp": "2090-01-01T00:00:00.0000000Z", "Values": values }]);
        let body = json!({ "Name": name, "Appends": appends });
        let batch = json!({ "Commands": [{ "Id": id, "Type": "TimeSeries", "TimeSeries": body }] });
        let path = format!("{AT}?docId={id}");
        let alone = server.send("POST", &path, body.to_string().as_bytes());
        let path = "/databases/db/bulk_docs";
        let batched = server.send("POST", path, batch.to_string().as_bytes());
        assert_eq!(alone.status < 300, batched.status < 300, "{}", batched.text());
        if alone.status < 300 { String::new() } else { alone.json()["Message"].to_string() }
    };
    let reserved = |name: &str| format!("\"Illegal time series name : '{name}'.");
    assert!(change("c/4", "HR@by2Min").starts_with(&reserved("HR@by2Min")));
    configure(&server);
    assert_eq!(change("c/4", "HR@BY2MIN"), "");
    assert!(change("c/4", "HR@byHour").starts_with(&reserved("HR@byHour")));
    assert!(change("w/1", "HR@by2Min").starts_with(&reserved("HR@by2Min")));
    let found = server.get(&format!("{AT}?docId=c/4&name=HR@by2Min&from=2089-01-01T00:00:00Z"));
    assert_eq!(found.json()["Entries"][0]["IsRollup"], json!(true));
}
