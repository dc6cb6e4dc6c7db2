//! The entry point: submitting commands and reading the state.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::Ordering},
    task::{Context, Poll},
    thread::JoinHandle,
    time::Duration,
};

use model::NodeTag;
use openraft::ServerState;
use platform::{Clock, Entropy, Platform};
use storage::{Environment, Transaction};
use tokio::sync::{mpsc, oneshot};

use cluster_state::{
    Applied, COMMAND_BYTES_MAX, ClusterError, ClusterStore, Command, FORMAT_VERSION,
    READABLE_VERSIONS,
};

use crate::{
    contacts::{Contact, LeaderChange},
    driver::{self, Inbox, Machine, QUEUE_BYTES_MAX, QUEUE_LENGTH_MAX, QueueBytes, Queued},
    identity::{CurrentIdentity, Identity},
    incoming::{self, Joining},
    limits::Limits,
    log_format::take_log_id,
    log_view::{self, LogExtent, LoggedEntry},
    membership::{self, Topology},
    membership_change::MembershipChange,
    message::Request,
    network::CallError,
    node_id::id_of,
    peers::{NoPeers, Peers},
    raft_types::{Metrics, RaftNode},
    refusal::Refusal,
    runtime::{Moment, sleep, spawn},
    schema,
    shared::{LEADER_PAUSE, LEADERLESS_MAX, Leader, Shared},
};

const NO_LEADER: &str = "no node has a majority of the cluster behind it";
/// How long the leader may take to change the nodes for this node, or to confirm that it leads.
const LEADER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a leader that resigns waits for another one at most.
const RESIGNED_MAX: Duration = Duration::from_secs(3);

/// How the state of a server is started.
pub struct ClusterOptions {
    /// The environment that holds the state.
    pub environment: Arc<Environment>,
    /// The clock of the server.
    pub clock: Arc<dyn Clock>,
    /// The source of election timeouts.
    pub entropy: Arc<dyn Entropy>,
    /// How other nodes are reached.
    pub peers: Arc<dyn Peers>,
    /// The id of the cluster of which this server is the first node, unless it has joined another.
    pub cluster: [u8; 16],
    /// Sizes that tests make smaller.
    pub limits: Limits,
}

impl ClusterOptions {
    /// For a server that has no way to other nodes.
    pub fn alone(environment: Arc<Environment>, platform: &Platform) -> Self {
        let (clock, entropy) = (Arc::clone(&platform.clock), Arc::clone(&platform.entropy));
        let peers = Arc::new(NoPeers);
        Self { environment, clock, entropy, peers, cluster: [0; 16], limits: Limits::default() }
    }
}

/// The server-wide state of a running server. Dropping it without [`Cluster::close`] has the effect of a
/// crash: every reported outcome survives. Its thread has ended when the drop returns.
pub struct Cluster {
    pub(crate) shared: Arc<Shared>,
    /// `None` when closed.
    queue: RwLock<Option<mpsc::Sender<Queued>>>,
    joinings: mpsc::Sender<Joining>,
    queued_bytes: QueueBytes,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A leader that gives no sign of life, until this is dropped: the request that had it resign may end early.
struct Resigned<'a> {
    shared: &'a Shared,
    raft: &'a RaftNode,
}

impl<'a> Resigned<'a> {
    fn begin(shared: &'a Shared, raft: &'a RaftNode) -> Self {
        shared.resign_until(Some(Moment::now() + RESIGNED_MAX));
        raft.runtime_config().heartbeat(false);
        Self { shared, raft }
    }
}

impl Drop for Resigned<'_> {
    fn drop(&mut self) {
        self.raft.runtime_config().heartbeat(self.shared.has_company.load(Ordering::Acquire));
        self.shared.resign_until(None);
    }
}

/// A submitted command. It is applied even if its outcome is not awaited.
pub struct Submission {
    receiver: oneshot::Receiver<Result<Applied, ClusterError>>,
}

impl Cluster {
    /// Starts the machine over the state stored in the environment. Where this node has the only vote, log entries newer
    /// than the state are applied before this returns. Blocks.
    ///
    /// # Errors
    /// Storage errors; a newer format; the thread cannot be started.
    pub fn start(options: ClusterOptions) -> Result<Cluster, ClusterError> {
        let (cluster, machine, inbox) = Self::prepare(options)?;
        let (started, wait) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("cluster".into())
            .spawn(move || {
                // Nobody waits for it any longer if this fails.
                let started = move |outcome| drop(started.send(outcome));
                driver::run(machine, inbox, Box::new(started));
            })
            .map_err(|source| ClusterError::Start { source: Arc::new(source) })?;
        wait.recv().unwrap_or(Err(ClusterError::Closed))?;
        *cluster.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(cluster)
    }

