//! Whatever happens to documents, disks and processes: results are what a computation from scratch returns.
//!
//! `REDUCE_HISTORIES=5000 cargo test -p indexing --release --test it histories` runs more of them.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::collections::BTreeMap;

use indexing::{
    Aggregate, ArrayGroups, AutoFieldWays, AutoGrouping, AutoIndexDefinition, GroupKey, Index,
    IndexKind, IndexingPool,
};
use platform::simulated::Random;
use platform::{Platform, simulated::Simulation};
use storage::MemoryBudget;

use crate::fixture::{Documents, cut_power_soon};
use crate::results::{definition, kept_by, sorted_results_of};

const HISTORIES: u64 = 120;
/// Power cuts of one history.
const CUTS: u64 = 4;
const DOCUMENTS: u64 = 12;
const KEYS: u64 = 4;
/// Rows of one document, at most: two levels of nodes come of a few documents.
const LINES_MAX: u64 = 160;
/// Of an index that has little: a transaction has room for a few pages.
const MEMORY_BYTES: u64 = 64 << 10;
/// Operations of the disk after which the power goes, at most.
const OPERATIONS_MAX: u64 = 60;

/// What an index should say: the rows of each document, keys and numbers.
type Model = BTreeMap<String, Vec<(u64, i64)>>;

/// The result that an index should have for the numbers of a key.
type Show = fn(&[i64], u64) -> String;

/// The kinds of indexes, all of which say the same in other words.
fn kinds() -> Vec<(IndexKind, Show)> {
    let in_linq = definition(
        &["from d in docs.D from l in d.L select new { K = l.K, Count = 1, N = l.N, Max = l.N }"],
        "from r in results group r by r.K into g select new { K = g.Key, \
         Count = g.Sum(x => x.Count), N = g.Sum(x => x.N), Max = g.Max(x => x.Max) }",
    );
    let in_script = definition(
        &["map('D', d => d.L.map(l => ({ K: l.K, Count: 1, N: l.N, Max: l.N })))"],
        "groupBy(r => r.K).aggregate(g => ({ K: g.key, \
         Count: g.values.reduce((a, v) => a + v.Count, 0), \
         N: g.values.reduce((a, v) => a + v.N, 0), Max: Math.max(...g.values.map(v => v.Max)) }))",
    );
    let path = "L[].K".to_owned();
    let (arrays, ways) = (ArrayGroups::Elements, AutoFieldWays::default());
    let key = GroupKey { path, is_quoted: false, arrays, ways };
    let grouping = AutoGrouping::new([key], [Aggregate::Count, Aggregate::Sum("L[].N".to_owned())]);
    let automatic = IndexKind::Auto(AutoIndexDefinition::grouped("D", grouping));
    let written = |numbers: &[i64], key: u64| {
        let (sum, max) = (numbers.iter().sum::<i64>(), numbers.iter().max().unwrap());
        format!(r#"{{"K":"k{key}","Count":{},"N":{sum},"Max":{max}}}"#, numbers.len())
    };
    let of_group = |numbers: &[i64], key: u64| {
        let (count, sum) = (numbers.len(), numbers.iter().sum::<i64>());
        format!(r#"{{"L[].K":"k{key}","Count":{count},"L[].N":{sum}}}"#)
    };
    vec![(in_linq, written), (automatic, of_group), (in_script, written)]
}

/// Changes one document, and the model with it.
fn change(documents: &Documents, model: &mut Model, random: &mut Random) {
    let mut below = |limit: u64| random.next_u64() % limit;
    let id = format!("d/{}", below(DOCUMENTS));
    if below(5) == 0 {
        documents.delete(&id);
        model.remove(&id);
        return;
    }
    // Most documents have few rows; some make keys grow and shrink by levels.
    let lines = match below(6) {
        0 => below(LINES_MAX),
        1 => 0,
        _ => below(4),
    };
    let own = below(KEYS);
    let mut rows: Vec<(u64, i64)> = Vec::new();
    for number in 0..lines {
        let key = if below(3) == 0 { below(KEYS) } else { own };
        rows.push((key, (below(2000) as i64) - 1000 + number as i64));
    }
    let json: Vec<_> = rows.iter().map(|(key, n)| format!(r#"{{"K":"k{key}","N":{n}}}"#)).collect();
    let json = format!(r#"{{"L":[{}],"@metadata":{{"@collection":"D"}}}}"#, json.join(","));
    documents.put(&id, &json);
    model.insert(id, rows);
}

/// Every other index has so little memory that a batch takes several transactions.
fn open(documents: &Documents, platform: &Platform, kind: &IndexKind, seed: u64) -> Option<Index> {
    let mut context = documents.context(platform);
    if seed.is_multiple_of(2) {
        let budget = MemoryBudget::new(MEMORY_BYTES);
        context.pool = IndexingPool::within(budget, &documents.platform, 1);
    }
    let index = Index::open("I", kind.clone(), context).ok()?;
    // After two power cuts in a first batch it starts paused, since memory might have been the reason.
    index.resume();
    Some(index)
}

fn expected_of(model: &Model, show: Show) -> Vec<String> {
    let mut groups: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
    for (key, n) in model.values().flatten() {
        groups.entry(*key).or_default().push(*n);
    }
    let mut expected: Vec<_> = groups.iter().map(|(key, numbers)| show(numbers, *key)).collect();
    expected.sort();
    expected
}

fn histories() -> u64 {
    std::env::var("REDUCE_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(HISTORIES)
}

#[test]
fn histories_with_power_cuts_come_to_the_results_of_a_computation_from_scratch() {
    let kinds = kinds();
    for seed in 1..=histories() {
        let mut random = Random::new(seed);
        let (kind, show) = &kinds[(seed % kinds.len() as u64) as usize];
        let simulation: Simulation = Platform::simulated(seed);
        let (documents, mut model) = (Documents::new(), Model::new());
        for _ in 0..CUTS {
            (0..10).for_each(|_| change(&documents, &mut model, &mut random));
            cut_power_soon(&simulation, &mut random, OPERATIONS_MAX);
            if let Some(index) = open(&documents, &simulation.platform, kind, seed) {
                while documents.follow(&index) && !simulation.disk.is_power_lost() {
                    change(&documents, &mut model, &mut random);
                }
                index.close();
            }
            simulation.disk.restart().unwrap();
        }
        let resumed = open(&documents, &simulation.platform, kind, seed).unwrap();
        assert!(documents.follow(&resumed), "seed {seed}: {:?}", resumed.failure());
        let expected = expected_of(&model, *show);
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
}
