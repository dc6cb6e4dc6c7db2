//! The thread that runs the machine: it takes commands from the queue, many at once, and passes them to
//! openraft as one log entry.
//!
//! openraft appends one entry at a time and waits for the disk. While an entry is in flight, further commands
//! gather in the queue and go into the next entry: group commit.
//!
//! When openraft stops because the disk is full, it is restarted for the next command, and on one of several nodes now and
//! then, because space may be freed at any time. After a write with an unknown outcome, the environment refuses everything until the
//! server is restarted, and so does this thread.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cluster_state::{
    Applied, ClusterError, Command, CompareExchangeCommand, Decoder, EncodedBatch, clear_state,
    is_any_due,
};
use openraft::{Config, SnapshotPolicy, error::ClientWriteError};
use storage::{StorageError, Transaction};
use tokio::sync::{mpsc, oneshot};

use crate::{
    failure::LastFailure,
    identity::Identity,
    incoming::{Joining, check_is_free},
    limits::Limits,
    log_store::LogStore,
    message::Request,
    network::{CallError, Network},
    peers::was_not_sent,
    raft_types::{Member, RaftNode},
    refusal::Refusal,
    runtime::{JoinHandle, Moment, sleep, sleep_until, spawn, timeout},
    schema,
    shared::{
        ELECTION_TIMEOUT_MAX, ELECTION_TIMEOUT_MIN, HEARTBEAT_INTERVAL, LEADER_PAUSE,
        LEADERLESS_MAX, Leader, Shared,
    },
    state_machine::{AppliedEarly, StateMachine},
    supervision,
};

/// Commands in the queue.
pub(crate) const QUEUE_LENGTH_MAX: usize = 4096;
/// Bytes of the commands in the queue.
pub(crate) const QUEUE_BYTES_MAX: usize = 256 << 20;
/// Commands in one entry of the log.
const BATCH_LENGTH_MAX: usize = 512;
/// An entry of this size takes no further command.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes of applied entries that the log keeps.
const LOG_BYTES_MAX: usize = 64 << 20;
/// How often expired values are looked for.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);
/// The pause between a failure and the next attempt.
const RESTART_PAUSE: Duration = Duration::from_millis(50);
/// How often a node of several tries to start openraft again, whether or not it is sent commands.
const RESTART_INTERVAL: Duration = Duration::from_millis(500);
/// A single voter elects itself at once, so taking longer than this is an error.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a leader may take to answer commands of this node, and this node to follow what it answered.
const FORWARDED_TIME_MAX: Duration = Duration::from_secs(15);
/// How long commands whose outcome is unknown are sent again, where that cannot carry them out twice.
const REPEAT_TIME_MAX: Duration = Duration::from_secs(5);
/// How often a leader that waits for a majority checks whether it still can reach one.
const MAJORITY_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A command, and the channel on which its caller awaits the outcome.
pub(crate) struct Queued {
    pub(crate) command: Vec<u8>,
    pub(crate) reply: oneshot::Sender<Result<Applied, ClusterError>>,
}

/// Bytes of the queued commands.
pub(crate) type QueueBytes = Arc<AtomicUsize>;

/// The parts that the thread works with.
pub(crate) struct Machine {
    shared: Arc<Shared>,
    queued_bytes: QueueBytes,
    failure: LastFailure,
    /// Since when there has been no leader for the commands in the queue.
    leaderless_since: Option<Moment>,
}

/// Is called once, when it is known whether the machine could start.
pub(crate) type Started = Box<dyn FnOnce(Result<(), ClusterError>) + Send>;

/// What the thread is asked for.
pub(crate) struct Inbox {
    pub(crate) queue: mpsc::Receiver<Queued>,
    pub(crate) joinings: mpsc::Receiver<Joining>,
}

/// The consensus as it runs, with the task that supervises it.
struct Running {
    raft: RaftNode,
    supervision: JoinHandle<()>,
}

