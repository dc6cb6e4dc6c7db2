//! Time series: generated histories against a naive model, what documents tell of them, what is refused.

use std::collections::BTreeMap;

use documents::{
    DocumentError,
    log::{self, EntryKinds, LogEntry, Selection},
    time_series::{
        CopyTimeSeries, Entries, Entry, Frame, InvalidTimeSeries, MomentRange, Rollup, RollupRight,
        Series, SeriesReader, Summary, TimeSeriesChange, TimeSeriesWritten, segments, series,
        series_of,
    },
};
use model::{CollectionName, DocumentId, Etag, TimeSeriesName};
use proptest::prelude::*;

use crate::database::{DATABASE_ID, Database, user};

/// An entry: its moment, values and tag.
type Owned = (i64, Vec<f64>, Option<String>);
type Model = BTreeMap<(String, String), BTreeMap<i64, (Vec<f64>, Option<String>)>>;

fn id(text: &str) -> DocumentId {
    DocumentId::new(text).unwrap()
}

fn name(text: &str) -> TimeSeriesName {
    TimeSeriesName::new(text).unwrap()
}

fn change(of: &str, called: &str) -> TimeSeriesChange {
    TimeSeriesChange::new(id(of), name(called))
}

fn entries(all: &[Owned]) -> Entries {
    let mut entries = Entries::default();
    for (timestamp_ms, values, tag) in all {
        entries.push(Entry { timestamp_ms: *timestamp_ms, values, tag: tag.as_deref() });
    }
    entries
}

fn plain(moments: impl IntoIterator<Item = i64>) -> Vec<Owned> {
    moments.into_iter().map(|moment| (moment, vec![moment as f64], None)).collect()
}

impl Database {
    fn change(&self, change: &TimeSeriesChange) -> Result<TimeSeriesWritten, DocumentError> {
        self.write(|writer| writer.change_time_series(change))
    }

    fn append(&self, of: &str, called: &str, all: &[Owned]) -> TimeSeriesWritten {
        self.change(&TimeSeriesChange { appends: entries(all), ..change(of, called) }).unwrap()
    }

    fn delete_moments(&self, of: &str, called: &str, from: i64, to: i64) -> TimeSeriesWritten {
        let deletes = vec![MomentRange { from, to }];
        self.change(&TimeSeriesChange { deletes, ..change(of, called) }).unwrap()
    }

    fn entries_of(&self, of: &str, called: &str, range: MomentRange) -> Vec<Owned> {
        let tx = self.read();
        let mut reader = SeriesReader::new(&tx, &id(of), &name(called), range).unwrap();
        let mut found = Vec::new();
        while let Some(entry) = reader.next_entry().unwrap() {
            let tag = entry.tag.map(str::to_owned);
            found.push((entry.timestamp_ms, entry.values.to_vec(), tag));
        }
        found
    }

    fn series_of(&self, of: &str) -> Vec<Series> {
        let tx = self.read();
        series_of(&tx, &id(of)).unwrap().map(Result::unwrap).collect()
    }

    fn segment_lengths(&self, of: &str, called: &str) -> Vec<u64> {
        let tx = self.read();
        let segments = segments(&tx, &id(of), &name(called), MomentRange::ALL).unwrap();
        segments.map(|segment| segment.unwrap().moments()).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize, usize, Vec<Owned>),
    /// Many in a row, from a moment on, so many milliseconds apart.
    AppendRow(usize, usize, i64, i64, usize),
    Increment(usize, Vec<Owned>),
    Delete(usize, usize, i64, i64),
    Copy(usize, usize, i64, i64),
    PutDocument(usize),
    DeleteDocument(usize),
}

const DOCUMENTS: [&str; 2] = ["u/1", "u/10"];
const NAMES: [&str; 2] = ["HR", "h"];
const INCREMENTAL: &str = "INC:Likes";

