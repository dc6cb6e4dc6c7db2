//! Files of an index that were made of other documents or values than those that it finds: what it
//! answers is what a computation from scratch comes to, although by etags it would not be stale.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use blittable::{ParseLimits, parse_document};
use cluster::{Cluster, ClusterOptions};
use cluster_state::{Command, CompareExchangeCommand, Outcome};
use indexing::{Index, IndexKind, IndexSet, IndexSetContext, IndexSetEvent};
use model::{DatabaseId, IndexDefinition, RecordedIndexes};
use platform::{Access, Platform};
use storage::{Environment, EnvironmentOptions, History};

use crate::fixture::{DIRECTORY, Documents};
use crate::results::{definition, sorted_results_of};

const SYSTEM: &str = "/data/System";
const DATABASE: DatabaseId = DatabaseId([9; 16]);
const KEY: &str = "k";

/// A database and the server's environment, both with a history, and what they say.
struct World {
    platform: Platform,
    documents: Documents,
    system: Arc<Environment>,
    cluster: Cluster,
    model: Model,
}

#[derive(Clone, Default)]
struct Model {
    /// What each document says.
    documents: BTreeMap<String, i64>,
    /// Version of the value, and what it says.
    value: (u64, i64),
}

/// What a directory of an environment holds that was closed.
struct Copy(&'static str, Vec<u8>);

impl World {
    fn new() -> Self {
        let platform = Platform::memory();
        let documents = Documents::made_on(platform.clone(), History::Kept);
        Self::with(platform, documents, Model::default())
    }

    fn with(platform: Platform, documents: Documents, model: Model) -> Self {
        let options =
            EnvironmentOptions { history: History::Kept, ..EnvironmentOptions::new(SYSTEM) };
        let system = Environment::open(&platform, options).unwrap();
        let cluster =
            Cluster::start(ClusterOptions::alone(Arc::clone(&system), &platform)).unwrap();
        Self { platform, documents, system, cluster, model }
    }

    /// Closes everything, does that to the files, and opens them again.
    fn restart(self, model: Model, change: impl FnOnce(&Platform)) -> Self {
        self.documents.environment.close().unwrap();
        self.cluster.close();
        self.system.close().unwrap();
        change(&self.platform);
        let documents = Documents::opened_on(self.platform.clone(), History::Kept);
        Self::with(self.platform, documents, model)
    }

    fn put(&mut self, id: &str, said: i64) {
        let json = format!(r#"{{"N":{said},"@metadata":{{"@collection":"D"}}}}"#);
        self.documents.put(id, &json);
        self.model.documents.insert(id.to_owned(), said);
    }

    fn put_value(&mut self, said: i64) {
        let json = format!(r#"{{"Object":{{"N":{said}}}}}"#);
        let value = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
        let (expected, key) = (self.model.value.0, KEY.to_owned());
        let put = CompareExchangeCommand::Put { database: DATABASE, key, expected, value };
        let applied = self.cluster.submit_and_wait(&Command::CompareExchange(put)).unwrap();
        let Outcome::CompareExchange(outcome) = applied.outcome else { panic!("another outcome") };
        assert!(outcome.is_successful);
        self.model.value = (outcome.index, said);
    }

    /// How many times each number is said by documents, and what the value says.
    fn expected(&self) -> Vec<String> {
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        self.model.documents.values().for_each(|said| *counts.entry(*said).or_default() += 1);
        let value = self.model.value.1;
        let result =
            |(said, count)| format!(r#"{{"N":{said},"Count":{count},"Value":{}}}"#, value * count);
        let mut results: Vec<String> =
            counts.into_iter().map(|(said, count)| result((said, count as i64))).collect();
        results.sort();
        results
    }

    /// What the index says when it has everything, and which files were not its own.
    fn ask(&self, files: &Platform) -> (Vec<String>, Vec<String>) {
        let strangers = Arc::new(Mutex::new(Vec::new()));
        let set = self.open(files, &strangers);
        let index: Arc<Index> = set.get("I").unwrap();
        assert!(self.documents.follow(&index), "{:?}", index.failure());
        let results = sorted_results_of(&index);
        set.close();
        let strangers = strangers.lock().unwrap().clone();
        (results, strangers)
    }

    fn open(&self, files: &Platform, strangers: &Arc<Mutex<Vec<String>>>) -> Arc<IndexSet> {
        self.open_with(files, strangers, vec![written()])
    }

    fn open_with(
        &self,
        files: &Platform,
        strangers: &Arc<Mutex<Vec<String>>>,
        definitions: Vec<IndexDefinition>,
    ) -> Arc<IndexSet> {
        let context = self.documents.context(files);
        let strangers = Arc::clone(strangers);
        let set = IndexSet::new(IndexSetContext {
            platform: context.platform,
            documents: context.documents,
            values: Some(self.cluster.store().values_of(DATABASE)),
            directory: "/indexes".into(),
            environment: context.environment,
            on_open: Arc::new(|_| ()),
            scripts: context.scripts,
            pool: context.pool,
            outputs: context.outputs,
            definition_format: context.definition_format,
            on_event: Arc::new(move |event| {
                if let IndexSetEvent::ForeignFiles { because, .. } = event {
                    strangers.lock().unwrap().push((*because).to_owned());
                }
            }),
        });
        let named = |definition: IndexDefinition| (definition.name.clone(), definition);
        let indexes: BTreeMap<_, _> = definitions.into_iter().map(named).collect();
        set.follow_record(&RecordedIndexes { indexes, ..RecordedIndexes::default() });
        set
    }

    /// Asks, and compares; the files are, or are not, those of other documents for this reason.
    fn check(&self, files: &Platform, reason: Option<&str>) {
        let (results, strangers) = self.ask(files);
        assert_eq!(results, self.expected());
        match (reason, &strangers[..]) {
            (None, []) => {}
            (Some(reason), [because]) => assert!(because.contains(reason), "{because}"),
            _ => panic!("{strangers:?}"),
        }
    }
}

fn written() -> IndexDefinition {
    let map = "from d in docs.D let v = LoadCompareExchangeValue(\"k\") \
               select new { N = d.N, Count = 1, Value = v == null ? 0 : v.N }";
    let reduce = "from r in results group r by r.N into g select new { N = g.Key, \
                  Count = g.Sum(x => x.Count), Value = g.Sum(x => x.Value) }";
    match definition(&[map], reduce) {
        IndexKind::Static(definition) => *definition,
        _ => unreachable!("it is written"),
    }
}

fn copy_of(platform: &Platform, directory: &'static str) -> Copy {
    Copy(directory, platform.disk.read_file(&Path::new(directory).join("corvus.data")).unwrap())
}

impl Copy {
    fn restore(&self, platform: &Platform) {
        let Self(directory, bytes) = self;
        let path = Path::new(directory).join("corvus.data");
        platform.disk.remove_file(&path).unwrap();
        platform.disk.create(&path, Access::Buffered).unwrap().write_all_at(bytes, 0).unwrap();
    }
}

/// Opened again and written on, an index is the same one.
#[test]
fn files_of_its_own_documents_are_kept() {
    let files = Platform::memory();
    let mut world = World::new();
    for round in 0..4 {
        world.put(&format!("d/{round}"), round % 2);
        world.put_value(round);
        world.check(&files, None);
        world.put("d/0", round);
        let model = world.model.clone();
        world = world.restart(model, |_| ());
        world.check(&files, None);
    }
}

#[test]
fn the_files_of_an_index_of_another_database_are_built_anew() {
    let (mut a, mut b) = (World::new(), World::new());
    let [files_a, files_b] = [(), ()].map(|()| Platform::memory());
    for number in 0..5 {
        a.put(&format!("d/{number}"), number);
        b.put(&format!("d/{number}"), 100 + number);
    }
    a.put_value(1);
    b.put_value(2);
    a.check(&files_a, None);
    b.check(&files_b, None);
    a.check(&files_b, Some("of the documents that it was made of, it is another environment"));
    b.check(&files_a, Some("of the documents that it was made of, it is another environment"));
    a.check(&files_b, None);
    b.check(&files_a, None);
}

/// By etags, the index would have everything.
#[test]
fn an_index_that_stayed_while_its_database_was_restored_from_an_older_copy_is_built_anew() {
    for written_after in [1, 2, 9] {
        let files = Platform::memory();
        let mut world = World::new();
        world.put("d/1", 1);
        world.check(&files, None);
        let (older, mut copy) = (world.model.clone(), None);
        world = world.restart(older.clone(), |platform| copy = Some(copy_of(platform, DIRECTORY)));
        world.put("d/2", 2);
        world.put("d/3", 2);
        world.check(&files, None);
        world = world.restart(older, |platform| copy.unwrap().restore(platform));
        for number in 0..written_after {
            world.put(&format!("d/{}", 1 + number), 70 + number);
        }
        let reason = "of the documents that it was made of, it is an older copy, or was rebuilt";
        world.check(&files, Some(reason));
        world.put("d/2", 5);
        world.check(&files, None);
    }
}

/// The versions of the values of the lost history are given again.
#[test]
fn an_index_whose_compare_exchange_was_restored_from_an_older_copy_is_built_anew() {
    let files = Platform::memory();
    let mut world = World::new();
    world.put("d/1", 1);
    world.put_value(1);
    world.check(&files, None);
    let (older, mut copy) = (world.model.clone(), None);
    world = world.restart(older.clone(), |platform| copy = Some(copy_of(platform, SYSTEM)));
    world.put_value(2);
    world.check(&files, None);
    let lost = world.model.value.0;
    let older = Model { documents: world.model.documents.clone(), ..older };
    world = world.restart(older, |platform| copy.unwrap().restore(platform));
    while world.model.value.0 < lost {
        world.put_value(3);
    }
    let reason = "of the compare exchange that it has read, it is an older copy, or was rebuilt";
    world.check(&files, Some(reason));
    world.put_value(4);
    world.check(&files, None);
}

/// Maps would fail, one document after the other, and those documents would be missing ever after.
#[test]
fn what_reads_compare_exchange_maps_nothing_while_that_is_refused() {
    let files = Platform::memory();
    let mut world = World::new();
    world.put_value(1);
    world.put("d/1", 1);
    world.cluster.store().refuse(DATABASE, Some("an older copy"));
    let set = world.open(&files, &Arc::default());
    let index = set.get("I").unwrap();
    assert!(!world.documents.follow(&index));
    let failure = index.failure().map(|failure| failure.to_string()).unwrap_or_default();
    assert!(failure.contains("an older copy"), "{failure}");
    set.close();
    world.cluster.store().refuse(DATABASE, None);
    world.check(&files, None);
}

/// A changed definition is built side by side with the older one, which continues to answer. Files of
/// another index are not an older one.
#[test]
fn exchanged_directories_of_two_indexes_answer_nothing_of_each_other() {
    let files = Platform::memory();
    let mut world = World::new();
    world.put("d/1", 1);
    let mut tens = IndexDefinition { name: "Tens".to_owned(), ..written() };
    tens.maps = tens.maps.iter().map(|map| map.replace("N = d.N", "N = d.N * 10")).collect();
    let results = || {
        let set = world.open_with(&files, &Arc::default(), vec![written(), tens.clone()]);
        let results = ["I", "Tens"].map(|name| {
            let index = set.get(name).unwrap();
            assert!(world.documents.follow(&index), "{:?}", index.failure());
            sorted_results_of(&index)
        });
        set.close();
        results
    };
    let before = results();
    assert_ne!(before[0], before[1]);
    let [one, other, aside] = ["i", "tens", "aside"].map(|name| Path::new("/indexes").join(name));
    for (from, to) in [(&one, &aside), (&other, &one), (&aside, &other)] {
        files.disk.rename(from, to).unwrap();
    }
    assert_eq!(results(), before);
}
