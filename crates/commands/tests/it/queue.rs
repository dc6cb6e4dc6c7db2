//! The commit queue when everything goes well: merging, order, bounds, many callers, closing.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use commands::{
    Batch, BatchOutcome, Command, CommandError, CommandResult, CommitQueue, CommitQueueOptions,
    CommitThreads, Reply, SubmitError, ThreadLimits,
};
use documents::{DocumentError, ExpectedVersion, NewContent, PutAttachment};
use model::{AttachmentName, DocumentId};
use platform::Platform;
use storage::Environment;
use testkit::database::{batch, content, delete, json, open, put, put_expecting};

pub(crate) type Answer = Result<BatchOutcome, CommandError>;

pub(crate) fn start(platform: &Platform) -> (Arc<Environment>, CommitQueue) {
    start_with(platform, CommitQueueOptions::default())
}

pub(crate) fn start_with(
    platform: &Platform,
    options: CommitQueueOptions,
) -> (Arc<Environment>, CommitQueue) {
    let environment = open(platform).unwrap();
    let queue = CommitQueue::open(environment.clone(), platform, options, &threads(platform));
    (environment, queue)
}

/// Submits without waiting; the result arrives through the receiver.
pub(crate) fn submit(queue: &CommitQueue, batch: Batch) -> mpsc::Receiver<Answer> {
    let (sender, receiver) = mpsc::channel();
    queue.submit(batch, answer_to(sender)).unwrap();
    receiver
}

fn answer_to(sender: mpsc::Sender<Answer>) -> Reply {
    Box::new(move |answer| sender.send(answer).unwrap())
}

/// As many threads as a queue can use.
pub(crate) fn threads(platform: &Platform) -> Arc<CommitThreads> {
    CommitThreads::start(ThreadLimits { unhurried: 2, max: 2, scripts: 2 }, platform).unwrap()
}

pub(crate) fn one(id: &str) -> Batch {
    batch([put(id, &json("Users", id))])
}

pub(crate) fn ids(environment: &Arc<Environment>) -> Vec<String> {
    content(environment).log.into_iter().map(|(_, id, _)| id).collect()
}

#[test]
fn an_answered_batch_can_be_read() {
    let (environment, queue) = start(&Platform::simulated(1).platform);
    for number in 0..20 {
        let id = format!("u/{number}");
        let outcome = queue.submit_and_wait(one(&id)).unwrap().unwrap();
        let CommandResult::Put(stored) = &outcome.results[0] else { panic!("another result") };
        let tx = environment.read();
        let row = documents::get(&tx, &DocumentId::new(id).unwrap()).unwrap().unwrap();
        assert_eq!(row.etag(), stored.etag);
        assert_eq!(documents::progress(&tx).unwrap().last_etag, outcome.last_etag);
    }
    let statistics = queue.statistics();
    assert_eq!((statistics.batches, statistics.transactions, statistics.length), (20, 20, 0));
}

#[test]
fn what_waits_is_merged_into_one_transaction_in_order() {
    let (environment, queue) = start(&Platform::simulated(1).platform);
    let writer = environment.write().unwrap();
    let answers: Vec<_> =
        (0..10).map(|number| submit(&queue, one(&format!("u/{number}")))).collect();
    drop(writer);
    let etags: Vec<_> =
        answers.iter().map(|answer| answer.recv().unwrap().unwrap().last_etag.0).collect();
    assert_eq!(etags, (1..=10).collect::<Vec<_>>());
    assert_eq!(queue.statistics().transactions, 1);
}

