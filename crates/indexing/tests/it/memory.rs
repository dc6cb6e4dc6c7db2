//! Indexes with little memory reach the same results, in smaller batches.
#![expect(clippy::unwrap_used, reason = "a story whose stage cannot be set should stop")]

use std::{
    ops::Range,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use indexing::{BatchEnd, Index, IndexContext, IndexKind, IndexingPool};
use model::IndexState;
use platform::{Platform, simulated::SimulatedMemory};
use storage::{EnvironmentOptions, MemoryBudget};

use crate::fixture::Documents;
use crate::results::{definition, sorted_results_of};

const DOCUMENTS: u64 = 1_500;
const TAGS: u64 = 20;
const DISTINCT: u64 = 700;
const MB: u64 = 1 << 20;
/// How long a thread that rests may take to give memory back, or an index to go on.
const PATIENCE: Duration = Duration::from_secs(30);

fn fan_out() -> IndexKind {
    definition(
        &["from p in docs.Posts from t in p.Tags select new { Tag = t, Count = 1, Sum = p.N }"],
        "from r in results group r by r.Tag into g select new { Tag = g.Key, \
         Count = g.Sum(x => x.Count), Sum = g.Sum(x => x.Sum) }",
    )
}

fn put_posts(documents: &Documents, factor: u64) {
    put_some_posts(documents, 0..DOCUMENTS, factor);
}

fn put_some_posts(documents: &Documents, numbers: Range<u64>, factor: u64) {
    for number in numbers {
        let tags = (0..TAGS).map(|tag| (number * factor + tag * tag * 31) % DISTINCT);
        let tags: Vec<_> = tags.map(|tag| format!("\"tag{tag}\"")).collect();
        let tags = tags.join(",");
        let json =
            format!(r#"{{"N":{number},"Tags":[{tags}],"@metadata":{{"@collection":"Posts"}}}}"#);
        documents.put(&format!("posts/{number}"), &json);
    }
}

fn open_within(documents: &Documents, budget: &Arc<MemoryBudget>) -> Index {
    open_kind_within(fan_out(), documents, budget)
}

fn open_kind_within(kind: IndexKind, documents: &Documents, budget: &Arc<MemoryBudget>) -> Index {
    let platform = Platform::memory();
    let plain = documents.context(&platform);
    let environment =
        EnvironmentOptions { transaction_budget: Arc::clone(budget), ..plain.environment.clone() };
    let pool = IndexingPool::within(Arc::clone(budget), &documents.platform, 2);
    Index::open("I", kind, IndexContext { environment, pool, ..plain }).unwrap()
}

#[test]
fn a_reduce_over_a_fan_out_keeps_within_its_memory_and_is_right() {
    let documents = Documents::new();
    let plain = documents.open(&Platform::memory(), &fan_out()).unwrap();
    let budget = MemoryBudget::new(4 * MB);
    let bounded = open_within(&documents, &budget);
    for factor in [7, 11] {
        put_posts(&documents, factor);
        assert!(documents.follow(&plain));
        assert!(documents.follow(&bounded), "{:?}", bounded.failure());
        assert_eq!(sorted_results_of(&bounded), sorted_results_of(&plain));
    }
    // Each document touches 20 keys in as many pages; there is no room for those of a batch at once.
    let sizes: Vec<_> = bounded.batches().iter().map(|batch| (batch.mapped, batch.end)).collect();
    assert!(sizes.iter().any(|(mapped, _)| 200 <= *mapped), "{sizes:?}");
    (0..DOCUMENTS).for_each(|number| documents.delete(&format!("posts/{number}")));
    assert!(documents.follow(&plain));
    assert!(documents.follow(&bounded), "{:?}", bounded.failure());
    assert_eq!(sorted_results_of(&bounded), [""; 0]);
    let ends: Vec<_> = bounded.batches().iter().map(|batch| batch.end).collect();
    assert!(ends.iter().any(|end| matches!(end, BatchEnd::Changes | BatchEnd::Memory)), "{ends:?}");
    bounded.close();
    assert_eq!(budget.held_bytes(), 0, "everything was given back");
}

#[test]
fn a_reduce_that_followed_a_few_changes_takes_many_at_once_again() {
    let documents = Documents::new();
    let budget = MemoryBudget::new(4 * MB);
    let index = open_within(&documents, &budget);
    put_posts(&documents, 7);
    assert!(documents.follow(&index), "{:?}", index.failure());
    for few in [3, 5, 20] {
        // They have room in one transaction, of which they take nearly all.
        put_some_posts(&documents, 0..few, few);
        assert!(documents.follow(&index), "{:?}", index.failure());
        let batches_before = index.batch_totals().batches;
        put_some_posts(&documents, few..300, few);
        assert!(documents.follow(&index), "{:?}", index.failure());
        let batches = index.batch_totals().batches - batches_before;
        assert!(batches <= 8, "{few} documents, then {batches} batches");
    }
}

#[test]
fn an_index_goes_on_while_others_hold_all_the_memory() {
    let documents = Documents::new();
    let budget = MemoryBudget::new(2 * MB);
    let mut others = budget.share(0);
    others.try_grow_to(2 * MB).unwrap();
    let index = open_within(&documents, &budget);
    for number in 0..20 {
        let json =
            format!(r#"{{"N":{number},"Tags":["a","b"],"@metadata":{{"@collection":"Posts"}}}}"#);
        documents.put(&format!("posts/{number}"), &json);
    }
    assert!(documents.follow(&index), "{:?}", index.failure());
    assert_eq!(sorted_results_of(&index).len(), 2);
}

#[test]
fn an_index_that_finds_no_memory_for_a_moment_has_not_failed() {
    let documents = Documents::new();
    let budget = MemoryBudget::new(8 * MB);
    let mut others = budget.share(0);
    others.try_grow_to(8 * MB).unwrap();
    let index = open_within(&documents, &budget);
    // More keys, and so pages, than are always allowed.
    let tags: Vec<_> = (0..2_000).map(|tag| format!("\"tag{tag}\"")).collect();
    let tags = tags.join(",");
    let json = format!(r#"{{"N":1,"Tags":[{tags}],"@metadata":{{"@collection":"Posts"}}}}"#);
    documents.put("posts/1", &json);
    let (sender, receiver) = mpsc::channel();
    let last = index.last_position_in(&documents.environment.read()).unwrap();
    index.notice_changes();
    index.when_indexed(last, Box::new(move |reached| sender.send(reached).unwrap_or(())));
    // Longer than it rests, so that it has tried more than once.
    let outcome = receiver.recv_timeout(Duration::from_millis(1_500));
    assert_eq!(outcome, Err(RecvTimeoutError::Timeout), "{:?}", index.failure());
    assert_eq!(index.state(), IndexState::Normal);
    drop(others);
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(true), "{:?}", index.failure());
    assert_eq!(sorted_results_of(&index).len(), 2_000);
}

/// What the maps return for one document is counted while they run: a document with too much of it has an
/// error that names it, and the others go on.
#[test]
fn a_document_with_more_results_than_fit_has_an_error_and_the_others_go_on() {
    let linq = "from p in docs.Posts from a in Enumerable.Range(0, p.N) select new { Tag = p.N, Count = 1, Sum = a }";
    let linq_reduce = "from r in results group r by r.Tag into g select new { Tag = g.Key, \
                       Count = g.Sum(x => x.Count), Sum = g.Sum(x => x.Sum) }";
    let script = "map('Posts', p => Array.from({ length: Math.min(p.N, 9000) }, \
                  (x, i) => ({ Tag: p.N, Count: 1, Sum: i, Text: 'x'.repeat(1000) })))";
    let script_reduce =
        "groupBy(x => x.Tag).aggregate(g => ({ Tag: g.key, Count: g.values.length, Sum: 1 }))";
    let without_reduce = |map: &str| match definition(&[map], "") {
        IndexKind::Static(definition) => {
            IndexKind::Static(Box::new(model::IndexDefinition { reduce: None, ..*definition }))
        }
        kind => kind,
    };
    let kinds = [
        without_reduce(linq),
        definition(&[linq], linq_reduce),
        without_reduce(script),
        definition(&[script], script_reduce),
    ];
    for kind in kinds {
        let documents = Documents::new();
        let budget = MemoryBudget::new(8 * MB);
        for (number, results) in [3, 1_000_000, 5, 900_000, 7].into_iter().enumerate() {
            let json = format!(r#"{{"N":{results},"@metadata":{{"@collection":"Posts"}}}}"#);
            documents.put(&format!("posts/{number}"), &json);
        }
        let index = open_kind_within(kind.clone(), &documents, &budget);
        assert!(documents.follow(&index), "{kind:?} {:?}", index.failure());
        let mut errors: Vec<_> = index.errors().unwrap().into_iter().map(|e| e.document).collect();
        errors.sort();
        assert_eq!(errors, ["posts/1", "posts/3"], "{kind:?}");
        index.close();
        assert_eq!(budget.held_bytes(), 0, "everything was given back");
    }
}

#[test]
fn memory_is_given_back_after_much_was_written_and_by_threads_that_rest() {
    let documents = Documents::new();
    put_posts(&documents, 7);
    let (of_index, of_pool) = (Platform::simulated(1).memory, Platform::simulated(2).memory);
    let with_memory = |memory: &Arc<SimulatedMemory>| Platform {
        memory: Arc::clone(memory) as _,
        ..Platform::memory()
    };
    let budget = MemoryBudget::new(4 * MB);
    let plain = documents.context(&with_memory(&of_index));
    let environment =
        EnvironmentOptions { transaction_budget: Arc::clone(&budget), ..plain.environment.clone() };
    let pool = IndexingPool::within(Arc::clone(&budget), &with_memory(&of_pool), 2);
    let context = IndexContext { environment, pool, ..plain };
    let index = Index::open("I", fan_out(), context).unwrap();
    assert!(documents.follow(&index), "{:?}", index.failure());
    assert!(of_index.was_released(1, PATIENCE), "after batches that took half of the memory");
    assert!(of_pool.was_released(1, PATIENCE), "by a thread without work");
}
