//! The task `crash`: simulated power cuts over random histories, see `testkit::crash`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Instant,
};

use testkit::{
    crash::{CUTS_PER_DATABASE, CrashFailure, Survived, survive},
    database::AtRest,
};

use crate::{Failure, checks::Checks, patience::SILENCE_MAX};

/// The number of failures after which the run stops.
const FAILURES_MAX: usize = 3;

type Outcome = Result<Survived, Box<CrashFailure>>;

/// Cuts the power `cuts` times, rounded up to whole databases; each database has a seed, the first
/// one `seed`.
pub(crate) fn run(at_rest: AtRest, cuts: u64, seed: Option<u64>) -> Result<Checks, Failure> {
    let first = seed.unwrap_or(1);
    let databases = cuts.div_ceil(CUTS_PER_DATABASE);
    let began = Instant::now();
    let quiet = crate::panics::silence();
    let outcomes = live(at_rest, first, databases)?;
    let (mut checks, mut sum) = (Checks::default(), Survived::default());
    let mut judged = 0;
    while judged < databases && checks.failures.len() < FAILURES_MAX {
        match outcomes.recv_timeout(SILENCE_MAX) {
            Ok((seed, outcome)) => judge(seed, outcome, &mut checks, &mut sum),
            Err(error) => {
                let seconds = SILENCE_MAX.as_secs();
                checks.failures.push(format!(
                    "no database of the seeds from {first} has ended for {seconds} s ({error}), \
                     after {judged} of {databases}"
                ));
                break;
            }
        }
        judged += 1;
    }
    drop(quiet);
    println!(
        "crash: {} power cuts in {judged} databases from seed {first}, {} while opening, {} with \
         the transaction in flight kept; {:.1} s",
        sum.cuts,
        sum.while_opening,
        sum.kept_in_flight,
        began.elapsed().as_secs_f64()
    );
    Ok(checks)
}

/// Starts a thread for each processor. They end with the databases, or when the receiver is
/// dropped.
fn live(
    at_rest: AtRest,
    first: u64,
    databases: u64,
) -> Result<mpsc::Receiver<(u64, Outcome)>, Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..std::thread::available_parallelism()?.get() {
        let (next, sender) = (next.clone(), sender.clone());
        std::thread::spawn(move || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let seed = first.wrapping_add(index);
                if index >= databases || sender.send((seed, survive(at_rest, seed))).is_err() {
                    return;
                }
            }
        });
    }
    Ok(receiver)
}

fn judge(seed: u64, outcome: Outcome, checks: &mut Checks, sum: &mut Survived) {
    match outcome {
        Ok(survived) => {
            checks.passed += survived.cuts as usize;
            sum.cuts += survived.cuts;
            sum.while_opening += survived.while_opening;
            sum.kept_in_flight += survived.kept_in_flight;
        }
        Err(failure) => {
            sum.cuts += failure.cut;
            let again =
                format!("repeat with: cargo xtask crash 1 {seed}, and --encrypted if it was");
            checks.failures.push(format!("{failure}{again}"));
        }
    }
}
