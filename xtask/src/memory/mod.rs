//! The task `memory`: the real server inside a control group that allows it little memory, under
//! every load that is known to use much memory.
//!
//! First many documents are stored, into one database and into many at once ([`stores`]). Then
//! every step of [`STEPS`] prepares what it needs, and all of them run at once, each round after
//! round, until the end of the run; meanwhile another client reads and writes small documents of
//! the other databases and measures its latency ([`bystander`]). The kernel must kill nothing,
//! every document must exist, the server must know the limit, and the other databases must remain
//! responsive. A rejection for lack of memory is a valid answer.
//!
//! A further step is a file with a [`Step`], and a line in [`STEPS`].

mod bystander;
mod changes;
mod definitions;
mod inserts;
mod projections;
mod reduces;
mod scripts;
mod slow_readers;
mod stage;
mod stores;
mod trials;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use self::{bystander::Bystander, stage::Stage};
use crate::{
    Failure, checks::Checks, control_group::ControlGroup, server_process::ServerProcess,
    server_process::executable,
};

const LIMIT_BYTES: u64 = 256 << 20;
/// How long the steps run, unless specified.
const MINUTES: u64 = 1;
/// The latency limit of a small read or write of another database, at the 99th percentile.
const OTHERS_WAIT_MAX: Duration = Duration::from_millis(500);

/// A load that uses much memory, or would.
struct Step {
    /// A short name.
    name: &'static str,
    /// Creates the databases and documents that the rounds need; the server does nothing else
    /// meanwhile.
    prepare: fn(&Stage) -> Result<(), Failure>,
    /// Repeated until the end of the run, concurrently with the rounds of all other steps. Rounds
    /// are numbered from 0. It fails when the server misbehaves; a rejection for lack of memory is
    /// valid.
    round: fn(&Stage, u64) -> Result<(), Failure>,
    /// Checks at the end that the expected documents exist. No round runs then.
    judge: fn(&Stage, &mut Checks) -> Result<(), Failure>,
}

/// All steps.
const STEPS: &[&Step] = &[
    &slow_readers::STEP,
    &projections::STEP,
    &reduces::REDUCES,
    &changes::PATCHES,
    &changes::DELETES_AT_ONCE,
    &scripts::STEP,
    &trials::STEP,
    &definitions::STEP,
    &inserts::STEP,
];

/// Runs the drill if a control group can be created: all steps, or only those whose names start
/// with one of `wanted`.
pub(crate) fn run(minutes: Option<u64>, wanted: &[&str]) -> Result<Checks, Failure> {
    let is_wanted =
        |step: &Step| wanted.is_empty() || wanted.iter().any(|name| step.name.starts_with(name));
    let steps: Vec<_> = STEPS.iter().copied().filter(|step| is_wanted(step)).collect();
    if steps.is_empty() {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!("no such step; there are: {}", names.join(", ")).into());
    }
    let group = match ControlGroup::create(LIMIT_BYTES) {
        Ok(group) => group,
        Err(reason) => {
            println!("memory: SKIPPED, no control group can be created here: {reason}");
            return Ok(Checks::default());
        }
    };
    let executable = executable()?;
    let directory = std::env::temp_dir().join(format!("corvus-memory-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("data"))?;
    let time = Duration::from_secs(60 * minutes.unwrap_or(MINUTES));
    let mut checks = Checks::default();
    let result =
        Drill { group, executable, directory: directory.clone(), time, steps }.run(&mut checks);
    if result.is_ok() && checks.failures.is_empty() {
        std::fs::remove_dir_all(&directory)?;
    } else {
        println!("memory: the files are kept in {}", directory.display());
    }
    result.map(|()| checks)
}

struct Drill {
    group: ControlGroup,
    executable: PathBuf,
    directory: PathBuf,
    time: Duration,
    steps: Vec<&'static Step>,
}

impl Drill {
    fn run(&self, checks: &mut Checks) -> Result<(), Failure> {
        let (data, log) = (self.directory.join("data"), self.directory.join("server.log"));
        let server =
            ServerProcess::start_in(&self.executable, &data, &log, &self.group.processes())?;
        let stage = Stage::new(&server.url);
        let outcome =
            stores::store(&stage).and_then(|()| stores::judge(&stage, LIMIT_BYTES, checks));
        checks.that(outcome.is_ok(), || format!("storing: {}", text_of(&outcome)));
        if outcome.is_ok() {
            self.run_steps(&stage, checks);
        }
        let killed = self.group.killed()?;
        checks.that(killed == 0, || format!("the kernel killed {killed} processes"));
        println!(
            "memory: {} requests were refused for lack of memory; at most {} MB of {} with the page cache",
            stage.refused(),
            self.group.peak_bytes().unwrap_or(0) >> 20,
            LIMIT_BYTES >> 20,
        );
        let stopped = server.stop();
        checks.that(stopped.is_ok(), || format!("stopping: {}", text_of(&stopped)));
        Ok(())
    }

    /// Runs all steps at once, with the bystander.
    fn run_steps(&self, stage: &Stage, checks: &mut Checks) {
        for step in &self.steps {
            let prepared = (step.prepare)(stage);
            checks.that(prepared.is_ok(), || {
                format!("{}, preparing: {}", step.name, text_of(&prepared))
            });
            if prepared.is_err() {
                return;
            }
        }
        let end = Instant::now() + self.time;
        let bystander = std::thread::scope(|scope| {
            let rounds: Vec<_> = self
                .steps
                .iter()
                .map(|step| (step, scope.spawn(move || repeat(step, stage, end))))
                .collect();
            let bystander = scope.spawn(|| Bystander::watch(stage, end));
            for (step, rounds) in rounds {
                let rounds = rounds.join().unwrap_or_else(|_| Err("it panicked".into()));
                match rounds {
                    Ok(rounds) => {
                        checks.passed += 1;
                        println!("memory: {}: {rounds} rounds", step.name);
                    }
                    Err(error) => checks.failures.push(format!("{}: {error}", step.name)),
                }
            }
            bystander.join().unwrap_or_else(|_| Err("it panicked".into()))
        });
        match bystander {
            Ok(bystander) => {
                println!("memory: {bystander}");
                checks.that(bystander.p99() <= OTHERS_WAIT_MAX, || {
                    format!("other databases wait too long: {bystander}")
                });
            }
            Err(error) => checks.failures.push(format!("the other databases: {error}")),
        }
        for step in &self.steps {
            if let Err(error) = (step.judge)(stage, checks) {
                checks.failures.push(format!("{}, judging: {error}", step.name));
            }
        }
    }
}

/// Repeats the rounds of a step, at least one, until that moment. Returns their number.
fn repeat(step: &Step, stage: &Stage, end: Instant) -> Result<u64, Failure> {
    for round in 0.. {
        (step.round)(stage, round)?;
        if Instant::now() >= end {
            return Ok(round + 1);
        }
    }
    Ok(u64::MAX)
}

fn text_of(outcome: &Result<(), Failure>) -> String {
    outcome.as_ref().err().map(ToString::to_string).unwrap_or_default()
}
