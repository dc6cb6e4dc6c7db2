//! The failure of every single operation of a scenario, one at a time.
//!
//! For each scenario, each kind of error and each span, operation 1, 2, 3 … fails until the
//! scenario ends before the failure. Afterwards the cause is removed, and the database must be
//! sound: with everything that was acknowledged, readable all the time, and writable again,
//! immediately after a full disk and otherwise after reopening.

use std::{ops::ControlFlow, sync::Arc};

use commands::{Batch, Command};
use documents::DocumentError;
use platform::simulated::{FaultKind, FaultSpan, OperationFilter, Random, Survival};
use storage::{Environment, compact_in_place};

use crate::{
    Bench, Fault,
    bench::Stop,
    crash::last_operations,
    database::{AtRest, batch, execute, json, put},
    guarded,
    histories::noise,
};

/// What is done while an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A database is created.
    Create,
    /// Small transactions.
    CommitSmall,
    /// Transactions large enough to need new journal files.
    CommitLarge,
    /// Flushes, with and without a reader of an old snapshot.
    Flush,
    /// The database is opened after a power cut.
    Recovery,
    /// It is compacted.
    Compaction,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Create,
        Self::CommitSmall,
        Self::CommitLarge,
        Self::Flush,
        Self::Recovery,
        Self::Compaction,
    ];
}

/// How operations fail.
pub const FAILURES: [(FaultKind, FaultSpan); 4] = [
    (FaultKind::InputOutput, FaultSpan::Once),
    (FaultKind::InputOutput, FaultSpan::UntilCleared),
    (FaultKind::StorageFull, FaultSpan::Once),
    (FaultKind::StorageFull, FaultSpan::UntilCleared),
];

/// No scenario has this many operations.
const OPERATIONS_MAX: u64 = 2000;
/// About half of it is left in the journal after compression.
const LARGE_BYTES: usize = 300_000;

/// A failure that did harm.
#[derive(Debug)]
pub struct SweepFailure {
    /// Which operation failed, from 1.
    pub nth: u64,
    /// What is wrong.
    pub fault: Fault,
    /// The last operations of the disk.
    pub operations: String,
}

/// Makes every operation of a scenario fail in that way, with a database that is encrypted or not; returns how many there
/// were.
///
/// # Errors
/// The first failure that did harm.
pub fn sweep(
    at_rest: AtRest,
    scenario: Scenario,
    kind: FaultKind,
    span: FaultSpan,
) -> Result<u64, Box<SweepFailure>> {
    for nth in 1..OPERATIONS_MAX {
        let mut sweep = Sweep::new(at_rest, scenario);
        match guarded(|| sweep.run(nth, kind, span)) {
            Ok(true) => {}
            Ok(false) => return Ok(nth - 1),
            Err(fault) => {
                let operations = last_operations(&sweep.bench.simulation.disk);
                return Err(Box::new(SweepFailure { nth, fault, operations }));
            }
        }
    }
    let fault = Fault::wrong(format!("{scenario:?} has no end"));
    Err(Box::new(SweepFailure { nth: OPERATIONS_MAX, fault, operations: String::new() }))
}

struct Sweep {
    scenario: Scenario,
    bench: Bench,
    environment: Option<Arc<Environment>>,
    documents: u64,
}

impl Sweep {
    fn new(at_rest: AtRest, scenario: Scenario) -> Self {
        let mut bench = Bench::at_rest(at_rest, 1);
        bench.options.journal_bytes_max = 256 * 1024;
        Self { scenario, bench, environment: None, documents: 0 }
    }

    /// Returns whether the scenario has an `nth` operation.
    fn run(&mut self, nth: u64, kind: FaultKind, span: FaultSpan) -> Result<bool, Fault> {
        self.prepare().map_err(|stop| match stop {
            Stop::Fault(fault) => fault,
            Stop::Refused(error) => Fault::from(error).during("before anything failed"),
        })?;
        let disk = self.bench.simulation.disk.clone();
        let before = disk.operation_count(OperationFilter::Any);
        disk.fail_operation(nth, OperationFilter::Any, kind, span);
        let acted = self.act();
        let reached = disk.operation_count(OperationFilter::Any) - before >= nth;
        match acted {
            Err(Stop::Fault(fault)) => return Err(fault),
            Err(Stop::Refused(error)) if !reached => {
                return Err(Fault::from(error).during("nothing failed"));
            }
            Err(Stop::Refused(_)) | Ok(()) => {}
        }
        self.readers_see_what_was_acknowledged()?;
        disk.clear_faults();
        self.continues_after_a_full_disk(kind)?;
        self.is_whole_when_opened_again()?;
        Ok(reached)
    }