fn any_step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![
        3 => any::<i16>().prop_map(|number| f64::from(number) / 100.0),
        1 => any::<u64>().prop_map(f64::from_bits).prop_filter("a number", |value| !value.is_nan())
    ];
    let values = proptest::collection::vec(value, 1..4);
    let tag = prop_oneof![2 => Just(None), 1 => "[a-c]{0,2}".prop_map(Some)];
    let entry = (0_i64..3000, values, tag);
    let whole = proptest::collection::vec(any::<i16>().prop_map(f64::from), 1..4);
    let increment = (0_i64..50, whole, Just(None));
    prop_oneof![
        4 => (0_usize..2, 0_usize..2, proptest::collection::vec(entry, 1..30))
            .prop_map(|(of, called, all)| Step::Append(of, called, all)),
        3 => (0_usize..2, 0_usize..2, 0_i64..3000, 0_i64..3, 1_usize..2500)
            .prop_map(|(of, called, from, apart, count)| {
                Step::AppendRow(of, called, from, apart, count)
            }),
        2 => (0_usize..2, proptest::collection::vec(increment, 1..10))
            .prop_map(|(of, all)| Step::Increment(of, all)),
        3 => (0_usize..2, 0_usize..3, 0_i64..3000, 0_i64..3000)
            .prop_map(|(of, called, from, to)| Step::Delete(of, called, from, to)),
        1 => (0_usize..2, 0_usize..2, 0_i64..3000, 0_i64..3000)
            .prop_map(|(of, called, from, to)| Step::Copy(of, called, from, to)),
        1 => (0_usize..2).prop_map(Step::PutDocument),
        1 => (0_usize..2).prop_map(Step::DeleteDocument),
    ]
}

fn series_name(called: usize) -> &'static str {
    NAMES.get(called).copied().unwrap_or(INCREMENTAL)
}

fn model_entries<'m>(
    model: &'m mut Model,
    of: usize,
    called: &str,
) -> &'m mut BTreeMap<i64, (Vec<f64>, Option<String>)> {
    model.entry((DOCUMENTS[of].to_owned(), called.to_lowercase())).or_default()
}

