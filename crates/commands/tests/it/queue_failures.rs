//! The commit queue when the disk, the power or a batch fails.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use commands::{
    CommandError, CommitQueue, CommitQueueOptions, CommitThreads, SubmitError, ThreadLimits,
};
use platform::{
    Clock, Platform, Timestamp,
    simulated::{FaultKind, FaultSpan, OperationFilter, OperationKind, Random, Survival},
};
use storage::StorageError;
use testkit::database::{batch, content, json, open, put};

use crate::{
    gate::GatedDisk,
    queue::{Answer, ids, one, start, start_with, submit, threads},
};

#[test]
fn a_failed_write_closes_the_queue_and_reopening_settles_the_outcome() {
    let simulation = Platform::simulated(1);
    let (environment, queue) = start(&simulation.platform);
    queue.submit_and_wait(one("before")).unwrap().unwrap();
    let writes = OperationFilter::Only(OperationKind::Write);
    simulation.disk.fail_operation(1, writes, FaultKind::InputOutput, FaultSpan::Once);
    let error = queue.submit_and_wait(one("unknown")).unwrap().unwrap_err();
    assert!(matches!(error, CommandError::OutcomeUnknown(_)), "{error}");
    // The queue may still be closing itself: a batch that slips in is refused as well.
    match queue.submit_and_wait(one("after")) {
        Err(SubmitError::Closed) | Ok(Err(_)) => {}
        other => panic!("a batch was accepted after a failed write: {other:?}"),
    }
    queue.close();
    assert!(queue.is_closed());
    drop((queue, environment));
    let environment = open(&simulation.platform).unwrap();
    let found = ids(&environment);
    assert!(found == ["before"] || found == ["before", "unknown"], "{found:?}");
}

#[test]
fn a_full_disk_fails_batches_in_flight_and_the_queue_continues() {
    let simulation = Platform::simulated(1);
    let (environment, queue) = start(&simulation.platform);
    // What cannot be compressed, so that the journal needs another file soon.
    let mut random = Random::new(1);
    let mut text = || (0..8000).map(|_| format!("{:016x}", random.next_u64())).collect::<String>();
    simulation.disk.space_limit(Some(4 << 20));
    let mut acknowledged = Vec::new();
    let failed = loop {
        let id = format!("u/{}", acknowledged.len());
        match queue.submit_and_wait(batch([put(&id, &json("Users", &text()))])).unwrap() {
            Ok(_) => acknowledged.push(id),
            Err(error) => break error,
        }
        assert!(acknowledged.len() < 1000, "the disk never fills");
    };
    let is_full = matches!(failed, CommandError::NotWritten(StorageError::DiskFull { .. }));
    assert!(is_full, "{failed}");
    assert_eq!(ids(&environment), acknowledged, "nothing of the failed batch is there");
    simulation.disk.space_limit(None);
    queue.submit_and_wait(one("later")).unwrap().unwrap();
    acknowledged.push("later".to_owned());
    drop((queue, environment));
    assert_eq!(ids(&open(&simulation.platform).unwrap()), acknowledged);
}

#[test]
fn what_is_built_on_a_lost_transaction_is_lost_with_it() {
    let simulation = Platform::simulated(1);
    let gate = GatedDisk::new(simulation.platform.disk.clone());
    let platform = Platform { disk: Arc::new(gate.clone()), ..simulation.platform.clone() };
    let (environment, queue) = start(&platform);
    queue.submit_and_wait(one("before")).unwrap().unwrap();
    gate.shut();
    let first = submit(&queue, one("first"));
    gate.wait_for_a_write();
    let second: Vec<_> =
        (0..5).map(|number| submit(&queue, one(&format!("second/{number}")))).collect();
    assert!(first.try_recv().is_err(), "no caller is acknowledged before the write");
    assert_eq!(ids(&environment), ["before"], "no reader sees what is not durable");
    gate.fail_once();
    let error = first.recv().unwrap().unwrap_err();
    assert!(matches!(error, CommandError::OutcomeUnknown(_)), "{error}");
    for answer in second {
        let error = answer.recv().unwrap().unwrap_err();
        assert!(matches!(error, CommandError::NotWritten(_) | CommandError::Closed), "{error}");
    }
    drop((queue, environment));
    assert_eq!(ids(&open(&simulation.platform).unwrap()), ["before"]);
}

