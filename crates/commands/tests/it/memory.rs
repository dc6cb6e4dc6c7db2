//! Batches whose changes find no room in the memory of transactions.

use std::{sync::Arc, thread, time::Duration};

use commands::{CommandError, CommitQueue, CommitQueueOptions, PatchCommand, PatchRequest};
use documents::{ClusterDocument, ClusterDocuments, DocumentError, ErrorKind};
use model::{DatabaseId, DocumentId};
use platform::{Platform, simulated::Random};
use storage::{Environment, EnvironmentOptions, MemoryBudget, StorageError};
use testkit::{
    database::{batch, execute, json, open_with, options, parsed, put},
    histories::noise,
};

use crate::queue::{Answer, ids, one, submit, threads};

const MB: u64 = 1 << 20;
/// How long something that does not happen is waited for.
const MOMENT: Duration = Duration::from_millis(50);
/// How long idle threads may take to return memory.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(
    platform: &Platform,
    bytes_max: u64,
    options_of_queue: CommitQueueOptions,
) -> (Arc<Environment>, Arc<MemoryBudget>, CommitQueue) {
    let budget = MemoryBudget::new(bytes_max);
    let transaction_budget = Arc::clone(&budget);
    let environment =
        open_with(platform, EnvironmentOptions { transaction_budget, ..options() }).unwrap();
    let threads = threads(platform);
    let queue = CommitQueue::open(environment.clone(), platform, options_of_queue, &threads);
    (environment, budget, queue)
}

/// A batch that changes about `bytes` bytes of pages.
fn large(name: &str, bytes: u64) -> commands::Batch {
    let body = json("Users", &noise(&mut Random::new(1), 6000));
    let puts = (0..bytes / 8192).map(|number| put(&format!("{name}/{number}"), &body));
    batch(puts.collect::<Vec<_>>())
}

/// Whether a batch was refused for memory that others hold: it may succeed later.
fn is_short_of_memory(answer: &Answer) -> bool {
    refusal_for_memory(answer) == Some(ErrorKind::Environment)
}

/// Whether a batch was refused for more memory than all transactions together may have.
fn is_too_large(answer: &Answer) -> bool {
    refusal_for_memory(answer) == Some(ErrorKind::Caller)
}

fn refusal_for_memory(answer: &Answer) -> Option<ErrorKind> {
    match answer {
        Err(error @ CommandError::Document(DocumentError::Storage(StorageError::NoMemory(_)))) => {
            Some(error.kind())
        }
        Ok(_) | Err(_) => None,
    }
}

fn patch(id: &str, script: &str) -> commands::Batch {
    let script = PatchRequest::new(script.to_owned(), None);
    let patch = PatchCommand::new(DocumentId::new(id).unwrap(), script);
    commands::Batch::one(commands::Command::Patch(Box::new(patch)))
}

#[test]
fn a_batch_for_which_there_is_no_memory_fails_alone_and_leaves_nothing() {
    let platform = Platform::simulated(1).platform;
    let (environment, budget, queue) = start(&platform, 4 * MB, CommitQueueOptions::default());
    let writer = environment.write().unwrap();
    let before = submit(&queue, one("a"));
    let refused = submit(&queue, large("large", 8 * MB));
    let after = submit(&queue, one("b"));
    drop(writer);
    assert!(before.recv().unwrap().is_ok());
    assert!(is_too_large(&refused.recv().unwrap()));
    assert!(after.recv().unwrap().is_ok());
    assert_eq!(ids(&environment), ["a", "b"]);
    queue.submit_and_wait(large("fits", 2 * MB)).unwrap().unwrap();
    drop(queue);
    assert_eq!(budget.held_bytes(), 0, "everything was released");
}

