//! The entry point: submitting commands and reading the state.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::Ordering},
    task::{Context, Poll},
    thread::JoinHandle,
};

use model::NodeTag;
use platform::Clock;
use storage::{Environment, Transaction};
use tokio::sync::{mpsc, oneshot};

use cluster_state::{
    Applied, COMMAND_BYTES_MAX, ClusterError, ClusterStore, Command, FORMAT_VERSION,
    READABLE_VERSIONS,
};

use crate::{
    driver::{self, Machine, QUEUE_BYTES_MAX, QUEUE_LENGTH_MAX, QueueBytes, Queued},
    schema,
};

/// The server-wide state of a running server. Dropping it without [`Cluster::close`] has the effect of a
/// crash: every reported outcome survives. Its thread has ended when the drop returns.
pub struct Cluster {
    store: ClusterStore,
    node_tag: NodeTag,
    /// `None` when closed.
    queue: RwLock<Option<mpsc::Sender<Queued>>>,
    queued_bytes: QueueBytes,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A submitted command. It is applied even if its outcome is not awaited.
pub struct Submission {
    receiver: oneshot::Receiver<Result<Applied, ClusterError>>,
}

impl Cluster {
    /// Starts the machine over the state stored in the environment. Log entries newer than the state are
    /// applied before this returns. Blocks.
    ///
    /// # Errors
    /// Storage errors; a newer format; the thread cannot be started.
    pub fn start(
        environment: Arc<Environment>,
        clock: Arc<dyn Clock>,
    ) -> Result<Cluster, ClusterError> {
        check_version(&environment)?;
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH_MAX);
        let queued_bytes = QueueBytes::default();
        let store = ClusterStore::open(environment)?;
        let machine = Machine::new(store.clone(), clock, Arc::clone(&queued_bytes));
        let (started, wait) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("cluster".into())
            .spawn(move || driver::run(machine, receiver, &started))
            .map_err(|source| ClusterError::Start { source: Arc::new(source) })?;
        wait.recv().unwrap_or(Err(ClusterError::Closed))?;
        Ok(Cluster {
            store,
            node_tag: NodeTag::A,
            queue: RwLock::new(Some(sender)),
            queued_bytes,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The tag of this node.
    pub fn node_tag(&self) -> &NodeTag {
        &self.node_tag
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
        self.store.check(command)?;
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
        &self.store
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
            let version = FORMAT_VERSION.to_le_bytes();
            tx.tree_mut(&schema::raft())?.put(schema::VERSION, &version)?;
            Ok(tx.commit()?)
        }
    }
}