impl Machine {
    pub(crate) fn new(shared: Arc<Shared>, queued_bytes: QueueBytes) -> Self {
        let failure = LastFailure::default();
        Self { shared, queued_bytes, failure, leaderless_since: None }
    }
}

/// Runs the machine until the queue is closed and empty. Calls `started` when it is known whether it could start.
pub(crate) fn run(machine: Machine, inbox: Inbox, started: Started) {
    // Sending fails if the caller has gone; then the queue is closed as well, and the machine ends.
    match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime.block_on(machine.run(inbox, started)),
        Err(source) => {
            started(Err(ClusterError::Start { source: Arc::new(source) }));
        }
    }
}

/// Why the machine has ended.
enum End {
    /// The queue is closed and empty.
    Closed,
    /// openraft has stopped with an error.
    Failed,
    /// This server is to join another cluster.
    Joining(Joining),
}

impl Machine {
    pub(crate) async fn run(mut self, mut inbox: Inbox, started: Started) {
        let mut first = None;
        let mut running = match self.start().await {
            Ok(running) => Some(running),
            // What was acknowledged is applied, so it can be read; the next command tries again.
            Err(error @ ClusterError::Storage(StorageError::DiskFull { .. })) => {
                tracing::warn!(%error, "databases can be read; nothing can be created or changed yet");
                None
            }
            Err(error) => return started(Err(error)),
        };
        started(Ok(()));
        loop {
            let present = match running.take() {
                Some(running) => running,
                None => match self.restart(&mut inbox.queue, &mut first).await {
                    Some(running) => running,
                    None => return,
                },
            };
            let end = self.serve(&present.raft, &mut inbox, first.take()).await;
            self.stop(present).await;
            match end {
                End::Closed => return,
                End::Failed => {}
                End::Joining(joining) => running = self.join(joining).await,
            }
        }
    }

    async fn stop(&self, running: Running) {
        self.shared.set_raft(None);
        running.supervision.abort();
        if let Err(error) = running.raft.shutdown().await {
            tracing::error!(%error, "the cluster's state machine did not stop cleanly");
        }
    }

    /// Leaves the cluster of which this server is the only node, and starts as a node of another one, which its leader
    /// is about to send the state of.
    async fn join(&self, joining: Joining) -> Option<Running> {
        let Joining { identity, reply } = joining;
        // A database may have been created since the request was checked.
        let joined = check_is_free(&self.shared, identity).and_then(|()| {
            let forgotten = self.forget_everything(identity);
            forgotten.map_err(|error| Refusal::Reason(error.to_string()))
        });
        if joined.is_ok() {
            self.shared.identity.set(identity);
            tracing::info!(node = %identity.tag(), "this server joins a cluster");
        }
        let running = match self.start().await {
            Ok(running) => Some(running),
            Err(error) => {
                tracing::error!(%error, "the cluster's state machine did not start again");
                None
            }
        };
        // The leader may have given up.
        drop(reply.send(joined));
        running
    }

    /// Removes the log and the state: what all nodes agree on begins with the same.
    fn forget_everything(&self, identity: Identity) -> Result<(), ClusterError> {
        let mut tx = self.shared.store.environment().write()?;
        let changes = clear_state(&mut tx)?;
        for tree in [schema::log(), schema::raft(), schema::staged()] {
            tx.drop_tree(&tree)?;
        }
        schema::put_version(&mut tx)?;
        identity.store(&mut tx)?;
        Ok(self.shared.store.commit(tx, &changes)?)
    }

