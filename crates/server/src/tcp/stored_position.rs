//! What is stored of a subscription while a worker works: that it connected, and its progress; and
//! whether that is a valid position in the documents.

use cluster_state::{Command, SubscriptionCommand, SubscriptionPosition, SubscriptionRecord};
use database::Database;
use subscriptions::Position;

use crate::tcp::{session_end::End, worker_session::OpenedDatabase, working::Working};

impl Working<'_> {
    /// Stores that a worker connected.
    pub(super) async fn store_connected(&self, ticks: i64) -> Result<(), End> {
        let command = SubscriptionCommand::Connect {
            database: self.database.id,
            id: self.subscription.id,
            node_tag: self.database.state.node_tag().to_owned(),
            ticks,
        };
        self.submit(command).await
    }

    /// Stores what the worker has processed; only then the acknowledgement is confirmed.
    pub(super) async fn store_acknowledged(&mut self) -> Result<(), End> {
        let ticks = self.now_ticks();
        let (database, id) = (self.database.clone(), self.subscription.id);
        let Some(worker) = self.worker.as_mut() else { return Err(End::Gone) };
        let version = worker.subscription().version();
        let submitted = worker.acknowledge(|position| {
            let command = advance(&database, id, version, position, Some(ticks));
            database.state.engine.submit_to_cluster(&Command::Subscription(command), None)
        });
        let submitted = submitted?;
        submitted.await?;
        let now_ticks = self.now_ticks();
        self.worker()?.activity().batch_acknowledged(now_ticks);
        Ok(())
    }

    /// Stores that changes were skipped which the query does not select.
    pub(super) async fn store_passed(&mut self) -> Result<(), End> {
        let worker = self.worker()?;
        let version = worker.subscription().version();
        let Some(position) = worker.subscription().position_to_store() else { return Ok(()) };
        let command = advance(&self.database, self.subscription.id, version, position, None);
        self.submit(command).await
    }

    async fn submit(&self, command: SubscriptionCommand) -> Result<(), End> {
        let engine = &self.database.state.engine;
        let submitted = engine.submit_to_cluster(&Command::Subscription(command), None);
        let submitted = submitted?;
        submitted.await?;
        Ok(())
    }
}

/// Rejects a position that was reached in a lost history of the database: in newer files than an
/// operator has adopted, before they were salvaged, or before a database in memory was lost. Its
/// etags have been or will be assigned to other documents, which would never be sent.
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
        // The time is unknown, but not before such an etag existed.
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
         {mismatch}. Documents would be left out. Set the position to continue from: update the subscription with the \
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
