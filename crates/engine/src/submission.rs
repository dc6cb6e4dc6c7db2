//! Batches of commands: on their way to the commit queue of a database, and the consequences of
//! their outcome.
//!
//! A batch is prepared, submitted and settled. Only how the waits between these steps are done differs between a
//! caller that blocks ([`Engine::execute`]) and one that awaits.

use std::sync::mpsc;

use commands::{Batch, BatchOutcome, Command, CommandError, Reply, SubmitError};
use database::{DatabaseLease, WritesRefused};
use documents::{PutDocument, RequestedId};
use storage::StorageError;

use crate::{engine::Engine, error::EngineError, next_identities::NextIdentities};

/// A batch whose ids wait for the next values of identities, if it has such ids.
pub struct Preparation<'d> {
    database: &'d DatabaseLease,
    batch: Batch,
    identities: NextIdentities,
}

/// A batch whose ids are complete.
pub struct PreparedBatch {
    batch: Batch,
    huge: HugePuts,
}

/// A batch that was submitted; pass it to [`Engine::settle`] with its outcome.
#[derive(Default)]
pub struct SubmittedBatch {
    huge: HugePuts,
}

impl Engine {
    /// Executes a batch and waits until it is durable. Documents whose ids are completed by an
    /// identity receive its next values. Blocks.
    ///
    /// # Errors
    /// The batch was not accepted, or failed. Nothing of it was done, unless the error says that the
    /// outcome is unknown.
    pub fn execute(
        &self,
        database: &DatabaseLease,
        batch: Batch,
    ) -> Result<BatchOutcome, EngineError> {
        let prepared = self.prepare(database, batch)?.wait()?;
        let (sender, receiver) = mpsc::channel();
        // The receiver waits for it.
        let reply = Box::new(move |outcome| drop(sender.send(outcome)));
        let submitted = self.submit(database, prepared, reply)?;
        self.settle(database, submitted, receiver.recv().ok())
    }

    /// Requests what the ids of a batch need to be complete. Never blocks.
    ///
    /// # Errors
    /// Those of [`Engine::next_identities`].
    pub fn prepare<'d>(
        &self,
        database: &'d DatabaseLease,
        batch: Batch,
    ) -> Result<Preparation<'d>, EngineError> {
        let identities = self.next_identities(database, identities_of(&batch))?;
        Ok(Preparation { database, batch, identities })
    }

    /// Submits a batch. `reply` is called on a commit thread when the batch is durable or has failed;
    /// pass its argument to [`Engine::settle`]. Never blocks.
    ///
    /// # Errors
    /// The queue is full or closed, the disk is full, or the database takes no writes of clients
    /// ([`EngineError::ChangesLost`], [`EngineError::Leaving`]). `reply` is not called then.
    pub fn submit(
        &self,
        database: &DatabaseLease,
        prepared: PreparedBatch,
        reply: Reply,
    ) -> Result<SubmittedBatch, EngineError> {
        let PreparedBatch { batch, huge } = prepared;
        // What other members send is taken in any case: they have it.
        let submitted = match &batch.commands[..] {
            [Command::Receive(received)] if received.is_member => {
                database.queue().submit(batch, reply)
            }
            _ => database
                .submit_of_client(|| database.queue().submit(batch, reply))
                .map_err(|refused| writes_refused(database, refused))?,
        };
        submitted.map_err(|error| self.not_submitted(database, error))?;
        Ok(SubmittedBatch { huge })
    }

    /// Lists the huge documents of a batch that is durable, and returns its outcome; `outcome` is `None` if the
    /// queue ended without one. A database whose storage failed is closed, and opened again through recovery.
    ///
    /// # Errors
    /// The batch failed.
    pub fn settle(
        &self,
        database: &DatabaseLease,
        submitted: SubmittedBatch,
        outcome: Option<Result<BatchOutcome, CommandError>>,
    ) -> Result<BatchOutcome, EngineError> {
        let unknown = || Err(CommandError::OutcomeUnknown(StorageError::Closed));
        let outcome = outcome.unwrap_or_else(unknown).map_err(|error| {
            self.note_failure(database, &error);
            EngineError::Command(error)
        })?;
        for (id, bytes) in submitted.huge.puts {
            database.huge_documents().note(&id, bytes, self.platform.clock.now());
        }
        Ok(outcome)
    }

    /// Closes a database after this failure of a batch if it cannot be used any more; the next
    /// request opens it again.
    pub fn note_failure(&self, database: &DatabaseLease, error: &CommandError) {
        if matches!(error, CommandError::OutcomeUnknown(_) | CommandError::Closed) {
            self.registry.reopen_after_failure(database);
        }
    }

    /// The error for a batch that was not accepted. As [`Engine::settle`].
    pub fn not_submitted(&self, database: &DatabaseLease, error: SubmitError) -> EngineError {
        if error == SubmitError::Closed {
            self.registry.reopen_after_failure(database);
        }
        EngineError::Submit(error)
    }
}

