//! A database on a simulated disk, along with the model of what it must hold.
//!
//! Invariant: `acknowledged` is what the database has confirmed; `in_flight` is the next state,
//! which a failure may also have left, completely.

use std::sync::Arc;

use commands::CommandError;
use documents::DocumentError;
use platform::{
    Platform,
    simulated::{Random, Simulation},
};
use storage::{
    Environment, EnvironmentOptions, ReadTransaction, SealedTransaction, StorageError,
    WriteTransaction,
};

use crate::{
    Fault, Naive,
    database::{AtRest, Content, content_of, execute, open_with},
    histories::{large_batch, random_batch},
};

/// Transactions that are sealed before the first of them is made durable.
const PIPELINED_MAX: u64 = 3;
const BATCHES_MAX: u64 = 3;

/// Why a step of a history went no further.
#[derive(Debug)]
pub enum Stop {
    /// The disk refused; the driver knows whether that is allowed.
    Refused(StorageError),
    /// The database is wrong.
    Fault(Fault),
}

impl Stop {
    /// Turns a refusal into a fault, where no step may be refused.
    pub(crate) fn into_fault(self) -> Fault {
        match self {
            Self::Refused(error) => error.into(),
            Self::Fault(fault) => fault,
        }
    }
}

impl From<StorageError> for Stop {
    fn from(error: StorageError) -> Self {
        Self::Refused(error)
    }
}

impl From<DocumentError> for Stop {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Storage(error) => Self::Refused(error),
            error => Self::Fault(error.into()),
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The database, the model and the dice.
pub struct Bench {
    /// The machine.
    pub simulation: Simulation,
    /// How the environment is opened.
    pub options: EnvironmentOptions,
    /// The dice of the history; the disk has its own.
    pub random: Random,
    /// One in this many transactions has a document that nearly fills a journal file; 0 for none.
    pub large_every: u64,
    /// What was acknowledged.
    pub acknowledged: Naive,
    /// What the disk may hold beyond that, if it holds it whole.
    pub in_flight: Option<Naive>,
}

impl Bench {
    /// An empty machine.
    pub fn new(seed: u64) -> Self {
        Self::at_rest(AtRest::Plain, seed)
    }

    /// An empty machine, for a database that is encrypted or not.
    pub fn at_rest(at_rest: AtRest, seed: u64) -> Self {
        Self {
            simulation: Platform::simulated(seed),
            options: at_rest.options(),
            random: Random::new(seed ^ 0x5eed),
            large_every: 0,
            acknowledged: Naive::default(),
            in_flight: None,
        }
    }

    /// Opens the database.
    ///
    /// # Errors
    /// As [`open_with`].
    pub fn open(&self) -> Result<Arc<Environment>, DocumentError> {
        open_with(&self.simulation.platform, self.options.clone())
    }

    /// Executes a few batches in one transaction; returns the model afterwards.
    ///
    /// # Errors
    /// A batch that succeeds here and fails there.
    pub fn fill(&mut self, tx: &mut WriteTransaction, before: &Naive) -> Result<Naive, Stop> {
        let mut naive = before.clone();
        let is_large = self.large_every > 0 && self.random.below(self.large_every) == 0;
        for number in 0..1 + self.random.below(BATCHES_MAX) {
            let batch = match number {
                0 if is_large => large_batch(&mut self.random),
                _ => random_batch(&mut self.random, &naive),
            };
            let real = execute(tx, &self.simulation.platform, &batch);
            if let Err(CommandError::Document(DocumentError::Storage(error))) = real {
                return Err(error.into());
            }
            let expected = naive.apply(&batch);
            if real.is_ok() != expected.is_ok() {
                let fault = format!("a batch ended as {real:?}, in the model as {expected:?}");
                return Err(Fault::wrong(fault).into());
            }
        }
        Ok(naive)
    }

