//! Many queues that share few threads.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use commands::{CommitQueue, CommitQueueOptions, CommitThreads};
use platform::{Platform, simulated::Simulation};
use storage::Environment;
use testkit::database::open;

use crate::{
    gate::GatedDisk,
    queue::{ids, one, submit},
};

/// How long something that does not happen is waited for.
const MOMENT: Duration = Duration::from_millis(50);

fn threads(threads_max: usize) -> Arc<CommitThreads> {
    let simulation = Platform::simulated(1);
    CommitThreads::start(threads_max, Arc::clone(&simulation.platform.memory)).unwrap()
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
    assert!(threads.count() < QUEUES as usize);
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
    let threads = threads(2);
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
