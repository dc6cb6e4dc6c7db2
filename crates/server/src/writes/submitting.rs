//! From a handler to the commit queue and back, without blocking the handler's thread.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use commands::{Batch, BatchOutcome, CommandError};
use database::DatabaseLease;
use engine::{Engine, EngineError, PreparedBatch, SubmittedBatch};
use tokio::sync::oneshot;

use crate::{api_error::ApiError, server_state::ServerState};

/// Submits a batch and waits until it is durable, or has failed.
pub(crate) async fn submit(
    state: &ServerState,
    database: &DatabaseLease,
    batch: Batch,
) -> Result<BatchOutcome, ApiError> {
    let prepared = state.engine.prepare(database, batch)?.ready().await?;
    Ok(begin(state, database, prepared)?.await?)
}

/// Submits a batch; its outcome comes later.
pub(crate) fn begin(
    state: &ServerState,
    database: &DatabaseLease,
    prepared: PreparedBatch,
) -> Result<Submitted, EngineError> {
    let (sender, outcome) = oneshot::channel();
    // A client that disconnects does not cancel its batch.
    let reply = Box::new(move |outcome| drop(sender.send(outcome)));
    let batch = state.engine.submit(database, prepared, reply)?;
    Ok(Submitted { engine: Arc::clone(&state.engine), database: database.clone(), batch, outcome })
}

/// A batch that was submitted: a future of its outcome. The batch is executed even if the future is dropped.
pub(crate) struct Submitted {
    engine: Arc<Engine>,
    database: DatabaseLease,
    batch: SubmittedBatch,
    outcome: oneshot::Receiver<Result<BatchOutcome, CommandError>>,
}

impl Future for Submitted {
    type Output = Result<BatchOutcome, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(context)).ok();
        let batch = mem::take(&mut self.batch);
        Poll::Ready(self.engine.settle(&self.database, batch, outcome))
    }
}