    /// Up to [`PIPELINED_MAX`] transactions, each built on the one before while that is not durable,
    /// as the commit queue does.
    ///
    /// # Errors
    /// The first refusal; only the transaction that was being written is in flight then.
    pub fn write(&mut self, environment: &Arc<Environment>) -> Result<(), Stop> {
        for (sealed, naive) in self.seal_some(environment)? {
            self.in_flight = Some(naive);
            sealed.make_durable()?;
            self.acknowledged = self.in_flight.take().expect("it was put there above");
        }
        Ok(())
    }

    fn seal_some(
        &mut self,
        environment: &Arc<Environment>,
    ) -> Result<Vec<(SealedTransaction, Naive)>, Stop> {
        let mut sealed: Vec<(SealedTransaction, Naive)> = Vec::new();
        for _ in 0..1 + self.random.below(PIPELINED_MAX) {
            let mut tx = match environment.write() {
                // Sealed transactions that are not durable cannot be flushed: they fill the memory
                // by themselves.
                Err(StorageError::TooManyUnflushed { .. }) if !sealed.is_empty() => break,
                tx => tx?,
            };
            let before = sealed.last().map_or(&self.acknowledged, |(_, naive)| naive).clone();
            let naive = self.fill(&mut tx, &before)?;
            sealed.push((tx.seal()?, naive));
        }
        Ok(sealed)
    }

    /// Abandons sealed transactions, and one that was never sealed: nothing of them remains, and
    /// nothing that was built on them can be made durable.
    ///
    /// # Errors
    /// As [`Bench::write`].
    pub fn write_in_vain(&mut self, environment: &Arc<Environment>) -> Result<(), Stop> {
        let mut tx = environment.write()?;
        let before = self.acknowledged.clone();
        self.fill(&mut tx, &before)?;
        drop(tx);
        let mut sealed = self.seal_some(environment)?.into_iter();
        let Some((given_up, naive)) = sealed.next() else { return Ok(()) };
        let mut is_lost = naive.content() != before.content();
        let mut base = naive;
        drop(given_up);
        for (built_on_it, naive) in sealed {
            let changes = naive.content() != base.content();
            let in_flight = self.in_flight.insert(naive);
            base = in_flight.clone();
            match built_on_it.make_durable() {
                Ok(()) if is_lost && changes => {
                    let fault = "a transaction built on an abandoned one became durable";
                    return Err(Fault::wrong(fault).into());
                }
                Ok(()) if is_lost => self.in_flight = None,
                Ok(()) => self.acknowledged = self.in_flight.take().expect("it is there"),
                Err(error) if environment.has_failed() => return Err(error.into()),
                Err(_) => {
                    // The abandoned one had written what was already there: it was lost, too.
                    is_lost = true;
                    self.in_flight = None;
                }
            }
        }
        Ok(())
    }

    /// Compares a snapshot with the model of it.
    ///
    /// # Errors
    /// What is wrong with it, or where it differs.
    pub fn compare(tx: &ReadTransaction, expected: &Content) -> Result<(), Fault> {
        let found = content_of(tx)?;
        if found == *expected {
            return Ok(());
        }
        Err(Fault::wrong(found.difference(expected)))
    }

    /// After a restart: the database must be in the acknowledged state, or that plus the
    /// transaction in flight. The model is then set to what was found. Returns whether the
    /// transaction in flight was there.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge(&mut self, environment: &Arc<Environment>) -> Result<bool, Fault> {
        let found = content_of(&environment.read())?;
        let acknowledged = self.acknowledged.content();
        let in_flight = self.in_flight.take();
        if found == acknowledged {
            return Ok(false);
        }
        match in_flight {
            Some(naive) if naive.content() == found => {
                self.acknowledged = naive;
                Ok(true)
            }
            Some(naive) => Err(Fault::wrong(format!(
                "compared with the acknowledged state: {}; compared with that in flight: {}",
                found.difference(&acknowledged),
                found.difference(&naive.content())
            ))),
            None => Err(Fault::wrong(format!(
                "compared with the acknowledged state: {}",
                found.difference(&acknowledged)
            ))),
        }
    }
}