impl Preparation<'_> {
    /// The batch when its ids are complete. Blocks.
    ///
    /// # Errors
    /// There are no values for the identities; an id would be too long.
    pub fn wait(self) -> Result<PreparedBatch, EngineError> {
        prepared(self.database, self.batch, self.identities.wait()?)
    }

    /// As [`Preparation::wait`], without blocking.
    ///
    /// # Errors
    /// Those of [`Preparation::wait`].
    pub async fn ready(self) -> Result<PreparedBatch, EngineError> {
        prepared(self.database, self.batch, self.identities.ready().await?)
    }
}

impl From<Batch> for PreparedBatch {
    /// A batch whose ids are complete from the beginning, and of which no document is listed as huge.
    fn from(batch: Batch) -> PreparedBatch {
        PreparedBatch { batch, huge: HugePuts::default() }
    }
}

fn writes_refused(database: &DatabaseLease, refused: WritesRefused) -> EngineError {
    let database = database.record().name.as_str().to_owned();
    match refused {
        WritesRefused::Lost(reason) => {
            EngineError::ChangesLost { database, reason: reason.as_ref().to_owned() }
        }
        WritesRefused::Leaving => EngineError::Leaving { database },
    }
}

fn prepared(
    database: &DatabaseLease,
    mut batch: Batch,
    numbers: Vec<i64>,
) -> Result<PreparedBatch, EngineError> {
    finish_ids(&mut batch, numbers)?;
    let huge = HugePuts::of(database, &batch);
    Ok(PreparedBatch { batch, huge })
}

/// The names of the identities that complete ids of a batch, one for each such id.
fn identities_of(batch: &Batch) -> Vec<String> {
    let name = |command: &Command| match command {
        Command::Put(PutDocument { id: RequestedId::Identity(identity), .. }) => {
            Some(identity.name.clone())
        }
        _ => None,
    };
    batch.commands.iter().filter_map(name).collect()
}

/// Completes the ids of a batch with the values of [`identities_of`], in their order.
fn finish_ids(batch: &mut Batch, numbers: Vec<i64>) -> Result<(), EngineError> {
    let mut numbers = numbers.into_iter();
    for command in &mut batch.commands {
        if let Command::Put(put) = command
            && matches!(put.id, RequestedId::Identity(_))
            && let Some(number) = numbers.next()
        {
            put.finish_id(number)?;
        }
    }
    Ok(())
}

/// The large documents that a batch stores under ids of its own choice, which are listed as huge once they are
/// durable: ids and sizes in bytes.
#[derive(Default)]
struct HugePuts {
    puts: Vec<(String, usize)>,
}

impl HugePuts {
    fn of(database: &DatabaseLease, batch: &Batch) -> HugePuts {
        let huge = |command: &Command| match command {
            Command::Put(PutDocument { id: RequestedId::Exactly(id), body, .. }) => {
                let bytes = body.as_bytes().len();
                let is_huge = database.huge_documents().is_huge(bytes);
                is_huge.then(|| (id.as_str().to_owned(), bytes))
            }
            _ => None,
        };
        HugePuts { puts: batch.commands.iter().filter_map(huge).collect() }
    }
}
