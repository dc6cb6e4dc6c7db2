//! What is stored of a subscription while a worker works: that it came, and how far it is. And whether that
//! is a position in the documents that there are.

use cluster_state::{Command, SubscriptionCommand, SubscriptionPosition, SubscriptionRecord};
use database::Database;
use subscriptions::Position;
use wire::database_shapes::NODE_TAG;

use crate::tcp::{session_end::End, worker_session::OpenedDatabase, working::Working};

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
        let submitted = submitted?;
        submitted.await?;
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
        let submitted = submitted?;
        submitted.await?;
        Ok(())
    }
}

/// Refuses a position that was reached in a history of the database that is lost: in newer files than an
/// operator has adopted, before they were salvaged, or before a database in memory was lost. Its etags were
/// given to other documents since, or will be, and these would never be sent.
pub(super) fn check_position(
    database: &Database,
    subscription: &SubscriptionRecord,
) -> Result<(), End> {
    let position = &subscription.position;
    let mismatch = match &position.read_at {
        Some(point) => {
            let vouched = database.environment().vouches_for(point);
            let vouched = vouched?;
            vouched.err().map(|mismatch| mismatch.to_string())
        }
        // It is not known when; but not before there was such an etag.
        None => {
            let progress = documents::progress(&database.read());
            let last = progress?.last_etag;
            (last < position.cursor).then(|| format!("it ends at etag {}", last.0))
        }
    };
    let Some(mismatch) = mismatch else { return Ok(()) };
    let (name, etag) = (&subscription.name, position.cursor.0);
    Err(End::invalid(format!(
        "The subscription '{name}' stands at etag {etag} of a history that this database does not have: \
         {mismatch}. Documents would be left out. Say where it goes on: update the subscription with the \
         change vector 'BeginningOfTime', 'LastDocument' or one of a document."
    )))
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
        read_at: position.read_at,
    };
    SubscriptionCommand::Advance {
        database: database.id,
        id,
        version,
        position,
        acknowledged_ticks,
    }
}
