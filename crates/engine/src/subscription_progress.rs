//! What is stored while the workers of a subscription work: that one connected, and how far they have come.
//!
//! Positions only grow, so nothing here is decided on a record. Progress that belongs to an older version of the
//! subscription is ignored when it is applied.
//!
//! A worker begins with a record that was read before it is among the workers of the subscription, so a change in
//! between does not end it. Invariant: such a change is applied before the worker's connection is stored, whose
//! outcome shows it; every later change finds the worker.

use std::{collections::BTreeSet, sync::Arc};

use cluster::Submission;
use cluster_state::{
    Applied, Command, Outcome, SubscriptionCommand, SubscriptionOutcome, SubscriptionRecord,
};
use database::Database;
use model::{DatabaseId, DatabaseRecord, Etag, NodeTag, NodeTask};
use subscriptions::{Ended, Replicated, Subscription, Worker};

use crate::{engine::Engine, error::EngineError, replication::LinkState};

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
        database: &Database,
        worker: &mut Worker,
        ticks: i64,
    ) -> Result<StoredProgress, EngineError> {
        let (id, version) = (worker.subscription().id(), worker.subscription().version());
        let replicated = self.replicated(&database.record());
        worker.acknowledge(replicated, |position| {
            self.store_progress(SubscriptionCommand::Advance {
                database: database.record().topology_id,
                id,
                version,
                node_tag: Some(self.node_tag().to_string()),
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
        database: &Database,
        worker: &Worker,
    ) -> Result<Option<StoredProgress>, EngineError> {
        let subscription = worker.subscription();
        let replicated = self.replicated(&database.record());
        let Some(position) = subscription.position_to_store(replicated) else { return Ok(None) };
        let command = SubscriptionCommand::Advance {
            database: database.record().topology_id,
            id: subscription.id(),
            version: subscription.version(),
            node_tag: Some(self.node_tag().to_string()),
            position,
            acknowledged_ticks: None,
        };
        self.store_progress(command).map(Some)
    }

    /// What the other members of a database have of what this node has. One that is catching up counts, too, because it may
    /// be a member in a moment.
    fn replicated(&self, record: &DatabaseRecord) -> Replicated {
        let others = record.topology.nodes().filter(|node| *node != self.node_tag());
        let others: BTreeSet<NodeTag> = others.collect();
        if others.is_empty() {
            return Replicated::ALONE;
        }
        let links = self.replication.complete_at_members(record.topology_id);
        let complete = others.into_iter().filter_map(|node| {
            let link = links.get(node.as_str()).copied();
            let is_active = link.is_some_and(|(state, _)| state == LinkState::Active);
            let counts = is_active || record.topology.members.contains(&node);
            counts.then(|| link.and_then(|(_, complete)| complete).unwrap_or(Etag::ZERO))
        });
        complete.min().map_or(Replicated::ALONE, |complete_until| Replicated { complete_until })
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

/// The node whose workers a subscription takes; `None` while the one that it is pinned to is not a member.
pub fn node_of_subscription(
    database: &DatabaseRecord,
    subscription: &SubscriptionRecord,
) -> Option<NodeTag> {
    database.topology.node_of_task(&NodeTask {
        number: subscription.id,
        mentor: subscription.settings.mentor_node.as_deref(),
        is_pinned: subscription.settings.is_pinned,
        last: subscription.node_tag.as_deref(),
    })
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
    /// Waits until it is durable; returns why the worker must end, if it was not stored because another node serves the
    /// subscription. Blocks.
    ///
    /// # Errors
    /// It is unknown whether it was or will be stored.
    pub fn wait(self) -> Result<Option<Ended>, EngineError> {
        Ok(ended_elsewhere(&self.submission.wait()?))
    }

    /// As [`StoredProgress::wait`], without blocking.
    ///
    /// # Errors
    /// Those of [`StoredProgress::wait`].
    pub async fn ready(self) -> Result<Option<Ended>, EngineError> {
        Ok(ended_elsewhere(&self.submission.await?))
    }
}

fn ended_elsewhere(applied: &Applied) -> Option<Ended> {
    let is_elsewhere =
        matches!(applied.outcome, Outcome::Subscription(SubscriptionOutcome::OtherNode));
    is_elsewhere.then_some(Ended::OtherNode)
}