    /// As [`Cluster::start`], but as a task of the scheduler that runs on this thread, for simulations of many nodes. Such
    /// a cluster has no thread of its own, so [`Cluster::close`] does not wait for it.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_as_task(options: ClusterOptions) -> Result<Cluster, ClusterError> {
        let (cluster, machine, inbox) = Self::prepare(options)?;
        let (started, wait) = oneshot::channel();
        let started = move |outcome| drop(started.send(outcome));
        spawn(machine.run(inbox, Box::new(started)));
        wait.await.unwrap_or(Err(ClusterError::Closed))?;
        Ok(cluster)
    }

    fn prepare(options: ClusterOptions) -> Result<(Cluster, Machine, Inbox), ClusterError> {
        let ClusterOptions { environment, clock, entropy, peers, cluster, limits } = options;
        check_version(&environment)?;
        let identity = Identity::stored(&environment)?;
        let identity = CurrentIdentity::new(identity.unwrap_or(Identity::first_of(cluster)));
        let store = ClusterStore::open(environment)?;
        let shared = Arc::new(Shared::new(store, clock, entropy, peers, identity, limits));
        let (sender, queue) = mpsc::channel(QUEUE_LENGTH_MAX);
        let (joining, joinings) = mpsc::channel(1);
        let queued_bytes = QueueBytes::default();
        let machine = Machine::new(Arc::clone(&shared), Arc::clone(&queued_bytes));
        let cluster = Cluster {
            shared,
            queue: RwLock::new(Some(sender)),
            joinings: joining,
            queued_bytes,
            thread: Mutex::default(),
        };
        Ok((cluster, machine, Inbox { queue, joinings }))
    }

    /// The tag of this node. It changes when the server joins another cluster.
    pub fn node_tag(&self) -> NodeTag {
        self.shared.identity.get().tag()
    }

    /// The id of the cluster. It changes when the server joins another cluster.
    pub fn id(&self) -> [u8; 16] {
        self.shared.identity.get().cluster
    }

    /// Sets the URL at which other nodes reach this one. If they know it under another one, a warning says so: they send
    /// nothing here.
    pub fn set_url(&self, url: String) {
        if let Ok(topology) = self.topology()
            && 1 < topology.nodes.len()
            && let Some(known) = topology.url_of(topology.this).filter(|known| *known != url)
        {
            tracing::warn!(
                %url,
                known,
                "the other nodes know this one under another URL, and do not reach it: set PublicServerUrl to that URL, \
                 or remove this node from the cluster and add it again"
            );
        }
        *self.shared.url.write().unwrap_or_else(PoisonError::into_inner) = url;
    }

    /// Whether the cluster has other nodes. Cheap.
    pub fn has_company(&self) -> bool {
        self.shared.has_company.load(Ordering::Acquire)
    }

    /// The nodes of the cluster, as this node knows them.
    ///
    /// # Errors
    /// Storage errors, while the consensus is stopped.
    pub fn topology(&self) -> Result<Topology, ClusterError> {
        self.shared.topology()
    }

    /// What this node knows of reaching the others. Only a leader reaches for them all the time.
    pub fn contacts(&self) -> Vec<Contact> {
        let metrics = self.shared.raft().map(|raft| raft.metrics().borrow().clone());
        let matched = |node: u64| {
            let replication = metrics.as_ref()?.replication.as_ref()?;
            replication.get(&node).copied().flatten().map(|log_id| log_id.index)
        };
        self.shared.contacts.all(Moment::now(), matched)
    }

    /// The last changes of who leads that this node saw, the latest at the end; none while it is alone.
    pub fn leader_changes(&self) -> Vec<LeaderChange> {
        self.shared.contacts.leader_changes(Moment::now())
    }

    /// What is in the log of this node.
    ///
    /// # Errors
    /// Storage errors.
    pub fn log_extent(&self) -> Result<LogExtent, ClusterError> {
        let applied = self.shared.store.read().last_index()?;
        log_view::extent(self.shared.store.environment(), applied)
    }

    /// The entries of the log of this node from an index downwards, the latest first.
    ///
    /// # Errors
    /// Storage errors.
    pub fn log_entries(&self, to: u64, take: usize) -> Result<Vec<LoggedEntry>, ClusterError> {
        log_view::entries(self.shared.store.environment(), to, take)
    }

    /// Has this node, if it leads others, lead nobody until another one is elected, for a few seconds at most.
    pub async fn resign(&self) {
        let Some(raft) = self.shared.raft().filter(|_| self.has_company()) else { return };
        if raft.metrics().borrow().state != ServerState::Leader {
            return;
        }
        let _resigned = Resigned::begin(&self.shared, &raft);
        let wait = raft.wait(Some(RESIGNED_MAX));
        let is_over = |metrics: &Metrics| metrics.state != ServerState::Leader;
        // Without another leader, this one goes on.
        drop(wait.metrics(is_over, "another node is elected").await);
    }

    /// Has this node stand for election as if it had not heard of a leader for long. Others do not vote for it while they
    /// hear of one.
    pub fn stand_for_election(&self) {
        self.shared.forget_leader();
    }

    /// Whether answering a request of another node blocks on the disk: then the answer is not to be polled on an
    /// asynchronous worker. Signs of life and votes must not wait for a thread.
    pub fn answer_blocks(request: &[u8]) -> bool {
        Request::is_piece_of_state(request)
    }

    /// The answer to a request that another node sent by its [`Peers`].
    pub async fn answer(&self, request: &[u8]) -> Vec<u8> {
        incoming::answer(&self.shared, &self.joinings, request).await
    }

    /// Changes the nodes of the cluster, on this node or through the leader. Returns the tag of the node concerned.
    ///
    /// # Errors
    /// The change is not possible; there is no leader; it is unknown whether it was made.
    pub async fn change_nodes(&self, change: MembershipChange) -> Result<NodeTag, ClusterError> {
        let raft = self.shared.raft().ok_or(ClusterError::Closed)?;
        let leader = self.shared.leader(&raft.metrics().borrow());
        match leader {
            Leader::This => Ok(membership::change(&self.shared, &raft, change).await?),
            Leader::Other { id, url } => {
                let request = Request::Change(change);
                let read = |decoder: &mut cluster_state::Decoder<'_>| {
                    let invalid = cluster_state::Malformed("the tag of a node is invalid");
                    decoder.text()?.parse::<NodeTag>().map_err(|_| invalid)
                };
                let answer = self.shared.call(id, &url, &request, LEADER_TIME_MAX, read).await;
                answer.map_err(reported)
            }
            Leader::Unknown => Err(no_leader()),
        }
    }

    /// Waits until reads on this node see everything that was acknowledged on any node before the call. While a new leader
    /// is elected, it waits for that.
    ///
    /// # Errors
    /// No leader can confirm what that is.
    pub async fn catch_up(&self) -> Result<(), ClusterError> {
        let Some(raft) = self.shared.raft() else { return self.shared.check_is_alone() };
        // What it acknowledged is in its state, also while it has stopped, such as on a full disk.
        if self.shared.has_only_vote(&raft) {
            return Ok(());
        }
        let began = Moment::now();
        loop {
            let reason = match self.read_index(&raft).await {
                Ok(index) => return followed(&raft, index).await,
                Err(reason) => reason,
            };
            // Where there has been no leader for long, waiting longer is of no use.
            if self.shared.is_leaderless(&raft) || LEADERLESS_MAX <= began.elapsed() {
                return Err(ClusterError::NoLeader { reason });
            }
            sleep(LEADER_PAUSE).await;
        }
    }

    /// Waits until other nodes have applied the log up to an index, so that requests to them see it. Returns those that do
    /// not answer, or have not applied it in that time, of which no node waits for more than 15 seconds. Tags that no other
    /// node of the cluster has are left out.
    pub async fn followed_by(
        &self,
        nodes: &[NodeTag],
        index: u64,
        time_max: Duration,
    ) -> Vec<NodeTag> {
        let Ok(topology) = self.shared.topology() else { return nodes.to_vec() };
        let others = nodes.iter().filter(|tag| **tag != topology.this);
        let asked = others.filter_map(|tag| {
            let (shared, url) = (Arc::clone(&self.shared), topology.url_of(*tag)?.to_owned());
            let node = id_of(*tag);
            let asked = spawn(async move {
                let request = Request::Follow { index };
                shared.call(node, &url, &request, time_max, |_| Ok(())).await.is_ok()
            });
            Some((*tag, asked))
        });
        let mut behind = Vec::new();
        for (tag, asked) in asked.collect::<Vec<_>>() {
            if !asked.await.unwrap_or(false) {
                behind.push(tag);
            }
        }
        behind
    }

    /// The log entry that a read must see, as the leader confirms it; otherwise the reason why none does.
    async fn read_index(&self, raft: &RaftNode) -> Result<Option<u64>, String> {
        let leader = self.shared.leader(&raft.metrics().borrow());
        let read = match leader {
            Leader::This => raft.ensure_linearizable().await.map_err(|error| error.to_string())?,
            Leader::Other { id, url } => {
                let leader = (id, url.as_str());
                let (shared, request) = (&self.shared, Request::Read);
                let read =
                    shared.call_leader(raft, leader, &request, LEADER_TIME_MAX, take_log_id).await;
                read.map_err(|error| match error {
                    CallError::Io(error) => error.to_string(),
                    CallError::Refused(refusal) => refusal.to_string(),
                })?
            }
            Leader::Unknown => return Err(NO_LEADER.to_owned()),
        };
        Ok(read.map(|read| read.index))
    }

    /// Submits a command. Never blocks. A request whose id is remembered is not applied again.
    ///
    /// # Errors
    /// The command is too large, the queue is full, or the server is shutting down. Nothing is done then.
    pub fn submit(
        &self,
        command: &Command,
        request_id: Option<&str>,
    ) -> Result<Submission, ClusterError> {
        self.shared.store.check(command)?;
        let bytes = command.encode(request_id);
        if COMMAND_BYTES_MAX < bytes.len() {
            return Err(ClusterError::CommandTooLarge { bytes: bytes.len() });
        }
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = queue.as_ref() else { return Err(ClusterError::Closed) };
        let size = bytes.len();
        if QUEUE_BYTES_MAX < self.queued_bytes.fetch_add(size, Ordering::AcqRel) + size {
            self.queued_bytes.fetch_sub(size, Ordering::AcqRel);
            return Err(ClusterError::Busy);
        }
        let (reply, receiver) = oneshot::channel();
        queue.try_send(Queued { command: bytes, reply }).map_err(|error| {
            self.queued_bytes.fetch_sub(size, Ordering::AcqRel);
            match error {
                mpsc::error::TrySendError::Full(_) => ClusterError::Busy,
                mpsc::error::TrySendError::Closed(_) => ClusterError::Closed,
            }
        })?;
        Ok(Submission { receiver })
    }

    /// Submits a command and waits for its outcome. Blocks, so not on an asynchronous worker.
    ///
    /// # Errors
    /// Those of [`Cluster::submit`], and those of applying the command.
    pub fn submit_and_wait(&self, command: &Command) -> Result<Applied, ClusterError> {
        self.submit(command, None)?.wait()
    }

    /// The state that the commands change.
    pub fn store(&self) -> &ClusterStore {
        &self.shared.store
    }

    /// Accepts no more commands, finishes the queued ones, and stops the machine. Blocks.
    pub fn close(&self) {
        self.queue.write().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic there has already been reported to the callers whose commands it interrupted.
            drop(thread.join());
        }
    }
}

