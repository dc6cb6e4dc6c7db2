//! Whatever happens to documents, definitions, disks and processes: the documents that an index writes are
//! what a computation from scratch returns, nothing is left of what was written before, and documents of
//! users stay.
//!
//! `OUTPUT_HISTORIES=5000 cargo test -p indexing --release --test it output_histories` runs more of them.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use documents::{OutputChange, OutputWritten};
use indexing::{Index, IndexSet, IndexSetContext, IndexingPool, OutputError, OutputQueue};
use model::{DocumentFlags, IndexDefinition, RecordedIndexes};
use platform::{Platform, simulated::Random};
use script::ScriptPool;
use storage::EnvironmentOptions;

use crate::fixture::{DEFINITION_FORMAT, Documents, Outputs, cut_power_soon};

const HISTORIES: u64 = 40;
const CUTS: u64 = 5;
const DOCUMENTS: u64 = 8;
const KEYS: u64 = 4;
/// Operations of the disk after which the power goes, at most.
const OPERATIONS_MAX: u64 = 120;
/// How long something in the background may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Documents of users where outputs are, and where documents that refer to them are.
const OF_USERS: [(&str, &str); 3] =
    [("mine/1", "Sums"), ("Sums/7/mine", "Sums"), ("by/1000", "Mine")];

/// Rows of documents: a key and a number each.
type Model = BTreeMap<String, Vec<(u64, i64)>>;

/// Takes changes, loses them, or makes them and does not say so.
struct Moody {
    outputs: Outputs,
    random: Mutex<Random>,
}

impl OutputQueue for Moody {
    fn commit(&self, changes: Vec<OutputChange>) -> Result<Vec<OutputWritten>, OutputError> {
        let mood = self.random.lock().unwrap().next_u64() % 32;
        let later = || OutputError::Later { message: "in a mood".to_owned() };
        match mood {
            0 => Err(later()),
            1 => self.outputs.commit(changes).and_then(|_| Err(later())),
            _ => self.outputs.commit(changes),
        }
    }
}

fn collection_of(version: u64) -> &'static str {
    if version.is_multiple_of(4) { "Others" } else { "Sums" }
}

/// By which property results are referred to, if they are.
fn referred_by(version: u64) -> Option<&'static str> {
    [Some("Count"), Some("K"), None][(version % 3) as usize]
}

fn definition(version: u64) -> IndexDefinition {
    let reduce = format!(
        "from r in results group r by r.K into g select new {{ K = g.Key, \
         Count = g.Sum(x => x.Count), N = g.Sum(x => x.N), Version = {version} }}"
    );
    let map =
        "from d in docs.D from l in d.L select new { K = l.K, Count = 1, N = l.N, Version = 0 }";
    let references = "Refs".to_owned();
    IndexDefinition {
        name: "I".to_owned(),
        maps: vec![map.to_owned()],
        reduce: Some(reduce),
        output_reduce_to_collection: Some(collection_of(version).to_owned()),
        reduce_output_index: Some(version.cast_signed()),
        pattern_for_output_reduce_to_collection_references: referred_by(version)
            .map(|field| format!("by/{{{field}}}")),
        pattern_references_collection_name: version.is_multiple_of(2).then_some(references),
        ..IndexDefinition::default()
    }
}

struct Stage {
    documents: Documents,
    model: Model,
    version: u64,
}