    fn prepare(&mut self) -> Result<(), Stop> {
        if self.scenario == Scenario::Create {
            return Ok(());
        }
        let environment = self.bench.open()?;
        for number in 0..6 {
            self.write(&environment, 3_000 * number)?;
            if number == 2 {
                environment.flush()?;
            }
        }
        match self.scenario {
            Scenario::CommitSmall | Scenario::CommitLarge | Scenario::Flush => {
                self.environment = Some(environment);
            }
            Scenario::Recovery => {
                drop(environment);
                let cut = self.bench.simulation.disk.power_cut(Survival::Everything);
                cut.map_err(|error| Fault::wrong(error.to_string()))?;
            }
            Scenario::Create | Scenario::Compaction => {}
        }
        Ok(())
    }

    /// The scenario; it continues after an error where a caller could.
    fn act(&mut self) -> Result<(), Stop> {
        let Some(environment) = self.environment.clone() else {
            if self.scenario == Scenario::Compaction {
                let platform = &self.bench.simulation.platform;
                compact_in_place(platform, &self.bench.options, documents::TABLES, &mut |_| {
                    ControlFlow::Continue(())
                })?;
            }
            self.environment = Some(self.bench.open()?);
            return Ok(());
        };
        let mut first_error = Ok(());
        for number in 0..5 {
            let outcome = self.step(&environment, number);
            if matches!(outcome, Err(Stop::Fault(_))) {
                return outcome;
            }
            first_error = first_error.and(outcome);
            if environment.has_failed() {
                break;
            }
        }
        first_error
    }

    fn step(&mut self, environment: &Arc<Environment>, number: usize) -> Result<(), Stop> {
        match self.scenario {
            Scenario::CommitLarge => self.write(environment, LARGE_BYTES),
            Scenario::Flush => {
                let reader = (number == 2).then(|| environment.read());
                environment.flush()?;
                self.write(environment, 5_000 * number)?;
                drop(reader);
                environment.flush()?;
                Ok(())
            }
            Scenario::CommitSmall
            | Scenario::Create
            | Scenario::Recovery
            | Scenario::Compaction => self.write(environment, 10),
        }
    }

    /// One transaction. Whether it is there after an error is open only if the environment failed.
    fn write(&mut self, environment: &Arc<Environment>, bytes: usize) -> Result<(), Stop> {
        self.documents += 1;
        let mut random = Random::new(self.documents);
        let body = json("Users", &noise(&mut random, bytes));
        let commands = [put(&format!("u/{}", self.documents % 7), &body), identity()];
        let batch: Batch = batch(commands);
        let mut tx = environment.write()?;
        if let Err(error) = execute(&mut tx, &self.bench.simulation.platform, &batch) {
            return Err(Fault::from(error).into());
        }
        let mut naive = self.bench.acknowledged.clone();
        if naive.apply(&batch).is_err() {
            return Err(Fault::wrong("the model refuses what the database did").into());
        }
        self.bench.in_flight = Some(naive);
        let committed = tx.commit();
        match &committed {
            Ok(()) => {
                self.bench.acknowledged = self.bench.in_flight.take().expect("put there above");
            }
            Err(_) if !environment.has_failed() => self.bench.in_flight = None,
            Err(_) => {}
        }
        Ok(committed?)
    }

    fn readers_see_what_was_acknowledged(&self) -> Result<(), Fault> {
        let Some(environment) = &self.environment else { return Ok(()) };
        Bench::compare(&environment.read(), &self.bench.acknowledged.content())
            .map_err(|fault| fault.during("a reader after the failure"))
    }

    /// Without reopening, because a full disk is a temporary state.
    fn continues_after_a_full_disk(&mut self, kind: FaultKind) -> Result<(), Fault> {
        let Some(environment) = self.environment.clone() else { return Ok(()) };
        if environment.has_failed() || kind != FaultKind::StorageFull {
            return Ok(());
        }
        let written = self.write(&environment, 10).and_then(|()| Ok(environment.flush()?));
        written.map_err(|stop| match stop {
            Stop::Fault(fault) => fault,
            Stop::Refused(error) => Fault::from(error).during("with space again"),
        })
    }

    fn is_whole_when_opened_again(&mut self) -> Result<(), Fault> {
        self.environment = None;
        let opened = |error: DocumentError| Fault::from(error).during("opening again");
        let environment = self.bench.open().map_err(opened)?;
        self.bench.judge(&environment)?;
        let written = self.write(&environment, 10).and_then(|()| Ok(environment.flush()?));
        if let Err(Stop::Refused(error)) = written {
            return Err(Fault::from(error).during("writing again"));
        }
        drop(environment);
        let environment = self.bench.open().map_err(opened)?;
        self.bench.judge(&environment).map(drop)
    }
}

fn identity() -> Command {
    Command::IdentityNext { name: "swept".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creating_a_database_survives_every_failure() {
        for (kind, span) in FAILURES {
            for at_rest in [AtRest::Plain, AtRest::Encrypted] {
                let operations = sweep(at_rest, Scenario::Create, kind, span);
                let operations = operations.unwrap_or_else(|failure| panic!("{failure:?}"));
                assert!(operations > 10, "{kind:?} {span:?}: only {operations} operations");
            }
        }
    }
}
