//! A definition that changes again and again while the power goes: whatever is cut off, one index of
//! the name answers, it is one of the definitions that there were, and in the end it is the newest.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use blittable::{ParseLimits, parse_document};
use documents::{
    DatabaseIdentity, DocumentWriter, ExpectedVersion, RequestedId, WriteContext, initialize,
};
use indexing::{Index, IndexSet, IndexSetContext, IndexSetEvent, IndexingPool};
use model::{DatabaseId, DocumentId, IndexDefinition, IndexState, RecordedIndexes};
use platform::{
    Platform,
    simulated::{FaultKind, FaultSpan, OperationFilter, OperationKind, Random},
};
use script::ScriptPool;
use search::IndexReader;
use storage::{Environment, EnvironmentOptions};

use crate::fixture::{DEFINITION_FORMAT, Outputs, cut_power_soon};

const HISTORIES: u64 = 25;
const CUTS: u64 = 12;
pub(crate) const DOCUMENTS: usize = 12;
/// Operations of the disk after which the power goes, at most.
const OPERATIONS_MAX: u64 = 120;
/// How long something in the background may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Documents that are never lost, and the definition as the record of the database has it.
pub(crate) struct Stage {
    platform: Platform,
    documents: Arc<Environment>,
    /// 0 when the index is not defined.
    pub(crate) version: u64,
    /// The number of the index in the record.
    pub(crate) number: u64,
}

