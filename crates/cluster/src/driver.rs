//! The thread that runs the machine: it takes commands from the queue, many at once, and passes them to
//! openraft as one log entry.
//!
//! openraft appends one entry at a time and waits for the disk. While an entry is in flight, further commands
//! gather in the queue and go into the next entry: group commit.
//!
//! When openraft stops because the disk is full, it is restarted for the next command, because space may be
//! freed at any time. After a write with an unknown outcome, the environment refuses everything until the
//! server is restarted, and so does this thread.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::Sender,
    },
    time::Duration,
};

use cluster_state::{
    Applied, ClusterError, ClusterStore, Command, CompareExchangeCommand, EncodedBatch, is_any_due,
};
use openraft::{BasicNode, Config, SnapshotPolicy, error::ClientWriteError};
use platform::Clock;
use storage::{StorageError, Transaction};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval_at, sleep, timeout},
};

use crate::{
    failure::LastFailure,
    log_store::LogStore,
    network::NoNetwork,
    raft_types::{RaftNode, THIS_NODE},
    schema,
    state_machine::{AppliedEarly, StateMachine},
};

/// Commands in the queue.
pub(crate) const QUEUE_LENGTH_MAX: usize = 4096;
/// Bytes of the commands in the queue.
pub(crate) const QUEUE_BYTES_MAX: usize = 256 << 20;
/// Commands in one entry of the log.
const BATCH_LENGTH_MAX: usize = 512;
/// An entry of this size takes no further command.
const BATCH_BYTES: usize = 4 << 20;
/// Applied entries that the log keeps.
const LOG_ENTRIES_MAX: u64 = 1024;
/// Bytes of applied entries that the log keeps.
const LOG_BYTES_MAX: usize = 64 << 20;
/// How often expired values are looked for.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);
/// The pause between a failure and the next attempt.
const RESTART_PAUSE: Duration = Duration::from_millis(50);
/// A single voter elects itself at once, so taking longer than this is an error.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A command, and the channel on which its caller awaits the outcome.
pub(crate) struct Queued {
    pub(crate) command: Vec<u8>,
    pub(crate) reply: oneshot::Sender<Result<Applied, ClusterError>>,
}

/// Bytes of the queued commands.
pub(crate) type QueueBytes = Arc<AtomicUsize>;

/// The parts that the thread works with.
pub(crate) struct Machine {
    store: ClusterStore,
    clock: Arc<dyn Clock>,
    queued_bytes: QueueBytes,
    failure: LastFailure,
}

impl Machine {
    pub(crate) fn new(
        store: ClusterStore,
        clock: Arc<dyn Clock>,
        queued_bytes: QueueBytes,
    ) -> Self {
        Self { store, clock, queued_bytes, failure: LastFailure::default() }
    }
}

/// Runs the machine until the queue is closed and empty. Reports once on `started` whether it could start.
pub(crate) fn run(
    machine: Machine,
    queue: mpsc::Receiver<Queued>,
    started: &Sender<Result<(), ClusterError>>,
) {
    // Sending fails if the caller has gone; then the queue is closed as well, and the machine ends.
    match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime.block_on(machine.run(queue, started)),
        Err(source) => {
            drop(started.send(Err(ClusterError::Start { source: Arc::new(source) })));
        }
    }
}

/// Why the machine has ended.
enum End {
    /// The queue is closed and empty.
    Closed,
    /// openraft has stopped with an error.
    Failed,
}

impl Machine {
    async fn run(
        self,
        mut queue: mpsc::Receiver<Queued>,
        started: &Sender<Result<(), ClusterError>>,
    ) {
        let mut first = None;
        let mut running = match self.start().await {
            Ok(raft) => Some(raft),
            // What was acknowledged is applied, so it can be read; the next command tries again.
            Err(error @ ClusterError::Storage(StorageError::DiskFull { .. })) => {
                tracing::warn!(%error, "databases can be read; nothing can be created or changed yet");
                None
            }
            Err(error) => return drop(started.send(Err(error))),
        };
        drop(started.send(Ok(())));
        loop {
            let raft = match running.take() {
                Some(raft) => raft,
                None => match self.restart(&mut queue, &mut first).await {
                    Some(raft) => raft,
                    None => return,
                },
            };
            let end = self.serve(&raft, &mut queue, first.take()).await;
            if let Err(error) = raft.shutdown().await {
                tracing::error!(%error, "the cluster's state machine did not stop cleanly");
            }
            if matches!(end, End::Closed) {
                return;
            }
        }
    }

    /// Starts openraft again when the next command arrives; `None` if the queue is closed.
    async fn restart(
        &self,
        queue: &mut mpsc::Receiver<Queued>,
        first: &mut Option<Queued>,
    ) -> Option<RaftNode> {
        sleep(RESTART_PAUSE).await;
        loop {
            let queued = self.next(queue).await?;
            match self.start().await {
                Ok(raft) => {
                    *first = Some(queued);
                    return Some(raft);
                }
                Err(error) => {
                    for queued in self.gather(queued, queue) {
                        drop(queued.reply.send(Err(error.clone())));
                    }
                }
            }
        }
    }

