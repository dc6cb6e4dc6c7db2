//! Time series included by a query, and streams of time series results.

use serde_json::{Value, json};

use crate::test_server::TestServer;

fn server() -> TestServer {
    let server = TestServer::with_database();
    server.put("c/1", r#"{"Ref":"c/2","Age":1,"@metadata":{"@collection":"Cos"}}"#);
    server.put("c/2", r#"{"Ref":"c/1","@metadata":{"@collection":"Others"}}"#);
    let entry = |moment: &str, value: f64| json!({ "Timestamp": moment, "Values": [value] });
    let series = [
        (
            "c/1",
            "HR",
            vec![
                entry("2020-01-01T00:00:00.000Z", 60.0),
                entry("2020-01-01T00:20:00.000Z", 71.0),
                entry("2020-01-01T04:00:00.000Z", 90.0),
                entry("2021-01-01T00:00:00.000Z", -5.25),
            ],
        ),
        ("c/1", "Two words", vec![entry("2020-01-01T00:00:00.000Z", 1.0)]),
        ("c/2", "HR", vec![entry("2020-01-01T00:00:00.500Z", 3.0)]),
    ];
    for (id, name, appends) in series {
        let body = json!({ "Name": name, "Appends": appends }).to_string();
        let target = format!("/databases/db/timeseries?docId={id}");
        assert_eq!(server.send("POST", &target, body.as_bytes()).status, 204);
    }
    server
}

fn query(server: &TestServer, text: &str) -> Value {
    let body = json!({ "Query": text, "QueryParameters": {
        "a": "2020-01-01T00:20:00.0000000Z", "b": "2020-01-01T04:00:00.0000000Z", "s": "HR", "n": null,
    } });
    server.send("POST", "/databases/db/queries", body.to_string().as_bytes()).json()
}

/// The ranges with their numbers of entries.
fn ranges(answer: &Value) -> Value {
    let mut found = answer["TimeSeriesIncludes"].clone();
    for document in found.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        for ranges in document.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
            for range in ranges.as_array_mut().into_iter().flatten() {
                let entries = range["Entries"].as_array().map_or(0, Vec::len);
                *range = json!([range["From"], range["To"], entries]);
            }
        }
    }
    found
}

#[test]
fn a_query_includes_time_series() {
    let server = server();
    let (half_past, four) = ("2020-01-01T00:20:00.0000000Z", "2020-01-01T04:00:00.0000000Z");
    let last = "2021-01-01T00:00:00.0000000Z";
    let hour_before = "2020-12-31T23:00:00.0000000Z";
    let hr = |from: Value, to: Value, count: u64| json!({ "c/1": { "HR": [[from, to, count]] } });
    for (include, expected) in [
        ("timeseries('HR', null, null)", hr(json!(null), json!(null), 4)),
        ("timeseries('HR', $a, $b)", hr(json!(half_past), json!(four), 2)),
        ("timeseries($s, $n, $b)", hr(json!(null), json!(four), 3)),
        ("timeseries(c, 'HR', $a, $b)", hr(json!(half_past), json!(four), 2)),
        ("timeseries('HR', last(2))", hr(json!(four), json!(null), 2)),
        ("timeseries('HR', last(100))", hr(json!("2020-01-01T00:00:00.0000000Z"), json!(null), 4)),
        ("timeseries('HR', last(0))", hr(json!(last), json!(null), 0)),
        ("timeseries('HR', last(1, 'hour'))", hr(json!(hour_before), json!(null), 1)),
        (
            "timeseries('HR', last(2, 'months'))",
            hr(json!("2020-11-01T00:00:00.0000000Z"), json!(null), 1),
        ),
        (
            "timeseries(last(1, 'hour'))",
            json!({ "c/1": {
                "HR": [[hour_before, null, 1]],
                "Two words": [["2019-12-31T23:00:00.0000000Z", null, 1]],
            } }),
        ),
        ("timeseries('nope', null, null)", json!({ "c/1": { "nope": [[null, null, 0]] } })),
        ("timeseries('nope', last(2))", json!({ "c/1": {} })),
        (
            "timeseries('HR', null, null), timeseries(c.Ref, 'HR', null, null)",
            json!({ "c/1": { "HR": [[null, null, 4]] }, "c/2": { "HR": [[null, null, 1]] } }),
        ),
        ("timeseries('HR', last(1)), timeseries('HR', last(2))", hr(json!(last), json!(null), 1)),
    ] {
        let answer = query(&server, &format!("from Cos as c include {include}"));
        assert_eq!(ranges(&answer), expected, "{include}");
    }
    let answer =
        query(&server, "from Cos as c load c.Ref as r include timeseries(r, 'HR', null, null)");
    let entry = json!({
        "Timestamp": "2020-01-01T00:00:00.5000000Z", "Tag": null, "Values": [3], "IsRollup": false,
    });
    let expected = json!({ "c/2": { "HR": [{ "From": null, "To": null, "Entries": [entry] }] } });
    assert_eq!(answer["TimeSeriesIncludes"], expected);
}

