//! Many queues that share few threads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use commands::{CommitQueue, CommitQueueOptions, CommitThreads, ThreadLimits};
use platform::{
    Platform,
    simulated::{SimulatedClock, Simulation},
};
use storage::{Environment, IoPosition};
use testkit::database::{batch, json, open, put_expecting};

use crate::{
    gate::GatedDisk,
    queue::{ids, one, submit},
};

/// How long something that does not happen is waited for.
const MOMENT: Duration = Duration::from_millis(50);
/// How long something that happens may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// This many threads, and none for queues that wait for long.
fn threads(count: usize) -> Arc<CommitThreads> {
    let limits = ThreadLimits { unhurried: count, max: count, scripts: 2 };
    CommitThreads::start(limits, &Platform::simulated(1).platform).unwrap()
}

/// This many threads, and more for queues that wait for 50 ms of real time.
fn threads_with_help(unhurried: usize) -> Arc<CommitThreads> {
    let clock = Platform::real().clock;
    let platform = Platform { clock, ..Platform::simulated(1).platform };
    CommitThreads::start(ThreadLimits { unhurried, max: 1024, scripts: 2 }, &platform).unwrap()
}

/// A queue over a disk of its own.
struct Served {
    disk: GatedDisk,
    environment: Arc<Environment>,
    queue: CommitQueue,
}

fn served(seed: u64, threads: &Arc<CommitThreads>) -> Served {
    let Simulation { platform, .. } = Platform::simulated(seed);
    let disk = GatedDisk::new(Arc::clone(&platform.disk));
    let platform = Platform { disk: Arc::new(disk.clone()), ..platform };
    let environment = open(&platform).unwrap();
    let options = CommitQueueOptions::default();
    let queue = CommitQueue::open(Arc::clone(&environment), &platform, options, threads);
    Served { disk, environment, queue }
}

#[test]
fn one_thread_serves_many_queues() {
    const QUEUES: u64 = 20;
    const BATCHES: usize = 30;
    let threads = threads(1);
    let served: Vec<_> = (1..=QUEUES).map(|seed| served(seed, &threads)).collect();
    let name = |number: usize| format!("u/{number:02}");
    let mut answers = Vec::new();
    for number in 0..BATCHES {
        answers.extend(served.iter().map(|one_of| submit(&one_of.queue, one(&name(number)))));
    }
    for answer in answers {
        answer.recv().unwrap().unwrap();
    }
    let all: Vec<_> = (0..BATCHES).map(name).collect();
    for one_of in &served {
        one_of.queue.close();
        assert_eq!(ids(&one_of.environment), all);
    }
    assert_eq!(threads.count(), 1);
}

#[test]
fn a_queue_whose_disk_is_slow_does_not_hold_up_another_one() {
    let threads = threads(3);
    let (slow, other) = (served(1, &threads), served(2, &threads));
    slow.disk.shut();
    let held = submit(&slow.queue, one("a"));
    slow.disk.wait_for_a_write();
    // Two threads serve it: one at the journal, one that waits with the next transaction.
    let next = submit(&slow.queue, one("b"));
    other.queue.submit_and_wait(one("c")).unwrap().unwrap();
    assert!(held.recv_timeout(MOMENT).is_err() && next.recv_timeout(MOMENT).is_err());
    slow.disk.open_gate();
    held.recv().unwrap().unwrap();
    next.recv().unwrap().unwrap();
    assert_eq!(ids(&slow.environment), ["a", "b"]);
}

#[test]
fn queues_that_take_long_do_not_hold_up_another_one_for_long() {
    let threads = threads_with_help(2);
    let slow: Vec<_> = (1..=6).map(|seed| served(seed, &threads)).collect();
    let held: Vec<_> = slow
        .iter()
        .map(|one_of| {
            one_of.disk.shut();
            submit(&one_of.queue, one("a"))
        })
        .collect();
    // None of them ends before the other has been served.
    let other = served(7, &threads);
    other.queue.submit_and_wait(one("b")).unwrap().unwrap();
    for (one_of, held) in slow.iter().zip(held) {
        assert!(held.try_recv().is_err());
        one_of.disk.open_gate();
        held.recv().unwrap().unwrap();
    }
}

/// With every thread at a journal, the thread at the journal of a queue comes to its next batch, too.
#[test]
fn without_a_free_thread_the_one_at_the_journal_continues() {
    let threads = threads(1);
    let served = served(1, &threads);
    served.disk.shut();
    let first = submit(&served.queue, one("a"));
    served.disk.wait_for_a_write();
    let second = submit(&served.queue, one("b"));
    assert!(first.recv_timeout(MOMENT).is_err());
    served.disk.open_gate();
    first.recv().unwrap().unwrap();
    second.recv().unwrap().unwrap();
    assert_eq!(threads.count(), 1);
}

#[test]
fn there_are_fewer_threads_than_queues() {
    let threads = threads(4);
    let served: Vec<_> = (1..=30).map(|seed| served(seed, &threads)).collect();
    for one_of in &served {
        for id in ["a", "b", "c"] {
            one_of.queue.submit_and_wait(one(id)).unwrap().unwrap();
        }
    }
    assert!(threads.count() < served.len(), "{}", threads.count());
}