impl Stage {
    fn new() -> Self {
        let stage = Self { documents: Documents::new(), model: Model::new(), version: 1 };
        for (id, collection) in OF_USERS {
            let json = format!(r#"{{"Mine":1,"@metadata":{{"@collection":"{collection}"}}}}"#);
            stage.documents.put(id, &json);
        }
        stage
    }

    fn open(&self, disk: &Platform, seed: u64) -> (Arc<IndexSet>, mpsc::Receiver<()>) {
        let (sender, events) = mpsc::channel();
        let sender = Mutex::new(sender);
        let clock = &self.documents.platform.clock;
        let environment = Arc::clone(&self.documents.environment);
        let outputs = Outputs { platform: self.documents.platform.clone(), environment };
        let set = IndexSet::new(IndexSetContext {
            platform: Platform { clock: Arc::clone(clock), ..disk.clone() },
            documents: Arc::clone(&self.documents.environment),
            values: None,
            directory: "/indexes".into(),
            environment: EnvironmentOptions::new("/"),
            on_open: Arc::new(|_| ()),
            scripts: ScriptPool::new(Arc::clone(clock)),
            pool: IndexingPool::new(Arc::clone(clock), 2),
            outputs: Arc::new(Moody { outputs, random: Mutex::new(Random::new(seed)) }),
            definition_format: DEFINITION_FORMAT,
            on_event: Arc::new(move |_| sender.lock().unwrap().send(()).unwrap_or(())),
        });
        self.follow(&set);
        (set, events)
    }

    fn follow(&self, set: &IndexSet) {
        let newest = definition(self.version);
        let indexes = BTreeMap::from([(newest.name.clone(), newest)]);
        set.follow_record(&RecordedIndexes { indexes, ..RecordedIndexes::default() });
    }

    fn change(&mut self, random: &mut Random) {
        let mut below = |limit: u64| random.next_u64() % limit;
        let id = format!("d/{}", below(DOCUMENTS));
        if below(4) == 0 {
            self.documents.delete(&id);
            self.model.remove(&id);
            return;
        }
        let rows: Vec<_> =
            (0..below(4)).map(|_| (below(KEYS), below(2000).cast_signed() - 1000)).collect();
        let json = rows.iter().map(|(key, n)| format!(r#"{{"K":"k{key}","N":{n}}}"#));
        let json = json.collect::<Vec<_>>().join(",");
        let json = format!(r#"{{"L":[{json}],"@metadata":{{"@collection":"D"}}}}"#);
        self.documents.put(&id, &json);
        self.model.insert(id, rows);
    }

    /// Outputs, and which of them each document refers to: all by their bodies.
    fn expected(&self) -> (BTreeSet<String>, BTreeMap<String, BTreeSet<String>>) {
        let mut groups: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        for (key, n) in self.model.values().flatten() {
            groups.entry(*key).or_default().push(*n);
        }
        let (mut outputs, mut referring) = (BTreeSet::new(), BTreeMap::new());
        for (key, numbers) in groups {
            let (count, sum) = (numbers.len(), numbers.iter().sum::<i64>());
            let (version, collection) = (self.version, collection_of(self.version));
            let body = format!(
                r#"{{"K":"k{key}","Count":{count},"N":{sum},"Version":{version},"@metadata":{{"@collection":"{collection}"}}}}"#
            );
            outputs.insert(body.clone());
            let id = match referred_by(self.version) {
                Some("K") => format!("by/k{key}"),
                Some(_) => format!("by/{count}"),
                None => continue,
            };
            referring.entry(id).or_insert_with(BTreeSet::new).insert(body);
        }
        (outputs, referring)
    }

    /// As [`Stage::expected`], from the documents that are marked.
    fn found(&self) -> (BTreeSet<String>, BTreeMap<String, BTreeSet<String>>) {
        let tx = self.documents.environment.read();
        documents::check(&tx).unwrap();
        let (mut outputs, mut referring) = (BTreeMap::new(), BTreeMap::new());
        for document in documents::by_prefix(&tx, "", None).unwrap() {
            let document = document.unwrap();
            if !document.flags().contains(DocumentFlags::FROM_INDEX) {
                continue;
            }
            let root = document.body().unwrap().root();
            match root.get_array("ReduceOutputs").unwrap() {
                None => {
                    let json =
                        String::from_utf8(document.body().unwrap().to_json().unwrap()).unwrap();
                    outputs.insert(document.id().to_owned(), json);
                }
                Some(listed) => {
                    let text = |value: blittable::Value<'_>| {
                        value.as_text().unwrap().as_cow().unwrap().into_owned()
                    };
                    let ids: Vec<_> = listed.iter().map(|value| text(value.unwrap())).collect();
                    referring.insert(document.id().to_owned(), ids);
                }
            }
        }
        let body = |id: &String| outputs.get(id).cloned().unwrap_or_else(|| format!("no {id}"));
        let referring = referring.into_iter().map(|(id, ids)| {
            let count = ids.len();
            let bodies: BTreeSet<_> = ids.iter().map(body).collect();
            assert_eq!(bodies.len(), count, "{id} refers to something twice");
            (id, bodies)
        });
        let referring = referring.collect();
        let count = outputs.len();
        let bodies: BTreeSet<_> = outputs.into_values().collect();
        assert_eq!(bodies.len(), count, "something is there twice");
        (bodies, referring)
    }

    fn is_settled(&self, set: &IndexSet) -> bool {
        let tx = self.documents.environment.read();
        set.get("ReplacementOf/I").is_none()
            && set.get("I").is_some_and(|index| {
                let shown = index.shown_definition();
                shown.reduce == definition(self.version).reduce && !index.is_stale(&tx).unwrap()
            })
    }
}

fn describe(index: &Index) -> String {
    let (progress, failure, errors) = (index.progress(), index.failure(), index.errors());
    format!("{} {progress:?} {:?} {failure:?} {errors:?}", index.name(), index.state())
}

/// Waits for what others do in the background, and makes room for it.
fn wait_for(set: &IndexSet, events: &mpsc::Receiver<()>, seed: u64, condition: impl Fn() -> bool) {
    let (mut waited, step) = (Duration::ZERO, Duration::from_millis(5));
    while !condition() {
        let indexes = || set.all().iter().map(|index| describe(index)).collect::<Vec<_>>();
        assert!(waited < PATIENCE, "seed {seed}: it takes too long: {:?}", indexes());
        waited += step;
        let _event = events.recv_timeout(step);
        // The documents tell the first set of all only.
        set.notice_changes();
        set.all().iter().for_each(|index| drop(index.environment().flush()));
    }
}

fn histories() -> u64 {
    std::env::var("OUTPUT_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(HISTORIES)
}

#[test]
fn outputs_are_those_of_a_computation_from_scratch() {
    for seed in 1..=histories() {
        let mut random = Random::new(seed);
        let simulation = Platform::simulated(seed);
        let mut stage = Stage::new();
        for _ in 0..CUTS {
            cut_power_soon(&simulation, &mut random, OPERATIONS_MAX);
            let (set, events) = stage.open(&simulation.platform, random.next_u64());
            while !simulation.disk.is_power_lost() && !random.next_u64().is_multiple_of(12) {
                match random.next_u64() % 12 {
                    0 => {
                        stage.version += 1;
                        stage.follow(&set);
                    }
                    1 => drop(set.reset("I")),
                    2..=4 => {
                        let is_over = || {
                            stage.is_settled(&set)
                                || simulation.disk.is_power_lost()
                                || !set.faulty().is_empty()
                                || set.all().iter().any(|index| index.failure().is_some())
                        };
                        wait_for(&set, &events, seed, is_over);
                    }
                    _ => stage.change(&mut random),
                }
            }
            set.close();
            drop(set);
            simulation.disk.restart().unwrap();
        }
        let (set, events) = stage.open(&simulation.platform, seed);
        wait_for(&set, &events, seed, || stage.is_settled(&set));
        assert_eq!(stage.found(), stage.expected(), "seed {seed}, version {}", stage.version);
        for (id, collection) in OF_USERS {
            let id = model::DocumentId::new(id).unwrap();
            let tx = stage.documents.environment.read();
            let document = documents::get(&tx, &id).unwrap().unwrap();
            assert_eq!(document.collection().unwrap(), collection, "seed {seed}");
        }
        for number in 0..DOCUMENTS {
            stage.documents.delete(&format!("d/{number}"));
        }
        stage.model.clear();
        wait_for(&set, &events, seed, || stage.is_settled(&set));
        assert_eq!(stage.found(), stage.expected(), "seed {seed}: without documents");
    }
}