#[test]
fn a_failing_batch_in_the_middle_fails_alone() {
    let (environment, queue) = start(&Platform::simulated(1).platform);
    let writer = environment.write().unwrap();
    let before = submit(&queue, one("a"));
    let users = json("Users", "x");
    let failing = submit(&queue, batch([put("b", &users), put_expecting("a", Some(""), &users)]));
    let after = submit(&queue, batch([put("c", &users), delete("a", None)]));
    drop(writer);
    assert!(before.recv().unwrap().is_ok());
    let error = failing.recv().unwrap().unwrap_err();
    assert!(matches!(error, CommandError::Document(DocumentError::Concurrency { .. })), "{error}");
    assert!(after.recv().unwrap().is_ok());
    assert_eq!(ids(&environment), ["c", "a"], "the second is a tombstone");
    let statistics = queue.statistics();
    assert_eq!((statistics.transactions, statistics.batches_failed), (1, 1));
}

#[test]
fn a_full_queue_refuses_and_recovers() {
    const LENGTH_MAX: usize = 4;
    let options = CommitQueueOptions { length_max: LENGTH_MAX, ..CommitQueueOptions::default() };
    let (environment, queue) = start_with(&Platform::simulated(1).platform, options);
    let writer = environment.write().unwrap();
    let (sender, receiver) = mpsc::channel();
    let mut accepted = 0;
    let refusal = loop {
        match queue.submit(one(&format!("u/{accepted}")), answer_to(sender.clone())) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refusal, SubmitError::Full);
    // One more than the bound when the writer has already taken one.
    assert!((LENGTH_MAX..=LENGTH_MAX + 1).contains(&accepted), "{accepted}");
    drop(writer);
    for _ in 0..accepted {
        receiver.recv().unwrap().unwrap();
    }
    queue.submit_and_wait(one("later")).unwrap().unwrap();
    assert_eq!(ids(&environment).len(), accepted + 1);
    assert_eq!(queue.statistics().batches_refused, 1);
}

#[test]
fn bytes_are_bounded_but_one_large_batch_goes_through() {
    let options = CommitQueueOptions { bytes_max: 100, ..CommitQueueOptions::default() };
    let (environment, queue) = start_with(&Platform::simulated(1).platform, options);
    let large = || batch([put("large", &json("Users", &"x".repeat(5000)))]);
    queue.submit_and_wait(large()).unwrap().unwrap();
    let writer = environment.write().unwrap();
    let (sender, receiver) = mpsc::channel();
    let accepted =
        (0..3).filter(|_| queue.submit(large(), answer_to(sender.clone())).is_ok()).count();
    assert!((1..=2).contains(&accepted), "{accepted}");
    drop(writer);
    assert!((0..accepted).all(|_| receiver.recv().unwrap().is_ok()));
}

#[test]
fn a_transaction_takes_no_more_than_it_may() {
    let options =
        CommitQueueOptions { transaction_batches_max: 3, ..CommitQueueOptions::default() };
    let (environment, queue) = start_with(&Platform::simulated(1).platform, options);
    let writer = environment.write().unwrap();
    let answers: Vec<_> =
        (0..9).map(|number| submit(&queue, one(&format!("u/{number}")))).collect();
    drop(writer);
    assert!(answers.iter().all(|answer| answer.recv().unwrap().is_ok()));
    assert_eq!(queue.statistics().transactions, 3);
}

#[test]
fn closing_finishes_what_waits() {
    let simulation = Platform::simulated(1);
    let (environment, queue) = start(&simulation.platform);
    let writer = environment.write().unwrap();
    let answers: Vec<_> =
        (0..50).map(|number| submit(&queue, one(&format!("u/{number}")))).collect();
    drop(writer);
    queue.close();
    assert!(answers.iter().all(|answer| answer.try_recv().unwrap().is_ok()));
    assert_eq!(queue.submit_and_wait(one("late")).unwrap_err(), SubmitError::Closed);
    queue.close();
    drop((queue, environment));
    assert_eq!(ids(&open(&simulation.platform).unwrap()).len(), 50);
}

