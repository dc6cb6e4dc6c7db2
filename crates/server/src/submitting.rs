//! From a handler to the commit queue and back, without blocking the handler's thread.

use commands::{Batch, BatchOutcome, CommandError};
use database::DatabaseLease;
use engine::{HugePuts, finish_ids, identities_of, no_outcome};
use tokio::sync::oneshot;

use crate::{api_error::ApiError, cluster_commands::next_identities, server_state::ServerState};

/// Submits a batch and waits until it is durable, or has failed.
pub(crate) async fn submit(
    state: &ServerState,
    database: &DatabaseLease,
    mut batch: Batch,
) -> Result<BatchOutcome, ApiError> {
    let numbers = next_identities(state, database, identities_of(&batch)).await?;
    finish_ids(&mut batch, numbers)?;
    let huge = HugePuts::of(database, &batch);
    let answer = begin(state, database, batch)?;
    let outcome = settle(state, database, answer.await)?;
    huge.note(state, database);
    Ok(outcome)
}

/// The outcome of a batch that was submitted.
pub(crate) type Submitted = oneshot::Receiver<Result<BatchOutcome, CommandError>>;

/// Submits a batch; its outcome comes later.
pub(crate) fn begin(
    state: &ServerState,
    database: &DatabaseLease,
    batch: Batch,
) -> Result<Submitted, ApiError> {
    let (sender, receiver) = oneshot::channel();
    // A client that has gone does not cancel its batch.
    let reply = Box::new(move |outcome| drop(sender.send(outcome)));
    state.engine.submit(database, batch, reply)?;
    Ok(receiver)
}

/// What the outcome of a batch means for the client, and for the database.
pub(crate) fn settle(
    state: &ServerState,
    database: &DatabaseLease,
    outcome: Result<Result<BatchOutcome, CommandError>, oneshot::error::RecvError>,
) -> Result<BatchOutcome, ApiError> {
    let outcome = outcome.unwrap_or_else(|_| Err(no_outcome()));
    state.engine.settle(database, outcome).map_err(ApiError::from)
}