#[test]
fn batches_gather_while_the_journal_writes() {
    let simulation = Platform::simulated(1);
    let gate = GatedDisk::new(simulation.platform.disk.clone());
    let platform = Platform { disk: Arc::new(gate.clone()), ..simulation.platform.clone() };
    let (environment, queue) = start(&platform);
    gate.shut();
    let first = submit(&queue, one("first"));
    gate.wait_for_a_write();
    let others: Vec<_> =
        (0..20).map(|number| submit(&queue, one(&format!("u/{number}")))).collect();
    gate.open_gate();
    first.recv().unwrap().unwrap();
    assert!(others.iter().all(|answer| answer.recv().unwrap().is_ok()));
    assert_eq!(queue.statistics().transactions, 2, "twenty batches share the second transaction");
    assert_eq!(ids(&environment).len(), 21);
}

/// A clock that panics at one of its calls: a fault inside the execution of a batch.
struct FaultyClock {
    clock: Arc<dyn Clock>,
    calls: AtomicU64,
    panics_at: u64,
}

impl Clock for FaultyClock {
    fn now(&self) -> Timestamp {
        if self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.panics_at {
            panic!("a clock panics on purpose");
        }
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
}

#[test]
fn a_panic_in_a_batch_fails_that_batch_alone() {
    let simulation = Platform::simulated(1);
    let environment = open(&simulation.platform).unwrap();
    let clock = simulation.platform.clock.clone();
    let clock = Arc::new(FaultyClock { clock, calls: AtomicU64::new(0), panics_at: 3 });
    let platform = Platform { clock, ..simulation.platform.clone() };
    let options = CommitQueueOptions::default();
    let queue = CommitQueue::open(environment.clone(), &platform, options, &threads(&platform));
    let writer = environment.write().unwrap();
    let answers: Vec<_> = ["a", "b", "c", "d"].map(|id| submit(&queue, one(id))).into();
    drop(writer);
    let answers: Vec<Answer> = answers.iter().map(|answer| answer.recv().unwrap()).collect();
    let [Ok(_), Ok(_), Err(CommandError::Panicked { message }), Ok(_)] = &*answers else {
        panic!("other answers: {answers:?}");
    };
    assert_eq!(message, "a clock panics on purpose");
    assert_eq!(ids(&environment), ["a", "b", "d"]);
    queue.submit_and_wait(one("e")).unwrap().unwrap();
}

#[test]
fn acknowledged_batches_survive_a_power_cut_under_load() {
    const CUTS: u64 = 40;
    const PARTS: usize = 3;
    let (mut acknowledged_in_all, mut cut_short) = (0, 0);
    for seed in 0..CUTS {
        let simulation = Platform::simulated(seed);
        // Small transactions, so that there are enough of them for the cuts to hit.
        let options =
            CommitQueueOptions { transaction_batches_max: 2, ..CommitQueueOptions::default() };
        let (environment, queue) = start_with(&simulation.platform, options);
        let nth = 1 + Random::new(seed).below(30);
        simulation.disk.cut_power_at_operation(nth, Survival::Random);
        let (sender, receiver) = mpsc::channel();
        for number in 0..60 {
            let parts =
                (0..PARTS).map(|part| put(&format!("{number}/{part}"), &json("Users", "x")));
            let sender = sender.clone();
            let reply = move |answer: Answer| sender.send((number, answer.is_ok())).unwrap();
            if queue.submit(batch(parts.collect::<Vec<_>>()), Box::new(reply)).is_err() {
                break;
            }
        }
        drop(sender);
        queue.close();
        let answers: Vec<_> = receiver.iter().collect();
        drop((queue, environment));
        simulation.disk.restart().unwrap();
        let log = content(&open(&simulation.platform).unwrap()).log;
        for (number, is_acknowledged) in answers {
            let prefix = format!("{number}/");
            let found = log.iter().filter(|(_, id, _)| id.starts_with(&prefix)).count();
            assert!(found == 0 || found == PARTS, "seed {seed}: batch {number} is there in part");
            assert!(!is_acknowledged || found == PARTS, "seed {seed}: batch {number} is gone");
            acknowledged_in_all += u64::from(is_acknowledged);
            cut_short += u64::from(!is_acknowledged);
        }
    }
    assert!(0 < acknowledged_in_all && 0 < cut_short, "{acknowledged_in_all} {cut_short}");
}

/// A clock that panics when it is read for the given time, or always once it is broken, as code of the queue itself
/// might.
struct FragileClock {
    clock: Arc<dyn Clock>,
    is_broken: AtomicBool,
    reads_until_panic: AtomicU64,
}

impl FragileClock {
    fn new(clock: &Arc<dyn Clock>) -> Arc<FragileClock> {
        let (is_broken, reads_until_panic) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        Arc::new(FragileClock { clock: Arc::clone(clock), is_broken, reads_until_panic })
    }
}

impl Clock for FragileClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        let left = self.reads_until_panic.fetch_sub(1, Ordering::SeqCst);
        assert!(left != 0 && !self.is_broken.load(Ordering::SeqCst), "the clock is broken");
        self.clock.monotonic()
    }
}

