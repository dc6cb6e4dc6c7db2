//! Time series over HTTP: changes, ranges, pages, streams; in batches and bulk inserts. The
//! responses are those of RavenDB 5.4.

use serde_json::{Value, json};

use crate::test_server::TestServer;

pub(crate) const AT: &str = "/databases/db/timeseries";

/// A document with a series of eight entries, one a minute but for the sixth.
pub(crate) fn server() -> TestServer {
    let server = TestServer::with_database();
    server.put("c/4", r#"{"N":"co4","@metadata":{"@collection":"Cos"}}"#);
    server.put("w/1", r#"{"N":"w1","@metadata":{"@collection":"Ws"}}"#);
    let tags =
        [None, Some("w/1"), None, Some("w/1"), None, Some("w/1"), Some("w/none"), Some("w/1")];
    let minutes = [0, 1, 2, 3, 4, 5, 7, 8];
    let appends: Vec<Value> =
        minutes.iter().zip(tags).map(|(minute, tag)| entry(*minute, *minute + 60, tag)).collect();
    change(&server, "c/4", &json!({ "Name": "HR", "Appends": appends }));
    server
}

pub(crate) fn moment(minute: i64) -> String {
    format!("2020-01-01T00:0{minute}:00.0000000Z")
}

fn entry(minute: i64, value: i64, tag: Option<&str>) -> Value {
    json!({ "Timestamp": moment(minute), "Tag": tag, "Values": [value] })
}

/// An entry as returned in ranges.
fn shown(minute: i64, tag: Option<&str>) -> Value {
    let values = [minute + 60];
    json!({ "Timestamp": moment(minute), "Tag": tag, "Values": values, "IsRollup": false })
}

fn change(server: &TestServer, id: &str, change: &Value) {
    let reply = server.send("POST", &format!("{AT}?docId={id}"), change.to_string().as_bytes());
    assert_eq!((reply.status, reply.text()), (204, String::new()));
}

fn refused(server: &TestServer, id: &str, change: &str) -> String {
    let reply = server.send("POST", &format!("{AT}?docId={id}"), change.as_bytes());
    assert_eq!(reply.status, 500);
    let error = reply.json();
    format!("{} {}", error["Type"].as_str().unwrap(), error["Message"].as_str().unwrap())
}

#[test]
fn ranges_and_pages_return_their_bounds() {
    let server = server();
    let (start, end) = (Some("2020-01-01T00:01:00Z"), Some("2020-01-01T00:08:00Z"));
    let first = Some("2020-01-01T00:00:00Z");
    let at = |minute| json!(moment(minute));
    let null = Value::Null;
    let all = [0, 1, 2, 3, 4, 5, 7, 8];
    // From, to, start and page size; then the bounds, the minutes and the total in the response.
    let cases = [
        (None, None, "", (null.clone(), null.clone()), &all[..], true),
        (None, None, "&start=2", (at(2), null.clone()), &all[2..], true),
        (None, None, "&start=2&pageSize=2", (at(2), at(3)), &all[2..4], true),
        (None, None, "&pageSize=2", (null.clone(), at(1)), &all[..2], true),
        (None, None, "&pageSize=8", (null.clone(), null.clone()), &all[..], true),
        (None, None, "&start=20", (at(8), null.clone()), &[][..], true),
        (None, None, "&start=-1", (null.clone(), null.clone()), &all[..], true),
        (start, None, "", (at(1), null.clone()), &all[1..], false),
        (start, end, "&pageSize=2", (at(1), at(2)), &all[1..3], false),
        (start, end, "&start=1&pageSize=2", (at(2), at(3)), &all[2..4], false),
        (end, start, "", (at(8), at(1)), &[][..], false),
        (end, start, "&start=1", (at(8), at(1)), &[][..], false),
        (first, end, "", (at(0), at(8)), &all[..], true),
        (first, end, "&pageSize=2", (at(0), at(1)), &all[..2], true),
        (None, end, "&start=20", (at(8), at(8)), &[][..], true),
    ];
    let tag = |minute| match minute {
        0 | 2 | 4 => None,
        7 => Some("w/none"),
        _ => Some("w/1"),
    };
    for (from, to, page, ends, minutes, has_total) in cases {
        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
        let found = server.get(&format!("{AT}?docId=c/4&name=hr&from={from}&to={to}{page}")).json();
        let entries: Vec<Value> =
            minutes.iter().map(|minute| shown(*minute, tag(*minute))).collect();
        let mut expected = json!({ "From": ends.0, "To": ends.1, "Entries": entries });
        if has_total {
            expected["TotalResults"] = json!(8);
        }
        assert_eq!(found, expected, "{from} {to} {page}");
    }
    let text = server.get(&format!("{AT}?docId=c/4&name=HR&pageSize=1&full=true")).text();
    let expected = r#"{"From":null,"To":"2020-01-01T00:00:00.0000000Z","Entries":[{"Timestamp":"2020-01-01T00:00:00.0000000Z","Tag":null,"Values":[60],"IsRollup":false}],"TotalResults":8}"#;
    assert_eq!(text, expected);
    assert_eq!(server.get(&format!("{AT}?docId=c/4&name=nope")).status, 404);
    assert_eq!(server.get(&format!("{AT}?docId=c/5&name=HR")).status, 404);
}

#[test]
fn an_unchanged_result_returns_304() {
    let server = server();
    let path = format!("{AT}?docId=c/4&name=HR");
    let etag = server.get(&path).header("etag").unwrap().to_owned();
    let again = || server.send_with("GET", &path, &[("If-None-Match", &etag)], b"").status;
    assert_eq!(again(), 304);
    let deletes = json!([{ "From": moment(4), "To": moment(4) }]);
    change(&server, "c/4", &json!({ "Name": "HR", "Deletes": deletes }));
    assert_eq!(again(), 200);
}

#[test]
fn the_document_of_a_series_and_documents_named_by_its_tags_are_included() {
    let server = server();
    let get = |more: &str| server.get(&format!("{AT}?docId=c/4&name=HR{more}")).json();
    let includes = get("&includeDocument=true&includeTags=true&start=5")["Includes"].clone();
    let ids: Vec<&String> = includes.as_object().unwrap().keys().collect();
    assert_eq!(ids, ["c/4", "w/1"]);
    assert_eq!(includes["c/4"]["@metadata"]["@timeseries"], json!(["HR"]));
    let later = get("&includeTags=true&from=2021-01-01T00:01:00Z");
    assert_eq!(later.get("Includes"), None);
}

#[test]
fn several_ranges_are_returned_in_one_response() {
    let server = server();
    let get = |more: &str| server.get(&format!("{AT}/ranges?docId=c/4{more}"));
    let two = "&name=HR&from=2020-01-01T00:01:00Z&to=2020-01-01T00:02:00Z\
               &name=hr&from=2020-01-01T00:04:00Z&to=2020-01-01T00:05:00Z";
    let range = |from: i64, to: i64, entries: &[Value]| json!({ "From": moment(from), "To": moment(to), "Entries": entries });
    let (one, two_entry) = (shown(1, Some("w/1")), shown(2, None));
    let (four, five) = (shown(4, None), shown(5, Some("w/1")));
    let both = [
        range(1, 2, &[one.clone(), two_entry.clone()]),
        range(4, 5, &[four.clone(), five.clone()]),
    ];
    assert_eq!(get(two).json(), json!({ "Id": "c/4", "Values": { "HR": both } }));
    let paged = [range(2, 2, std::slice::from_ref(&two_entry)), range(4, 4, &[four])];
    let found = get(&format!("{two}&start=1&pageSize=2")).json();
    assert_eq!(found["Values"]["HR"], json!(paged));
    let paged = [range(8, 2, &[]), range(5, 5, &[five])];
    let found = get(&format!("{two}&start=3")).json();
    assert_eq!(found["Values"]["HR"], json!(paged));
    let found = get(&format!("{two}&pageSize=1")).json();
    assert_eq!(found["Values"]["HR"], json!([range(1, 1, &[one])]));
    // Only present for the whole series.
    for (more, total) in [
        ("&name=HR&from=&to=", json!(8)),
        ("&name=HR&from=2020-01-01T00:00:00Z&to=2020-01-01T00:08:00Z&pageSize=8", json!(8)),
        ("&name=HR&from=2020-01-01T00:00:00Z&to=2020-01-01T00:07:59Z", Value::Null),
        ("&name=HR&from=&to=&start=1", Value::Null),
        ("&name=HR&from=&to=&pageSize=7", Value::Null),
    ] {
        assert_eq!(get(more).json()["Values"]["HR"][0]["TotalResults"], total, "{more}");
    }
    let found = get("&name=nope&from=&to=").json();
    let nothing = json!([{ "From": null, "To": null, "Entries": [] }]);
    assert_eq!(found["Values"]["nope"], nothing);
    assert_eq!(get("&name=HR&from=&to=&pageSize=0").json()["Values"], json!({}));
    let message = |more: &str| get(more).json()["Message"].as_str().unwrap().to_owned();
    assert_eq!(message(""), "Query string name is mandatory, but wasn't specified.");
    assert_eq!(message("&name=HR"), "Query string from is mandatory, but wasn't specified.");
    assert_eq!(
        message("&name=HR&from=x&to="),
        "Could not parse query string 'HR' as date, val 'x'"
    );
    assert!(message("&name=HR&from=&to=&name=HR&from=").starts_with("Length of query string"));
}

#[test]
fn a_stream_has_a_comma_after_every_entry() {
    let server = server();
    let get = |more: &str| server.get(&format!("/databases/db/streams/timeseries?docId=c/4{more}"));
    let expected = r#"{"Results":[{"Tag":"w/none","Timestamp":"2020-01-01T00:07:00.0000000Z","Values":[67.0],"IsRollup":false},{"Tag":"w/1","Timestamp":"2020-01-01T00:08:00.0000000Z","Values":[68.0],"IsRollup":false},]}"#;
    assert_eq!(get("&name=HR&from=2020-01-01T00:06:00Z").text(), expected);
    assert_eq!(get("&name=nope").text(), r#"{"Results":[]}"#);
}

#[test]
fn a_document_lists_its_series() {
    let server = server();
    let stats = |id: &str| server.get(&format!("{AT}/stats?docId={id}"));
    let expected = r#"{"DocumentId":"c/4","TimeSeries":[{"Name":"HR","NumberOfEntries":8,"StartDate":"2020-01-01T00:00:00.0000000Z","EndDate":"2020-01-01T00:08:00.0000000Z"}]}"#;
    assert_eq!(stats("C/4").text(), expected);
    assert_eq!(stats("w/1").text(), r#"{"DocumentId":"w/1","TimeSeries":[]}"#);
    assert_eq!(stats("c/5").status, 404);
    change(&server, "c/4", &json!({ "Name": "HR", "Deletes": [{}] }));
    assert_eq!(stats("c/4").json()["TimeSeries"], json!([]));
    assert_eq!(server.document("c/4")["@metadata"].get("@timeseries"), None);
}

#[test]
fn incremental_series_return_the_sum_and_the_value_of_each_node() {
    let server = server();
    let count = |minute: i64, values: &Value| {
        let increments = json!([{ "Timestamp": moment(minute), "Values": values }]);
        change(&server, "c/4", &json!({ "Name": "INC:A", "Increments": increments }));
    };
    count(0, &json!([1, 2]));
    count(0, &json!([-3, 1]));
    count(1, &json!([5]));
    let found = server.get(&format!("{AT}?docId=c/4&name=INC:A&full=true")).json();
    let entries = found["Entries"].as_array().unwrap();
    assert_eq!(entries[0]["Values"], json!([-2, 3]));
    assert_eq!(entries[0]["Tag"], Value::Null);
    let tag = entries[1]["Tag"].as_str().unwrap();
    let node = format!("A-{}", tag.strip_prefix("TC:INC-").unwrap());
    assert_eq!(entries[0]["NodeValues"], json!({ node.clone(): [-2, 3] }));
    assert_eq!(entries[1]["NodeValues"], json!({ node: [5] }));
    assert_eq!(found["TotalResults"], json!(2));
}

#[test]
fn invalid_writes_are_rejected_with_the_errors_of_the_protocol() {
    let server = server();
    let one = |entry: &str| format!(r#"{{"Name":"A","Appends":[{entry}]}}"#);
    let stamp = r#""Timestamp":"2020-01-01T00:00:00Z""#;
    let cases = [
        (
            "c/5",
            r#"{"Name":"A"}"#.to_owned(),
            "Raven.Client.Exceptions.Documents.DocumentDoesNotExistException Document 'c/5' does not exist. Cannot operate on time series of a missing document",
        ),
        (
            "c/4",
            "{}".to_owned(),
            "System.IO.InvalidDataException Missing 'Name' property on TimeSeriesOperation 'TimeSeriesOperation'",
        ),
        (
            "c/4",
            r#"{"Name":"A@B","Appends":[]}"#.to_owned(),
            "System.InvalidOperationException Illegal time series name : 'A@B'. Time series names cannot contain '@' character",
        ),
        (
            "c/4",
            one(&format!(r#"{{{stamp},"Values":[NaN]}}"#)),
            "Raven.Server.Documents.TimeSeries.NanValueException Failed to append TimeSeries entry.",
        ),
        (
            "c/4",
            one(&format!(r#"{{{stamp},"Values":[]}}"#)),
            "System.IO.InvalidDataException The entries of 'A' time-series for document 'c/4' must contain at least one value",
        ),
        (
            "c/4",
            one(&format!(r#"{{{stamp},"Values":{}}}"#, json!(vec![1; 33]))),
            "System.ArgumentOutOfRangeException Specified argument was out of the range of valid values. (Parameter 'TimeSeriesValuesSegment can handle up to 32 values, but had: 33')",
        ),
        (
            "c/4",
            one(&format!(r#"{{{stamp},"Values":[1],"Tag":"{}"}}"#, "x".repeat(255))),
            "System.ArgumentOutOfRangeException Tag 'xxx",
        ),
        (
            "c/4",
            format!(r#"{{"Name":"INC:A","Appends":[{{{stamp},"Values":[1]}}]}}"#),
            "System.InvalidOperationException Cannot perform append operations on Incremental Time Series",
        ),
        (
            "c/4",
            format!(r#"{{"Name":"A","Increments":[{{{stamp},"Values":[1]}}]}}"#),
            "System.InvalidOperationException Cannot perform increment operations on Non Incremental Time Series",
        ),
        ("c/4", "xxx".to_owned(), "System.IO.InvalidDataException "),
        (
            "c/4",
            "[]".to_owned(),
            "Sparrow.Exceptions.InvalidStartOfObjectException Expected start of object, but got StartArray",
        ),
        ("c/4", String::new(), "System.IO.EndOfStreamException "),
        (
            "c/4",
            format!(r#"{{"Name":"{}"}}"#, "n".repeat(513)),
            "System.ArgumentException The name of a time series",
        ),
    ];
    for (id, body, expected) in cases {
        let found = refused(&server, id, &body);
        assert!(found.starts_with(expected), "{body}: {found}");
    }
    assert_eq!(server.document("c/4")["@metadata"]["@timeseries"], json!(["HR"]));
}

#[test]
fn batches_change_and_copy_series_with_their_documents() {
    let server = server();
    let changes =
        |name: &str, minute: i64| json!({ "Name": name, "Appends": [entry(minute, 1, None)] });
    let increments = json!([{ "Timestamp": moment(0), "Values": [1] }]);
    let commands = json!({ "Commands": [
        { "Type": "PUT", "Id": "c/6", "Document": { "@metadata": { "@collection": "Cos" } } },
        { "Type": "TimeSeries", "Id": "c/6", "TimeSeries": changes("HR", 1) },
        { "Type": "TimeSeries", "Id": "c/6", "TimeSeries": changes("HR", 2) },
        { "Type": "TimeSeriesWithIncrements", "Id": "c/6", "TimeSeries": { "Name": "INC:A", "Increments": increments } },
        { "Type": "TimeSeriesCopy", "Id": "c/4", "Name": "HR", "DestinationId": "c/6", "DestinationName": "Copy", "From": moment(3), "To": moment(5) },
        { "Type": "TimeSeriesCopy", "Id": "c/4", "Name": "nope", "DestinationId": "c/6", "DestinationName": "Copy" },
    ]});
    let reply = server.send("POST", "/databases/db/bulk_docs", commands.to_string().as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    let results = reply.json()["Results"].clone();
    let document = &server.document("c/6")["@metadata"];
    assert_eq!(document["@timeseries"], json!(["Copy", "HR", "INC:A"]));
    let version = &document["@change-vector"];
    let result =
        |kind: &str, version: &Value| json!({ "Id": "c/6", "ChangeVector": version, "Type": kind });
    assert_eq!(results[1], result("TimeSeries", version));
    assert_ne!(results[2]["ChangeVector"], *version);
    assert_eq!(results[3], result("TimeSeriesWithIncrements", version));
    assert_eq!(results[4], result("TimeSeriesCopy", version));
    assert_eq!(results[5], result("TimeSeriesCopy", &Value::Null));
    let copy = server.get(&format!("{AT}?docId=c/6&name=Copy")).json();
    assert_eq!(
        copy["Entries"],
        json!([shown(3, Some("w/1")), shown(4, None), shown(5, Some("w/1"))])
    );
    let failed = json!({ "Commands": [
        { "Type": "TimeSeries", "Id": "c/6", "TimeSeries": changes("Never", 1) },
        { "Type": "TimeSeries", "Id": "nobody", "TimeSeries": changes("Never", 1) },
    ]});
    let reply = server.send("POST", "/databases/db/bulk_docs", failed.to_string().as_bytes());
    assert_eq!(reply.status, 500);
    assert_eq!(server.get(&format!("{AT}?docId=c/6&name=Never")).status, 404);
}

#[test]
fn a_bulk_insert_appends_time_series_entries() {
    let server = server();
    let body = r#"[{"Id":"c/7","Type":"PUT","Document":{"@metadata":{"@collection":"Cos"}}},
        {"Id":"c/7","Type":"TimeSeriesBulkInsert","TimeSeries":{"Name":"HR","TimeFormat":"UnixTimeInMs",
            "Appends":[[1577836800000,1,5.5],[1577836860000,2,1,2,"tag"]]}}]"#;
    let reply = server.send("POST", "/databases/db/bulk_insert?id=7", body.as_bytes());
    assert_eq!(reply.status, 201, "{}", reply.text());
    let found = server.get(&format!("{AT}?docId=c/7&name=HR")).json();
    let entry = |minute: i64, values: Value, tag: Value| json!({ "Timestamp": moment(minute), "Tag": tag, "Values": values, "IsRollup": false });
    let expected =
        json!([entry(0, json!([5.5]), Value::Null), entry(1, json!([1, 2]), json!("tag"))]);
    assert_eq!(found["Entries"], expected);
    let state = server.get("/databases/db/operations/state?id=7").json();
    assert_eq!(state["Result"]["TimeSeriesProcessed"], json!(1));
    assert_eq!(state["Result"]["DocumentsProcessed"], json!(1));
}

#[test]
fn a_long_series_is_streamed() {
    let server = server();
    for batch in 0..8 {
        let entries: Vec<String> = (0..5000)
            .map(|position| {
                format!("[{},1,{}.25]", 1_577_836_800_000_i64 + batch * 5_000 + position, position)
            })
            .collect();
        let body = format!(
            r#"[{{"Id":"c/4","Type":"TimeSeriesBulkInsert","TimeSeries":{{"Name":"Long","TimeFormat":"UnixTimeInMs","Appends":[{}]}}}}]"#,
            entries.join(",")
        );
        let path = format!("/databases/db/bulk_insert?id={}", 20 + batch);
        assert_eq!(server.send("POST", &path, body.as_bytes()).status, 201);
    }
    let found = server.get(&format!("{AT}?docId=c/4&name=Long")).json();
    assert_eq!(found["TotalResults"], json!(40_000));
    let entries = found["Entries"].as_array().unwrap();
    assert_eq!(entries.len(), 40_000);
    assert_eq!(entries[12_345]["Values"], json!([2345.25]));
    let streamed = server.get("/databases/db/streams/timeseries?docId=c/4&name=Long").text();
    assert_eq!(streamed.matches("\"Timestamp\"").count(), 40_000);
}

#[test]
fn loads_include_ranges() {
    let server = server();
    let load = |more: &str| server.get(&format!("/databases/db/docs?id=c/4{more}"));
    let included = |more: &str| load(more).json()["TimeSeriesIncludes"]["c/4"].clone();
    let all = included("&timeseries=hr&from=&to=");
    assert_eq!(all["hr"][0]["Entries"].as_array().unwrap().len(), 8);
    assert_eq!(all["hr"][0].get("TotalResults"), None);
    let range = "&timeseries=HR&from=2020-01-01T00:01:00Z&to=2020-01-01T00:02:00Z";
    let entries = json!([shown(1, Some("w/1")), shown(2, None)]);
    let expected = json!({ "HR": [{ "From": moment(1), "To": moment(2), "Entries": entries }] });
    assert_eq!(included(range), expected);
    let last = json!([shown(7, Some("w/none")), shown(8, Some("w/1"))]);
    let expected = json!({ "HR": [{ "From": moment(7), "To": null, "Entries": last }] });
    assert_eq!(included("&timeseriescount=HR&countType=Last&countValue=2"), expected);
    assert_eq!(included("&timeseriescount=@all_timeseries&countType=Last&countValue=2"), expected);
    assert_eq!(included("&timeseriestime=HR&timeType=Last&timeValue=60&timeUnit=Second"), expected);
    let months = included("&timeseriestime=HR&timeType=Last&timeValue=1&timeUnit=Month");
    assert_eq!(months["HR"][0]["From"], json!("2019-12-01T00:08:00.0000000Z"));
    let none = json!({ "HR": [{ "From": moment(8), "To": null, "Entries": [] }] });
    assert_eq!(included("&timeseriescount=HR&countType=Last&countValue=0"), none);
    assert_eq!(included("&timeseriescount=nope&countType=Last&countValue=2"), json!({}));
    let missing = json!({ "nope": [{ "From": null, "To": null, "Entries": [] }] });
    assert_eq!(included("&timeseries=nope&from=&to="), missing);
    let message = |more: &str| load(more).json()["Message"].as_str().unwrap().to_owned();
    assert_eq!(
        message("&timeseries=HR"),
        "Parameters 'timeseriesNames', 'fromList' and 'toList' must be of equal length. Got : \
         timeseriesNames.Count = 1, fromList.Count = 0, toList.Count = 0."
    );
    let first = "&timeseriescount=HR&countType=First&countValue=2";
    assert_eq!(message(first), "Requested value 'First' was not found.");
    let none = "&timeseriescount=HR&countType=None&countValue=2";
    assert_eq!(message(none), "Not supported time series range type 'None'.");
    let etag = load(range).header("etag").unwrap().to_owned();
    change(&server, "c/4", &json!({ "Name": "HR", "Appends": [entry(1, 5, None)] }));
    assert_ne!(load(range).header("etag").unwrap(), etag);
}

#[test]
fn patches_change_and_read_series() {
    let server = server();
    let patch = |script: &str| {
        let body = json!({ "Patch": { "Script": script } });
        let reply = server.send("PATCH", "/databases/db/docs?id=c/4", body.to_string().as_bytes());
        (reply.status, reply.json())
    };
    let script = "timeseries(this,'New').append('2020-01-01T00:01:00.000Z', [1, 2], 'w/1');
        timeseries(this,'New').append('2020-01-01T00:02:00.000Z', 3);
        timeseries(this,'HR').delete('2020-01-01T00:01:00.000Z', '2020-01-01T00:07:00.000Z');
        timeseries(this,'INC:A').increment('2020-01-01T00:01:00.000Z', [5]);
        this.Count = timeseries(this,'HR').getStats().Count;
        this.Values = timeseries(this,'HR').get().map(entry => entry.Values[0]);";
    let (status, answer) = patch(script);
    assert_eq!(status, 200, "{answer}");
    let document = server.document("c/4");
    assert_eq!((&document["Count"], &document["Values"]), (&json!(2), &json!([60, 68])));
    assert_eq!(document["@metadata"]["@timeseries"], json!(["HR", "INC:A", "New"]));
    let found = server.get(&format!("{AT}?docId=c/4&name=New")).json();
    assert_eq!(found["Entries"][0]["Values"], json!([1, 2]));
    assert_eq!(found["TotalResults"], json!(2));
    let (status, _) = patch("timeseries('nobody','HR').append('2020-01-01T00:01:00.000Z', 1)");
    assert_eq!(status, 500);
    let (status, _) = patch("timeseries(this,'A@B').append('2020-01-01T00:01:00.000Z', 1)");
    assert_eq!(status, 500);
}

#[test]
fn revisions_record_the_bounds_of_series() {
    let server = server();
    let path = "/databases/db/admin/revisions/config";
    let rules = br#"{"Default":{"Disabled":false}}"#;
    assert_eq!(server.send("POST", path, rules).status, 200);
    server.put("c/4", r#"{"N":"new","@metadata":{"@collection":"Cos"}}"#);
    let found = server.get("/databases/db/revisions?id=c/4").json();
    let metadata = &found["Results"][0]["@metadata"];
    let snapshot = json!({ "HR": { "Count": 8, "Start": moment(0), "End": moment(8) } });
    assert_eq!(metadata["@timeseries-snapshot"], snapshot);
    assert_eq!(metadata.get("@timeseries"), None);
    assert_eq!(metadata["@flags"], json!("HasRevisions, Revision, HasTimeSeries"));
}

#[test]
fn statistics_count_segments() {
    let server = server();
    let stats = server.get("/databases/db/stats").json();
    assert_eq!(stats["CountOfTimeSeriesSegments"], json!(1));
    change(&server, "c/4", &json!({ "Name": "HR", "Deletes": [{ "To": moment(1) }] }));
    let stats = server.get("/databases/db/stats/detailed").json();
    assert_eq!(stats["CountOfTimeSeriesDeletedRanges"], json!(1));
}
