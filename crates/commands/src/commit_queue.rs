//! The queue through which every change of a database goes.
//!
//! It has two threads: the writer executes batches into one open transaction while the journal
//! thread writes the previous one to disk. A batch is acknowledged when its transaction is durable.
//!
//! When the disk is full, the transactions in flight fail and the queue continues. After any other
//! failure of a write it is unknown what the disk holds: the queue closes itself, all waiting
//! callers get an error, and the database has to be reopened.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use documents::{Compression, WriteTally, has_leftover_contents};
use model::{DocumentsCompression, IdSeparator, RevisionsConfiguration};
use platform::Platform;
use storage::Environment;

use crate::{
    change_listener::ChangeListener,
    command::{Batch, BatchOutcome, Command},
    error::{CommandError, LowDiskSpace, SubmitError},
    journal_thread,
    patch::{PatchLimits, ValueReader},
    queue_state::{Rest, Shared, Submission},
    trainer_thread,
    writer_thread::Writer,
};

/// Receives the result of a batch. It is called once, on a thread of the queue, and must not block:
/// it would hold up all other callers.
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
    shared: Arc<Shared>,
    options: CommitQueueOptions,
    threads: Mutex<Vec<JoinHandle<()>>>,
    environment: Arc<Environment>,
    has_trainer: AtomicBool,
}

impl CommitQueue {
    /// Starts the two threads over an initialized database.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn start(
        environment: Arc<Environment>,
        platform: &Platform,
        options: CommitQueueOptions,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new());
        // An error is reported by the first batch that needs the values.
        if has_leftover_contents(&environment.read()).unwrap_or(false) {
            shared.push_own(Batch::one(Command::DiscardAllContents));
        }
        let queue = Self {
            shared: shared.clone(),
            options,
            threads: Mutex::new(Vec::new()),
            environment: Arc::clone(&environment),
            has_trainer: AtomicBool::new(false),
        };
        let rest = Rest::new(platform.memory.clone());
        let platform = platform.clone();
        let writer = Writer { environment, platform, options, shared: shared.clone() };
        let writer =
            thread::Builder::new().name("commit-writer".to_owned()).spawn(move || writer.run())?;
        queue.remember(writer);
        let journal = thread::Builder::new()
            .name("commit-journal".to_owned())
            .spawn(move || journal_thread::run(&shared, rest))?;
        queue.remember(journal);
        Ok(queue)
    }

    fn remember(&self, thread: JoinHandle<()>) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    /// Puts a batch into the queue; `reply` is called when it is durable or has failed. Returns
    /// immediately. When the batch is refused, `reply` is dropped without being called.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn submit(&self, batch: Batch, reply: Reply) -> Result<(), SubmitError> {
        let size_bytes = batch.size_bytes();
        let submission = Submission { batch, size_bytes, requeues: 0, reply };
        self.shared.push(submission, self.options.length_max, self.options.bytes_max)
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
        self.shared.lock().refusal = reason;
    }

    /// Sets the listener that is notified of the changes of batches. Only the first call has an
    /// effect.
    pub fn set_change_listener(&self, listener: Arc<dyn ChangeListener>) {
        self.shared.listener.get_or_init(|| listener);
    }

    /// Sets the function that is notified of what each durable transaction stored. It is called on
    /// the journal's thread: it must be quick and must not panic. Only the first call has an
    /// effect.
    pub fn count_stored_by(&self, on_stored: impl Fn(WriteTally) + Send + Sync + 'static) {
        self.shared.on_stored.get_or_init(|| Box::new(on_stored));
    }

    /// Sets the reader of compare exchange for patches. Only the first call has an effect.
    pub fn read_values_by(&self, values: Arc<ValueReader>) {
        drop(self.shared.values.set(values));
    }

    /// A barrier: calls `done`, on a thread of the queue, when every batch submitted before is
    /// durable or has failed; immediately when the queue is closed.
    pub fn after_all_before(&self, done: Box<dyn FnOnce() + Send>) {
        self.shared.push_mark(Box::new(move |_| done()));
    }

    /// Sets which revisions of documents are kept. It applies to every batch submitted afterwards.
    pub fn set_revisions(&self, configuration: Arc<RevisionsConfiguration>) {
        self.shared.lock().revisions = configuration;
    }

    /// Sets the separator in numbered ids. It applies to the scripts of every batch submitted
    /// afterwards.
    pub fn set_id_separator(&self, separator: IdSeparator) {
        self.shared.lock().id_separator = separator;
    }

    /// The separator in numbered ids.
    pub fn id_separator(&self) -> IdSeparator {
        self.shared.lock().id_separator
    }

    /// Sets which documents are compressed. It applies to every batch submitted afterwards.
    pub fn set_compression(&self, rules: DocumentsCompression) {
        if *self.shared.lock().compression.rules() == rules {
            return;
        }
        if rules.compresses_anything() {
            self.start_trainer();
        }
        self.shared.lock().compression = Arc::new(Compression::new(rules));
    }

    /// Starts the thread that trains dictionaries, unless it is running. When the system cannot
    /// start it, documents are compressed without new dictionaries.
    fn start_trainer(&self) {
        if self.has_trainer.swap(true, Ordering::AcqRel) {
            return;
        }
        let (shared, environment) = (Arc::clone(&self.shared), Arc::clone(&self.environment));
        let trainer = thread::Builder::new().name("commit-trainer".to_owned());
        let trainer = trainer.spawn(move || trainer_thread::run(&shared, &environment));
        match trainer {
            Ok(trainer) => self.remember(trainer),
            Err(_) => self.has_trainer.store(false, Ordering::Release),
        }
    }

    /// The statistics of the queue, including its backlog.
    pub fn statistics(&self) -> CommitQueueStatistics {
        let state = self.shared.lock();
        CommitQueueStatistics {
            length: state.queue.len(),
            bytes: state.queue_bytes,
            ..state.statistics
        }
    }

    /// Whether the queue accepts no more batches, because it was closed or has failed.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().is_closed
    }

    /// Accepts no more batches, executes the backlog, and ends the threads. Must not be called from
    /// a [`Reply`].
    pub fn close(&self) {
        self.shared.close(true);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A panic has already been reported through the replies that were dropped.
            let _ = thread.join();
        }
    }
}

impl Drop for CommitQueue {
    fn drop(&mut self) {
        self.close();
    }
}