    /// Starts openraft again: when the next command arrives, and where other nodes count on this one, by itself. `None` if
    /// the queue is closed.
    async fn restart(
        &self,
        queue: &mut mpsc::Receiver<Queued>,
        first: &mut Option<Queued>,
    ) -> Option<Running> {
        sleep(RESTART_PAUSE).await;
        loop {
            let queued = if self.shared.check_is_alone().is_ok() {
                Some(self.next(queue).await?)
            } else {
                tokio::select! {
                    biased;
                    queued = self.next(queue) => Some(queued?),
                    () = sleep(RESTART_INTERVAL) => None,
                }
            };
            match self.start().await {
                Ok(running) => {
                    *first = queued;
                    return Some(running);
                }
                Err(error) => {
                    tracing::debug!(%error, "the consensus does not start again yet");
                    for queued in queued.into_iter().flat_map(|queued| self.gather(queued, queue)) {
                        drop(queued.reply.send(Err(error.clone())));
                    }
                }
            }
        }
    }

    /// Starts openraft. Where this node has the only vote, waits until it leads and has applied the whole log.
    async fn start(&self) -> Result<Running, ClusterError> {
        self.failure.clear();
        let (store, node) = (&self.shared.store, self.shared.identity.get().node);
        let failed = |reason: &dyn std::fmt::Display| self.failure.at_start(reason);
        let (early, failure) = (AppliedEarly::default(), &self.failure);
        // What an earlier openraft was about to take over, this one knows nothing of.
        self.shared.staging.end();
        let staging = Arc::clone(&self.shared.staging);
        let log = LogStore::new(store.clone(), node, early.clone(), failure.clone(), staging);
        let state = StateMachine::new(store.clone(), node, early, failure.clone());
        let network = Network::new(Arc::clone(&self.shared));
        let raft = RaftNode::new(node, Arc::new(config(self.shared.limits)), network, log, state)
            .await
            .map_err(|error| failed(&error))?;
        if !raft.is_initialized().await.map_err(|error| failed(&error))? {
            // A server that has joined a cluster waits for its leader.
            if Identity::stored(store.environment())?.is_none() {
                let this = Member { url: self.shared.url(), is_watcher: false };
                let voters = BTreeMap::from([(node, this)]);
                raft.initialize(voters).await.map_err(|error| failed(&error))?;
                self.lead(&raft).await?;
            }
        } else if self.shared.has_only_vote(&raft) {
            if raft.current_leader().await != Some(node) {
                raft.trigger().elect().await.map_err(|error| failed(&error))?;
            }
            self.lead(&raft).await?;
        }
        self.shared.set_raft(Some(raft.clone()));
        let supervision = supervision::run(Arc::clone(&self.shared), raft.clone());
        Ok(Running { raft, supervision: spawn(supervision) })
    }

    /// Waits until this node, which has the only vote, leads and has applied the whole log.
    async fn lead(&self, raft: &RaftNode) -> Result<(), ClusterError> {
        let failed = |reason: &dyn std::fmt::Display| self.failure.at_start(reason);
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
            .unwrap_or_else(|_| Err(failed(&"the only voter was not elected")))
    }

