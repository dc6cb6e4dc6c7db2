//! What is stored of a subscription while a worker works: that it came, and how far it is.

use cluster::{Command, SubscriptionCommand, SubscriptionPosition};
use subscriptions::Position;
use wire::database_shapes::NODE_TAG;

use crate::{
    error_mapping::cluster_error,
    tcp::{session_end::End, worker_session::OpenedDatabase, working::Working},
};

impl Working<'_> {
    /// Stores that a worker came.
    pub(super) async fn store_connected(&self, ticks: i64) -> Result<(), End> {
        let command = SubscriptionCommand::Connect {
            database: self.database.id,
            id: self.subscription.id,
            node_tag: NODE_TAG.to_owned(),
            ticks,
        };
        self.submit(command).await
    }

    /// Stores what the worker has dealt with; only then it is told that this was understood.
    pub(super) async fn store_acknowledged(&mut self) -> Result<(), End> {
        let ticks = self.now_ticks();
        let (database, id) = (self.database.clone(), self.subscription.id);
        let Some(worker) = self.worker.as_mut() else { return Err(End::Gone) };
        let version = worker.subscription().version();
        let submitted = worker.acknowledge(|position| {
            let command = advance(&database, id, version, position, Some(ticks));
            database.state.cluster.submit(&Command::Subscription(command), None)
        });
        let submitted = submitted.map_err(|error| cluster_error(&error))?;
        submitted.await.map_err(|error| cluster_error(&error))?;
        let now_ticks = self.now_ticks();
        self.worker()?.activity().batch_acknowledged(now_ticks);
        Ok(())
    }

    /// Stores that changes were passed which the query does not choose.
    pub(super) async fn store_passed(&mut self) -> Result<(), End> {
        let worker = self.worker()?;
        let version = worker.subscription().version();
        let Some(position) = worker.subscription().position_to_store() else { return Ok(()) };
        let command = advance(&self.database, self.subscription.id, version, position, None);
        self.submit(command).await
    }

    async fn submit(&self, command: SubscriptionCommand) -> Result<(), End> {
        let cluster = &self.database.state.cluster;
        let submitted = cluster.submit(&Command::Subscription(command), None);
        let submitted = submitted.map_err(|error| cluster_error(&error))?;
        submitted.await.map_err(|error| cluster_error(&error))?;
        Ok(())
    }
}

fn advance(
    database: &OpenedDatabase,
    id: u64,
    version: u64,
    position: Position,
    acknowledged_ticks: Option<i64>,
) -> SubscriptionCommand {
    let position = SubscriptionPosition {
        cursor: position.cursor,
        change_vector: position.change_vector,
        unsettled: position.unsettled,
    };
    SubscriptionCommand::Advance {
        database: database.id,
        id,
        version,
        position,
        acknowledged_ticks,
    }
}
