//! The task `crash`: simulated power cuts over random histories, see `testkit::crash`.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use testkit::crash::{CUTS_PER_DATABASE, Survived, survive};

use crate::{Failure, checks::Checks};

/// Databases after which the run stops when one of them has failed: the first failures tell enough.
const FAILURES_MAX: usize = 3;

/// Cuts the power `cuts` times, rounded up to whole databases; each database has a seed, the first
/// one `seed`.
pub(crate) fn run(cuts: u64, seed: Option<u64>) -> Result<Checks, Failure> {
    let first = seed.unwrap_or(1);
    let databases = cuts.div_ceil(CUTS_PER_DATABASE);
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let outcome = Mutex::new((Checks::default(), Survived::default()));
    let threads = std::thread::available_parallelism()?.get();
    let quiet = crate::panics::silence();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= databases || !judge(first.wrapping_add(index), &outcome) {
                        return;
                    }
                }
            });
        }
    });
    drop(quiet);
    let (checks, sum) = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "crash: {} power cuts in {databases} databases from seed {first}, {} while opening, {} \
         with the transaction in flight kept; {:.1} s",
        sum.cuts,
        sum.while_opening,
        sum.kept_in_flight,
        began.elapsed().as_secs_f64()
    );
    Ok(checks)
}

/// Gives whether to go on.
fn judge(seed: u64, outcome: &Mutex<(Checks, Survived)>) -> bool {
    let survived = survive(seed);
    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
    let (checks, sum) = &mut *outcome;
    match survived {
        Ok(survived) => {
            checks.passed += survived.cuts as usize;
            sum.cuts += survived.cuts;
            sum.while_opening += survived.while_opening;
            sum.kept_in_flight += survived.kept_in_flight;
        }
        Err(failure) => {
            sum.cuts += failure.cut;
            let again = format!("again with: cargo xtask crash 1 {seed}");
            checks.failures.push(format!("{failure}{again}"));
        }
    }
    checks.failures.len() < FAILURES_MAX
}
