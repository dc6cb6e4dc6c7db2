//! What is stored while the workers of a subscription work: that one connected, and how far they have come.
//!
//! Positions only grow, so nothing here is decided on a record. Progress that belongs to an older version of the
//! subscription is ignored when it is applied.
//!
//! A worker begins with a record that was read before it is among the workers of the subscription, so a change in
//! between does not end it. Invariant: such a change is applied before the worker's connection is stored, whose
//! outcome shows it; every later change finds the worker.

use std::sync::Arc;

use cluster::Submission;
use cluster_state::{Applied, Command, Outcome, SubscriptionCommand, SubscriptionOutcome};
use model::DatabaseId;
use subscriptions::{Ended, Subscription, Worker};

use crate::{engine::Engine, error::EngineError};

/// The connection of a worker on its way into the shared state.
pub struct StoredConnection {
    submission: Submission,
    /// As the worker knows it.
    subscription: Arc<Subscription>,
}

/// Progress on its way into the shared state. It is stored even if nobody waits for it.
pub struct StoredProgress {
    submission: Submission,
}

impl Engine {
    /// Stores that a worker of a subscription connected to this node, at a time in ticks of UTC. Never blocks.
    ///
    /// # Errors
    /// The cluster accepts no command.
    pub fn store_connected(
        &self,
        database: DatabaseId,
        worker: &Worker,
        ticks: i64,
    ) -> Result<StoredConnection, EngineError> {
        let subscription = Arc::clone(worker.subscription());
        let command = SubscriptionCommand::Connect {
            database,
            id: subscription.id(),
            node_tag: self.node_tag().to_string(),
            ticks,
        };
        let submission = self.submit_to_cluster(&Command::Subscription(command), None)?;
        Ok(StoredConnection { submission, subscription })
    }

    /// Acknowledges the batch of a worker, at a time in ticks of UTC, and stores the position. The acknowledgement may
    /// be confirmed when that is durable. Never blocks.
    ///
    /// # Errors
    /// The cluster accepts no command.
    pub fn store_acknowledged(
        &self,
        database: DatabaseId,
        worker: &mut Worker,
        ticks: i64,
    ) -> Result<StoredProgress, EngineError> {
        let (id, version) = (worker.subscription().id(), worker.subscription().version());
        worker.acknowledge(|position| {
            self.store_progress(SubscriptionCommand::Advance {
                database,
                id,
                version,
                position,
                acknowledged_ticks: Some(ticks),
            })
        })
    }

    /// Stores that changes were passed which the query does not select; `None` if there is nothing to store. Never
    /// blocks.
    ///
    /// # Errors
    /// The cluster accepts no command.
    pub fn store_passed(
        &self,
        database: DatabaseId,
        worker: &Worker,
    ) -> Result<Option<StoredProgress>, EngineError> {
        let subscription = worker.subscription();
        let Some(position) = subscription.position_to_store() else { return Ok(None) };
        let command = SubscriptionCommand::Advance {
            database,
            id: subscription.id(),
            version: subscription.version(),
            position,
            acknowledged_ticks: None,
        };
        self.store_progress(command).map(Some)
    }

    fn store_progress(&self, command: SubscriptionCommand) -> Result<StoredProgress, EngineError> {
        let submission = self.submit_to_cluster(&Command::Subscription(command), None)?;
        Ok(StoredProgress { submission })
    }
}

impl StoredConnection {
    /// Waits until it is durable; returns why the worker must end, if the subscription was changed while it
    /// connected. Blocks.
    ///
    /// # Errors
    /// It is unknown whether it was or will be stored.
    pub fn wait(self) -> Result<Option<Ended>, EngineError> {
        ended_meanwhile(&self.subscription, self.submission.wait()?)
    }

    /// As [`StoredConnection::wait`], without blocking.
    ///
    /// # Errors
    /// Those of [`StoredConnection::wait`].
    pub async fn ready(self) -> Result<Option<Ended>, EngineError> {
        ended_meanwhile(&self.subscription, self.submission.await?)
    }
}

fn ended_meanwhile(known: &Subscription, applied: Applied) -> Result<Option<Ended>, EngineError> {
    match applied.outcome {
        Outcome::Subscription(SubscriptionOutcome::Done(record)) => Ok(match () {
            () if record.settings.is_disabled => Some(Ended::Disabled),
            () if record.version == known.version() && record.name == known.name() => None,
            () if record.settings.query != known.query_text() => Some(Ended::QueryChanged),
            () => Some(Ended::Moved),
        }),
        Outcome::Subscription(SubscriptionOutcome::Missing) => Ok(Some(Ended::Deleted)),
        other => {
            let what = format!("unexpected outcome of a worker's connection: {other:?}");
            Err(EngineError::Internal { what })
        }
    }
}

impl StoredProgress {
    /// Waits until it is durable. Blocks.
    ///
    /// # Errors
    /// It is unknown whether it was or will be stored.
    pub fn wait(self) -> Result<(), EngineError> {
        self.submission.wait()?;
        Ok(())
    }

    /// As [`StoredProgress::wait`], without blocking.
    ///
    /// # Errors
    /// Those of [`StoredProgress::wait`].
    pub async fn ready(self) -> Result<(), EngineError> {
        self.submission.await?;
        Ok(())
    }
}
