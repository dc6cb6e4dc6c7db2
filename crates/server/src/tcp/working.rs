//! An admitted worker: its turn, its batches, and what it waits for in between.

use std::{sync::Arc, time::Duration};

use cluster_state::SubscriptionRecord;
use database::DatabaseLease;
use engine::node_of_subscription;
use subscriptions::{Ended, Standing, Worker};
use tokio::time::{Instant, sleep_until};
use wire::{
    RecordBody, SectionKind,
    tcp_shapes::{CONFIRM, HEARTBEAT, WorkerMessage, accepted},
};

use crate::{
    http::web_socket::ConnectionPlace,
    tcp::{
        messages::{ReadEnd, send},
        placement::{moved, require_still_here},
        received::Received,
        session_end::End,
        wake::SessionWake,
        worker_session::{OpenedDatabase, read_error},
    },
    transport::Writing,
};

/// Maximum silence towards a worker when there is nothing to send.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(3);
/// The same while it has a batch, or waits for its turn.
const BUSY_HEARTBEAT: Duration = Duration::from_secs(5);

/// A session whose worker was admitted.
pub(super) struct Working<'w> {
    pub(super) database: OpenedDatabase,
    pub(super) writing: &'w mut Writing,
    /// Absent while a piece is read on another thread.
    pub(super) worker: Option<Worker>,
    pub(super) received: Received,
    pub(super) wake: Arc<SessionWake>,
    pub(super) place: ConnectionPlace,
    pub(super) subscription: SubscriptionRecord,
    pub(super) closes_when_done: bool,
}

/// Why a session woke up.
enum Woken {
    /// To send something, so that the client does not assume that the connection is dead.
    Silence,
    /// Something may have changed.
    Change,
    /// The worker has processed its batch.
    Acknowledged,
}

