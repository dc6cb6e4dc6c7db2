//! Time series through compaction and salvage: nothing of a sound database is lost, and what a damaged
//! page costs is named.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::Path,
    sync::Arc,
};

use documents::{
    DatabaseIdentity, DocumentWriter, ExpectedVersion, RequestedId, SalvageReport, WriteContext,
    time_series::{Entry, MomentRange, RollupRight, SeriesReader, TimeSeriesChange, series_of},
};
use model::{DatabaseId, DocumentId, NodeTag, TimeSeriesName};
use platform::{
    Platform,
    simulated::{Random, Simulation},
};
use storage::{Environment, EnvironmentOptions, PAGE_BYTES, ReadTransaction, Salvage};

use crate::database::{body, user};

const DOCUMENTS: u64 = 6;
const ENTRIES: i64 = 900;
const IDENTITY: DatabaseIdentity =
    DatabaseIdentity { database_id: DatabaseId([0; 16]), node_tag: NodeTag::A };

/// A document and the name of a series of it.
type SeriesId = (String, String);
/// The values of entries by moment, bit by bit.
type Content = BTreeMap<SeriesId, BTreeMap<i64, Vec<u64>>>;
/// All that entries ever were.
type Written = BTreeMap<SeriesId, BTreeSet<(i64, Vec<u64>)>>;

/// A database with time series, what a reader sees of it, and what was ever written.
struct Patient {
    simulation: Simulation,
    content: Content,
    written: Written,
}