#[test]
fn a_batch_without_memory_alongside_others_is_executed_in_the_next_transaction() {
    let platform = Platform::simulated(1).platform;
    let (environment, _, queue) = start(&platform, 5 * MB, CommitQueueOptions::default());
    let writer = environment.write().unwrap();
    let answers: Vec<_> =
        ["a", "b", "c"].iter().map(|name| submit(&queue, large(name, 3 * MB))).collect();
    drop(writer);
    for answer in answers {
        answer.recv().unwrap().unwrap();
    }
    assert_eq!(queue.statistics().transactions, 3);
}

#[test]
fn a_small_batch_succeeds_while_others_use_all_memory() {
    let platform = Platform::simulated(1).platform;
    let (environment, budget, queue) = start(&platform, 4 * MB, CommitQueueOptions::default());
    let mut others = budget.share(0);
    others.try_grow_to(4 * MB).unwrap();
    queue.submit_and_wait(one("a")).unwrap().unwrap();
    assert!(is_short_of_memory(&queue.submit_and_wait(large("large", 3 * MB)).unwrap()));
    drop(others);
    queue.submit_and_wait(large("large", 3 * MB)).unwrap().unwrap();
    drop(environment);
}

/// A sealed transaction, whose changes cannot be flushed, takes all memory for unflushed changes. It waits for its turn
/// at the journal.
#[test]
fn a_batch_for_which_unflushed_changes_leave_no_room_waits_for_those_at_the_journal() {
    let platform = Platform::simulated(1).platform;
    let limited = EnvironmentOptions { unflushed_bytes_max: MB / 2, ..options() };
    let environment = open_with(&platform, limited).unwrap();
    let threads = threads(&platform);
    let queue =
        CommitQueue::open(environment.clone(), &platform, CommitQueueOptions::default(), &threads);
    let mut tx = environment.write().unwrap();
    execute(&mut tx, &platform, &one("before")).unwrap();
    let before = tx.seal().unwrap();
    let first = submit(&queue, large("large", 2 * MB));
    while environment.statistics().unflushed_bytes <= MB {
        thread::yield_now();
    }
    let second = submit(&queue, one("second"));
    assert!(second.recv_timeout(MOMENT).is_err(), "it is neither executed nor refused");
    before.make_durable().unwrap();
    first.recv().unwrap().unwrap();
    second.recv().unwrap().unwrap();
    assert!(ids(&environment).iter().any(|id| id == "second"));
}

#[test]
fn no_document_exceeds_the_size_limit_however_it_is_created() {
    let platform = Platform::simulated(1).platform;
    let limited =
        CommitQueueOptions { document_bytes_max: 100_000, ..CommitQueueOptions::default() };
    let (_environment, _, queue) = start(&platform, u64::MAX, limited);
    queue.submit_and_wait(one("a")).unwrap().unwrap();
    let text = "const s = 'x'.repeat(10000); ";
    let makers = [
        patch("a", &format!("{text} this.Many = new Array(20).fill(s);")),
        patch("a", &format!("{text} put('b', {{ Many: new Array(20).fill(s) }});")),
        batch([put("c", &json("Users", &"x".repeat(200_000)))]),
    ];
    for made in makers {
        let refused = queue.submit_and_wait(made).unwrap();
        assert!(
            matches!(
                refused,
                Err(CommandError::Document(DocumentError::TooLong { bytes_max: 100_000 }))
            ),
            "{refused:?}"
        );
    }
    queue.submit_and_wait(patch("a", "this.Many = 'x'.repeat(50000)")).unwrap().unwrap();
}

#[test]
fn the_result_of_a_script_is_counted_while_it_is_built() {
    let platform = Platform::simulated(1).platform;
    let (_environment, budget, queue) = start(&platform, 4 * MB, CommitQueueOptions::default());
    queue.submit_and_wait(one("a")).unwrap().unwrap();
    let grows = "const s = 'x'.repeat(100000); this.Many = new Array(100).fill(s);";
    assert!(is_too_large(&queue.submit_and_wait(patch("a", grows)).unwrap()));
    // Packed it is small, and the transaction has room for it.
    let fits = "const s = 'x'.repeat(100000); this.Many = new Array(20).fill(s);";
    queue.submit_and_wait(patch("a", fits)).unwrap().unwrap();
    drop(queue);
    assert_eq!(budget.held_bytes(), 0);
}