impl Submission {
    /// Waits for the outcome. Blocks, so not on an asynchronous worker, which awaits the submission instead.
    ///
    /// # Errors
    /// Those of applying the command.
    pub fn wait(self) -> Result<Applied, ClusterError> {
        self.receiver.blocking_recv().unwrap_or(Err(ended()))
    }
}

impl Future for Submission {
    type Output = Result<Applied, ClusterError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let receiver = Pin::new(&mut self.receiver);
        receiver.poll(context).map(|outcome| outcome.unwrap_or(Err(ended())))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.close();
    }
}

async fn followed(raft: &RaftNode, index: Option<u64>) -> Result<(), ClusterError> {
    let followed = raft.wait(Some(LEADER_TIME_MAX)).applied_index_at_least(index, "a read").await;
    followed.map(drop).map_err(|error| ClusterError::NoLeader { reason: error.to_string() })
}

fn no_leader() -> ClusterError {
    ClusterError::NoLeader { reason: NO_LEADER.to_owned() }
}

/// The error of a request to the leader that can be repeated without harm, or that the leader refused.
fn reported(error: CallError) -> ClusterError {
    match error {
        CallError::Io(error) => {
            Refusal::Unfinished(format!("the leader of the cluster: {error}")).into()
        }
        CallError::Refused(refusal) => refusal.into(),
    }
}

fn ended() -> ClusterError {
    ClusterError::Unfinished { reason: "the machine has stopped".to_owned(), source: None }
}

/// Demands a version that this build knows. Stores the current version if there is none or an older one; from
/// then on, older builds refuse what they cannot read.
fn check_version(environment: &Arc<Environment>) -> Result<(), ClusterError> {
    let found = {
        let tx = environment.read();
        let tree = tx.tree(&schema::raft())?;
        tree.get(schema::VERSION)?.map(|bytes| <[u8; 4]>::try_from(bytes).map(u32::from_le_bytes))
    };
    match found {
        Some(Ok(FORMAT_VERSION)) => Ok(()),
        Some(Err(_)) => Err(ClusterError::Corrupt { detail: "the format version is malformed" }),
        Some(Ok(found)) if !READABLE_VERSIONS.contains(&found) => {
            Err(ClusterError::UnknownVersion { found })
        }
        Some(Ok(_)) | None => {
            let mut tx = environment.write()?;
            schema::put_version(&mut tx)?;
            Ok(tx.commit()?)
        }
    }
}
