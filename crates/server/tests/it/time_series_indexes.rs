//! Indexes of time series: their entries, and that they are updated by every change.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    indexed_rows::{define, rows},
    test_server::TestServer,
};

fn server() -> TestServer {
    let server = TestServer::with_database();
    server.put("Cs/1", r#"{"Name":"One","@metadata":{"@collection":"Cs"}}"#);
    server.put("Cs/2", r#"{"Name":"Two","@metadata":{"@collection":"Cs"}}"#);
    server.put("us/1", r#"{"Name":"U","@metadata":{"@collection":"Us"}}"#);
    server.put("as/1", r#"{"City":"NY","@metadata":{"@collection":"As"}}"#);
    append(&server, "Cs/1", "Rate", &[(1, &[7.0, 1.5], Some("as/1")), (2, &[3.0], None)]);
    append(&server, "Cs/1", "Rate", &[(3, &[5.0, 2.0], Some("w/1"))]);
    append(&server, "cs/2", "rate", &[(1, &[60.0], Some("as/1"))]);
    append(&server, "Cs/1", "Likes", &[(5, &[9.0], None)]);
    append(&server, "us/1", "Rate", &[(5, &[99.0], Some("x"))]);
    server
}

fn hour(hour: u32) -> String {
    format!("2020-04-{:02}T{:02}:00:00.0000000Z", 1 + hour / 24, hour % 24)
}

fn change(server: &TestServer, id: &str, body: &Value) {
    let path = format!("/databases/db/timeseries?docId={id}");
    let reply = server.send("POST", &path, body.to_string().as_bytes());
    assert_eq!(reply.status, 204, "{}", reply.text());
}

/// An hour, values and a tag.
type Entry<'a> = (u32, &'a [f64], Option<&'a str>);

fn append(server: &TestServer, id: &str, name: &str, entries: &[Entry<'_>]) {
    let appends = entries
        .iter()
        .map(|(at, values, tag)| json!({ "Timestamp": hour(*at), "Values": values, "Tag": tag }));
    change(server, id, &json!({ "Name": name, "Appends": appends.collect::<Vec<_>>() }));
}

fn delete(server: &TestServer, id: &str, name: &str, from: Option<u32>, to: Option<u32>) {
    let range = json!({ "From": from.map(hour), "To": to.map(hour) });
    change(server, id, &json!({ "Name": name, "Deletes": [range] }));
}

/// Rows in the form of [`rows`].
fn texts(rows: &[Value]) -> Vec<String> {
    let text = |row: &Value| {
        let row = row.as_object().unwrap();
        json!(row.iter().collect::<BTreeMap<_, _>>()).to_string()
    };
    let mut texts: Vec<String> = rows.iter().map(text).collect();
    texts.sort();
    texts
}

#[test]
fn entries_are_mapped_by_collection_and_name_in_both_languages() {
    let server = server();
    let select = "select new { V = e.Value, All = e.Values, e.Tag, e.Timestamp, D = s.DocumentId }";
    let lambda =
        "(s, e) => new { V = e.Value, All = e.Values, e.Tag, e.Timestamp, D = s.DocumentId }";
    let body = "s => s.Entries.map(e => ({ V: e.Value, All: e.Values, Tag: e.Tag, \
                Timestamp: e.Timestamp, D: s.DocumentId }))";
    let maps = [
        ("One", format!("from s in timeSeries.Cs.Rate from e in s.Entries {select}")),
        ("Lambda", format!("timeSeries.Cs[\"RATE\"].SelectMany(s => s.Entries, {lambda})")),
        ("Js", format!("timeSeries.map('Cs', 'rate', {body})")),
        ("Cs", format!("from s in timeSeries.Cs from e in s.Entries {select}")),
        ("JsCs", format!("timeSeries.map('cs', {body})")),
        ("All", format!("from s in timeSeries from e in s.Entries {select}")),
        ("JsAll", format!("timeSeries.map({body})")),
    ];
    for (name, map) in &maps {
        define(&server, name, map, None);
    }
    let row = |id: &str, at: u32, all: &[f64], tag: Option<&str>| json!({ "D": id, "Timestamp": hour(at), "V": all[0], "All": all, "Tag": tag });
    let mut expected = vec![
        row("cs/1", 1, &[7.0, 1.5], Some("as/1")),
        row("cs/1", 2, &[3.0], None),
        row("cs/1", 3, &[5.0, 2.0], Some("w/1")),
        row("cs/2", 1, &[60.0], Some("as/1")),
    ];
    // Scripts print whole numbers without a fraction.
    let of_script = |rows: &[Value]| {
        let rows =
            json!(rows).to_string().replace(".0,", ",").replace(".0]", "]").replace(".0}", "}");
        texts(serde_json::from_str::<Value>(&rows).unwrap().as_array().unwrap())
    };
    for (one, script) in [("One", "Js"), ("Lambda", "Js"), ("Cs", "JsCs"), ("All", "JsAll")] {
        match one {
            "Cs" => expected.push(row("cs/1", 5, &[9.0], None)),
            "All" => expected.push(row("us/1", 5, &[99.0], Some("x"))),
            _ => {}
        }
        assert_eq!(rows(&server, &format!("from index {one}")), texts(&expected), "{one}");
        assert_eq!(
            rows(&server, &format!("from index {script}")),
            of_script(&expected),
            "{script}"
        );
    }
    let found = |query: &str| rows(&server, &format!("from index {query}")).len();
    assert_eq!(found("Cs where V > 5 and D = 'CS/1'"), 2);
    assert_eq!(found("JsCs where All = 1.5 or Tag = null"), 3);
    assert_eq!(found("Cs where Timestamp > '2020-04-01T01:30:00.0000000Z'"), 3);
    assert_eq!(
        rows(&server, "from index Cs where V = 9 select V, id()"),
        [r#"{"V":9.0,"id()":null}"#]
    );
    assert_eq!(found("Cs where id() = 'cs/1'"), 0);
    assert_eq!(found("Cs where startsWith(id(), 'Cs/1')"), 4);
    let fields = server.get("/databases/db/indexes/debug?name=One&op=entries-fields").json();
    assert_eq!(fields["Static"], json!(["All", "D", "Tag", "Timestamp", "V"]));
    let stats = server.get("/databases/db/indexes/stats?name=All").json()["Results"][0].clone();
    assert_eq!((&stats["SourceType"], &stats["EntriesCount"]), (&json!("TimeSeries"), &json!(6)));
    let shown = server.get("/databases/db/indexes?name=Js").json()["Results"][0].clone();
    assert_eq!(
        (&shown["SourceType"], &shown["Type"]),
        (&json!("TimeSeries"), &json!("JavaScriptMap"))
    );
}

#[test]
fn segments_expose_all_their_entries() {
    let server = server();
    let counted = |at, values: [i64; 2]| {
        let increments = json!([{ "Timestamp": hour(at), "Values": values }]);
        change(&server, "cs/1", &json!({ "Name": "INC:V", "Increments": increments }));
    };
    counted(1, [5, 1]);
    counted(2, [1, 1]);
    counted(1, [-2, 1]);
    let map = "from s in timeSeries.Cs select new { s.Name, s.Start, s.End, s.Count, s.Min, s.Max, \
               s.Sum, N = s.Entries.Count(), Other = s.Other }";
    define(&server, "Ss", map, None);
    let row = |name: &str, hours: [u32; 2], counts: [u64; 2], summaries: [&[f64]; 3]| {
        json!({
            "Name": name, "Start": hour(hours[0]), "End": hour(hours[1]), "Count": counts[0],
            "N": counts[1], "Min": summaries[0], "Max": summaries[1], "Sum": summaries[2],
        })
    };
    let expected = [
        row("Rate", [1, 3], [3, 3], [&[3.0, 1.5], &[7.0, 2.0], &[15.0, 3.5]]),
        row("rate", [1, 1], [1, 1], [&[60.0], &[60.0], &[60.0]]),
        row("Likes", [5, 5], [1, 1], [&[9.0], &[9.0], &[9.0]]),
        // Entries with the same timestamp are read as one.
        row("INC:V", [1, 2], [2, 3], [&[1.0, 1.0], &[3.0, 2.0], &[4.0, 3.0]]),
    ];
    assert_eq!(rows(&server, "from index Ss"), texts(&expected));
    let js = "timeSeries.map('Cs', 'Likes', s => ({ N: s.Name, S: s.Start, E: s.End, C: s.Count, \
              Sum: s.Sum, L: s.Entries.length, Year: s.Start.getFullYear() }))";
    define(&server, "Js", js, None);
    let expected = json!({
        "N": "likes", "S": hour(5), "E": hour(5), "C": 1, "Sum": null, "L": 1, "Year": 2020,
    });
    assert_eq!(rows(&server, "from index Js"), texts(&[expected]));
}

#[test]
fn an_index_is_updated_by_changes_of_its_series_only() {
    let server = server();
    let map = "from s in timeSeries.Cs.Rate from e in s.Entries \
               select new { D = s.DocumentId, e.Value, H = e.Timestamp.Hour }";
    define(&server, "Rs", map, None);
    let values = || {
        let rows = rows(&server, "from index Rs");
        let rows = rows.iter().map(|row| serde_json::from_str::<Value>(row).unwrap());
        rows.map(|row| format!("{} {} {}", row["D"].as_str().unwrap(), row["H"], row["Value"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(values(), ["cs/1 1 7.0", "cs/1 2 3.0", "cs/1 3 5.0", "cs/2 1 60.0"]);
    // Before all others, so that the start of the segment changes.
    append(&server, "cs/1", "RATE", &[(0, &[1.0], None), (2, &[4.0], None)]);
    assert_eq!(values(), ["cs/1 0 1.0", "cs/1 1 7.0", "cs/1 2 4.0", "cs/1 3 5.0", "cs/2 1 60.0"]);
    delete(&server, "cs/1", "rate", Some(0), Some(1));
    assert_eq!(values(), ["cs/1 2 4.0", "cs/1 3 5.0", "cs/2 1 60.0"]);
    delete(&server, "cs/1", "rate", None, None);
    assert_eq!(values(), ["cs/2 1 60.0"]);
    append(&server, "cs/1", "Rate", &[(2, &[8.0], None)]);
    server.send("DELETE", "/databases/db/docs?id=cs/2", b"");
    assert_eq!(values(), ["cs/1 2 8.0"]);
    let mapped = || {
        let stats = server.get("/databases/db/indexes/stats?name=Rs").json();
        stats["Results"][0]["MapAttempts"].as_u64().unwrap()
    };
    let before = mapped();
    append(&server, "us/1", "Rate", &[(7, &[1.0], None)]);
    server.put("cs/1", r#"{"Name":"z","@metadata":{"@collection":"Cs"}}"#);
    assert_eq!(values().len(), 1);
    assert_eq!(mapped(), before, "documents and other collections do not affect it");
    let reset = server.send("RESET", "/databases/db/indexes?name=Rs", b"");
    assert_eq!(reset.status, 200, "{}", reset.text());
    assert_eq!(values(), ["cs/1 2 8.0"]);
}

#[test]
fn series_are_reduced_across_documents_and_maps() {
    let server = server();
    let reduce = "from r in results group r by r.Name into g select new { Name = g.Key, \
                  Count = g.Sum(x => x.Count), Sum = g.Sum(x => x.Sum) }";
    let map = "from s in timeSeries.Cs from e in s.Entries \
               select new { Name = s.Name.ToLower(), Count = 1, Sum = e.Value }";
    define(&server, "Sums", map, Some(reduce));
    let js =
        "timeSeries.map('Cs', s => s.Entries.map(e => ({ Name: s.Name, Count: 1, Sum: e.Value })))";
    let js_reduce = "groupBy(x => x.Name).aggregate(g => ({ Name: g.key, \
                     Count: g.values.reduce((sum, x) => sum + x.Count, 0), \
                     Sum: g.values.reduce((sum, x) => sum + x.Sum, 0) }))";
    define(&server, "JsSums", js, Some(js_reduce));
    let sums = |index: &str| rows(&server, &format!("from index {index}"));
    let expected = |number: fn(f64) -> Value, all: &[(&str, u64, f64)]| {
        let rows = all.iter();
        let rows = rows.map(|(n, c, s)| json!({ "Name": n, "Count": c, "Sum": number(*s) }));
        texts(&rows.collect::<Vec<_>>())
    };
    let both = |all: &[(&str, u64, f64)]| {
        assert_eq!(sums("Sums"), expected(|sum| json!(sum), all));
        assert_eq!(sums("JsSums"), expected(|sum| json!(sum as i64), all));
    };
    both(&[("rate", 4, 75.0), ("likes", 1, 9.0)]);
    delete(&server, "cs/1", "rate", Some(0), Some(2));
    append(&server, "cs/2", "Likes", &[(0, &[1.0], None)]);
    both(&[("rate", 2, 65.0), ("likes", 2, 10.0)]);
    server.send("DELETE", "/databases/db/docs?id=cs/1", b"");
    both(&[("rate", 1, 60.0), ("likes", 1, 1.0)]);
}

#[test]
fn maps_of_time_series_load_documents_and_are_updated_with_them() {
    let server = server();
    let map = "from s in timeSeries.Cs.Rate from e in s.Entries let a = LoadDocument(e.Tag, \"As\") \
               let c = LoadDocument(s.DocumentId, \"Cs\") select new { a.City, c.Name, e.Value }";
    define(&server, "Loading", map, None);
    let js = "timeSeries.map('Cs', 'Rate', s => s.Entries.map(e => ({ City: load(e.Tag, 'As').City, \
              Name: load(s.DocumentId, 'Cs').Name, Value: e.Value })))";
    define(&server, "JsLoading", js, None);
    let cities = |index: &str, city: &str, name: &str| {
        rows(&server, &format!("from index {index} where City = '{city}' and Name = '{name}'"))
            .len()
    };
    for index in ["Loading", "JsLoading"] {
        assert_eq!((cities(index, "NY", "One"), cities(index, "NY", "Two")), (1, 1), "{index}");
        assert_eq!(rows(&server, &format!("from index {index}")).len(), 4, "{index}");
    }
    server.put("as/1", r#"{"City":"LA","@metadata":{"@collection":"As"}}"#);
    server.put("cs/1", r#"{"Name":"Uno","@metadata":{"@collection":"Cs"}}"#);
    for index in ["Loading", "JsLoading"] {
        assert_eq!((cities(index, "NY", "One"), cities(index, "LA", "Uno")), (0, 1), "{index}");
    }
    server.send("DELETE", "/databases/db/docs?id=as/1", b"");
    for index in ["Loading", "JsLoading"] {
        assert_eq!((cities(index, "LA", "Uno"), cities(index, "LA", "Two")), (0, 0), "{index}");
        assert_eq!(rows(&server, &format!("from index {index}")).len(), 4, "{index}");
    }
}

#[test]
fn maps_of_documents_can_read_series_names() {
    let server = server();
    define(&server, "Names", "from c in docs.Cs select new { N = TimeSeriesNamesFor(c) }", None);
    define(&server, "JsNames", "map('Cs', c => ({ N: timeSeriesNamesFor(c) }))", None);
    let found = |index: &str, name: &str| {
        let query = format!("from index {index} where N = '{name}'");
        let body = json!({ "Query": query, "WaitForNonStaleResults": true }).to_string();
        let mut ids = server.send("POST", "/databases/db/queries", body.as_bytes()).ids();
        ids.sort();
        ids
    };
    for index in ["Names", "JsNames"] {
        assert_eq!(found(index, "rate"), ["Cs/1", "Cs/2"], "{index}");
        assert_eq!(found(index, "likes"), ["Cs/1"], "{index}");
    }
    delete(&server, "cs/1", "likes", None, None);
    append(&server, "cs/2", "More", &[(1, &[1.0], None)]);
    for index in ["Names", "JsNames"] {
        assert_eq!(found(index, "likes"), [""; 0], "{index}");
        assert_eq!(found(index, "more"), ["Cs/2"], "{index}");
    }
}

#[test]
fn pending_work_of_a_time_series_index_is_reported() {
    let server = server();
    define(&server, "Rs", "from s in timeSeries.Cs select new { s.Name }", None);
    define(&server, "All", "from s in timeSeries select new { s.Name }", None);
    rows(&server, "from index Rs");
    rows(&server, "from index All");
    server.send("POST", "/databases/db/admin/indexes/stop", b"");
    append(&server, "cs/2", "rate", &[(24, &[5.0], None)]);
    delete(&server, "cs/2", "rate", Some(0), Some(5));
    for (index, collection) in [("Rs", "Cs"), ("All", "@all_docs")] {
        let staleness = server.get(&format!("/databases/db/indexes/staleness?name={index}")).json();
        assert_eq!(staleness["IsStale"], true);
        let [first, second] = staleness["StalenessReasons"].as_array().unwrap().as_slice() else {
            panic!("{staleness}")
        };
        let (first, second) = (first.as_str().unwrap(), second.as_str().unwrap());
        assert!(
            first.contains(&format!("time series items to process from collection '{collection}'")),
            "{first}"
        );
        assert!(
            first.contains("(@key: 'cs/2|rate', @last-modified: '04/02/2020 00:00:00')"),
            "{first}"
        );
        assert!(second.contains("tombstones to process from collection"), "{second}");
        assert!(second.contains("(@key: 'cs/2|rate')"), "{second}");
        let progress = server.get("/databases/db/indexes/progress").json();
        let own = progress["Results"].as_array().unwrap().iter();
        let own = own.clone().find(|own| own["Name"] == index).unwrap();
        let own = &own["Collections"][collection];
        assert_eq!(own["NumberOfItemsToProcess"], 1);
        assert_eq!(own["NumberOfTimeSeriesDeletedRangesToProcess"], 1);
        assert_eq!(own["TotalNumberOfTimeSeriesDeletedRanges"], 1);
    }
    server.send("POST", "/databases/db/admin/indexes/start", b"");
    assert_eq!(rows(&server, "from index Rs").len(), 3);
    let stats = server.get("/databases/db/indexes/stats?name=Rs").json()["Results"][0].clone();
    let own = &stats["Collections"]["Cs"];
    assert_eq!((&own["DocumentLag"], &stats["IsStale"]), (&json!(0), &json!(false)));
    assert_eq!(own["LastProcessedTimeSeriesDeletedRangeEtag"], own["LastProcessedDocumentEtag"]);
}

#[test]
fn a_new_definition_replaces_the_old_one() {
    let server = server();
    define(&server, "Rs", "from s in timeSeries.Cs select new { s.Name }", None);
    assert_eq!(rows(&server, "from index Rs").len(), 3);
    define(&server, "Rs", "from s in timeSeries.Us select new { D = s.DocumentId }", None);
    // The old index answers until the new one has caught up.
    let query = || rows(&server, "from index Rs");
    while query() != [r#"{"D":"us/1"}"#] {
        std::thread::yield_now();
    }
}

#[test]
fn invalid_time_series_indexes_are_rejected() {
    let server = server();
    let put = |maps: &[&str]| {
        let body = json!({ "Indexes": [{ "Name": "Refused", "Maps": maps }] }).to_string();
        server.send("PUT", "/databases/db/admin/indexes", body.as_bytes())
    };
    let series = "from s in timeSeries.Cs select new { s.Name }";
    for other in ["docs.Cs", "counters.Cs"] {
        let reply = put(&[series, &format!("from d in {other} select new {{ d.Name }}")]);
        assert_eq!(
            reply.json()["Message"],
            "Index definition cannot contain Maps with different source types."
        );
    }
    assert_eq!(put(&["from s in timeSeries.Cs.Rate.More select new { s.Name }"]).status, 500);
    assert_eq!(put(&["timeSeries.map('Cs', 'Rate')"]).status, 500);
    define(&server, "Wrong", "timeSeries.map('Cs', s => ({ A: s.Entries[9].Tag.length }))", None);
    let body = json!({ "Query": "from index Wrong", "WaitForNonStaleResults": true }).to_string();
    server.send("POST", "/databases/db/queries", body.as_bytes());
    let errors = server.get("/databases/db/indexes/errors?name=Wrong").json();
    assert_eq!(errors["Results"][0]["Errors"], json!([]), "a missing entry has no value");
    define(&server, "Thrown", "timeSeries.map('Cs', s => { throw new Error('no'); })", None);
    server.send(
        "POST",
        "/databases/db/queries",
        json!({ "Query": "from index Thrown", "WaitForNonStaleResults": true })
            .to_string()
            .as_bytes(),
    );
    let errors = server.get("/databases/db/indexes/errors?name=Thrown").json();
    let first = &errors["Results"][0]["Errors"][0];
    assert_eq!(first["Document"], "cs/1|rate|637212996000000000", "{errors}");
}