#[test]
fn invalid_includes_are_rejected() {
    let server = server();
    for (include, message) in [
        ("timeseries('HR')", "Expected to get include 'TimeSeries' clause expression"),
        ("timeseries('HR', first(2))", "Method 'first' is not supported."),
        ("timeseries('HR', last(1, 'foo'))", "Could not parse last() method."),
        ("timeseries('HR', '2020-01-01', null)", "Could not parse query string 'HR' as date"),
        ("timeseries('HR', 1, 2)", "From/To parameters of method of `timeseries` must be"),
        ("timeseries(c.Nope, 'HR', null, null)", "Cannot include time series for related document"),
    ] {
        let answer = query(&server, &format!("from Cos as c include {include}"));
        let given = answer["Message"].as_str().unwrap_or_default();
        assert!(given.starts_with(message), "{include}: {answer}");
    }
}

#[test]
fn values_are_found_by_their_configured_names() {
    let server = server();
    let names = json!({ "Collection": "cos", "TimeSeries": "hr", "ValueNames": ["Bpm", "Steps"] });
    let path = "/databases/db/timeseries/names/config";
    assert_eq!(server.send("POST", path, names.to_string().as_bytes()).status, 200);
    let ask = |text: &str| {
        let body = json!({ "Query": text, "QueryParameters": { "x": 75 } }).to_string();
        let path = "/databases/db/queries?addTimeSeriesNames=true";
        server.send("POST", path, body.as_bytes()).json()
    };
    let names = json!(["Bpm", "Steps"]);
    for text in [
        "from Cos as c select timeseries(from c.HR where Bpm > 75)",
        "from Cos as c select timeseries(from HR where Bpm > $x and Bpm < 100)",
        "declare timeseries o(c) { from c.HR where Bpm > $x } from Cos as c select o(c)",
        "from Cos as c where c.Age = 1 select timeseries(from c.HR where Bpm > 75 group by 1d)",
        "from @all_docs as c where id() = 'c/1' select timeseries(from c.HR where Bpm > 75)",
    ] {
        let answer = ask(text);
        let row = &answer["Results"][0];
        assert_eq!(row["Count"], json!(1), "{text}: {answer}");
        assert_eq!(row["@metadata"]["@timeseries-named-values"], names, "{text}");
    }
    assert_eq!(
        ask("from Cos as c select timeseries(from c.HR)")["TimeSeriesFields"],
        json!([]),
        "the whole row is one"
    );
    assert_eq!(ask("from Cos as c select c.Age").get("TimeSeriesFields"), None);
    let answer = ask("from Cos as c select timeseries(from c.HR where Bpm > 75) as T, c.Age");
    assert_eq!(answer["TimeSeriesFields"], json!(["T"]));
    assert_eq!(answer["Results"][0]["T"]["@metadata"]["@timeseries-named-values"], names);
    let script = "declare timeseries o(c) { from c.HR where Bpm > 75 } \
         declare function f(c) { return { R: o(c) } } from Cos as c select f(c)";
    assert_eq!(ask(script)["Results"][0]["R"]["Count"], json!(1));
    // Value names apply to one series of one collection, and are case-sensitive.
    for (text, unknown) in [
        ("from Cos as c select timeseries(from c.HR where bpm > 75)", "bpm"),
        ("from Cos as c select timeseries(from c.'Two words' where Bpm > 75)", "Bpm"),
        ("from Others as c select timeseries(from c.HR where Bpm > 75)", "Bpm"),
    ] {
        let message = ask(text)["Message"].as_str().unwrap_or_default().to_owned();
        let expected = format!("'{unknown}' is unknown in time series function");
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn streams_return_series_as_arrays_and_csv_returns_entries_as_lines() {
    let server = server();
    let stream = |format: &str, text: &str| {
        let body = json!({ "Query": text }).to_string();
        let target = format!("/databases/db/streams/queries?format={format}");
        server.send("POST", &target, body.as_bytes()).text()
    };
    let text = "from Cos select timeseries(from HR last 1 h)";
    let rows: Value = serde_json::from_str(&stream("json", text)).unwrap();
    let row = &rows["Results"][0];
    assert_eq!(row["@metadata"]["@id"], "c/1");
    assert_eq!(row["__timeSeriesQueryFunction0"][0]["Values"], json!([-5.25]));
    let lines = stream("csv", text);
    assert_eq!(
        lines.trim_start_matches('\u{feff}'),
        "@id,@metadata.@projection,Tag,Timestamp,Values,IsRollup\r\n\
         c/1,True,,2021-01-01T00:00:00.0000000Z,[-5.25],False\r\n"
    );
    let groups =
        stream("csv", "from Cos select timeseries(from HR last 1 h group by 1h select max())");
    assert_eq!(
        groups.trim_start_matches('\u{feff}').lines().next(),
        Some("@id,@metadata.@projection,From,To,Key,Count,Max")
    );
    assert!(stream("json", "from Cos include timeseries('HR', last(1))").contains("not supported"));
}
