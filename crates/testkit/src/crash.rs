//! Power cuts in the middle of histories of batches: every acknowledged batch survives completely;
//! no other in part; nothing else has changed.
//!
//! One seed is one database that lives through [`CUTS_PER_DATABASE`] cuts: inside transactions,
//! flushes, compactions and openings. The comparison covers everything a database holds, including
//! etags and counts, so a gap or a repeat in the log is a difference like any other.

use std::{fmt, ops::ControlFlow, sync::Arc};

use platform::simulated::{SimulatedDisk, Survival};
use storage::{Environment, ReadTransaction, StorageError, compact_in_place};

use crate::{
    Bench, Fault,
    bench::Stop,
    database::{AtRest, Content},
    guarded, queue_crash,
};

/// Cuts that one database lives through.
pub const CUTS_PER_DATABASE: u64 = 4;
/// Every this many seeds the commit queue writes, with its threads.
const QUEUE_EVERY: u64 = 4;
/// Every this many seeds documents are so large that journal files change all the time.
const LARGE_EVERY: u64 = 7;
/// Every this many seeds memory is so short that flushes have several portions, and are held back
/// by readers.
const SHORT_OF_MEMORY_EVERY: u64 = 2;
const UNFLUSHED_BYTES_MAX: u64 = 768 << 10;
/// A cut happens within this many changes of the disk after the start.
const OPERATIONS_MAX: u64 = 80;
/// About the number of changes that opening and recovery take.
const OPENING_OPERATIONS_MAX: u64 = 14;
const STEPS_MAX: u64 = 60;
/// Operations of the disk that a failure prints.
const LOG_LINES_MAX: usize = 60;

/// The outcome of the cuts of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survived {
    /// Power cuts.
    pub cuts: u64,
    /// Cuts that hit before the database was open again.
    pub while_opening: u64,
    /// Cuts that left the transaction in flight.
    pub kept_in_flight: u64,
}

/// A database that did not survive.
#[derive(Debug)]
pub struct CrashFailure {
    /// The seed of the database.
    pub seed: u64,
    /// Which of its cuts, from 1.
    pub cut: u64,
    /// What is wrong.
    pub fault: Fault,
    /// The last operations of the disk.
    pub operations: String,
}

impl fmt::Display for CrashFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, cut, fault, operations } = self;
        write!(formatter, "seed {seed}, cut {cut}: {fault}\n{operations}")
    }
}

/// Lets the database of a seed, encrypted or not, live through its cuts.
///
/// # Errors
/// The first cut after which something is wrong.
pub fn survive(at_rest: AtRest, seed: u64) -> Result<Survived, Box<CrashFailure>> {
    let mut life = Life::new(at_rest, seed);
    let outcome = guarded(|| {
        if seed % QUEUE_EVERY == QUEUE_EVERY - 1 {
            return queue_crash::survive(&mut life.bench, &mut life.survived);
        }
        while life.survived.cuts < CUTS_PER_DATABASE {
            life.live_until_the_cut()?;
            life.come_back()?;
        }
        Ok(())
    });
    match outcome {
        Ok(()) => Ok(life.survived),
        Err(fault) => Err(Box::new(CrashFailure {
            seed,
            cut: life.survived.cuts,
            fault,
            operations: last_operations(&life.bench.simulation.disk),
        })),
    }
}

/// The end of the disk's log, a line for each operation.
pub(crate) fn last_operations(disk: &SimulatedDisk) -> String {
    let log = disk.log();
    let from = log.len().saturating_sub(LOG_LINES_MAX);
    log[from..].iter().map(|operation| format!("{operation}\n")).collect()
}

struct Life {
    bench: Bench,
    survived: Survived,
    /// A reader that holds the flush back, and what it must see for as long as it is there.
    reader: Option<(ReadTransaction, Content)>,
}

impl Life {
    fn new(at_rest: AtRest, seed: u64) -> Self {
        let mut bench = Bench::at_rest(at_rest, seed);
        bench.options.journal_bytes_max = (256 * 1024) << (seed % 3);
        if seed.is_multiple_of(LARGE_EVERY) {
            bench.large_every = 2;
        } else if seed.is_multiple_of(SHORT_OF_MEMORY_EVERY) {
            bench.options.unflushed_bytes_max = UNFLUSHED_BYTES_MAX;
        }
        Self { bench, survived: Survived::default(), reader: None }
    }

    fn schedule_a_cut(&mut self, operations_max: u64) {
        let nth = 1 + self.bench.random.below(operations_max);
        let survival = Survival::ALL[self.bench.random.below(Survival::ALL.len() as u64) as usize];
        self.bench.simulation.disk.cut_power_at_operation(nth, survival);
        self.survived.cuts += 1;
    }

    /// Writes until the power is cut, or long enough; then the cut happens between two operations.
    fn live_until_the_cut(&mut self) -> Result<(), Fault> {
        let is_large = self.bench.large_every > 0;
        self.schedule_a_cut(if is_large { 3 * OPERATIONS_MAX } else { OPERATIONS_MAX });
        let lived = self.live();
        self.reader = None;
        match lived {
            Ok(()) => Ok(()),
            Err(Stop::Fault(fault)) => Err(fault),
            Err(Stop::Refused(_)) if self.bench.simulation.disk.is_power_lost() => Ok(()),
            Err(Stop::Refused(error)) => Err(Fault::from(error).during("before the cut")),
        }
    }

