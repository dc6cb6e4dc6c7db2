//! Policies of time series, with a clock that the test advances.

use commands::{Batch, Command};
use database::{DatabaseLease, RetentionEvent};
use documents::{
    ExpectedVersion, PutDocument, RequestedId,
    time_series::{Entry, TimeSeriesChange, series},
};
use model::{
    DocumentId, IdSeparator, TimeSeriesName,
    ticks::{TICKS_PER_MILLISECOND, TICKS_PER_SECOND},
};

use crate::retention::Machine;

fn submit(database: &DatabaseLease, command: Command) {
    database.queue().submit_and_wait(Batch::one(command)).unwrap().unwrap();
}

fn put(database: &DatabaseLease, id: &str, collection: &str) {
    let json = format!(r#"{{"@metadata":{{"@collection":"{collection}"}}}}"#);
    let limits = blittable::ParseLimits::default();
    let body = blittable::parse_document(json.as_bytes(), &limits).unwrap();
    let id = RequestedId::parse(Some(id), IdSeparator::default()).unwrap();
    submit(database, Command::Put(PutDocument { id, expected: ExpectedVersion::Any, body }));
}

/// Adds an entry at this moment.
fn append(machine: &Machine, database: &DatabaseLease, id: &str) {
    let now = machine.simulation.platform.clock.now().ticks() / TICKS_PER_MILLISECOND;
    let name = TimeSeriesName::new("HR").unwrap();
    let mut change = TimeSeriesChange::new(DocumentId::new(id).unwrap(), name);
    change.appends.push(Entry { timestamp_ms: now, values: &[1.0], tag: None });
    submit(database, Command::ChangeTimeSeries(Box::new(change)));
}

fn names(database: &DatabaseLease, id: &str) -> Vec<String> {
    let (tx, id) = (database.read(), DocumentId::new(id).unwrap());
    let found = ["HR", "hr@m", "hr@h"]
        .map(|name| series(&tx, &id, &TimeSeriesName::new(name).unwrap()).unwrap());
    found.into_iter().flatten().map(|found| found.name).collect()
}

/// Runs once after this many seconds; returns the number of series handled and of entries written.
fn look_after(machine: &Machine, seconds: u64) -> Option<(u64, u64)> {
    match machine.reported_after(seconds).as_slice() {
        [] => None,
        [RetentionEvent::PoliciesApplied { series, entries, .. }] => Some((*series, *entries)),
        other => panic!("{other:?}"),
    }
}

fn policies(raw_seconds: u64, minutes_seconds: u64) -> String {
    let span = |seconds: u64| format!(r#"{{"Value":{seconds},"Unit":"Second"}}"#);
    let policy = |name: &str, frame: u64, kept: u64| {
        let (frame, kept) = (span(frame), span(kept));
        format!(r#"{{"Name":"{name}","AggregationTime":{frame},"RetentionTime":{kept}}}"#)
    };
    format!(
        r#"{{"TimeSeries":{{"PolicyCheckFrequency":"00:01:00","Collections":{{"Users":{{
            "RawPolicy":{{"RetentionTime":{}}},"Policies":[{},{}]}}}}}}}}"#,
        span(raw_seconds),
        policy("m", 60, minutes_seconds),
        policy("h", 3600, 1_000_000_000),
    )
}

#[test]
fn a_look_reads_what_has_changed_or_is_due() {
    let machine = Machine::new();
    let database = machine.open();
    for number in 0..10 {
        let id = format!("u/{number}");
        put(&database, &id, "Users");
        append(&machine, &database, &id);
    }
    put(&database, "d/1", "Dogs");
    append(&machine, &database, "d/1");
    machine.configure(&policies(7200, 36_000));
    assert_eq!(look_after(&machine, 0), None, "the first interval has begun");
    assert_eq!(look_after(&machine, 61), Some((10, 10)));
    // The written rollups are changes, too.
    assert_eq!(look_after(&machine, 61), Some((10, 0)));
    for _ in 0..3 {
        assert_eq!(look_after(&machine, 61), None, "an idle database is left alone");
    }
    append(&machine, &database, "u/3");
    // The segment also has an entry of an earlier frame, which is written again.
    assert_eq!(look_after(&machine, 61), Some((1, 2)));
    assert_eq!(look_after(&machine, 61), Some((1, 0)));
    assert_eq!(look_after(&machine, 61), None);
    assert_eq!(names(&database, "u/3"), ["HR", "HR@m"]);
    // The hour is over.
    assert_eq!(look_after(&machine, 3600), Some((10, 10)));
    assert_eq!(look_after(&machine, 61), Some((10, 0)));
    // Entries are two hours old, except one of u/3.
    assert_eq!(look_after(&machine, 7200 - 3600 - 8 * 61), Some((10, 0)));
    assert_eq!(names(&database, "u/0"), ["HR@m", "HR@h"]);
    assert_eq!(names(&database, "u/3"), ["HR", "HR@m", "HR@h"]);
    // What is left of the segment of u/3 is rolled up again.
    assert_eq!(look_after(&machine, 61), Some((10, 2)));
    assert_eq!(look_after(&machine, 300), Some((1, 0)));
    assert_eq!(names(&database, "u/3"), ["HR@m", "HR@h"]);
    assert_eq!(names(&database, "d/1"), ["HR"]);
}

#[test]
fn rollups_are_kept_up_when_their_series_is_gone() {
    let machine = Machine::new();
    let database = machine.open();
    put(&database, "u/1", "Users");
    let first = machine.simulation.platform.clock.now().ticks();
    append(&machine, &database, "u/1");
    machine.configure(&policies(120, 7200));
    assert_eq!(look_after(&machine, 0), None);
    assert_eq!(look_after(&machine, 200), Some((1, 1)));
    assert_eq!(names(&database, "u/1"), ["HR@m"]);
    assert_eq!(look_after(&machine, 3600), Some((1, 1)));
    assert_eq!(names(&database, "u/1"), ["HR@m", "HR@h"]);
    // The minute begins less than a minute before the entry, and is kept until it is over.
    let (now, minute) = (machine.simulation.platform.clock.now().ticks(), 60 * TICKS_PER_SECOND);
    let left = 7200 * TICKS_PER_SECOND - (now - (first - first % minute));
    assert_eq!(look_after(&machine, (left / TICKS_PER_SECOND) as u64 + 1), Some((1, 0)));
    assert_eq!(names(&database, "u/1"), ["HR@m", "HR@h"]);
    assert_eq!(look_after(&machine, 61), Some((1, 0)));
    assert_eq!(names(&database, "u/1"), ["HR@h"]);
}
