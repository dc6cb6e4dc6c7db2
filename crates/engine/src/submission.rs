//! Batches of commands: to the commit queue of a database, and what their outcome means for it.

use std::sync::mpsc;

use cluster_state::{Command as ClusterCommand, IdentityCommand, Outcome};
use commands::{Batch, BatchOutcome, Command, CommandError, Reply, SubmitError};
use database::DatabaseLease;
use documents::{PutDocument, RequestedId};
use storage::StorageError;

use crate::{engine::Engine, error::EngineError};

impl Engine {
    /// Executes a batch and waits until it is durable. Documents whose ids an identity completes receive
    /// its next values. Blocks.
    ///
    /// # Errors
    /// The batch was not accepted, or failed. Nothing of it was done, unless the error says that the
    /// outcome is unknown.
    pub fn execute(
        &self,
        database: &DatabaseLease,
        mut batch: Batch,
    ) -> Result<BatchOutcome, EngineError> {
        let names = identities_of(&batch);
        let numbers = self.next_identities(database, names)?;
        finish_ids(&mut batch, numbers)?;
        let huge = HugePuts::of(database, &batch);
        let (sender, receiver) = mpsc::channel();
        // The receiver waits for it.
        self.submit(database, batch, Box::new(move |outcome| drop(sender.send(outcome))))?;
        let outcome = receiver.recv().unwrap_or_else(|_| Err(no_outcome()));
        let outcome = self.settle(database, outcome)?;
        huge.note(self, database);
        Ok(outcome)
    }

    /// Submits a batch whose ids are complete. `reply` is called on a thread of the commit queue when the batch
    /// is durable or has failed; pass its argument to [`Engine::settle`]. Never blocks.
    ///
    /// # Errors
    /// The queue is full or closed, or the disk is. `reply` is not called then.
    pub fn submit(
        &self,
        database: &DatabaseLease,
        batch: Batch,
        reply: Reply,
    ) -> Result<(), EngineError> {
        database.queue().submit(batch, reply).map_err(|error| self.not_submitted(database, error))
    }

    /// The outcome of a batch. A database whose storage failed is closed, and opened again through recovery.
    ///
    /// # Errors
    /// The batch failed.
    pub fn settle(
        &self,
        database: &DatabaseLease,
        outcome: Result<BatchOutcome, CommandError>,
    ) -> Result<BatchOutcome, EngineError> {
        outcome.map_err(|error| {
            self.note_failure(database, &error);
            EngineError::Command(error)
        })
    }

    /// Closes a database after this failure of a batch, if it cannot be used any more; the next request opens
    /// it again.
    pub fn note_failure(&self, database: &DatabaseLease, error: &CommandError) {
        if matches!(error, CommandError::OutcomeUnknown(_) | CommandError::Closed) {
            self.registry.reopen_after_failure(database);
        }
    }

    /// The error of a batch that was not accepted. As [`Engine::settle`].
    pub fn not_submitted(&self, database: &DatabaseLease, error: SubmitError) -> EngineError {
        if error == SubmitError::Closed {
            self.registry.reopen_after_failure(database);
        }
        EngineError::Submit(error)
    }

    /// The next value of each of these identities. Blocks.
    fn next_identities(
        &self,
        database: &DatabaseLease,
        names: Vec<String>,
    ) -> Result<Vec<i64>, EngineError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(refusal) = database.disk_space().refusal() {
            return Err(SubmitError::LowDiskSpace(refusal).into());
        }
        let command = IdentityCommand::Next { database: database.record().topology_id, names };
        match self.cluster.submit_and_wait(&ClusterCommand::Identity(command))?.outcome {
            Outcome::Identities(values) => Ok(values),
            _ => {
                let what = "the values of identities are missing".to_owned();
                Err(EngineError::Internal { what })
            }
        }
    }
}

/// The outcome of a batch whose queue ended without one.
pub fn no_outcome() -> CommandError {
    CommandError::OutcomeUnknown(StorageError::Closed)
}

/// The names of the identities that complete ids of a batch, one for each such id.
pub fn identities_of(batch: &Batch) -> Vec<String> {
    let name = |command: &Command| match command {
        Command::Put(PutDocument { id: RequestedId::Identity(identity), .. }) => {
            Some(identity.name.clone())
        }
        _ => None,
    };
    batch.commands.iter().filter_map(name).collect()
}

/// Completes the ids of a batch with the values of [`identities_of`], in their order.
///
/// # Errors
/// An id would be too long.
pub fn finish_ids(batch: &mut Batch, numbers: Vec<i64>) -> Result<(), EngineError> {
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
/// durable.
pub struct HugePuts {
    puts: Vec<(String, usize)>,
}

impl HugePuts {
    /// Those of a batch.
    pub fn of(database: &DatabaseLease, batch: &Batch) -> HugePuts {
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

    /// Lists them.
    pub fn note(self, engine: &Engine, database: &DatabaseLease) {
        for (id, bytes) in self.puts {
            database.huge_documents().note(&id, bytes, engine.platform.clock.now());
        }
    }
}
