//! The queue through which every change of a database goes.
//!
//! Batches are executed by threads that all queues of the server share: while one writes a
//! transaction to disk, another may execute batches into the next. A batch is acknowledged when its
//! transaction is durable.
//!
//! When the disk is full, the transactions in flight fail and the queue continues. After any other
//! failure of a write it is unknown what the disk holds: the queue closes itself, all waiting
//! callers get an error, and the database has to be reopened.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc},
    thread::{self, JoinHandle},
};

use documents::{Compression, WriteTally, has_leftover_contents};
use model::{DocumentsCompression, IdSeparator, RevisionsConfiguration};
use platform::Platform;
use storage::Environment;

use crate::{
    change_listener::ChangeListener,
    command::{Batch, BatchOutcome, Command},
    commit_threads::CommitThreads,
    error::{CommandError, LowDiskSpace, SubmitError},
    patch::{PatchLimits, ValueReader},
    queue_state::{PendingReply, Shared, Submission},
    trainer_thread,
    writer::Writer,
};

/// Receives the result of a batch. It is called once, on a thread that all queues share, and must
/// not block: it would hold up callers of this queue, and of others.
pub type Reply = Box<dyn FnOnce(Result<BatchOutcome, CommandError>) + Send>;

/// The bounds of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitQueueOptions {
    /// The maximum number of pending batches.
    pub length_max: usize,
    /// The approximate maximum bytes of pending batches; one batch may always wait.
    pub bytes_max: usize,
    /// The maximum number of batches merged into one transaction.
    pub transaction_batches_max: usize,
    /// The approximate bytes of batches after which a transaction takes no more.
    pub transaction_bytes_max: usize,
    /// The maximum length of a document's JSON text, wherever it comes from.
    pub document_bytes_max: u64,
    /// The bounds of the scripts of patches.
    pub patches: PatchLimits,
}

impl Default for CommitQueueOptions {
    fn default() -> Self {
        Self {
            length_max: 8192,
            bytes_max: 128 << 20,
            transaction_batches_max: 4096,
            transaction_bytes_max: 16 << 20,
            document_bytes_max: u64::MAX,
            patches: PatchLimits::default(),
        }
    }
}

/// Statistics of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitQueueStatistics {
    /// The number of pending batches.
    pub length: usize,
    /// The approximate bytes of pending batches.
    pub bytes: usize,
    /// Transactions made durable since the queue was opened.
    pub transactions: u64,
    /// Batches made durable since the queue was opened.
    pub batches: u64,
    /// Batches that failed before they were in flight to the disk.
    pub batches_failed: u64,
    /// Batches that were rejected because the queue or the disk was full.
    pub batches_refused: u64,
}

/// The queue. Dropping it closes it.
pub struct CommitQueue {
    writer: Arc<Writer>,
    trainer: Mutex<Option<JoinHandle<()>>>,
}

impl CommitQueue {
    /// Opens a queue over an initialized database, which these threads serve.
    pub fn open(
        environment: Arc<Environment>,
        platform: &Platform,
        options: CommitQueueOptions,
        threads: &Arc<CommitThreads>,
    ) -> Self {
        let platform = platform.clone();
        let writer = Arc::new_cyclic(|writer: &Weak<Writer>| {
            let shared = Arc::new(Shared::new(Arc::clone(threads), writer.clone()));
            Writer { environment, platform, options, shared }
        });
        // An error is reported by the first batch that needs the values.
        if has_leftover_contents(&writer.environment.read()).unwrap_or(false) {
            writer.shared.push_own(Batch::one(Command::DiscardAllContents));
        }
        Self { writer, trainer: Mutex::new(None) }
    }

    fn shared(&self) -> &Shared {
        &self.writer.shared
    }

