//! Time series queries, with the answers that the real server returned.
#![expect(clippy::unwrap_used, reason = "a row without its metadata should stop the test")]

use query::{Paging, QueryError};

use crate::fixture::Database;

fn database() -> Database {
    let database = Database::new();
    database.put("w/1", "Ws", r#""N":"watch1","X":{"Y":5}"#);
    database.put("w/2", "Ws", r#""N":"watch2""#);
    database.put("c/2", "Cos", r#""Name":"co2","Age":2,"Ref":"c/1""#);
    database.put(
        "c/1",
        "Cos",
        r#""Name":"co1","Age":1,"Series":"HR","Ref":"c/2","When":"2020-01-01""#,
    );
    database.append(
        "c/1",
        "HR",
        &[
            ("2020-01-01T00:00:00", &[60.0], Some("w/1")),
            ("2020-01-01T00:20:00", &[71.0, 1.0], Some("w/2")),
            ("2020-01-01T00:40:00", &[65.5], None),
            ("2020-01-01T01:00:00", &[80.0, 2.0, 5.0], Some("w/1")),
            ("2020-01-01T04:00:00", &[90.0], Some("w/9")),
            ("2020-02-01T00:00:00", &[100.0], Some("w/1")),
            ("2021-01-01T00:00:00", &[-5.25], Some("w/2")),
        ],
    );
    database.append("c/2", "HR", &[("2020-01-01T00:00:00", &[1.0], None)]);
    database
}

/// The row of the first document without its metadata, abbreviated.
fn row(database: &Database, select: &str) -> String {
    let clauses = match select.rfind("} ") {
        Some(end) if select.starts_with("declare") => end + 2,
        _ => 0,
    };
    let (declared, select) = select.split_at(clauses);
    let text = format!("{declared}from Cos as c where id() = 'c/1' {select}");
    let answer = database.ask(&text);
    let (row, _) = answer.rows[0].rsplit_once(",\"@metadata\"").unwrap();
    short(row)
}

fn short(row: &str) -> String {
    row.replace(":00.0000000", "").replace("2020-01-01T", "").replace('"', "")
}

const FIRST: &str = "{From:00:00Z,To:01:00Z,Key:null,Count:[3.0,1.0],Max:[71.0,1.0]}";
const SECOND: &str = "{From:01:00Z,To:02:00Z,Key:null,Count:[1.0,1.0,1.0],Max:[80.0,2.0,5.0]}";
const THIRD: &str = "{From:04:00Z,To:05:00Z,Key:null,Count:[1.0],Max:[90.0]}";

#[test]
fn entries_and_groups_are_shown() {
    let database = database();
    let day = "between '2020' and '2020-01-02'";
    let hours = format!("Count:5,Results:[{FIRST},{SECOND},{THIRD}]");
    for (select, expected) in [
        (
            "select timeseries(from HR where Value > 70 and Value < 85)".to_owned(),
            "{Count:2,Results:[{Tag:w/2,Timestamp:00:20Z,Values:[71.0,1.0],IsRollup:false},\
             {Tag:w/1,Timestamp:01:00Z,Values:[80.0,2.0,5.0],IsRollup:false}]"
                .to_owned(),
        ),
        ("select timeseries(from Nope)".to_owned(), "{Count:0,Results:[]".to_owned()),
        (
            format!("select timeseries(from c.HR {day} group by 1h select max())"),
            format!("{{{hours}"),
        ),
        (
            format!("select timeseries(from hr {day} group by 1h select max()) as T, Name"),
            format!("{{T:{{{hours}}},Name:co1"),
        ),
        (
            format!("select Name, timeseries(from hr {day} group by '1 hour' select max())"),
            format!("{{Name:co1,__timeSeriesQueryFunction0:{{{hours}}}"),
        ),
        (
            format!("declare timeseries o(x) {{ from x.HR {day} group by 1h select max() }} select o(c)"),
            format!("{{{hours}"),
        ),
        (
            "declare timeseries o(n, a, b) { from n between a and b group by 1h select max() } \
             select o(c.Series, c.When, '2020-01-02') as R"
                .to_owned(),
            format!("{{R:{{{hours}}}"),
        ),
        (
            "select timeseries(from HR select count())".to_owned(),
            "{Count:7,Results:[{From:null,To:null,Key:null,Count:[7.0,2.0,1.0]}]".to_owned(),
        ),
        (
            "select timeseries(from HR first 40 min select max() as M)".to_owned(),
            "{Count:3,Results:[{From:null,To:00:40Z,Key:null,Count:[2.0,1.0],M:[71.0,1.0]},\
             {From:null,To:00:40Z,Key:null,Count:[1.0],M:[65.5]}]"
                .to_owned(),
        ),
        (
            "select timeseries(from HR last 1 month select max())".to_owned(),
            "{Count:1,Results:[{From:2020-12-01T00:00Z,To:null,Key:null,Count:[1.0],Max:[-5.25]}]"
                .to_owned(),
        ),
        (
            format!("select timeseries(from HR {day} load Tag as w where Tag != null group by 1d, w select min())"),
            "{Count:4,Results:[{From:00:00Z,To:2020-01-02T00:00Z,Key:w/1,Count:[2.0,1.0,1.0],Min:[60.0,2.0,5.0]},\
             {From:00:00Z,To:2020-01-02T00:00Z,Key:w/2,Count:[1.0,1.0],Min:[71.0,1.0]},\
             {From:00:00Z,To:2020-01-02T00:00Z,Key:null,Count:[1.0],Min:[90.0]}]"
                .to_owned(),
        ),
        (
            format!("select timeseries(from HR {day} load Tag as w where w.N = 'watch1' select sum())"),
            "{Count:2,Results:[{From:00:00Z,To:2020-01-02T00:00Z,Key:null,Count:[2.0,1.0,1.0],Sum:[140.0,2.0,5.0]}]"
                .to_owned(),
        ),
        (
            "select timeseries(from HR last 1h scale 2 offset '02:00')".to_owned(),
            "{Count:1,Results:[{Tag:w/2,Timestamp:2021-01-01T02:00,Values:[-10.5],IsRollup:false}]"
                .to_owned(),
        ),
        (
            "load c.Ref as r select timeseries(from r.HR) as A".to_owned(),
            "{A:{Count:1,Results:[{Tag:null,Timestamp:00:00Z,Values:[1.0],IsRollup:false}]}"
                .to_owned(),
        ),
        (
            "declare timeseries o(x, y) { from x.HR where Value > y.Age select count() } \
             load c.Ref as r select o(c, r)"
                .to_owned(),
            "{Count:6,Results:[{From:null,To:null,Key:null,Count:[6.0,2.0,1.0]}]".to_owned(),
        ),
    ] {
        let shown = row(&database, &select);
        assert_eq!(shown, expected, "{select}");
    }
}

#[test]
fn scripts_ask_of_series_too() {
    let database = database();
    for (select, expected) in [
        (
            "select { A: timeseries(c, 'HR').get('2020-01-01T01:00', '2020-01-01T01:00')[0], \
             S: timeseries('c/2', 'hr').getStats(), N: timeseries(c, 'nope').get() }",
            "{A:{Timestamp:01:00Z,Tag:w/1,Values:[80,2,5],IsRollup:false},\
             S:{Start:00:00Z,End:00:00Z,Count:1},N:[]",
        ),
        (
            "declare timeseries o(x, n) { from x.HR where Value > n select max() } \
             select { R: o(c, 85).Results[0].Max, N: o(c, 1e9).Count }",
            "{R:[100],N:0",
        ),
        (
            "declare timeseries o(x) { from x.HR first 1 h select max() } \
             declare function f(a, b) { return { A: o(a).Count, B: o(b) } } \
             load c.Ref as r select f(c, r)",
            "{A:4,B:{Count:1,Results:[{From:null,To:01:00Z,Key:null,Count:[1],Max:[1]}]}",
        ),
    ] {
        assert_eq!(row(&database, select), expected, "{select}");
    }
}

#[test]
fn what_cannot_be_asked_of_a_series_is_refused() {
    let database = database();
    for (series, message) in [
        ("from x.HR", "Unknown alias 'x' in time series function"),
        (
            "from HR between null and '2020'",
            "Unable to parse timeseries from/to values. Got a null",
        ),
        (
            "from HR between '2020-13' and '2021'",
            "Unable to parse timeseries from/to values. Got: 2020-13",
        ),
        ("from HR last 5 ms", "Unsupported time period."),
        ("from HR group by 0 h", "The length of the groups of a time series must not be zero"),
        ("from HR group by 1 week", "Unable to understand time range: '1 week'"),
        ("from HR group by 1h, w", "Group by field expression"),
        ("from HR group by 1h with interpolation(foo)", "Unknown interpolation method 'foo'"),
        ("from HR select slope()", "Cannot use aggregation method 'Slope'"),
        ("from HR select percentile(101)", "Invalid argument passed to 'Percentile'"),
        ("from HR select foo()", "Unknown method in timeseries query: foo()"),
        ("from HR scale 'x'", "Failed to execute time series query function"),
        ("from HR offset '2h'", "Failed to parse object '2h' as TimeSpan"),
        ("from HR where true", "Unsupported expression 'true' inside WHERE clause"),
        ("from HR where Tag all in ('x')", "Operator 'ALL IN' is not supported"),
        ("from HR where Bpm > 5", "Unable to get the value of 'Bpm'"),
        ("from HR where Value > 'x'", "A time series query cannot compare 'Value'"),
        (
            "from HR load Tag as w where w.Nope = 1",
            "Unable to get the value of 'Nope' from document 'w/1'",
        ),
    ] {
        let text = format!("from Cos as c where id() = 'c/1' select timeseries({series})");
        let refused: QueryError = database.try_ask(&text, Paging::default()).unwrap_err();
        assert!(refused.to_string().starts_with(message), "{series}: {refused}");
    }
}

#[test]
fn rows_that_show_the_same_of_a_series_are_one() {
    let database = database();
    let answer = database.ask("from Cos select distinct timeseries(from Nope) as T");
    assert_eq!((answer.rows.len(), answer.skipped), (1, 1));
}

#[test]
fn an_answer_is_another_one_when_a_series_has_changed() {
    let database = database();
    let text = "from Cos where id() = 'c/1' select timeseries(from HR select count())";
    let before = database.ask(text).etag;
    assert_eq!(database.ask(text).etag, before);
    database.append("c/1", "HR", &[("2022-01-01T00:00:00", &[1.0], None)]);
    assert_ne!(database.ask(text).etag, before);
}