/// A cluster-wide transaction that changes about `bytes` bytes of pages.
fn of_the_cluster(bytes: u64, is_dry_run: bool) -> commands::Batch {
    let body = parsed(&json("Users", &noise(&mut Random::new(1), 6000)));
    let change = |number: u64| ClusterDocument {
        id: DocumentId::new(format!("users/{number}")).unwrap(),
        change_vector: format!("RAFT:{number}-AAAAAAAAAAAAAAAAAAAAAA").parse().unwrap(),
        replaces: None,
        body: Some(body.clone()),
    };
    commands::Batch::one(commands::Command::ClusterDocuments(ClusterDocuments {
        group: DatabaseId([1; 16]),
        index: if is_dry_run { u64::MAX } else { 7 },
        after: None,
        read_at: None,
        ticks: 1,
        changes: (1..=bytes / 8192).map(change).collect(),
        is_dry_run,
    }))
}

#[test]
fn what_the_cluster_has_agreed_on_is_done_whatever_memory_it_takes() {
    let platform = Platform::simulated(1).platform;
    let (environment, budget, queue) = start(&platform, 4 * MB, CommitQueueOptions::default());
    let dry_run = queue.submit_and_wait(of_the_cluster(8 * MB, true)).unwrap();
    assert!(is_too_large(&dry_run), "before it is agreed on it is refused");
    queue.submit_and_wait(of_the_cluster(2 * MB, true)).unwrap().unwrap();
    assert!(ids(&environment).is_empty(), "dry runs leave nothing");
    queue.submit_and_wait(of_the_cluster(8 * MB, false)).unwrap().unwrap();
    assert_eq!(ids(&environment).len() as u64, 8 * MB / 8192);
    assert!(is_too_large(&queue.submit_and_wait(large("large", 8 * MB)).unwrap()));
    drop(queue);
    assert_eq!(budget.held_bytes(), 0);
}

#[test]
fn idle_threads_return_memory_after_a_burst() {
    let simulation = Platform::simulated(1);
    let (_environment, _, queue) =
        start(&simulation.platform, 16 * MB, CommitQueueOptions::default());
    queue.submit_and_wait(large("burst", 2 * MB)).unwrap().unwrap();
    // In two of its pauses.
    assert!(simulation.memory.was_released(2, PATIENCE));
    drop(queue);
}

#[test]
fn what_a_patch_returns_is_counted_until_it_is_answered() {
    let platform = Platform::simulated(1).platform;
    let (_environment, budget, queue) = start(&platform, 16 * MB, CommitQueueOptions::default());
    queue.submit_and_wait(one("a")).unwrap().unwrap();
    let text = "const s = noise(); ";
    let noise = "function noise() { let s = ''; for (let i = 0; i < 300; i++) s += Math.random(); return s.repeat(200); }";
    let script = format!("{noise} {text} this.Text = s; output(s);");
    let tried = || {
        let script = PatchRequest::new(script.clone(), None);
        let patch = PatchCommand {
            is_test: true,
            wants_notes: true,
            wants_document: true,
            ..PatchCommand::new(DocumentId::new("a").unwrap(), script)
        };
        let batch = commands::Batch::one(commands::Command::Patch(Box::new(patch)));
        queue.submit_and_wait(batch).unwrap()
    };
    let mut kept = Vec::new();
    let refused = loop {
        match tried() {
            Ok(outcome) => {
                assert!(MB < outcome.held.bytes(), "{}", outcome.held.bytes());
                kept.push(outcome);
            }
            Err(error) => break Err(error),
        }
        assert!(kept.len() < 16, "as many as take everything");
    };
    assert!(is_short_of_memory(&refused));
    kept.clear();
    kept.push(tried().unwrap());
    drop((queue, kept));
    assert_eq!(budget.held_bytes(), 0);
}