    async fn serve(
        &mut self,
        raft: &RaftNode,
        inbox: &mut Inbox,
        mut first: Option<Queued>,
    ) -> End {
        let mut expiry = Moment::now() + EXPIRY_INTERVAL;
        let mut logged_bytes = self.log_bytes().unwrap_or(LOG_BYTES_MAX);
        loop {
            let queued = match first.take() {
                Some(queued) => Some(queued),
                // Joining first: a server that is sent commands all the time can join a cluster, too.
                None => tokio::select! {
                    biased;
                    Some(joining) = inbox.joinings.recv() => return End::Joining(joining),
                    () = has_stopped(raft) => return End::Failed,
                    queued = self.next(&mut inbox.queue) => match queued {
                        Some(queued) => Some(queued),
                        None => return End::Closed,
                    },
                    () = sleep_until(expiry) => {
                        expiry = Moment::now() + EXPIRY_INTERVAL;
                        None
                    }
                },
            };
            let batch = match queued {
                Some(queued) => self.gather(queued, &mut inbox.queue),
                None => match self.expiring(raft) {
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
    fn expiring(&self, raft: &RaftNode) -> Option<Queued> {
        if self.shared.leader(&raft.metrics().borrow()) != Leader::This {
            return None;
        }
        let until_ticks = self.shared.clock.now().ticks();
        match is_any_due(&self.shared.store.environment().read(), until_ticks) {
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

    /// Has the cluster agree on one entry, and answers the callers of all its commands; returns the size of the entry in
    /// bytes. An error says that openraft has stopped.
    async fn write(&mut self, raft: &RaftNode, mut batch: Vec<Queued>) -> Result<usize, ()> {
        let began = Moment::now();
        let mut unknown = None;
        loop {
            let encoded = EncodedBatch::of(batch.iter().map(|queued| queued.command.as_slice()));
            let bytes = encoded.0.len();
            let error = match self.agree(raft, encoded).await {
                Ok(outcomes) => {
                    for (queued, applied) in batch.into_iter().zip(outcomes) {
                        // If the caller has gone, its command has been applied all the same.
                        drop(queued.reply.send(Ok(applied)));
                    }
                    return Ok(bytes);
                }
                Err(error) => error,
            };
            let (error, has_stopped) = match error {
                WriteError::Refused(error) => (error, false),
                WriteError::Stopped(error) => (error, true),
            };
            let may_repeat = !has_stopped
                && matches!(error, ClusterError::Unfinished { .. })
                && began.elapsed() < REPEAT_TIME_MAX;
            // What became of an earlier attempt stays unknown, even if this one was certainly not carried out.
            let error = unknown.take().unwrap_or(error);
            // What has the id of a request is carried out once, however often it is sent.
            let (again, ended): (Vec<_>, Vec<_>) = batch
                .into_iter()
                .partition(|queued| may_repeat && Command::is_carried_out_once(&queued.command));
            report(&error, &ended);
            for queued in ended {
                drop(queued.reply.send(Err(error.clone())));
            }
            if has_stopped {
                return Err(());
            }
            if again.is_empty() {
                return Ok(0);
            }
            (batch, unknown) = (again, Some(error));
            sleep(LEADER_PAUSE).await;
        }
    }

    /// Appends an entry if this node leads; otherwise has the leader do so, and waits until this node has followed.
    async fn agree(
        &mut self,
        raft: &RaftNode,
        batch: EncodedBatch,
    ) -> Result<Vec<Applied>, WriteError> {
        let request = Request::Commands(batch);
        loop {
            let leader = self.shared.leader(&raft.metrics().borrow());
            let reason = match leader {
                Leader::This => {
                    self.leaderless_since = None;
                    let Request::Commands(batch) = request else { unreachable!("made above") };
                    return self.append(raft, batch).await;
                }
                Leader::Other { id, url } => match self.forward(raft, id, &url, &request).await? {
                    Ok(outcomes) => {
                        self.leaderless_since = None;
                        return Ok(outcomes);
                    }
                    Err(reason) => reason,
                },
                Leader::Unknown => "no node has a majority of the cluster behind it".to_owned(),
            };
            let since = *self.leaderless_since.get_or_insert_with(Moment::now);
            if LEADERLESS_MAX <= since.elapsed() {
                return Err(WriteError::Refused(ClusterError::NoLeader { reason }));
            }
            sleep(LEADER_PAUSE).await;
        }
    }

    async fn append(
        &self,
        raft: &RaftNode,
        batch: EncodedBatch,
    ) -> Result<Vec<Applied>, WriteError> {
        let unfinished = |reason: &str| {
            let reason = reason.to_owned();
            WriteError::Refused(ClusterError::Unfinished { reason, source: None })
        };
        let mut written = std::pin::pin!(raft.client_write(batch));
        let written = loop {
            match timeout(MAJORITY_CHECK_INTERVAL, &mut written).await {
                Ok(written) => break written,
                Err(_) if self.shared.leader(&raft.metrics().borrow()) == Leader::This => {}
                Err(_) => return Err(unfinished("this node no longer reaches a majority")),
            }
        };
        written.map(|written| written.data).map_err(|error| match error.api_error() {
            // The entry may have been appended, so that the next leader may have it.
            Some(ClientWriteError::ForwardToLeader(_)) => {
                unfinished("the leader of the cluster changed")
            }
            _ => WriteError::Stopped(self.failure.as_reported(&error)),
        })
    }

    /// Sends commands to the leader. The inner error is the reason why they certainly were not carried out there, so that
    /// they can be sent again.
    async fn forward(
        &self,
        raft: &RaftNode,
        leader: u64,
        url: &str,
        request: &Request,
    ) -> Result<Result<Vec<Applied>, String>, WriteError> {
        let read = |decoder: &mut Decoder<'_>| Ok((decoder.u64()?, decoder.list(Applied::decode)?));
        let (shared, leader) = (&self.shared, (leader, url));
        let answer = shared.call_leader(raft, leader, request, FORWARDED_TIME_MAX, read).await;
        let unfinished =
            |reason: String| WriteError::Refused(ClusterError::Unfinished { reason, source: None });
        let (index, outcomes) = match answer {
            Ok(answer) => answer,
            Err(CallError::Io(error)) if was_not_sent(&error) => return Ok(Err(error.to_string())),
            Err(CallError::Io(error)) => return Err(unfinished(error.to_string())),
            Err(CallError::Refused(Refusal::Unfinished(reason))) => return Err(unfinished(reason)),
            Err(CallError::Refused(Refusal::Reason(reason))) => {
                return Err(WriteError::Refused(ClusterError::Membership { reason }));
            }
            Err(CallError::Refused(refusal)) => return Ok(Err(refusal.to_string())),
        };
        let followed = raft.wait(Some(FORWARDED_TIME_MAX));
        match followed.applied_index_at_least(Some(index), "forwarded commands").await {
            Ok(_) => Ok(Ok(outcomes)),
            Err(error) => Err(unfinished(format!("this node has not followed yet: {error}"))),
        }
    }

    /// Bytes of the stored log.
    fn log_bytes(&self) -> Result<usize, storage::StorageError> {
        let tx = self.shared.store.environment().read();
        let mut bytes = 0;
        for entry in tx.tree(&schema::log())?.range(std::ops::Bound::Unbounded)? {
            let (_, entry) = entry?;
            bytes += entry.len();
        }
        Ok(bytes)
    }
}

/// Waits until openraft has stopped, such as on a full disk.
async fn has_stopped(raft: &RaftNode) {
    let mut metrics = raft.metrics();
    while metrics.borrow_and_update().running_state.is_ok() {
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

fn report(error: &ClusterError, ended: &[Queued]) {
    match error {
        _ if ended.is_empty() => {}
        // As long as there is no leader, every command ends like this.
        ClusterError::NoLeader { .. } => tracing::debug!(%error, "cluster commands were refused"),
        error => tracing::error!(%error, "cluster commands were not finished"),
    }
}

/// Why an entry was not written.
enum WriteError {
    /// The consensus goes on.
    Refused(ClusterError),
    /// openraft has stopped.
    Stopped(ClusterError),
}

/// Timers are off; `supervision` switches on what a cluster of several nodes needs.
fn config(limits: Limits) -> Config {
    let milliseconds = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Config {
        cluster_name: "corvus".to_owned(),
        enable_tick: false,
        enable_heartbeat: false,
        enable_elect: false,
        heartbeat_interval: milliseconds(HEARTBEAT_INTERVAL),
        election_timeout_min: milliseconds(ELECTION_TIMEOUT_MIN),
        election_timeout_max: milliseconds(ELECTION_TIMEOUT_MAX),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(limits.log_entries),
        max_in_snapshot_log_to_keep: 0,
        ..Config::default()
    }
}