    fn live(&mut self) -> Result<(), Stop> {
        let mut environment = self.bench.open()?;
        for _ in 0..STEPS_MAX {
            match self.bench.random.below(40) {
                0..24 => self.write(&environment)?,
                24..26 => {
                    let written = self.bench.write_in_vain(&environment);
                    self.unless_a_reader_is_in_the_way(written)?;
                }
                26..30 => environment.flush()?,
                30..32 => environment.keep_up()?,
                32..35 => self.renew_reader(&environment)?,
                35 => self.drop_reader()?,
                36 => environment = self.close_and_open(environment)?,
                37 => environment = self.compact(environment)?,
                _ => Bench::compare(&environment.read(), &self.bench.acknowledged.content())?,
            }
        }
        self.drop_reader()
    }

    /// What is not acknowledged is not visible, not even when the write failed.
    fn write(&mut self, environment: &Arc<Environment>) -> Result<(), Stop> {
        let written = self.bench.write(environment);
        if written.is_err() {
            Bench::compare(&environment.read(), &self.bench.acknowledged.content())
                .map_err(|fault| fault.during("a reader after a failed write"))?;
        }
        self.unless_a_reader_is_in_the_way(written)
    }

    /// A reader may hold back the flush that a writer needs; then the reader is dropped.
    fn unless_a_reader_is_in_the_way(&mut self, written: Result<(), Stop>) -> Result<(), Stop> {
        match written {
            Err(Stop::Refused(StorageError::TooManyUnflushed { .. })) if self.reader.is_some() => {
                self.drop_reader()
            }
            written => written,
        }
    }

    fn renew_reader(&mut self, environment: &Arc<Environment>) -> Result<(), Stop> {
        self.drop_reader()?;
        self.reader = Some((environment.read(), self.bench.acknowledged.content()));
        Ok(())
    }

    fn drop_reader(&mut self) -> Result<(), Stop> {
        if let Some((tx, expected)) = self.reader.take() {
            Bench::compare(&tx, &expected).map_err(|fault| fault.during("an old snapshot"))?;
        }
        Ok(())
    }

    /// The new one opens although there is still a reference to the old one.
    fn close_and_open(&mut self, held: Arc<Environment>) -> Result<Arc<Environment>, Stop> {
        self.drop_reader()?;
        held.close()?;
        let environment = self.bench.open()?;
        drop(held);
        Ok(environment)
    }

    fn compact(&mut self, environment: Arc<Environment>) -> Result<Arc<Environment>, Stop> {
        self.drop_reader()?;
        drop(environment);
        let platform = &self.bench.simulation.platform;
        compact_in_place(platform, &self.bench.options, documents::TABLES, &mut |_| {
            ControlFlow::Continue(())
        })?;
        Ok(self.bench.open()?)
    }

    /// The power returns, and may be cut again immediately; then everything has to be there.
    fn come_back(&mut self) -> Result<(), Fault> {
        self.bench.simulation.disk.restart().map_err(|error| Fault::wrong(error.to_string()))?;
        while self.survived.cuts < CUTS_PER_DATABASE && self.bench.random.coin() {
            self.schedule_a_cut(OPENING_OPERATIONS_MAX);
            self.survived.while_opening += 1;
            let opened = self.bench.open();
            if let Err(error) = opened
                && !self.bench.simulation.disk.is_power_lost()
            {
                return Err(Fault::from(error).during("opening"));
            }
            self.bench
                .simulation
                .disk
                .restart()
                .map_err(|error| Fault::wrong(error.to_string()))?;
        }
        let environment =
            self.bench.open().map_err(|error| Fault::from(error).during("opening"))?;
        self.survived.kept_in_flight += u64::from(self.bench.judge(&environment)?);
        drop(environment);
        if self.bench.random.coin() {
            let again = self.bench.open()?;
            Bench::compare(&again.read(), &self.bench.acknowledged.content())
                .map_err(|fault| fault.during("opened once more"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use platform::simulated::OperationFilter;

    use super::*;

    #[test]
    fn the_cuts_reach_into_openings_and_transactions() {
        let mut sum = Survived::default();
        for seed in 0..32 {
            let at_rest = if seed % 2 == 0 { AtRest::Plain } else { AtRest::Encrypted };
            let survived = survive(at_rest, seed).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(survived.cuts, CUTS_PER_DATABASE, "seed {seed}");
            sum.cuts += survived.cuts;
            sum.while_opening += survived.while_opening;
            sum.kept_in_flight += survived.kept_in_flight;
        }
        assert!((10..sum.cuts).contains(&sum.while_opening), "{sum:?}");
        assert!((3..sum.cuts).contains(&sum.kept_in_flight), "{sum:?}");
    }

    #[test]
    fn a_history_takes_more_changes_of_the_disk_than_a_cut_waits_for() {
        let mut life = Life::new(AtRest::Encrypted, 3);
        let opened = life.bench.open().expect("no fault is scheduled");
        let disk = life.bench.simulation.disk.clone();
        assert!(disk.operation_count(OperationFilter::Mutating) < OPERATIONS_MAX / 2);
        drop(opened);
        life.live().expect("no fault is scheduled");
        assert!(disk.operation_count(OperationFilter::Mutating) > OPERATIONS_MAX);
    }
}
