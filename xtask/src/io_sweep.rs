//! The task `io-sweep`: every single operation of six scenarios fails, see `testkit::io_sweep`.

use std::time::Instant;

use testkit::{
    database::AtRest,
    io_sweep::{FAILURES, Scenario, sweep},
};

use crate::{Failure, checks::Checks, patience};

/// Each operation that failed without damage counts as one passed check.
pub(crate) fn run(at_rest: AtRest) -> Result<Checks, Failure> {
    let mut checks = Checks::default();
    let _quiet = crate::panics::silence();
    for scenario in Scenario::ALL {
        let began = Instant::now();
        let mut operations = Vec::new();
        for (kind, span) in FAILURES {
            match patience::wait_for(move || sweep(at_rest, scenario, kind, span)) {
                None => {
                    checks.failures.push(format!(
                        "{scenario:?} with {kind:?}, {span:?}, at some operation: it does not end"
                    ));
                    return Ok(checks);
                }
                Some(Ok(count)) => {
                    checks.passed += usize::try_from(count)?;
                    operations.push(count.to_string());
                }
                Some(Err(failure)) => {
                    let (nth, fault) = (failure.nth, failure.fault);
                    checks.failures.push(format!(
                        "{scenario:?}, operation {nth} fails with {kind:?}, {span:?}: {fault}\n{}",
                        failure.operations
                    ));
                }
            }
        }
        println!(
            "io-sweep: {scenario:?}: {} operations failed; {:.1} s",
            operations.join(" + "),
            began.elapsed().as_secs_f64()
        );
    }
    Ok(checks)
}