impl Working<'_> {
    /// Runs until the session ends.
    pub(super) async fn run(&mut self) -> Result<(), End> {
        self.wait_for_turn().await?;
        send(self.writing, &accepted()).await?;
        let now_ticks = self.now_ticks();
        self.worker()?.activity().admitted(now_ticks);
        let engine = &self.database.state.engine;
        let connected = engine.store_connected(self.database.id, self.worker()?, now_ticks)?;
        if let Some(ended) = connected.ready().await? {
            return self.ended(ended);
        }
        if self.worker()?.subscription().query().is_of_revisions() {
            self.require_revisions()?;
        }
        loop {
            self.require_standing()?;
            let database = self.database.lease()?;
            self.require_served_here(&database)?;
            let has_work = self.worker()?.has_work(|| database.read()).map_err(read_error)?;
            drop(database);
            if has_work {
                if self.send_batch().await? {
                    self.wait_for_acknowledgement().await?;
                    self.store_acknowledged().await?;
                    send(self.writing, CONFIRM).await?;
                }
                continue;
            }
            if self.closes_when_done {
                self.store_passed().await?;
                return Err(End::closed(
                    format!(
                        "Closing subscription {} because there were no documents left and client \
                         connected in 'CloseWhenNoDocsLeft' mode",
                        self.subscription.name
                    ),
                    false,
                ));
            }
            self.wait_for_change().await?;
        }
    }

    pub(super) fn worker(&self) -> Result<&Worker, End> {
        self.worker.as_ref().ok_or(End::Gone)
    }

    /// Ends the session if another node serves the subscription now.
    fn require_served_here(&self, database: &DatabaseLease) -> Result<(), End> {
        let record = database.record();
        if record.topology.nodes().nth(1).is_none() {
            return Ok(());
        }
        let engine = &self.database.state.engine;
        let id = self.subscription.id;
        let present = engine.cluster_state().subscription_by_id(self.database.id, id)?;
        // The end of one that is gone comes from what removed it.
        let Some(mut present) = present else { return Ok(()) };
        if present.version != self.subscription.version {
            return Ok(());
        }
        if present.node_tag.is_none() {
            present.node_tag = Some(engine.node_tag().to_string());
        }
        require_still_here(engine, &record, &present)
    }

    /// The end of a worker whose progress was refused.
    fn ended(&self, ended: Ended) -> Result<(), End> {
        if ended != Ended::OtherNode {
            return Err(End::of_worker(ended, &self.subscription.name));
        }
        let (engine, id) = (&self.database.state.engine, self.subscription.id);
        let record = self.database.lease()?.record();
        let present = engine.cluster_state().subscription_by_id(self.database.id, id)?;
        let present = present.unwrap_or_else(|| self.subscription.clone());
        let node = node_of_subscription(&record, &present);
        Err(moved(engine, (&record, &present), node))
    }

    /// Ends the session if its worker must not continue.
    pub(super) fn require_standing(&self) -> Result<Standing, End> {
        match self.worker()?.standing() {
            Standing::Ended(ended) => Err(End::of_worker(ended, &self.subscription.name)),
            standing @ (Standing::Waits | Standing::Works) => Ok(standing),
        }
    }

    fn require_revisions(&self) -> Result<(), End> {
        let record = self.database.lease()?.record();
        if RecordBody::of_record(&record).section(SectionKind::Revisions).is_some() {
            return Ok(());
        }
        Err(End::invalid(format!(
            "Cannot use a revisions subscription, database {} does not have revisions \
             configuration.",
            record.name.as_str()
        )))
    }

    async fn wait_for_turn(&mut self) -> Result<(), End> {
        let mut heartbeat = Instant::now() + BUSY_HEARTBEAT;
        while self.require_standing()? == Standing::Waits {
            match self.woken(heartbeat).await? {
                Woken::Silence => {
                    send(self.writing, HEARTBEAT).await?;
                    self.database.touch();
                    heartbeat = Instant::now() + BUSY_HEARTBEAT;
                }
                Woken::Acknowledged => self.received.early += 1,
                Woken::Change => {}
            }
        }
        Ok(())
    }

    async fn wait_for_change(&mut self) -> Result<(), End> {
        let heartbeat = Instant::now() + IDLE_HEARTBEAT;
        match self.woken(heartbeat).await? {
            Woken::Silence => {
                send(self.writing, HEARTBEAT).await?;
                self.database.touch();
                self.store_passed().await
            }
            Woken::Acknowledged => {
                self.received.early += 1;
                Ok(())
            }
            Woken::Change => Ok(()),
        }
    }

    async fn wait_for_acknowledgement(&mut self) -> Result<(), End> {
        if 0 < self.received.early {
            self.received.early -= 1;
            return Ok(());
        }
        let mut heartbeat = Instant::now() + BUSY_HEARTBEAT;
        loop {
            match self.woken(heartbeat).await? {
                Woken::Acknowledged => return Ok(()),
                Woken::Change => {
                    self.require_standing()?;
                }
                Woken::Silence => {
                    send(self.writing, HEARTBEAT).await?;
                    self.database.touch();
                    heartbeat = Instant::now() + BUSY_HEARTBEAT;
                }
            }
        }
    }

    async fn woken(&mut self, silence_until: Instant) -> Result<Woken, End> {
        loop {
            let received = tokio::select! {
                received = self.received.messages.recv() => received,
                () = self.wake.woken() => return Ok(Woken::Change),
                () = sleep_until(silence_until) => return Ok(Woken::Silence),
                _ = self.place.stopping.wait_for(|stopping| *stopping) => return Err(End::Gone),
            };
            match received {
                None | Some(Err(ReadEnd::Gone)) => return Err(End::Gone),
                Some(Err(ReadEnd::Broken(error))) => return Err(error.into()),
                Some(Ok(WorkerMessage::Acknowledge)) => return Ok(Woken::Acknowledged),
                Some(Ok(WorkerMessage::Disposed)) => return Err(End::canceled()),
                Some(Ok(WorkerMessage::Unknown)) => {}
            }
        }
    }

    /// Stores what the worker has processed; only then the acknowledgement is confirmed.
    async fn store_acknowledged(&mut self) -> Result<(), End> {
        let ticks = self.now_ticks();
        let database = self.database.lease()?;
        let Some(worker) = self.worker.as_mut() else { return Err(End::Gone) };
        let engine = &self.database.state.engine;
        let stored = engine.store_acknowledged(&database, worker, ticks)?;
        drop(database);
        if let Some(ended) = stored.ready().await? {
            return self.ended(ended);
        }
        let now_ticks = self.now_ticks();
        self.worker()?.activity().batch_acknowledged(now_ticks);
        Ok(())
    }

    /// Stores that changes were passed which the query does not select.
    async fn store_passed(&mut self) -> Result<(), End> {
        let engine = &self.database.state.engine;
        let database = self.database.lease()?;
        let passed = engine.store_passed(&database, self.worker()?)?;
        drop(database);
        match passed {
            None => Ok(()),
            Some(passed) => match passed.ready().await? {
                None => Ok(()),
                Some(ended) => self.ended(ended),
            },
        }
    }

    pub(super) fn now_ticks(&self) -> i64 {
        self.database.state.engine.clock().now().ticks()
    }
}