/// Does a step both ways.
fn take(step: &Step, database: &Database, model: &mut Model) {
    match step {
        Step::Append(of, called, all) => {
            database.append(DOCUMENTS[*of], series_name(*called), all);
            for (moment, values, tag) in all {
                let entries = model_entries(model, *of, series_name(*called));
                entries.insert(*moment, (values.clone(), tag.clone()));
            }
        }
        Step::AppendRow(of, called, from, apart, count) => {
            let moments = (0..*count as i64).map(|position| from + position * apart);
            take(&Step::Append(*of, *called, plain(moments)), database, model);
        }
        Step::Increment(of, all) => {
            let change = change(DOCUMENTS[*of], INCREMENTAL);
            database.change(&TimeSeriesChange { increments: entries(all), ..change }).unwrap();
            for (moment, values, _) in all {
                let (sums, _) = model_entries(model, *of, INCREMENTAL).entry(*moment).or_default();
                sums.resize(sums.len().max(values.len()), 0.0);
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        Step::Delete(of, called, from, to) => {
            database.delete_moments(DOCUMENTS[*of], series_name(*called), *from, *to);
            let entries = model_entries(model, *of, series_name(*called));
            entries.retain(|moment, _| moment < from || to < moment);
        }
        Step::Copy(of, called, from, to) => {
            let copy = CopyTimeSeries {
                id: id(DOCUMENTS[*of]),
                name: name(NAMES[*called]),
                destination_id: id(DOCUMENTS[1 - *of]),
                destination_name: name(NAMES[0]),
                range: MomentRange { from: *from, to: *to },
            };
            database.write(|writer| writer.copy_time_series(&copy)).unwrap();
            let copied = model_entries(model, *of, NAMES[*called]).clone();
            let copied = copied.into_iter().filter(|(moment, _)| copy.range.contains(*moment));
            model_entries(model, 1 - *of, NAMES[0]).extend(copied);
        }
        Step::PutDocument(of) => {
            database.put(DOCUMENTS[*of], &user("again"));
        }
        Step::DeleteDocument(of) => {
            database.delete(DOCUMENTS[*of]);
            database.put(DOCUMENTS[*of], &user("new"));
            model.retain(|(of_document, _), _| of_document != DOCUMENTS[*of]);
        }
    }
    model.retain(|_, entries| !entries.is_empty());
}

fn compare(database: &Database, model: &Model, range: MomentRange) {
    for of in DOCUMENTS {
        let expected = model.iter().filter(|((of_document, _), _)| of_document == of);
        let expected: Vec<_> = expected.map(|((_, called), entries)| (called, entries)).collect();
        let found = database.series_of(of);
        assert_eq!(found.len(), expected.len());
        for (found, (called, entries)) in found.iter().zip(expected) {
            let ends = (*entries.keys().next().unwrap(), *entries.keys().next_back().unwrap());
            assert_eq!(found.name.to_lowercase(), *called);
            assert_eq!((found.start_ms, found.end_ms), ends);
            assert_eq!(found.entries, entries.len() as u64);
            let is_incremental = name(called).is_incremental();
            for range in [MomentRange::ALL, range] {
                let expected: Vec<Owned> = entries
                    .iter()
                    .filter(|(moment, _)| range.contains(**moment))
                    .map(|(moment, (values, tag))| (*moment, values.clone(), tag.clone()))
                    .collect();
                let mut found = database.entries_of(of, called, range);
                if is_incremental {
                    found.iter_mut().for_each(|(_, _, tag)| *tag = None);
                }
                assert_eq!(found, expected, "{of} {called} {range:?}");
                let tx = database.read();
                let reader = || SeriesReader::new(&tx, &id(of), &name(called), range).unwrap();
                assert_eq!(reader().count().unwrap(), expected.len() as u64);
                let passed = expected.len() / 2;
                let mut behind = reader();
                assert_eq!(behind.skip(passed as u64).unwrap(), passed as u64);
                let next = behind.next_entry().unwrap().map(|entry| entry.timestamp_ms);
                assert_eq!(next, expected.get(passed).map(|(moment, _, _)| *moment));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn generated_histories_end_as_the_model_says(
        steps in proptest::collection::vec(any_step(), 1..20), from in 0_i64..3000, to in 0_i64..3000
    ) {
        let (database, mut model) = (Database::new(), Model::new());
        DOCUMENTS.iter().for_each(|of| drop(database.put(of, &user("one"))));
        for step in &steps {
            take(step, &database, &mut model);
        }
        compare(&database, &model, MomentRange { from, to });
    }
}

#[test]
fn a_document_tells_which_series_it_has() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    assert!(database.append("u/1", "HR", &plain([5])).is_document_touched);
    let written = database.append("u/1", "hr", &plain([6]));
    assert!(!written.is_document_touched);
    assert_eq!(written.change_vector.unwrap().as_str(), format!("A:4-{DATABASE_ID}"));
    database.append("u/1", "Aa", &plain([5]));
    let json = database.json("u/1").unwrap();
    assert!(json.contains(r#""@timeseries":["Aa","HR"]"#), "{json}");
    assert!(json.contains(r#""@flags":"HasTimeSeries""#), "{json}");
    database.put("u/1", &user("two"));
    assert!(database.json("u/1").unwrap().contains(r#""@timeseries":["Aa","HR"]"#));
    assert!(!database.delete_moments("u/1", "Aa", 6, 9).is_document_touched);
    assert!(database.delete_moments("u/1", "Aa", 0, 9).is_document_touched);
    assert!(database.json("u/1").unwrap().contains(r#""@timeseries":["HR"]"#));
    database.delete_moments("u/1", "HR", 0, 9);
    let json = database.json("u/1").unwrap();
    assert!(!json.contains("@timeseries") && !json.contains("@flags"), "{json}");
}

#[test]
fn what_cannot_be_done_changes_nothing() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    let refused = |of: &str, called: &str, all: &[Owned], is_increment: bool| {
        let mut change = change(of, called);
        *(if is_increment { &mut change.increments } else { &mut change.appends }) = entries(all);
        database.change(&change).unwrap_err().to_string()
    };
    let one = plain([5]);
    let cases = [
        (refused("u/2", "A", &one, false), "Document 'u/2' does not exist. Cannot operate"),
        (refused("u/1", "A@B", &one, false), "Illegal time series name : 'A@B'."),
        (refused("u/1", "A", &one, true), "Cannot perform increment operations on Non"),
        (refused("u/1", "Inc:A", &one, false), "Cannot perform append operations on Incremental"),
        (refused("u/1", "A", &[(5, vec![], None)], false), "The entries of 'A' time-series for"),
        (refused("u/1", "A", &[(5, vec![1.0; 33], None)], false), "Specified argument was out of"),
        (refused("u/1", "A", &[(5, vec![f64::NAN], None)], false), "Failed to append TimeSeries"),
        (refused("u/1", "A", &[(5, vec![1.0], Some("x".repeat(255)))], false), "Tag 'xxx"),
        (refused("u/1", "A", &[(-1, vec![1.0], None)], false), "The moment of a time series"),
        (refused("u/1", "A", &[(i64::MAX, vec![1.0], None)], false), "The moment of a time"),
    ];
    for (found, expected) in cases {
        assert!(found.starts_with(expected), "{found}");
    }
    assert_eq!(InvalidTimeSeries::AppendToIncremental, InvalidTimeSeries::AppendToIncremental);
    assert!(database.series_of("u/1").is_empty());
    let last =
        database.append("u/1", "A", &[(MomentRange::ALL.to, vec![1.0; 32], Some("x".repeat(254)))]);
    assert!(last.change_vector.is_some());
}

#[test]
fn batches_in_order_make_full_segments_and_single_entries_do_not_make_one_each() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    for batch in 0..5 {
        database.append("u/1", "HR", &plain(batch * 1000..(batch + 1) * 1000));
    }
    assert_eq!(database.segment_lengths("u/1", "HR"), [1024, 1024, 1024, 1024, 904]);
    for moment in (0..50).rev() {
        database.append("u/1", "Back", &plain([moment]));
    }
    assert_eq!(database.segment_lengths("u/1", "Back"), [50]);
    database.append("u/1", "HR", &[(1500, vec![7.0], None)]);
    assert_eq!(database.segment_lengths("u/1", "HR"), [1024, 1024, 1024, 1024, 904]);
    assert_eq!(series(&database.read(), &id("u/1"), &name("HR")).unwrap().unwrap().entries, 5000);
}

#[test]
fn a_long_series_is_copied_in_parts_and_whole() {
    let database = Database::new();
    database.put("u/1", &user("a"));
    database.put("u/2", &user("b"));
    // Twice as many as are copied at once, and some more.
    let all = plain((0..40_000).map(|position| position * 1000));
    database.append("u/1", "HR", &all);
    let copy = CopyTimeSeries {
        id: id("u/1"),
        name: name("HR"),
        destination_id: id("u/2"),
        destination_name: name("Copy"),
        range: MomentRange::ALL,
    };
    let written = database.write(|writer| writer.copy_time_series(&copy)).unwrap();
    assert!(written.is_document_touched && written.change_vector.is_some());
    assert_eq!(database.entries_of("u/2", "Copy", MomentRange::ALL), all);
}

#[test]
fn segments_know_what_their_values_are_together() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    database.append("u/1", "HR", &[(1, vec![3.0], None), (2, vec![1.0, 5.0], None)]);
    let summaries = |called| {
        let tx = database.read();
        let mut segments = segments(&tx, &id("u/1"), &name(called), MomentRange::ALL).unwrap();
        segments.next().unwrap().unwrap().summaries().map(|found| found.collect::<Vec<_>>())
    };
    let first = Summary { count: 2, first: 3.0, last: 1.0, min: 1.0, max: 3.0, sum: 4.0 };
    assert_eq!(summaries("HR").unwrap(), [first, Summary::of(5.0)]);
    let count = |value: f64| {
        let increments = entries(&[(1, vec![value], None)]);
        database.change(&TimeSeriesChange { increments, ..change("u/1", "INC:A") }).unwrap();
    };
    count(5.0);
    assert!(summaries("INC:A").is_some());
    count(-2.0);
    assert!(summaries("INC:A").is_none(), "two entries are one");
    let tx = database.read();
    let mut reader = SeriesReader::new(&tx, &id("u/1"), &name("INC:A"), MomentRange::ALL).unwrap();
    let entry = reader.next_entry().unwrap().unwrap();
    assert_eq!((entry.values, entry.tag), ([3.0].as_slice(), None));
    let stored: Vec<_> =
        reader.stored_entries().map(|entry| (entry.values[0], entry.tag)).collect();
    let tags = ["DEC", "INC"].map(|kind| format!("TC:{kind}-{DATABASE_ID}"));
    assert_eq!(stored, [(-2.0, Some(tags[0].as_str())), (5.0, Some(tags[1].as_str()))]);
}

#[test]
fn the_log_has_what_was_written_and_what_was_deleted() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    database.append("u/1", "HR", &plain(0..10));
    database.delete_moments("u/1", "HR", 2, 3);
    database.delete_moments("u/1", "HR", 1, 5);
    database.append("u/1", "B", &plain([1]));
    let shown = |entry: Result<LogEntry<'_>, DocumentError>| match entry.unwrap() {
        LogEntry::Segment(row) => format!("{} {}", row.lower_name(), row.moments()),
        LogEntry::DeletedRange(row) => {
            format!("{} -{}..{}", row.lower_name(), row.range().from, row.range().to)
        }
        other => panic!("{:?} was not selected", other.kind()),
    };
    let log_of = |selected: Selection<'_>| -> Vec<String> {
        let tx = database.read();
        log::read(&tx, &[selected], Etag::ZERO).unwrap().map(shown).collect()
    };
    let everything = Selection::all(EntryKinds::TIME_SERIES);
    assert_eq!(log_of(everything), ["hr 5", "hr -1..5", "b 1"]);
    let users = CollectionName::new("users").unwrap();
    let of_users = Selection::of_collection(EntryKinds::TIME_SERIES, &users);
    assert_eq!(log_of(of_users), log_of(everything));
    database.delete("u/1");
    let (log, all) = (log_of(everything), MomentRange::ALL);
    assert_eq!(log, ["b", "hr"].map(|name| format!("{name} -{}..{}", all.from, all.to)));
}

#[test]
fn the_log_of_a_collection_keeps_deletions_of_documents_that_come_again_in_another() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    database.append("u/1", "HR", &plain(0..10));
    database.delete("u/1");
    database.put("u/1", r#"{"@metadata":{"@collection":"others"}}"#);
    database.append("u/1", "HR", &plain(0..10));
    database.delete_moments("u/1", "HR", MomentRange::ALL.from, MomentRange::ALL.to);
    let tx = database.read();
    for collection in ["users", "others"] {
        let name = CollectionName::new(collection).unwrap();
        let selected = [Selection::of_collection(EntryKinds::TIME_SERIES, &name)];
        let log = log::read(&tx, &selected, Etag::ZERO).unwrap();
        assert_eq!(log.count(), 1, "{collection}");
    }
}

/// Brings a rollup up to date, a few entries at a time.
fn roll_up(database: &Database, rollup: &Rollup, now: i64) -> usize {
    let mut made = 0;
    while let Some(step) = rollup.step(&database.read(), now, 7).unwrap() {
        made += step.entries.len();
        let mut change = TimeSeriesChange::new(rollup.id.clone(), rollup.target.clone());
        change.rollup_right = RollupRight::OfPolicy;
        change.appends = step.entries;
        change.rolled_up = Some(step.rolled_up);
        database.change(&change).unwrap();
        if !step.has_more {
            break;
        }
    }
    made
}

fn rollup(source: &str, target: &str, seconds: i64) -> Rollup {
    let (id, frame) = (id("u/1"), Frame::Seconds(seconds));
    Rollup { id, source: name(source), target: name(target), frame, kept_from: 0 }
}

/// What a rollup of the entries must be.
fn rolled_up(entries: &BTreeMap<i64, f64>, frame_ms: i64, now: i64) -> Vec<Owned> {
    let mut frames: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (moment, value) in entries.range(..now / frame_ms * frame_ms) {
        frames.entry(moment / frame_ms * frame_ms).or_default().push(*value);
    }
    let of_frame = |(start, values): (i64, Vec<f64>)| {
        let (first, last) = (values[0], values[values.len() - 1]);
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = values.iter().sum();
        (start, vec![first, last, min, max, sum, values.len() as f64], None)
    };
    frames.into_iter().map(of_frame).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn rollups_follow_whatever_is_written(
        batches in proptest::collection::vec(
            (proptest::collection::vec((0_i64..400_000, -50_i64..50), 0..60), 0_i64..120_000), 1..8
        )
    ) {
        let database = Database::new();
        database.put("u/1", &user("one"));
        let (by_second, by_minute) = (rollup("HR", "HR@s", 10), rollup("HR@s", "HR@m", 60));
        let (mut entries, mut now) = (BTreeMap::new(), 0);
        for (batch, passed) in batches {
            now += passed;
            let all: Vec<Owned> =
                batch.iter().map(|(moment, value)| (*moment, vec![*value as f64], None)).collect();
            database.append("u/1", "HR", &all);
            entries.extend(batch.iter().map(|(moment, value)| (*moment, *value as f64)));
            roll_up(&database, &by_second, now);
            roll_up(&database, &by_minute, now);
            let found = |called| database.entries_of("u/1", called, MomentRange::ALL);
            prop_assert_eq!(found("HR@s"), rolled_up(&entries, 10_000, now));
            prop_assert_eq!(found("HR@m"), rolled_up(&entries, 60_000, now));
            prop_assert_eq!(roll_up(&database, &by_second, now), 0, "nothing is left to do");
        }
    }
}

#[test]
fn frames_whose_entries_may_be_gone_are_not_rolled_up_again() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    database.append("u/1", "HR", &plain((0..100).map(|second| second * 1000)));
    let mut by_ten = rollup("HR", "HR@s", 10);
    assert_eq!(roll_up(&database, &by_ten, 95_000), 9);
    database.delete_moments("u/1", "HR", 0, 24_999);
    by_ten.kept_from = 25_000;
    // The segment that the deletion cut was written anew.
    roll_up(&database, &by_ten, 95_000);
    let counts = database.entries_of("u/1", "HR@s", MomentRange::ALL);
    let counts: Vec<f64> = counts.iter().map(|(_, values, _)| values[5]).collect();
    assert_eq!(counts, [10.0; 9]);
}

#[test]
fn a_regular_series_takes_few_bytes_for_an_entry() {
    let database = Database::new();
    database.put("u/1", &user("one"));
    let mut cents = 10_000_i64;
    for batch in 0..20_i64 {
        let moments = batch * 1000..(batch + 1) * 1000;
        let walk = moments.map(|moment| {
            cents += moment * 7919 % 201 - 100;
            (moment * 1000, vec![cents as f64 / 100.0], None)
        });
        database.append("u/1", "HR", &walk.collect::<Vec<_>>());
    }
    let bytes = documents::time_series::segments_bytes(&database.read()).unwrap();
    assert!(bytes < 20_000 * 3 / 2, "{bytes}");
}