    /// Starts openraft and waits until it leads and has applied the whole log.
    async fn start(&self) -> Result<RaftNode, ClusterError> {
        self.failure.clear();
        let failed = |reason: &dyn std::fmt::Display| self.failure.at_start(reason);
        let (early, failure) = (AppliedEarly::default(), &self.failure);
        let log = LogStore::new(self.store.clone(), early.clone(), failure.clone());
        let state = StateMachine::new(self.store.clone(), early, failure.clone());
        let raft = RaftNode::new(THIS_NODE, Arc::new(config()), NoNetwork, log, state)
            .await
            .map_err(|error| failed(&error))?;
        if !raft.is_initialized().await.map_err(|error| failed(&error))? {
            let voters = BTreeMap::from([(THIS_NODE, BasicNode::default())]);
            raft.initialize(voters).await.map_err(|error| failed(&error))?;
        } else if raft.current_leader().await != Some(THIS_NODE) {
            raft.trigger().elect().await.map_err(|error| failed(&error))?;
        }
        // An entry of its own proves that this node leads; it is applied after all earlier ones.
        let proven = async {
            loop {
                match raft.client_write(EncodedBatch::of([].into_iter())).await {
                    Ok(_) => return Ok(()),
                    Err(error) => match error.api_error() {
                        Some(ClientWriteError::ForwardToLeader(_)) => {
                            sleep(Duration::from_millis(1)).await;
                        }
                        _ => return Err(failed(&error)),
                    },
                }
            }
        };
        timeout(START_TIMEOUT, proven)
            .await
            .unwrap_or_else(|_| Err(failed(&"the only voter was not elected")))?;
        Ok(raft)
    }

    async fn serve(
        &self,
        raft: &RaftNode,
        queue: &mut mpsc::Receiver<Queued>,
        mut first: Option<Queued>,
    ) -> End {
        let mut expiry = interval_at(Instant::now() + EXPIRY_INTERVAL, EXPIRY_INTERVAL);
        expiry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut logged_bytes = self.log_bytes().unwrap_or(LOG_BYTES_MAX);
        loop {
            let queued = match first.take() {
                Some(queued) => Some(queued),
                None => tokio::select! {
                    queued = self.next(queue) => match queued {
                        Some(queued) => Some(queued),
                        None => return End::Closed,
                    },
                    _ = expiry.tick() => None,
                },
            };
            let batch = match queued {
                Some(queued) => self.gather(queued, queue),
                None => match self.expiring() {
                    Some(queued) => vec![queued],
                    None => continue,
                },
            };
            match self.write(raft, batch).await {
                Ok(bytes) => logged_bytes += bytes,
                Err(()) => return End::Failed,
            }
            if LOG_BYTES_MAX < logged_bytes {
                logged_bytes = 0;
                if raft.trigger().snapshot().await.is_err() {
                    return End::Failed;
                }
            }
        }
    }

    async fn next(&self, queue: &mut mpsc::Receiver<Queued>) -> Option<Queued> {
        let queued = queue.recv().await?;
        self.queued_bytes.fetch_sub(queued.command.len(), Ordering::AcqRel);
        Some(queued)
    }

    /// `first` and the commands queued after it, up to the limits of one entry.
    fn gather(&self, first: Queued, queue: &mut mpsc::Receiver<Queued>) -> Vec<Queued> {
        let mut bytes = first.command.len();
        let mut batch = vec![first];
        while bytes < BATCH_BYTES && batch.len() < BATCH_LENGTH_MAX {
            let Ok(queued) = queue.try_recv() else { break };
            self.queued_bytes.fetch_sub(queued.command.len(), Ordering::AcqRel);
            bytes += queued.command.len();
            batch.push(queued);
        }
        batch
    }

    /// A command that removes expired values, if there are any. No caller awaits its outcome.
    fn expiring(&self) -> Option<Queued> {
        let until_ticks = self.clock.now().ticks();
        match is_any_due(&self.store.environment().read(), until_ticks) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                tracing::error!(%error, "looking for expired compare exchange values failed");
                return None;
            }
        }
        let command =
            Command::CompareExchange(CompareExchangeCommand::RemoveExpired { until_ticks });
        Some(Queued { command: command.encode(None), reply: oneshot::channel().0 })
    }

    /// Writes one entry and answers the callers of all its commands; returns the size of the entry in bytes.
    async fn write(&self, raft: &RaftNode, batch: Vec<Queued>) -> Result<usize, ()> {
        let encoded = EncodedBatch::of(batch.iter().map(|queued| queued.command.as_slice()));
        let bytes = encoded.0.len();
        match raft.client_write(encoded).await {
            Ok(written) => {
                for (queued, applied) in batch.into_iter().zip(written.data) {
                    // If the caller has gone, its command has been applied all the same.
                    drop(queued.reply.send(Ok(applied)));
                }
                Ok(bytes)
            }
            Err(error) => {
                let reported = self.failure.as_reported(&error);
                tracing::error!(error = %reported, "cluster commands were not finished");
                for queued in batch {
                    drop(queued.reply.send(Err(reported.clone())));
                }
                Err(())
            }
        }
    }

    /// Bytes of the stored log.
    fn log_bytes(&self) -> Result<usize, storage::StorageError> {
        let tx = self.store.environment().read();
        let mut bytes = 0;
        for entry in tx.tree(&schema::log())?.range(std::ops::Bound::Unbounded)? {
            let (_, entry) = entry?;
            bytes += entry.len();
        }
        Ok(bytes)
    }
}

/// No timers: there is no other node to send heartbeats to, and the only voter is elected at the start.
fn config() -> Config {
    Config {
        cluster_name: "corvus".to_owned(),
        enable_tick: false,
        enable_heartbeat: false,
        enable_elect: false,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(LOG_ENTRIES_MAX),
        max_in_snapshot_log_to_keep: 0,
        ..Config::default()
    }
}
