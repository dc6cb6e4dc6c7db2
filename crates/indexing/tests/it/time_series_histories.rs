//! Whatever happens to time series, their documents, disks and processes: an index that followed says
//! what one says that is built from scratch, and what the entries themselves come to.
//!
//! `TIME_SERIES_HISTORIES=5000 cargo test -p indexing --release --test it time_series` runs more of them.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::collections::BTreeMap;

use documents::time_series::{Entry, MomentRange, TimeSeriesChange, segments, series_of};
use indexing::{Index, IndexKind};
use model::{DocumentId, IndexDefinition, TimeSeriesName};
use platform::simulated::Random;
use platform::{Platform, simulated::Simulation};
use storage::{Transaction, TreeName};

use crate::fixture::{Documents, cut_power_soon};
use crate::results::{kept_by, sorted_results_of};

const HISTORIES: u64 = 40;
/// Power cuts of one history.
const CUTS: u64 = 4;
const DOCUMENTS: u64 = 3;
/// Moments that entries have; a series of all has several segments.
const MOMENTS: i64 = 4_000;
/// Entries of one change, at most; several segments.
const ENTRIES_MAX: u64 = 700;
/// Operations of the disk after which the power goes, at most.
const OPERATIONS_MAX: u64 = 60;

/// The documents that there are.
#[derive(Default)]
struct Model(BTreeMap<String, ModelDocument>);

#[derive(Default)]
struct ModelDocument {
    number: u64,
    /// Whether it is in the collection `D`, of which the indexes are.
    is_indexed: bool,
    /// Its series of the names `a` and `b`.
    series: BTreeMap<&'static str, BTreeMap<i64, f64>>,
}

impl Model {
    /// Those that are in indexes.
    fn documents(&self) -> impl Iterator<Item = (&str, &ModelDocument)> {
        let indexed = self.0.iter().filter(|(_, document)| document.is_indexed);
        indexed.map(|(id, document)| (id.as_str(), document))
    }

    /// Document, its number, series, moment and value of all entries that are in indexes.
    fn entries(&self) -> impl Iterator<Item = (&str, u64, &str, i64, f64)> {
        self.documents().flat_map(|(id, document)| {
            document.series.iter().flat_map(move |(name, entries)| {
                entries.iter().map(move |(at, value)| (id, document.number, *name, *at, *value))
            })
        })
    }
}

/// What an index should say.
type Show = fn(&Documents, &Model) -> Vec<String>;

fn kind(maps: &[&str], reduce: Option<&str>) -> IndexKind {
    IndexKind::Static(Box::new(IndexDefinition {
        name: "I".to_owned(),
        maps: maps.iter().map(|map| (*map).to_owned()).collect(),
        reduce: reduce.map(str::to_owned),
        ..IndexDefinition::default()
    }))
}

fn kinds() -> Vec<(IndexKind, Show)> {
    let in_linq = kind(
        &[
            "from s in timeSeries.D.a from e in s.Entries \
             select new { D = s.DocumentId, N = \"a\", M = e.Timestamp.Ticks / 10000, V = e.Value }",
            "timeSeries.D[\"B\"].SelectMany(s => s.Entries, (s, e) => \
             new { D = s.DocumentId, N = s.Name.ToLower(), M = e.Timestamp.Ticks / 10000, V = e.Value })",
        ],
        None,
    );
    let map = |name| {
        format!(
            "timeSeries.map('D', '{name}', s => s.Entries.map(e => ({{ D: s.DocumentId, N: s.Name, \
             M: e.Timestamp.getTime() + 62135596800000, V: e.Value }})))"
        )
    };
    let in_script = kind(&[&map("A"), &map("b")], None);
    let reduced = kind(
        &[
            "from s in timeSeries.D from e in s.Entries where !s.Name.StartsWith(\"INC\") select new \
           { N = s.Name.ToLower(), M = e.Timestamp.Ticks / 10000, Max = e.Value, Count = 1 }",
        ],
        Some(
            "from r in results group r by r.N into g select new { N = g.Key, \
             M = g.Sum(x => x.M), Max = g.Max(x => x.Max), Count = g.Sum(x => x.Count) }",
        ),
    );
    let loading = kind(
        &["from s in timeSeries.D where !s.Name.StartsWith(\"INC\") from e in s.Entries \
           let d = LoadDocument(s.DocumentId, \"D\") \
           select new { D = s.DocumentId, X = d.X, M = e.Timestamp.Ticks / 10000 }"],
        None,
    );
    let whole = kind(
        &["from s in timeSeries.D select new { D = s.DocumentId, N = s.Name, S = s.Start, \
           E = s.End, s.Count, Max = s.Max[0] }"],
        None,
    );
    vec![
        (in_linq, entries_of),
        (in_script, entries_of),
        (reduced, groups_of),
        (loading, loaded_of),
        (whole, segments_of),
    ]
}

