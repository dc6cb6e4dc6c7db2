//! From a handler to the commit queue and back, without blocking the handler's thread.

use commands::{Batch, BatchOutcome, Command, CommandError, SubmitError};
use database::DatabaseLease;
use documents::{PutDocument, RequestedId};
use tokio::sync::oneshot;
use wire::{ErrorKind, ProtocolError};

use crate::{
    cluster_commands::next_identities,
    error_mapping::{command_error, document_error, needs_reopening, submit_error},
    server_state::ServerState,
};

/// Submits a batch and waits until it is durable, or has failed.
pub(crate) async fn submit(
    state: &ServerState,
    database: &DatabaseLease,
    mut batch: Batch,
) -> Result<BatchOutcome, ProtocolError> {
    finish_ids(state, database, &mut batch).await?;
    let huge = huge_puts(database, &batch);
    let answer = begin(state, database, batch)?;
    let outcome = settle(state, database, answer.await)?;
    for (id, bytes) in huge {
        database.huge_documents().note(&id, bytes, state.platform.clock.now());
    }
    Ok(outcome)
}

/// The large documents that a batch stores under ids of its own choice.
fn huge_puts(database: &DatabaseLease, batch: &Batch) -> Vec<(String, usize)> {
    let puts = batch.commands.iter().filter_map(|command| match command {
        Command::Put(PutDocument { id: RequestedId::Exactly(id), body, .. }) => {
            Some((id, body.as_bytes().len()))
        }
        _ => None,
    });
    let huge = puts.filter(|(_, bytes)| database.huge_documents().is_huge(*bytes));
    huge.map(|(id, bytes)| (id.as_str().to_owned(), bytes)).collect()
}

/// Gives documents whose ids an identity is to finish the next value of it. They are new then.
async fn finish_ids(
    state: &ServerState,
    database: &DatabaseLease,
    batch: &mut Batch,
) -> Result<(), ProtocolError> {
    let puts = batch.commands.iter_mut().filter_map(|command| match command {
        Command::Put(put) => Some(put),
        _ => None,
    });
    let mut names = Vec::new();
    let mut unfinished = Vec::new();
    for put in puts {
        if let RequestedId::Identity(identity) = &put.id {
            names.push(identity.name.clone());
            unfinished.push(put);
        }
    }
    let numbers = next_identities(state, database, names).await?;
    for (put, number) in unfinished.into_iter().zip(numbers) {
        put.finish_id(number).map_err(|error| document_error(&error))?;
    }
    Ok(())
}

/// The answer of a batch that was submitted.
pub(crate) type Submitted = oneshot::Receiver<Result<BatchOutcome, CommandError>>;

/// Submits a batch; its answer comes later.
pub(crate) fn begin(
    state: &ServerState,
    database: &DatabaseLease,
    batch: Batch,
) -> Result<Submitted, ProtocolError> {
    let (sender, receiver) = oneshot::channel();
    // A client that has gone does not take its batch back.
    let reply = Box::new(move |outcome| drop(sender.send(outcome)));
    let submitted = database.queue().submit(batch, reply);
    submitted.map_err(|error| not_submitted(state, database, &error))?;
    Ok(receiver)
}

/// What it means for the client, and for the database, that a batch was not taken.
pub(crate) fn not_submitted(
    state: &ServerState,
    database: &DatabaseLease,
    error: &SubmitError,
) -> ProtocolError {
    if *error == SubmitError::Closed {
        state.registry.reopen_after_failure(database);
    }
    submit_error(error)
}

/// What it means for the client, and for the database, that a batch was not done.
pub(crate) fn not_done(
    state: &ServerState,
    database: &DatabaseLease,
    error: &CommandError,
) -> ProtocolError {
    if needs_reopening(error) {
        state.registry.reopen_after_failure(database);
    }
    command_error(error)
}

/// What the answer of a batch means for the client, and for the database.
pub(crate) fn settle(
    state: &ServerState,
    database: &DatabaseLease,
    answer: Result<Result<BatchOutcome, CommandError>, oneshot::error::RecvError>,
) -> Result<BatchOutcome, ProtocolError> {
    match answer {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(error)) => Err(not_done(state, database, &error)),
        Err(_) => Err(ProtocolError::new(
            ErrorKind::StorageFailed,
            "the queue of changes ended without an answer; it is unknown whether they were written",
        )),
    }
}
