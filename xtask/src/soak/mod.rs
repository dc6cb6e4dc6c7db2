//! The task `soak`: a mixed load at a modest, fixed rate against the built server for a given time,
//! and the resources that the server uses meanwhile.
//!
//! The documents, attachments, indexes and databases of the load are replaced, not added to, so
//! that nothing may grow. After a warm-up of a third of the time, each quantity must be flat: its
//! maximum in the last third must equal that in the second third within a tolerance.

mod load;
mod samples;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use self::{load::Load, samples::Samples};
use crate::{
    Failure,
    checks::Checks,
    server_process::{ServerProcess, executable},
};

/// The time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);

/// Runs the load for the given number of minutes.
pub(crate) fn run(minutes: u64) -> Result<Checks, Failure> {
    let directory = std::env::temp_dir().join(format!("corvus-soak-{}", std::process::id()));
    let (data, log) = (directory.join("data"), directory.join("server.log"));
    std::fs::create_dir_all(&data)?;
    let server = ServerProcess::start(&executable()?, &data, &log)?;
    let load = Load::prepare(&server.url)?;
    let time = Duration::from_secs(60 * minutes.max(1));
    let (is_over, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut samples = Samples::default();
    let mut checks = Checks::default();
    let began = Instant::now();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..load::THREADS)
            .map(|thread| {
                let (load, is_over, requests) = (&load, &is_over, &requests);
                scope.spawn(move || load.run(thread, is_over, requests))
            })
            .collect();
        let mut sampled = Ok(());
        while began.elapsed() < time
            && sampled.is_ok()
            && !running.iter().any(|one| one.is_finished())
        {
            std::thread::sleep(SAMPLE_INTERVAL);
            sampled = samples.take(&server, &data, began.elapsed());
        }
        is_over.store(true, Ordering::Relaxed);
        if let Err(error) = sampled {
            checks.failures.push(format!("sampling: {error}"));
        }
        for thread in running {
            let ended = thread.join().unwrap_or_else(|_| Err("it panicked".into()));
            match ended {
                Ok(()) => checks.passed += 1,
                Err(error) => checks.failures.push(format!("the load: {error}")),
            }
        }
    });
    println!(
        "soak: {} requests in {} s",
        requests.load(Ordering::Relaxed),
        began.elapsed().as_secs()
    );
    samples.judge(&mut checks);
    let stopped = server.stop();
    checks.that(stopped.is_ok(), || format!("stopping: {:?}", stopped.err()));
    if checks.failures.is_empty() {
        std::fs::remove_dir_all(&directory)?;
    } else {
        println!("soak: the files are kept in {}", directory.display());
    }
    Ok(checks)
}
