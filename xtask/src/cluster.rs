//! The task `cluster`: clusters in virtual time, one for each seed, see the crate `simulation`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Instant,
};

use simulation::{Plan, Report, run, shrink};

use crate::{Failure, checks::Checks, patience::SILENCE_MAX};

/// The number of failures after which the run stops.
const FAILURES_MAX: usize = 3;
/// Simulations that are spent to find fewer events with the same result.
const SHRINKING_MAX: usize = 40;
/// Lines of what happened that are printed of a failure.
const LINES_MAX: usize = 40;

/// Simulates clusters with `count` seeds from `first` on.
pub(crate) fn simulate(count: u64, first: u64) -> Result<Checks, Failure> {
    let began = Instant::now();
    let quiet = crate::panics::silence();
    let reports = live(first, count)?;
    let (mut checks, mut sum) = (Checks::default(), Sum::default());
    while sum.clusters < count && checks.failures.len() < FAILURES_MAX {
        match reports.recv_timeout(SILENCE_MAX) {
            Ok((seed, report)) => {
                sum.add(&report);
                match report.findings.is_empty() {
                    true => checks.passed += 1,
                    false => {
                        // Shrinking takes a while.
                        println!("seed {seed}: {}", report.findings[0]);
                        checks.failures.push(describe(seed));
                    }
                }
            }
            Err(error) => {
                let seconds = SILENCE_MAX.as_secs();
                checks.failures.push(format!(
                    "no cluster of the seeds from {first} has ended for {seconds} s ({error}), \
                     after {} of {count}",
                    sum.clusters
                ));
                break;
            }
        }
    }
    drop(quiet);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "cluster: {} clusters from seed {first}: {:.1} hours of virtual time, {} messages, {} leaders, {} operations of \
         clients, {} of them acknowledged; {seconds:.1} s, {:.1} clusters a second",
        sum.clusters,
        sum.hours,
        sum.messages,
        sum.leaders,
        sum.operations,
        sum.acknowledged,
        sum.clusters as f64 / seconds
    );
    Ok(checks)
}

/// Prints everything that happened in one cluster.
pub(crate) fn show(seed: u64) -> Result<Checks, Failure> {
    let plan = Plan::of(seed);
    println!("{plan:#?}");
    let report = run(&plan);
    report.log.iter().for_each(|line| println!("{line}"));
    let mut checks = Checks::default();
    checks.passed += usize::from(report.findings.is_empty());
    checks.failures = report.findings;
    Ok(checks)
}

#[derive(Default)]
struct Sum {
    clusters: u64,
    hours: f64,
    messages: u64,
    leaders: usize,
    operations: usize,
    acknowledged: usize,
}

impl Sum {
    fn add(&mut self, report: &Report) {
        self.clusters += 1;
        self.hours += report.time.as_secs_f64() / 3600.0;
        self.messages += report.messages;
        self.leaders += report.leaders;
        self.operations += report.operations;
        self.acknowledged += report.acknowledged;
    }
}

/// Starts a thread for each processor. They end with the clusters, or when the receiver is dropped.
fn live(first: u64, count: u64) -> Result<mpsc::Receiver<(u64, Report)>, Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..std::thread::available_parallelism()?.get() {
        let (next, sender) = (next.clone(), sender.clone());
        std::thread::spawn(move || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let seed = first.wrapping_add(index);
                if index >= count || sender.send((seed, run(&Plan::of(seed)))).is_err() {
                    return;
                }
            }
        });
    }
    Ok(receiver)
}

/// A failure with as few events as possible, and what happened last.
fn describe(seed: u64) -> String {
    let plan = shrink(&Plan::of(seed), SHRINKING_MAX);
    let report = run(&plan);
    let mut text = format!("seed {seed}: {}\n", report.findings.join("\n  "));
    text.push_str(&format!(
        "{} machines, {} of them in the cluster at first, {:?}; events:\n",
        plan.machines, plan.members, plan.limits
    ));
    for event in &plan.events {
        text.push_str(&format!("  {event}\n"));
    }
    let found = report.log.iter().position(|line| line.contains("FOUND"));
    let to = found.map_or(report.log.len(), |found| found + 1);
    for line in &report.log[to.saturating_sub(LINES_MAX)..to] {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&format!("everything: cargo xtask cluster show {seed}"));
    text
}
