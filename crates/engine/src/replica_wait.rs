//! Waiting for other nodes after a write.
//!
//! The write is complete already, so a timeout does not undo it. Other members of the database's group count once they
//! have acknowledged that the write is durable there.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use commands::BatchOutcome;
use database::{Closing, DatabaseLease};
use documents::DatabaseIdentity;
use model::{ChangeVector, ChangeVectorEntry, DatabaseId, Etag};
use platform::Clock;

use crate::{
    engine::Engine, error::EngineError, replicas_behind::ReplicasBehind,
    replication::ReplicationLinks,
};

/// What a caller expects of other nodes after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaWait {
    /// How many other nodes are to have the write.
    pub count: u32,
    /// The maximum time.
    pub timeout: Duration,
    /// Whether it is an error if fewer have it then.
    pub is_required: bool,
}

/// The other nodes that a caller waits for: a future that is ready when they have the write, or when the database is
/// being closed. Pass it to [`PendingReplicas::end`] then, or when [`PendingReplicas::time_left`] is over.
pub struct PendingReplicas {
    wait: ReplicaWait,
    change_vector: ChangeVector,
    waiting: Waiting,
    /// The id of the database's topology, and the etag of the write.
    written: (DatabaseId, Etag),
    closing: Closing,
    clock: Arc<dyn Clock>,
    /// On the monotonic clock.
    began: Duration,
}

/// A task that is woken when destinations have more, until this is dropped.
struct Waiting {
    links: Arc<ReplicationLinks>,
    waker: Option<Waker>,
}

impl Waiting {
    fn wake_when_advanced(&mut self, waker: &Waker) {
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.forget();
            self.waker = Some(waker.clone());
        }
        self.links.wake_when_advanced(waker);
    }

    fn forget(&mut self) {
        if let Some(waker) = self.waker.take() {
            self.links.wake_no_more(&waker);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Engine {
    /// Begins to wait until other nodes have a write. The time counts from now. Never blocks.
    pub fn begin_replica_wait(
        &self,
        database: &DatabaseLease,
        wait: &ReplicaWait,
        written: &BatchOutcome,
    ) -> PendingReplicas {
        let clock = Arc::clone(self.clock());
        let DatabaseIdentity { node_tag: tag, database_id } = *database.identity();
        let entry = ChangeVectorEntry { tag, etag: written.last_etag, database_id };
        PendingReplicas {
            wait: wait.clone(),
            change_vector: ChangeVector::single(entry),
            waiting: Waiting { links: Arc::clone(&self.replication), waker: None },
            written: (database.record().topology_id, written.last_etag),
            closing: Closing::of(database),
            began: clock.monotonic(),
            clock,
        }
    }
}

impl PendingReplicas {
    /// How much of the timeout is left.
    pub fn time_left(&self) -> Duration {
        let elapsed = self.clock.monotonic().saturating_sub(self.began);
        self.wait.timeout.saturating_sub(elapsed)
    }

    /// Ends the wait, whether it is over or not.
    ///
    /// # Errors
    /// Too few nodes have the write, and the caller requires them: because the database is being closed
    /// ([`EngineError::DatabaseClosing`]), or although the time is over ([`EngineError::ReplicasBehind`]).
    pub fn end(self) -> Result<(), EngineError> {
        let ReplicaWait { count, timeout, is_required } = self.wait;
        let replicated = self.replicated();
        if count <= replicated || !is_required {
            return Ok(());
        }
        if self.closing.is_closing() {
            return Err(EngineError::DatabaseClosing { is_written: true });
        }
        let change_vector = self.change_vector;
        Err(EngineError::ReplicasBehind(Box::new(ReplicasBehind {
            change_vector,
            count,
            replicated,
            timeout,
        })))
    }

    /// How many other members have the write.
    fn replicated(&self) -> u32 {
        let (database, etag) = self.written;
        let members = self.waiting.links.members_with(database, etag);
        u32::try_from(members.len()).unwrap_or(u32::MAX)
    }
}

impl Future for PendingReplicas {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.wait.count == 0 {
            return Poll::Ready(());
        }
        // First, so that nothing that happens meanwhile is missed.
        self.waiting.wake_when_advanced(context.waker());
        if self.wait.count <= self.replicated() {
            return Poll::Ready(());
        }
        Pin::new(&mut self.closing).poll(context)
    }
}