#[test]
fn a_panic_outside_of_any_batch_leaves_no_caller_without_an_answer() {
    let simulation = Platform::simulated(1);
    let clock = FragileClock::new(&simulation.platform.clock);
    let threads = threads(&simulation.platform);
    let platform = Platform { clock: clock.clone(), ..simulation.platform };
    let environment = open(&platform).unwrap();
    let options = CommitQueueOptions::default();
    let queue = CommitQueue::open(environment.clone(), &platform, options, &threads);
    queue.submit_and_wait(one("before")).unwrap().unwrap();
    let blocking = environment.write().unwrap();
    let answers = ["a", "b"].map(|id| submit(&queue, one(id)));
    let (sender, mark) = mpsc::channel();
    queue.after_all_before(Box::new(move || sender.send(()).unwrap()));
    clock.is_broken.store(true, Ordering::SeqCst);
    drop(blocking);
    for answer in answers {
        assert!(matches!(answer.recv().unwrap(), Err(CommandError::Closed)));
    }
    mark.recv().unwrap();
    assert_eq!(queue.submit(one("c"), Box::new(|_| ())), Err(SubmitError::Closed));
    queue.close();
    assert_eq!(ids(&environment), ["before"]);
}

/// The queue is closed by a panic, or has noticed nothing; in any case each caller has an answer, and what was answered
/// with success is there.
#[test]
fn a_panic_at_any_moment_leaves_no_caller_without_an_answer() {
    const READS_MAX: u64 = 60;
    let mut closed = 0;
    for reads in 0..READS_MAX {
        let simulation = Platform::simulated(1);
        let clock = FragileClock::new(&simulation.platform.clock);
        let platform = Platform { clock: clock.clone(), ..simulation.platform };
        let limits = ThreadLimits { unhurried: 2, max: 2, scripts: 1 };
        let threads = CommitThreads::start(limits, &platform).unwrap();
        let environment = open(&platform).unwrap();
        // So that each batch is a transaction of its own.
        let options = CommitQueueOptions { transaction_batches_max: 1, ..Default::default() };
        let queue = CommitQueue::open(environment.clone(), &platform, options, &threads);
        queue.submit_and_wait(one("before")).unwrap().unwrap();
        let blocking = environment.write().unwrap();
        clock.reads_until_panic.store(reads, Ordering::SeqCst);
        let submit_one = |number: usize| {
            let (sender, answer) = mpsc::channel();
            let reply =
                move |outcome: Result<_, _>| sender.send(outcome.is_ok()).unwrap_or_default();
            // A panic may be this thread's, which reads the clock, too.
            let call = || drop(queue.submit(one(&format!("u/{number}")), Box::new(reply)));
            drop(catch_unwind(AssertUnwindSafe(call)));
            answer
        };
        let answers: Vec<_> = (0..6).map(submit_one).collect();
        drop(blocking);
        let mut stored = vec!["before".to_owned()];
        for (number, answer) in answers.iter().enumerate() {
            // Without an answer the sender is dropped only when the submission was refused.
            let is_stored = match answer.recv_timeout(Duration::from_secs(30)) {
                Ok(is_stored) => is_stored,
                Err(mpsc::RecvTimeoutError::Disconnected) => false,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{reads}: no answer"),
            };
            stored.extend(is_stored.then(|| format!("u/{number}")));
        }
        closed += u64::from(queue.is_closed());
        // It returns, too.
        queue.close();
        let found = ids(&environment);
        assert!(stored.iter().all(|id| found.contains(id)), "{reads}: {stored:?} {found:?}");
    }
    assert!((1..READS_MAX).contains(&closed), "{closed}");
}
