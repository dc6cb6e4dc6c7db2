//! Maps over segments of time series.

use linq::{Budget, Map, NoHost, Output, TimeSeriesEntry, TimeSeriesInput, Value};

/// The first of April 2020.
const APRIL: i64 = 637_212_960_000_000_000;
const HOUR: i64 = 36_000_000_000;

/// The output of a map for a segment of three entries; `failed` when it fails.
fn outputs(text: &str) -> Vec<String> {
    let map = Map::compile(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let entry = |hour: i64, tag, values| TimeSeriesEntry {
        timestamp_ticks: APRIL + hour * HOUR,
        tag,
        values,
    };
    let entries = [
        entry(1, Some("addresses/1"), &[7.0, 1.5]),
        entry(2, None, &[3.0]),
        entry(3, Some("w/1"), &[5.0, 2.0]),
    ];
    let segment = TimeSeriesInput {
        document_id: "companies/1",
        name: "HeartRate",
        start_ticks: APRIL + HOUR,
        end_ticks: APRIL + 3 * HOUR,
        count: 3,
        min: &[3.0, 1.5],
        max: &[7.0, 2.0],
        sum: &[15.0, 3.5],
        entries: &entries,
    };
    let mut shown = Vec::new();
    let mut take = |output: Output<'_, '_>| {
        let mut builder = blittable::ObjectBuilder::new();
        let present = output.fields().filter(|(_, value)| !matches!(value, Value::Missing));
        for (name, value) in present {
            linq::put_value(&mut builder, name, value).unwrap();
        }
        let json = builder.finish().unwrap().as_view().to_json().unwrap();
        shown.push(String::from_utf8(json).unwrap());
    };
    match map.evaluate_time_series(&segment, &mut NoHost, &Budget::default(), &mut take) {
        Ok(()) => shown,
        Err(error) => vec![format!("failed: {error}")],
    }
}

/// The results of the real server for each entry.
#[test]
fn expressions_over_entries_yield_what_the_real_server_yields() {
    let table: &[(&str, [&str; 3])] = &[
        ("e.Other", [""; 3]),
        ("s.Other.More", [""; 3]),
        ("e.Value * 2", ["14.0", "6.0", "10.0"]),
        ("e.Values.Length", ["2", "1", "2"]),
        ("e.Values.Count()", ["2", "1", "2"]),
        ("e.Values.Max()", ["7.0", "3.0", "5.0"]),
        ("e.Values.Select(v => v * 2)", ["[14.0,3.0]", "[6.0]", "[10.0,4.0]"]),
        ("e.Tag ?? \"none\"", ["\"addresses/1\"", "\"none\"", "\"w/1\""]),
        ("e.Timestamp.Year", ["2020"; 3]),
        ("e.Timestamp.Ticks", ["637212996000000000", "637213032000000000", "637213068000000000"]),
        ("e.Timestamp.ToString(\"yyyy-MM\")", ["\"2020-04\""; 3]),
        ("e.Timestamp.Date", ["\"2020-04-01T00:00:00.0000000Z\""; 3]),
        (
            "new DateTime(e.Timestamp.Year, e.Timestamp.Month, 1)",
            ["\"2020-04-01T00:00:00.0000000\""; 3],
        ),
        ("s.DocumentId.ToUpper()", ["\"COMPANIES/1\""; 3]),
        ("s.Entries.Sum(x => x.Value)", ["15"; 3]),
        ("s.Entries.Last().Value", ["5.0"; 3]),
        ("s.Entries.Count", ["3"; 3]),
        ("s.Entries.Count()", ["3"; 3]),
        ("s.Entries.Length", ["3"; 3]),
        ("s.Entries.Where(x => x.Tag != null).Select(x => x.Value)", ["[7.0,5.0]"; 3]),
        ("s.Min", ["[3.0,1.5]"; 3]),
        ("s.Min[0]", ["3.0"; 3]),
        ("s.Min.Max()", ["3.0"; 3]),
        ("s.Max.Length", ["2"; 3]),
        ("s.Sum.Count()", ["2"; 3]),
        ("s.Count / 2", ["1"; 3]),
        ("s.End - s.Start", ["\"02:00:00\""; 3]),
        ("s.Start.Year", ["2020"; 3]),
    ];
    let mut wrong = Vec::new();
    for (expression, expected) in table {
        let source = "from s in timeSeries.Companies.HeartRate from e in s.Entries";
        let found = outputs(&format!("{source} select new {{ V = {expression} }}"));
        let row = |value: &&str| match *value {
            "" => "{}".to_owned(),
            value => format!(r#"{{"V":{value}}}"#),
        };
        let expected: Vec<_> = expected.iter().map(row).collect();
        if found != expected {
            wrong.push(format!("{expression}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn segments_and_entries_are_shown_as_the_real_server_shows_them() {
    let shown = outputs("from s in timeSeries select new { E = s.Entries, s.Other, s.Name }");
    let entries = [
        r#"{"Values":[7.0,1.5],"Value":7.0,"Timestamp":"2020-04-01T01:00:00.0000000Z","Tag":"addresses/1"}"#,
        r#"{"Values":[3.0],"Value":3.0,"Timestamp":"2020-04-01T02:00:00.0000000Z","Tag":null}"#,
        r#"{"Values":[5.0,2.0],"Value":5.0,"Timestamp":"2020-04-01T03:00:00.0000000Z","Tag":"w/1"}"#,
    ];
    assert_eq!(shown, [format!(r#"{{"E":[{}],"Name":"HeartRate"}}"#, entries.join(","))]);
    let shown = outputs(
        "timeSeries.Companies.SelectMany(s => s.Entries, (s, e) => new { s.Start, s.End, e.Value })",
    );
    let row =
        r#"{"Start":"2020-04-01T01:00:00.0000000Z","End":"2020-04-01T03:00:00.0000000Z","Value":"#;
    assert_eq!(shown, ["7.0", "3.0", "5.0"].map(|value| format!("{row}{value}}}")));
}

#[test]
fn a_value_that_an_entry_has_not_is_an_error() {
    let source = "from s in timeSeries from e in s.Entries";
    let found = outputs(&format!("{source} select new {{ V = e.Values[5] }}"));
    assert!(found[0].starts_with("failed: "), "{found:?}");
}
