//! From a handler to the commit queue and back, without blocking the handler's thread.

use commands::{Batch, BatchOutcome, CommandError};
use database::DatabaseLease;
use tokio::sync::oneshot;
use wire::{ErrorKind, ProtocolError};

use crate::{
    error_mapping::{command_error, needs_reopening, submit_error},
    server_state::ServerState,
};

/// Submits a batch and waits until it is durable, or has failed.
pub(crate) async fn submit(
    state: &ServerState,
    database: &DatabaseLease,
    batch: Batch,
) -> Result<BatchOutcome, ProtocolError> {
    let answer = begin(state, database, batch)?;
    settle(state, database, answer.await)
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
    database.queue().submit(batch, reply).map_err(|error| {
        if error == commands::SubmitError::Closed {
            state.registry.reopen_after_failure(database);
        }
        submit_error(&error)
    })?;
    Ok(receiver)
}

/// What the answer of a batch means for the client, and for the database.
pub(crate) fn settle(
    state: &ServerState,
    database: &DatabaseLease,
    answer: Result<Result<BatchOutcome, CommandError>, oneshot::error::RecvError>,
) -> Result<BatchOutcome, ProtocolError> {
    match answer {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(error)) => {
            if needs_reopening(&error) {
                state.registry.reopen_after_failure(database);
            }
            Err(command_error(&error))
        }
        Err(_) => Err(ProtocolError::new(
            ErrorKind::StorageFailed,
            "the queue of changes ended without an answer; it is unknown whether they were written",
        )),
    }
}