fn entries_of(_: &Documents, model: &Model) -> Vec<String> {
    let shown = model.entries().map(|(id, _, name, at, value)| {
        format!(r#"{{"D":"{id}","N":"{name}","M":{at},"V":{value:?}}}"#)
    });
    shown.collect()
}

fn groups_of(_: &Documents, model: &Model) -> Vec<String> {
    let mut groups: BTreeMap<&str, (i64, f64, u64)> = BTreeMap::new();
    for (_, _, name, at, value) in model.entries() {
        let (sum, max, count) = groups.entry(name).or_insert((0, f64::MIN, 0));
        (*sum, *max, *count) = (*sum + at, max.max(value), *count + 1);
    }
    let shown = groups.into_iter().map(|(name, (sum, max, count))| {
        format!(r#"{{"N":"{name}","M":{sum},"Max":{max:?},"Count":{count}}}"#)
    });
    shown.collect()
}

fn loaded_of(_: &Documents, model: &Model) -> Vec<String> {
    let shown = model.entries();
    shown.map(|(id, number, _, at, _)| format!(r#"{{"D":"{id}","X":{number},"M":{at}}}"#)).collect()
}

/// What the segments say, as they lie in the database.
fn segments_of(documents: &Documents, model: &Model) -> Vec<String> {
    let tx = documents.environment.read();
    let time = |moment: i64| model::date::format(moment * 10_000);
    let mut shown = Vec::new();
    for (id, _) in model.documents() {
        let id = DocumentId::new(id).unwrap();
        for series in series_of(&tx, &id).unwrap() {
            let name = TimeSeriesName::new(series.unwrap().name).unwrap();
            for row in segments(&tx, &id, &name, MomentRange::ALL).unwrap() {
                let row = row.unwrap();
                let mut seen = documents::time_series::Entries::default();
                row.decode_seen(&mut seen).unwrap();
                let (start, end) = (time(row.start_ms()), time(row.end_ms()));
                let max = seen.iter().map(|entry| entry.values[0]).fold(f64::MIN, f64::max);
                shown.push(format!(
                    r#"{{"D":"{id}","N":"{}","S":"{start}","E":"{end}","Count":{},"Max":{max:?}}}"#,
                    row.name(),
                    seen.len()
                ));
            }
        }
    }
    shown
}

struct Story<'s> {
    documents: &'s Documents,
    model: &'s mut Model,
    random: &'s mut Random,
}

impl Story<'_> {
    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    /// A value with many digits.
    fn value(&mut self) -> f64 {
        self.below(1 << 50) as f64 / 7.3e11 + 0.001
    }

    /// Changes one document or one series, and the model with it.
    fn go_on(&mut self) {
        let id = format!("d/{}", self.below(DOCUMENTS));
        if !self.model.0.contains_key(&id) || self.below(12) == 0 {
            let (number, is_indexed) = (self.below(1000), self.below(4) != 0);
            let document = self
                .model
                .0
                .entry(id.clone())
                .or_insert_with(|| ModelDocument { is_indexed, ..ModelDocument::default() });
            document.number = number;
            let collection = if document.is_indexed { "D" } else { "Others" };
            let json = format!(r#"{{"X":{number},"@metadata":{{"@collection":"{collection}"}}}}"#);
            self.documents.put(&id.to_uppercase(), &json);
        } else if self.below(20) == 0 {
            self.documents.delete(&id);
            self.model.0.remove(&id);
        } else {
            self.change_series(&id);
        }
    }

    fn change_series(&mut self, id: &str) {
        let (name, written) = match self.below(5) {
            0 | 1 => ("a", "A"),
            2 | 3 => ("b", "b"),
            _ => return self.count(id),
        };
        let name_as_written = TimeSeriesName::new(written).unwrap();
        let mut change = TimeSeriesChange::new(DocumentId::new(id).unwrap(), name_as_written);
        let all = &mut self.model.0.get_mut(id).unwrap().series;
        let mut series = all.remove(name).unwrap_or_default();
        let (first, last) = match (series.keys().next(), series.keys().next_back()) {
            (Some(first), Some(last)) => (*first, *last),
            _ => (MOMENTS / 2, MOMENTS / 2),
        };
        let count = 1 + self.below(ENTRIES_MAX) as i64;
        match self.below(8) {
            // Deletes a part, often one that begins or ends a segment, or everything.
            0..3 => {
                let from = self.below(MOMENTS as u64) as i64;
                let range = match self.below(4) {
                    0 => MomentRange { from: 0, to: from },
                    1 => MomentRange { from, to: from + count },
                    2 => MomentRange { from: first, to: first + self.below(3) as i64 },
                    _ if self.below(3) == 0 => MomentRange::ALL,
                    _ => MomentRange { from: last, to: MomentRange::ALL.to },
                };
                series.retain(|at, _| !range.contains(*at));
                change.deletes.push(range);
            }
            way => {
                for number in 0..count {
                    let at = match way {
                        3 => last + 1 + number,
                        4 => (first - count + number).max(0),
                        _ => self.below(MOMENTS as u64) as i64,
                    };
                    let value = self.value();
                    series.insert(at, value);
                    change.appends.push(Entry { timestamp_ms: at, values: &[value], tag: None });
                }
            }
        }
        let all = &mut self.model.0.get_mut(id).unwrap().series;
        if !series.is_empty() {
            all.insert(name, series);
        }
        self.documents.write(|writer| drop(writer.change_time_series(&change).unwrap()));
    }

    /// Changes a series whose entries may share a moment.
    fn count(&mut self, id: &str) {
        let name = TimeSeriesName::new("INC:v").unwrap();
        let mut change = TimeSeriesChange::new(DocumentId::new(id).unwrap(), name);
        for _ in 0..=self.below(ENTRIES_MAX) {
            let (at, value) = (self.below(MOMENTS as u64) as i64, self.value());
            let value = if value < 500.0 { value } else { -value };
            change.increments.push(Entry { timestamp_ms: at, values: &[value], tag: None });
        }
        self.documents.write(|writer| drop(writer.change_time_series(&change).unwrap()));
    }
}

fn histories() -> u64 {
    let asked = std::env::var("TIME_SERIES_HISTORIES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(HISTORIES)
}

#[test]
fn histories_of_time_series_come_to_what_an_index_from_scratch_says() {
    let kinds = kinds();
    for seed in 1..=histories() {
        let mut random = Random::new(seed);
        let (kind, show) = &kinds[(seed % kinds.len() as u64) as usize];
        let simulation: Simulation = Platform::simulated(seed);
        let (documents, mut model) = (Documents::new(), Model::default());
        let mut story = Story { documents: &documents, model: &mut model, random: &mut random };
        for _ in 0..CUTS {
            (0..6).for_each(|_| story.go_on());
            cut_power_soon(&simulation, story.random, OPERATIONS_MAX);
            if let Some(index) = documents.open(&simulation.platform, kind) {
                while documents.follow(&index) && !simulation.disk.is_power_lost() {
                    story.go_on();
                }
                index.close();
            }
            simulation.disk.restart().unwrap();
        }
        let resumed = documents.open(&simulation.platform, kind).unwrap();
        assert!(documents.follow(&resumed), "seed {seed}: {:?}", resumed.failure());
        let mut expected = show(&documents, &model);
        expected.sort();
        let errors = resumed.errors().unwrap();
        assert!(errors.is_empty(), "seed {seed}: {errors:?}");
        assert_eq!(sorted_results_of(&resumed), expected, "seed {seed}");
        let scratch = documents.open(&Platform::memory(), kind).unwrap();
        assert!(documents.follow(&scratch));
        assert_eq!(sorted_results_of(&scratch), expected, "seed {seed}, from scratch");
        check_that_nothing_stays_behind(&documents, &resumed, seed);
    }
}

fn check_that_nothing_stays_behind(documents: &Documents, index: &Index, seed: u64) {
    (0..DOCUMENTS).for_each(|number| documents.delete(&format!("d/{number}")));
    assert!(documents.follow(index));
    assert_eq!(sorted_results_of(index), [""; 0], "seed {seed}");
    assert_eq!(kept_by(index), [0; 4], "seed {seed}");
    let tx = index.read();
    for tree in ["References", "ReferencesOf", "SearchEntries", "SearchTerms"] {
        let tree = tx.tree(&TreeName::from(tree)).unwrap();
        assert_eq!(tree.len(), 0, "seed {seed}");
    }
}