#[test]
fn a_caller_that_panics_harms_no_other() {
    let (environment, queue) = start(&Platform::simulated(1).platform);
    let reply: Reply = Box::new(|_| panic!("a caller panics on purpose"));
    queue.submit(one("a"), reply).unwrap();
    queue.submit_and_wait(one("b")).unwrap().unwrap();
    assert_eq!(ids(&environment), ["a", "b"]);
}

#[test]
fn many_callers_are_all_answered_and_all_remembered() {
    const CALLERS: usize = 16;
    const BATCHES: usize = 200;
    let platform = Platform::memory();
    let (environment, queue) = start(&platform);
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let queue = &queue;
            scope.spawn(move || {
                for number in 0..BATCHES {
                    let own = format!("c{caller}/{number}");
                    let shared = format!("shared/{}", number % 7);
                    let body = json("Users", &own);
                    let commands = [put(&own, &body), put(&shared, &body)];
                    let outcome = queue.submit_and_wait(batch(commands)).unwrap().unwrap();
                    assert_eq!(outcome.results.len(), 2);
                }
            });
        }
    });
    let statistics = queue.statistics();
    assert_eq!(statistics.batches, (CALLERS * BATCHES) as u64);
    assert!(statistics.transactions <= statistics.batches);
    drop((queue, environment));
    let environment = open(&platform).unwrap();
    let content = content(&environment);
    assert_eq!(content.last_etag, (2 * CALLERS * BATCHES) as u64);
    assert_eq!(content.collections, [("Users".to_owned(), (CALLERS * BATCHES + 7) as u64, 0)]);
}

#[test]
fn unused_staged_contents_are_discarded_when_the_queue_starts() {
    let simulation = Platform::simulated(8);
    let (environment, queue) = start(&simulation.platform);
    for index in 0..2 {
        let bytes = Arc::new(vec![index; 5000]);
        let stage = Command::StageContent { number: None, index: 0, bytes };
        queue.submit_and_wait(Batch::one(stage)).unwrap().unwrap();
    }
    let is_left =
        |environment: &Environment| documents::has_leftover_contents(&environment.read()).unwrap();
    assert!(is_left(&environment));
    queue.close();
    drop(queue);
    let platform = &simulation.platform;
    let options = CommitQueueOptions::default();
    let queue = CommitQueue::open(environment.clone(), platform, options, &threads(platform));
    // The internal batches of the queue come before the first batch.
    queue.submit_and_wait(one("a")).unwrap().unwrap();
    assert!(!is_left(&environment));
}

#[test]
fn a_large_content_is_removed_after_the_batch_that_dropped_it() {
    let simulation = Platform::simulated(9);
    let (environment, queue) = start(&simulation.platform);
    queue.submit_and_wait(one("a")).unwrap().unwrap();
    let (mut number, mut hasher) = (None, documents::ContentHasher::default());
    let chunk = Arc::new(vec![7; documents::CONTENT_CHUNK_BYTES]);
    for index in 0..20 {
        hasher.update(&chunk);
        let stage = Command::StageContent { number, index, bytes: Arc::clone(&chunk) };
        let outcome = queue.submit_and_wait(Batch::one(stage)).unwrap().unwrap();
        let CommandResult::ContentStaged(staged) = outcome.results[0] else { panic!("another") };
        number = Some(staged);
    }
    let id = DocumentId::new("a").unwrap();
    let put = PutAttachment {
        id: id.clone(),
        name: AttachmentName::new("n").unwrap(),
        content_type: String::new(),
        expected: ExpectedVersion::Any,
        content: NewContent::Staged {
            number: number.unwrap(),
            bytes: 20 * chunk.len() as u64,
            hash: hasher.finish(),
        },
    };
    queue.submit_and_wait(Batch::one(Command::PutAttachment(put))).unwrap().unwrap();
    let outcome = queue.submit_and_wait(batch([delete("a", None)])).unwrap().unwrap();
    assert!(outcome.has_leftover_contents);
    queue.close();
    assert!(!documents::has_leftover_contents(&environment.read()).unwrap());
    content(&environment);
}