    /// Puts a batch into the queue; `reply` is called when it is durable or has failed. Returns
    /// immediately. When the batch is refused, `reply` is dropped without being called.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn submit(&self, batch: Batch, reply: Reply) -> Result<(), SubmitError> {
        let size_bytes = batch.size_bytes();
        let reply = PendingReply::new(reply);
        let submission = Submission { batch, size_bytes, requeues: 0, reply };
        let options = &self.writer.options;
        self.shared().push(submission, options.length_max, options.bytes_max)
    }

    /// Puts a batch into the queue and waits until it is durable or has failed. Not for the threads
    /// of an asynchronous runtime.
    ///
    /// # Errors
    /// [`CommandError`] inside the result; [`SubmitError`] when it was not accepted.
    pub fn submit_and_wait(
        &self,
        batch: Batch,
    ) -> Result<Result<BatchOutcome, CommandError>, SubmitError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // The receiver waits below, so that sending cannot fail.
        let reply = move |result| drop(sender.send(result));
        self.submit(batch, Box::new(reply))?;
        Ok(receiver.recv().unwrap_or(Err(CommandError::Closed)))
    }

    /// Refuses new batches from now on because the disk is too full, or accepts them again. Batches
    /// already in the queue are not affected.
    pub fn refuse(&self, reason: Option<Arc<LowDiskSpace>>) {
        self.shared().lock().refusal = reason;
    }

    /// Sets the listener that is notified of the changes of batches. Only the first call has an
    /// effect.
    pub fn set_change_listener(&self, listener: Arc<dyn ChangeListener>) {
        self.shared().listener.get_or_init(|| listener);
    }

    /// Sets the function that is notified of what each durable transaction stored. It is called on
    /// a commit thread: it must be quick. Only the first call has an effect.
    pub fn count_stored_by(&self, on_stored: impl Fn(WriteTally) + Send + Sync + 'static) {
        self.shared().on_stored.get_or_init(|| Box::new(on_stored));
    }

    /// Sets the reader of compare exchange for patches. Only the first call has an effect.
    pub fn read_values_by(&self, values: Arc<ValueReader>) {
        drop(self.shared().values.set(values));
    }

    /// A barrier: calls `done`, on a commit thread, when every batch submitted before is durable or has
    /// failed; immediately when the queue is closed.
    pub fn after_all_before(&self, done: Box<dyn FnOnce() + Send>) {
        self.shared().push_mark(Box::new(move |_| done()));
    }

    /// Sets which revisions of documents are kept. It applies to every batch submitted afterwards.
    pub fn set_revisions(&self, configuration: Arc<RevisionsConfiguration>) {
        self.shared().lock().revisions = configuration;
    }

    /// Sets the separator in numbered ids. It applies to the scripts of every batch submitted
    /// afterwards.
    pub fn set_id_separator(&self, separator: IdSeparator) {
        self.shared().lock().id_separator = separator;
    }

    /// The separator in numbered ids.
    pub fn id_separator(&self) -> IdSeparator {
        self.shared().lock().id_separator
    }

    /// Sets which documents are compressed. It applies to every batch submitted afterwards.
    pub fn set_compression(&self, rules: DocumentsCompression) {
        if *self.shared().lock().compression.rules() == rules {
            return;
        }
        if rules.compresses_anything() {
            self.start_trainer();
        }
        self.shared().lock().compression = Arc::new(Compression::new(rules));
    }

    /// Starts the thread that trains dictionaries, unless it is running. When the system cannot
    /// start it, documents are compressed without new dictionaries.
    fn start_trainer(&self) {
        let mut running = self.lock_trainer();
        // `close` waits for the thread that it finds.
        if running.is_some() || self.is_closed() {
            return;
        }
        let shared = Arc::clone(&self.writer.shared);
        let environment = Arc::clone(&self.writer.environment);
        let trainer = thread::Builder::new().name("commit-trainer".to_owned());
        *running = trainer.spawn(move || trainer_thread::run(&shared, &environment)).ok();
    }

    fn lock_trainer(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.trainer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The statistics of the queue, including its backlog.
    pub fn statistics(&self) -> CommitQueueStatistics {
        let state = self.shared().lock();
        CommitQueueStatistics {
            length: state.queue.len(),
            bytes: state.queue_bytes,
            ..state.statistics
        }
    }

    /// Whether the queue accepts no more batches, because it was closed or has failed.
    pub fn is_closed(&self) -> bool {
        self.shared().lock().is_closed
    }

    /// Accepts no more batches, executes the backlog, and waits until no thread works for the queue.
    /// Must not be called from a [`Reply`].
    pub fn close(&self) {
        self.shared().close(true);
        self.shared().wait_for_rest();
        // Any other caller of this waits for the end of the trainer, too.
        let mut trainer = self.lock_trainer();
        if let Some(trainer) = trainer.take() {
            // A panic only cost a dictionary.
            drop(trainer.join());
        }
    }
}

impl Drop for CommitQueue {
    fn drop(&mut self) {
        self.close();
    }
}