fn content(tx: &ReadTransaction) -> Content {
    tx.check().unwrap();
    documents::check(tx).unwrap();
    let mut content = Content::new();
    for number in 0..DOCUMENTS {
        let id = DocumentId::new(format!("u/{number}")).unwrap();
        for series in series_of(tx, &id).unwrap() {
            let name = series.unwrap().name;
            let series_name = TimeSeriesName::new(name.as_str()).unwrap();
            let mut reader = SeriesReader::new(tx, &id, &series_name, MomentRange::ALL).unwrap();
            let entries = content.entry((id.to_string(), name)).or_default();
            while let Some(entry) = reader.next_entry().unwrap() {
                entries.insert(entry.timestamp_ms, bits(entry.values));
            }
        }
    }
    content
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

impl Patient {
    fn new() -> Self {
        let simulation = Platform::simulated(11);
        let options = EnvironmentOptions::new("/source");
        let environment = Environment::open(&simulation.platform, options).unwrap();
        let mut tx = environment.write().unwrap();
        documents::initialize(&mut tx, IDENTITY).unwrap();
        tx.commit().unwrap();
        let content = Content::new();
        let mut patient = Self { simulation, content, written: Written::new() };
        let mut random = Random::new(11);
        for number in 0..DOCUMENTS {
            patient.write(&environment, |writer| {
                let id = RequestedId::Exactly(DocumentId::new(format!("u/{number}")).unwrap());
                writer.put(&id, &ExpectedVersion::Any, &body(&user("one"))).unwrap();
            });
        }
        // Rounds that add at the end, write over, and delete; pages of old rows stay behind.
        for round in 0..3 {
            for number in 0..DOCUMENTS {
                let from = round * ENTRIES / 2;
                patient.append(&environment, number, "HR", from..from + ENTRIES, &mut random);
                patient.append(&environment, number, "HR@m", round..round + 1, &mut random);
                patient.append(&environment, number, "Few", round..round + 3, &mut random);
            }
            environment.flush().unwrap();
        }
        for number in 0..2 {
            let mut change = change(number, "HR");
            change.deletes.push(MomentRange { from: 100_000, to: 400_000 });
            patient.write(&environment, |writer| {
                writer.change_time_series(&change).unwrap();
            });
        }
        environment.flush().unwrap();
        patient.content = content_of(&environment);
        patient
    }

    fn write(&self, environment: &Arc<Environment>, work: impl Fn(&mut DocumentWriter<'_>)) {
        let platform = &self.simulation.platform;
        let mut tx = environment.write().unwrap();
        let context = WriteContext::new(platform.clock.now(), &*platform.entropy);
        let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
        work(&mut writer);
        writer.finish().unwrap();
        tx.commit().unwrap();
    }

    /// Writes entries, one a second, whose values do not get smaller by being packed.
    fn append(
        &mut self,
        environment: &Arc<Environment>,
        number: u64,
        name: &str,
        seconds: std::ops::Range<i64>,
        random: &mut Random,
    ) {
        let mut change = change(number, name);
        for second in seconds {
            let value = random.below(1 << 52) as f64 / 7.0;
            let entry = Entry { timestamp_ms: second * 1000, values: &[value], tag: None };
            change.appends.push(entry);
            let series = (format!("u/{number}"), name.to_owned());
            self.written.entry(series).or_default().insert((second * 1000, bits(&[value])));
        }
        self.write(environment, |writer| {
            writer.change_time_series(&change).unwrap();
        });
    }

    fn salvaged(&self) -> (SalvageReport, Content) {
        let platform = &self.simulation.platform;
        let options = EnvironmentOptions::new("/source");
        let mut salvage = Salvage::open(platform, &options, Path::new("/target")).unwrap();
        let report = documents::salvage(&mut salvage, IDENTITY).unwrap();
        salvage.publish().unwrap();
        let environment = Environment::open(platform, EnvironmentOptions::new("/target")).unwrap();
        let content = content_of(&environment);
        drop(environment);
        platform.disk.remove_dir_all(Path::new("/target")).unwrap();
        (report, content)
    }

    /// Entries that are not there as they were belong to a series or a document that is named; and nothing
    /// is there that was never written.
    fn assert_only_named_differ(
        &self,
        report: &SalvageReport,
        found: &Content,
        what: &str,
    ) -> usize {
        let named: BTreeSet<&str> =
            report.lost_time_series_segments.named.iter().map(String::as_str).collect();
        let gone: BTreeSet<&str> = report.lost.named.iter().map(String::as_str).collect();
        let nothing = BTreeMap::new();
        let mut lost = 0;
        for (series, entries) in &self.content {
            let (id, name) = series;
            let left = found.get(series).unwrap_or(&nothing);
            let differ = entries.iter().filter(|(moment, values)| left.get(moment) != Some(values));
            let differ = differ.count();
            let series_key = format!("{id}\n{}", name.to_lowercase());
            let is_named = named.contains(series_key.as_str())
                || gone.contains(id.as_str())
                || 0 < report.unreadable_key_pages;
            assert!(differ == 0 || is_named, "{what}: {differ} of {series:?}: {report:?}");
            lost += differ;
        }
        for (series, entries) in found {
            for (moment, values) in entries {
                let was_written = self.written[series].contains(&(*moment, values.clone()));
                assert!(was_written, "{what}: {series:?} at {moment} came out of nowhere");
            }
        }
        lost
    }
}

fn change(number: u64, name: &str) -> TimeSeriesChange {
    let id = DocumentId::new(format!("u/{number}")).unwrap();
    let mut change = TimeSeriesChange::new(id, TimeSeriesName::new(name).unwrap());
    change.rollup_right = RollupRight::OfPolicy;
    change
}

fn content_of(environment: &Arc<Environment>) -> Content {
    content(&environment.read())
}

#[test]
fn a_sound_database_is_compacted_and_salvaged_with_all_its_entries() {
    let patient = Patient::new();
    let platform = &patient.simulation.platform;
    assert!(1 < patient.content.len());
    let environment = Environment::open(platform, EnvironmentOptions::new("/source")).unwrap();
    let compacted = Environment::open(platform, EnvironmentOptions::new("/compacted")).unwrap();
    let mut go_on = |_: &_| ControlFlow::Continue(());
    storage::compact(&environment.read(), &compacted, documents::TABLES, &mut go_on).unwrap();
    assert_eq!(content_of(&compacted), patient.content);
    drop(environment);
    let (report, found) = patient.salvaged();
    assert_eq!(report.lost_time_series_segments.count, 0);
    assert_eq!(found, patient.content);
}

#[test]
fn what_a_damaged_page_costs_of_time_series_is_named() {
    let patient = Patient::new();
    let path = Path::new("/source/corvus.data");
    let disk = &patient.simulation.disk;
    let pages = disk.file_bytes(path).unwrap().len() / PAGE_BYTES;
    let (mut costs, mut named) = (0, 0);
    for page in 0..pages as u64 {
        let offset = page * PAGE_BYTES as u64 + 40 + page % 8000;
        disk.flip_bit(path, offset, 3).unwrap();
        let (report, found) = patient.salvaged();
        let lost = patient.assert_only_named_differ(&report, &found, &format!("page {page}"));
        let all: usize = patient.content.values().map(BTreeMap::len).sum();
        // The page of the documents is lost with all that they have.
        let are_documents_lost = report.lost.count != 0;
        assert!(are_documents_lost || lost < all / 4, "page {page}: {lost} of {all}");
        costs += usize::from(0 < lost);
        named += report.lost_time_series_segments.count;
        disk.flip_bit(path, offset, 3).unwrap();
    }
    assert!(0 < costs && 0 < named, "no flip met a page of segments");
}
