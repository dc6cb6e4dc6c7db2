//! Indexes whose maps look at values of compare exchange: whatever happens to documents, values and disks,
//! their results are what a computation from scratch returns.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::collections::BTreeMap;

use blittable::{ParseLimits, parse_document};
use cluster::{Cluster, ClusterOptions};
use cluster_state::{Command, CompareExchangeCommand, Outcome};
use indexing::{Index, IndexContext, IndexKind};
use model::DatabaseId;
use platform::{
    Platform,
    simulated::{Random, Simulation},
};
use storage::{Environment, EnvironmentOptions};

use crate::fixture::{Documents, cut_power_soon};
use crate::results::{definition, sorted_results_of};

const HISTORIES: u64 = 40;
/// Power cuts of one history.
const CUTS: u64 = 3;
const DOCUMENTS: u64 = 10;
const KEYS: u64 = 5;
const OPERATIONS_MAX: u64 = 60;
const DATABASE: DatabaseId = DatabaseId([9; 16]);

/// Documents and values, and what they say.
struct World {
    documents: Documents,
    cluster: Cluster,
    /// Each document's keys.
    keys: BTreeMap<String, Vec<u64>>,
    values: BTreeMap<u64, (u64, i64)>,
}

impl World {
    fn new() -> Self {
        let platform = Platform::memory();
        let environment =
            Environment::open(&platform, EnvironmentOptions::new("/data/System")).unwrap();
        let cluster = Cluster::start(ClusterOptions::alone(environment, &platform)).unwrap();
        let documents = Documents::new();
        Self { documents, cluster, keys: BTreeMap::new(), values: BTreeMap::new() }
    }

    fn open(&self, platform: &Platform, kind: &IndexKind) -> Option<Index> {
        let values = Some(self.cluster.store().values_of(DATABASE));
        let context = IndexContext { values, ..self.documents.context(platform) };
        Index::open("I", kind.clone(), context).ok()
    }

    fn submit(&self, command: CompareExchangeCommand) -> u64 {
        let applied = self.cluster.submit_and_wait(&Command::CompareExchange(command)).unwrap();
        let Outcome::CompareExchange(outcome) = applied.outcome else { panic!("another outcome") };
        assert!(outcome.is_successful);
        outcome.index
    }

    fn change(&mut self, random: &mut Random) {
        let mut below = |limit: u64| random.next_u64() % limit;
        match below(3) {
            0 => {
                let id = format!("d/{}", below(DOCUMENTS));
                if below(5) == 0 {
                    self.documents.delete(&id);
                    self.keys.remove(&id);
                    return;
                }
                let keys: Vec<u64> = (0..below(4)).map(|_| below(KEYS)).collect();
                let names: Vec<_> = keys.iter().map(|key| format!(r#""K{key}""#)).collect();
                let json = format!(
                    r#"{{"Keys":[{}],"@metadata":{{"@collection":"D"}}}}"#,
                    names.join(",")
                );
                self.documents.put(&id, &json);
                self.keys.insert(id, keys);
            }
            _ => {
                let (number, is_deletion) = (below(KEYS), below(3) == 0);
                let (database, key) = (DATABASE, format!("k{number}"));
                let expected = self.values.get(&number).map_or(0, |(index, _)| *index);
                if is_deletion && expected != 0 {
                    self.submit(CompareExchangeCommand::Delete { database, key, expected });
                    self.values.remove(&number);
                } else {
                    let said = below(4) as i64;
                    let json = format!(r#"{{"Object":{{"N":{said}}}}}"#);
                    let value = parse_document(json.as_bytes(), &ParseLimits::default()).unwrap();
                    let put = CompareExchangeCommand::Put { database, key, expected, value };
                    self.values.insert(number, (self.submit(put), said));
                }
            }
        }
    }

    /// Removes the changes that an index has already seen.
    fn forget_what_was_seen(&self, index: &Index) {
        let (database, up_to) = (DATABASE, index.record().last_value);
        self.submit(CompareExchangeCommand::ForgetDeleted { database, up_to });
    }

    /// How many times each number is said by the values of documents' keys.
    fn expected(&self) -> Vec<String> {
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        let said = self.keys.values().flatten().filter_map(|key| self.values.get(key));
        said.for_each(|(_, said)| *counts.entry(*said).or_default() += 1);
        counts.iter().map(|(said, count)| format!(r#"{{"N":{said},"Count":{count}}}"#)).collect()
    }
}

/// The same in C# and in JavaScript, one value after the other and many at once.
fn kinds() -> Vec<IndexKind> {
    let in_linq = "from r in results group r by r.N into g select new { N = g.Key, \
                   Count = g.Sum(x => x.Count) }";
    let in_script = "groupBy(r => r.N).aggregate(g => ({ N: g.key, \
                     Count: g.values.reduce((a, v) => a + v.Count, 0) }))";
    vec![
        definition(
            &["from d in docs.D from k in d.Keys let v = LoadCompareExchangeValue(k) \
               where v != null select new { N = v.N, Count = 1 }"],
            in_linq,
        ),
        definition(
            &["from d in docs.D from v in LoadCompareExchangeValue(d.Keys) where v != null \
               select new { N = v.N, Count = 1 }"],
            in_linq,
        ),
        definition(
            &[
                "map('D', d => d.Keys.map(k => cmpxchg(k)).filter(v => v).map(v => ({ N: v.N, Count: 1 })))",
            ],
            in_script,
        ),
        definition(
            &["map('D', d => cmpxchg(d.Keys).filter(v => v).map(v => ({ N: v.N, Count: 1 })))"],
            in_script,
        ),
    ]
}

#[test]
fn histories_with_power_cuts_come_to_the_results_of_a_computation_from_scratch() {
    let kinds = kinds();
    for seed in 1..=HISTORIES {
        let mut random = Random::new(seed);
        let kind = &kinds[(seed % kinds.len() as u64) as usize];
        let simulation: Simulation = Platform::simulated(seed);
        let mut world = World::new();
        for _ in 0..CUTS {
            (0..15).for_each(|_| world.change(&mut random));
            cut_power_soon(&simulation, &mut random, OPERATIONS_MAX);
            if let Some(index) = world.open(&simulation.platform, kind) {
                while world.documents.follow(&index) && !simulation.disk.is_power_lost() {
                    world.change(&mut random);
                }
                index.close();
            }
            simulation.disk.restart().unwrap();
        }
        let resumed = world.open(&simulation.platform, kind).unwrap();
        for _ in 0..10 {
            assert!(world.documents.follow(&resumed), "seed {seed}: {:?}", resumed.failure());
            assert_eq!(sorted_results_of(&resumed), world.expected(), "seed {seed}");
            world.forget_what_was_seen(&resumed);
            (0..5).for_each(|_| world.change(&mut random));
        }
        assert!(world.documents.follow(&resumed));
        let scratch = world.open(&Platform::memory(), kind).unwrap();
        assert!(world.documents.follow(&scratch));
        assert_eq!(sorted_results_of(&scratch), world.expected(), "seed {seed}, from scratch");
        assert_eq!(sorted_results_of(&resumed), world.expected(), "seed {seed}");
    }
}