pub(crate) fn definition(version: u64) -> IndexDefinition {
    IndexDefinition {
        name: "I".to_owned(),
        maps: vec![format!("from u in docs.Users select new {{ V{version} = u.Name }}")],
        ..IndexDefinition::default()
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        let platform = Platform::memory();
        let documents = Environment::open(&platform, EnvironmentOptions::new("database")).unwrap();
        let mut tx = documents.write().unwrap();
        let identity =
            DatabaseIdentity { database_id: DatabaseId([7; 16]), node_tag: "A".parse().unwrap() };
        initialize(&mut tx, identity).unwrap();
        tx.commit().unwrap();
        let stage = Self { platform, documents, version: 1, number: 1 };
        for number in 0..DOCUMENTS {
            stage.put(&format!("users/{number}"), &format!("n{number}"));
        }
        stage
    }

    fn put(&self, id: &str, name: &str) {
        let mut tx = self.documents.write().unwrap();
        let entropy = self.platform.entropy.as_ref();
        let context = WriteContext::new(self.platform.clock.now(), entropy);
        let mut writer = DocumentWriter::open(&mut tx, context).unwrap();
        let json = format!(r#"{{"Name":"{name}","@metadata":{{"@collection":"Users"}}}}"#);
        let body = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let id = RequestedId::Exactly(DocumentId::new(id).unwrap());
        writer.put(&id, &ExpectedVersion::Any, &body).unwrap();
        writer.finish().unwrap();
        tx.commit().unwrap();
    }

    /// The indexes on that disk, and a way to hear of swaps.
    pub(crate) fn open(&self, disk: &Platform) -> (Arc<IndexSet>, mpsc::Receiver<()>) {
        let (sender, swaps) = mpsc::channel();
        let sender = Mutex::new(sender);
        let set = IndexSet::new(IndexSetContext {
            platform: Platform { clock: Arc::clone(&self.platform.clock), ..disk.clone() },
            documents: Arc::clone(&self.documents),
            values: None,
            directory: "/indexes".into(),
            environment: EnvironmentOptions::new("/"),
            on_open: Arc::new(|_| ()),
            scripts: ScriptPool::new(Arc::clone(&self.platform.clock)),
            pool: IndexingPool::new(Arc::clone(&self.platform.clock), 2),
            outputs: Arc::new(Outputs {
                platform: self.platform.clone(),
                environment: Arc::clone(&self.documents),
            }),
            definition_format: DEFINITION_FORMAT,
            on_event: Arc::new(move |event| {
                if !matches!(event, IndexSetEvent::Changed { .. } | IndexSetEvent::Indexed { .. }) {
                    sender.lock().unwrap().send(()).unwrap_or(());
                }
            }),
        });
        self.follow(&set);
        (set, swaps)
    }

    pub(crate) fn follow(&self, set: &IndexSet) {
        let newest = (0 < self.version).then(|| definition(self.version));
        let indexes: BTreeMap<_, _> =
            newest.map(|newest| (newest.name.clone(), newest)).into_iter().collect();
        let index_numbers = indexes.keys().map(|name| (name.clone(), self.number)).collect();
        let recorded = RecordedIndexes { indexes, index_numbers, ..RecordedIndexes::default() };
        set.follow_record(&recorded);
    }
}

/// The definition that the entries of an index were made after; `None` when it has none yet.
pub(crate) fn version_of(index: &Index) -> Option<u64> {
    let tx = index.read();
    search::check(&tx).unwrap();
    let reader = IndexReader::open(&tx).unwrap();
    let fields = reader.fields().unwrap();
    let versions: Vec<u64> =
        fields.iter().filter_map(|field| field.name.strip_prefix('V')?.parse().ok()).collect();
    assert!(versions.len() <= 1, "entries of one definition only: {versions:?}");
    versions.first().copied()
}

pub(crate) fn entries_of(index: &Index) -> u64 {
    IndexReader::open(&index.read()).unwrap().entry_count()
}

/// Waits for what others do in the background.
pub(crate) fn wait_for(swaps: &mpsc::Receiver<()>, condition: impl Fn() -> bool) {
    let mut waited = Duration::ZERO;
    let step = Duration::from_millis(5);
    while !condition() {
        assert!(waited < PATIENCE, "it takes too long");
        waited += step;
        // An event, or some time.
        let _event = swaps.recv_timeout(step);
    }
}

#[test]
fn a_changed_definition_survives_power_cuts_at_every_step() {
    let (mut pairs, mut swapped) = (0, 0);
    for seed in 1..=HISTORIES {
        let mut random = Random::new(seed);
        let simulation = Platform::simulated(seed);
        let mut stage = Stage::new();
        let mut complete = 0;
        for _ in 0..CUTS {
            cut_power_soon(&simulation, &mut random, OPERATIONS_MAX);
            let (set, swaps) = stage.open(&simulation.platform);
            while !simulation.disk.is_power_lost() {
                if random.next_u64().is_multiple_of(2) {
                    stage.version += 1;
                }
                stage.follow(&set);
                // Now and then it is given the time to catch up, now and then not.
                if random.next_u64().is_multiple_of(2) {
                    let newest = stage.version;
                    let is_settled = || {
                        let index = set.get("I");
                        let done = set.get("ReplacementOf/I").is_none()
                            && index.is_some_and(|index| version_of(&index) == Some(newest));
                        done || simulation.disk.is_power_lost()
                            || !set.faulty().is_empty()
                            || set.all().iter().any(|index| index.failure().is_some())
                    };
                    wait_for(&swaps, is_settled);
                    swapped += 1;
                }
                if random.next_u64().is_multiple_of(4) {
                    break;
                }
            }
            set.close();
            drop(set);
            simulation.disk.restart().unwrap();
            // What is there now answers: paused, so that nothing is caught up before one looks.
            let (set, _) = stage.open(&simulation.platform);
            set.pause();
            let index = set.get("I").unwrap_or_else(|| panic!("seed {seed}: {:?}", set.faulty()));
            pairs += usize::from(set.get("ReplacementOf/I").is_some());
            if let Some(version) = version_of(&index)
                && entries_of(&index) == DOCUMENTS as u64
            {
                assert!(complete <= version, "seed {seed}: an older index came back");
                complete = version;
            }
            set.close();
        }
        let (set, swaps) = stage.open(&simulation.platform);
        let newest = stage.version;
        wait_for(&swaps, || {
            let index = set.get("I").unwrap();
            set.get("ReplacementOf/I").is_none()
                && version_of(&index) == Some(newest)
                && entries_of(&index) == DOCUMENTS as u64
        });
        let places = simulation.platform.disk.list("/indexes".as_ref()).unwrap();
        assert!(places.len() <= 2, "seed {seed}: {places:?}");
    }
    assert!(20 < pairs && 20 < swapped, "the story is too dull: {pairs} pairs, {swapped} swaps");
}

#[test]
fn an_index_whose_disk_failed_once_is_opened_again_by_itself() {
    for takes_a_place in [false, true] {
        fail_once(takes_a_place);
    }
}

/// The disk of an index fails, which perhaps has just taken the place of another.
fn fail_once(takes_a_place: bool) {
    let simulation = Platform::simulated(1);
    let mut stage = Stage::new();
    let (set, swaps) = stage.open(&simulation.platform);
    let is_complete = || {
        set.get("I").is_some_and(|index| {
            index.failure().is_none() && entries_of(&index) == DOCUMENTS as u64
        })
    };
    wait_for(&swaps, is_complete);
    if takes_a_place {
        stage.version += 1;
        stage.follow(&set);
        wait_for(&swaps, || {
            set.get("I").is_some_and(|index| version_of(&index) == Some(stage.version))
        });
    }
    let first = set.get("I").unwrap();
    let writes = OperationFilter::Only(OperationKind::Write);
    simulation.disk.fail_operation(1, writes, FaultKind::InputOutput, FaultSpan::Once);
    stage.put("users/0", "changed");
    wait_for(&swaps, || first.failure().is_some());
    wait_for(&swaps, is_complete);
    let index = set.get("I").unwrap();
    assert!(!Arc::ptr_eq(&first, &index));
    let last = index.last_etag_in(&stage.documents.read()).unwrap();
    wait_for(&swaps, || index.progress() == last);
}

#[test]
fn damaged_files_are_an_index_in_error_until_it_is_reset() {
    let simulation = Platform::simulated(1);
    let stage = Stage::new();
    let (set, swaps) = stage.open(&simulation.platform);
    let is_complete =
        |set: &IndexSet| set.get("I").is_some_and(|index| entries_of(&index) == DOCUMENTS as u64);
    wait_for(&swaps, || is_complete(&set));
    set.close();
    let data = std::path::Path::new("/indexes/i/corvus.data");
    for header in 0..2 {
        simulation.disk.flip_bit(data, header * 4096 + 100, 3).unwrap();
        simulation.disk.flip_bit(data, header * 8192 + 20, 1).unwrap();
    }
    let (set, swaps) = stage.open(&simulation.platform);
    let faulty = set.faulty();
    assert_eq!(faulty.len(), 1, "it was damaged enough");
    assert_eq!(faulty[0].name, "I");
    assert!(set.reset("i").unwrap().is_ok());
    wait_for(&swaps, || is_complete(&set));
    assert!(set.faulty().is_empty());
}

#[test]
fn indexes_that_a_setting_disables_follow_nothing_and_cannot_be_started() {
    let stage = Stage::new();
    let (set, _) = stage.open(&Platform::memory());
    let index = set.all().into_iter().next().unwrap();
    let (reached_to, followed) = mpsc::channel();
    let last = index.last_position_in(&stage.documents.read()).unwrap();
    index.when_indexed(last, Box::new(move |reached| reached_to.send(reached).unwrap_or(())));
    assert!(followed.recv().unwrap());
    set.disable();
    let before = index.progress();
    stage.put("users/new", "new");
    set.resume();
    set.notice_changes();
    assert!(set.is_disabled());
    assert_eq!(index.state(), IndexState::Disabled);
    assert!(index.is_stale(&stage.documents.read()).unwrap());
    set.close();
    assert_eq!(index.progress(), before, "closing waits for a turn that is under way");
}
