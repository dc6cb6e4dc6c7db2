//! The thread on which the machine runs: it takes commands from the queue, many at once, and gives
//! them to openraft as one entry of the log.
//!
//! openraft appends one entry at a time and waits for the disk. So while one entry is under way, the
//! commands of everybody else gather in the queue and go into the next: group commit.
//!
//! When openraft gives up because the disk is full, it is started anew for the next command: shortages
//! end by themselves. After a write whose outcome nobody knows, the environment refuses everything until
//! the server is started again, and so does this.

use std::{
    collections::BTreeMap,
    io,
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
use storage::Transaction;
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

/// Commands that wait at the same time.
pub(crate) const QUEUE_LENGTH_MAX: usize = 4096;
/// Their bytes.
pub(crate) const QUEUE_BYTES_MAX: usize = 256 << 20;
/// Commands in one entry of the log.
const BATCH_LENGTH_MAX: usize = 512;
/// When an entry has so many bytes, no further command is taken into it.
const BATCH_BYTES: usize = 4 << 20;
/// Entries that the log keeps although they are applied.
const LOG_ENTRIES_MAX: u64 = 1024;
/// Their bytes.
const LOG_BYTES_MAX: usize = 64 << 20;
/// How often it is looked for values whose time has come.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);
/// Between a failure and the next attempt.
const RESTART_PAUSE: Duration = Duration::from_millis(50);
/// One voter elects itself at once; longer than this means that something is wrong.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A command, and who waits for its outcome.
pub(crate) struct Queued {
    pub(crate) command: Vec<u8>,
    pub(crate) reply: oneshot::Sender<Result<Applied, ClusterError>>,
}

/// Bytes of the commands that wait.
pub(crate) type QueueBytes = Arc<AtomicUsize>;

/// What the thread works with.
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

/// Runs the machine until the queue is closed and empty. Tells `started` once whether it could start.
pub(crate) fn run(
    machine: Machine,
    queue: mpsc::Receiver<Queued>,
    started: &Sender<Result<(), ClusterError>>,
) {
    // Nobody waits any more when sending fails: then the queue is closed, too.
    match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime.block_on(machine.run(queue, started)),
        Err(source) => {
            drop(started.send(Err(ClusterError::Start { source: Arc::new(source) })));
        }
    }
}

/// Why the machine does not go on.
enum End {
    /// The queue is closed and empty.
    Closed,
    /// openraft has given up.
    Failed,
}

impl Machine {
    async fn run(
        self,
        mut queue: mpsc::Receiver<Queued>,
        started: &Sender<Result<(), ClusterError>>,
    ) {
        let mut raft = match self.start().await {
            Ok(raft) => raft,
            Err(error) => return drop(started.send(Err(error))),
        };
        drop(started.send(Ok(())));
        let mut first = None;
        loop {
            let end = self.serve(&raft, &mut queue, first.take()).await;
            if let Err(error) = raft.shutdown().await {
                tracing::error!(%error, "the cluster's machine did not stop as it should");
            }
            if matches!(end, End::Closed) {
                return;
            }
            let Some(restarted) = self.restart(&mut queue, &mut first).await else { return };
            raft = restarted;
        }
    }

    /// Starts openraft again, for the next command. `None` when there is none to come.
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

    /// Starts openraft and waits until it leads, with everything applied that the log has.
    async fn start(&self) -> Result<RaftNode, ClusterError> {
        self.failure.clear();
        let failed = |reason: &dyn std::fmt::Display| match self.failure.told_as(reason) {
            ClusterError::Unfinished { source: Some(source), .. } => ClusterError::Storage(source),
            ClusterError::Unfinished { reason, .. } => {
                ClusterError::Start { source: Arc::new(io::Error::other(reason)) }
            }
            error => error,
        };
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
        // An entry of its own proves that this node leads, and is applied after all that were before.
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

    /// Everything that waits behind `first`, as far as one entry takes it.
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

    /// A command that removes what has expired, if anything has. Nobody waits for its outcome.
    fn expiring(&self) -> Option<Queued> {
        let until_ticks = self.clock.now().ticks();
        match is_any_due(&self.store.environment().read(), until_ticks) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                tracing::error!(%error, "it could not be looked for expired compare exchange values");
                return None;
            }
        }
        let command =
            Command::CompareExchange(CompareExchangeCommand::RemoveExpired { until_ticks });
        Some(Queued { command: command.encode(None), reply: oneshot::channel().0 })
    }

    /// Writes one entry and answers everybody in it; the bytes of the entry.
    async fn write(&self, raft: &RaftNode, batch: Vec<Queued>) -> Result<usize, ()> {
        let encoded = EncodedBatch::of(batch.iter().map(|queued| queued.command.as_slice()));
        let bytes = encoded.0.len();
        match raft.client_write(encoded).await {
            Ok(written) => {
                for (queued, applied) in batch.into_iter().zip(written.data) {
                    // Whoever has gone does not take his command back.
                    drop(queued.reply.send(Ok(applied)));
                }
                Ok(bytes)
            }
            Err(error) => {
                let told = self.failure.told_as(&error);
                tracing::error!(error = %told, "commands to the cluster were not finished");
                for queued in batch {
                    drop(queued.reply.send(Err(told.clone())));
                }
                Err(())
            }
        }
    }

    /// Bytes of the log as it is stored.
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

/// No clock: there is nobody to send heartbeats to, and the only voter is elected when it starts.
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