#[test]
fn callers_are_acknowledged_in_the_order_of_their_transactions() {
    let threads = threads(3);
    let served = served(1, &threads);
    let (order, answered) = mpsc::channel();
    let (entered, enters) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let order_of_first = order.clone();
    let first = move |_| {
        entered.send(()).unwrap();
        released.recv().unwrap();
        order_of_first.send(1).unwrap();
    };
    served.queue.submit(one("a"), Box::new(first)).unwrap();
    enters.recv().unwrap();
    let second = move |_| order.send(2).unwrap();
    served.queue.submit(one("b"), Box::new(second)).unwrap();
    assert!(answered.recv_timeout(MOMENT).is_err());
    release.send(()).unwrap();
    assert_eq!((answered.recv(), answered.recv()), (Ok(1), Ok(2)));
}

/// Submits a batch that fails, and another one when it has failed, each of which takes a while. The replies do not keep
/// the queue: dropping it waits for them.
fn fail_repeatedly(queue: &Arc<CommitQueue>, clock: &Arc<SimulatedClock>, left: Arc<AtomicUsize>) {
    let (again, passing) = (Arc::downgrade(queue), Arc::clone(clock));
    let failing = batch([put_expecting("missing", Some("A:1"), &json("Users", "x"))]);
    let reply = move |answer: Result<_, _>| {
        assert!(answer.is_err());
        passing.advance(Duration::from_millis(20));
        let is_again = |left: usize| left.checked_sub(1);
        let is_again = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_again).is_ok();
        if let Some(queue) = again.upgrade().filter(|_| is_again) {
            fail_repeatedly(&queue, &passing, left);
        }
    };
    // It is closed when the test ends.
    drop(queue.submit(failing, Box::new(reply)));
}

#[test]
fn batches_that_fail_do_not_hold_up_the_transaction_of_others() {
    const FAILURES_MAX: usize = 1000;
    let Simulation { platform, clock, .. } = Platform::simulated(1);
    let environment = open(&platform).unwrap();
    let options = CommitQueueOptions::default();
    let threads = threads(1);
    let queue = CommitQueue::open(Arc::clone(&environment), &platform, options, &threads);
    let queue = Arc::new(queue);
    let left = Arc::new(AtomicUsize::new(FAILURES_MAX));
    let blocking = environment.write().unwrap();
    let (sender, answered) = mpsc::channel();
    let left_then = Arc::clone(&left);
    let reply = move |_| sender.send(left_then.load(Ordering::SeqCst)).unwrap();
    queue.submit(one("a"), Box::new(reply)).unwrap();
    fail_repeatedly(&queue, &clock, left);
    drop(blocking);
    let left_when_answered = answered.recv().unwrap();
    assert!(FAILURES_MAX - 20 < left_when_answered, "{left_when_answered}");
    // Waits for the reply that is running, so that none of them is the last to hold the queue.
    queue.close();
}

/// The thread that worked last works next, although it has rested in between: the others end.
#[test]
fn light_load_is_served_by_one_thread() {
    let threads = threads(2);
    let served = [1, 2].map(|seed| served(seed, &threads));
    let held = served.each_ref().map(|one_of| {
        one_of.disk.shut();
        let held = submit(&one_of.queue, one("a"));
        one_of.disk.wait_for_a_write();
        held
    });
    for (one_of, held) in served.iter().zip(held) {
        one_of.disk.open_gate();
        held.recv().unwrap().unwrap();
    }
    let mut workers = Vec::new();
    let (_unused, nothing) = mpsc::channel::<()>();
    for id in ["b", "c", "d", "e"] {
        // Longer than the first pause of a thread.
        assert!(nothing.recv_timeout(Duration::from_millis(150)).is_err());
        let (sender, worker) = mpsc::channel();
        let reply = move |_| sender.send(thread::current().id()).unwrap();
        served[0].queue.submit(one(id), Box::new(reply)).unwrap();
        workers.push(worker.recv().unwrap());
    }
    assert!(workers.iter().all(|worker| *worker == workers[0]), "{workers:?}");
}

#[test]
fn what_an_environment_occupies_is_known_while_its_disk_hangs() {
    let threads = threads(2);
    let served = served(1, &threads);
    served.queue.submit_and_wait(one("a")).unwrap().unwrap();
    served.disk.shut();
    let held = submit(&served.queue, one("b"));
    served.disk.wait_for_a_write();
    let (sender, seen) = mpsc::channel();
    let environment = Arc::clone(&served.environment);
    let looking = thread::spawn(move || {
        let (files, _) = environment.io(IoPosition::default());
        sender.send((environment.statistics(), files, environment.report().unwrap())).unwrap();
    });
    let seen = seen.recv_timeout(PATIENCE);
    served.disk.open_gate();
    held.recv().unwrap().unwrap();
    looking.join().unwrap();
    let (statistics, files, report) = seen.expect("nothing waits for the disk");
    assert_eq!(statistics.journal_files, report.journals.len());
    assert!(statistics.journal_bytes > 0 && files.iter().any(|file| file.is_in_use));
    // The journal's last transaction, and what it has left, are those of the newest one.
    let before = report.journals.last().unwrap().unused_bytes;
    let after = served.environment.report().unwrap().journals;
    assert_eq!(
        after.last().unwrap().last_transaction,
        Some(served.environment.statistics().transaction)
    );
    assert!(after.last().unwrap().unused_bytes < before);
}
