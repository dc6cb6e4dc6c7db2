//! State shared by the callers and the threads of a commit queue.
//!
//! One mutex guards the state, held only for moving values in and out; another one puts the answers
//! in order, and is held while callers are answered. At most one thread is the *writer*, which
//! executes batches into the open transaction, and at most one writes a transaction to the *journal*.
//! A condition variable wakes a writer that waits with its transaction (a batch came, the journal is
//! free); it is marked as waiting under the lock, so that waking a running one costs no system call.
//!
//! Invariant: while batches are pending, there is a writer, or it is scheduled, or the thread at the
//! journal will become it.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use documents::{Compression, WriteTally};
use model::{DocumentsCompression, IdSeparator, RevisionsConfiguration};
use storage::{SealedTransaction, StorageError};

use crate::{
    change_listener::ChangeListener,
    command::{Batch, BatchOutcome},
    commit_queue::{CommitQueueStatistics, Reply},
    commit_threads::{CommitThreads, Work},
    error::{CommandError, LowDiskSpace, SubmitError},
    patch::SharedValues,
    script_places::ScriptPlaces,
};

/// The size that an internal batch counts as: large enough that a transaction does not take many of
/// them.
const OWN_BATCH_BYTES: usize = 4 << 20;

/// A pending batch and its caller.
pub(crate) struct Submission {
    pub(crate) batch: Batch,
    pub(crate) size_bytes: usize,
    /// How often it was retried because memory was short.
    pub(crate) requeues: u8,
    pub(crate) reply: PendingReply,
}

/// A caller that has no answer yet. Dropping it answers, too: whatever happens to a queue, no caller
/// waits forever.
pub(crate) struct PendingReply {
    /// `None` once the caller has its answer.
    reply: Option<Reply>,
    /// The batch is in a transaction that may be in the journal.
    is_sealed: bool,
}

impl PendingReply {
    pub(crate) fn new(reply: Reply) -> Self {
        Self { reply: Some(reply), is_sealed: false }
    }

    /// The same for a batch whose transaction is on its way to the journal.
    fn sealed(mut self) -> Self {
        self.is_sealed = true;
        self
    }

    /// Answers the caller. What the caller does with the answer cannot harm the queue.
    pub(crate) fn answer(mut self, result: Result<BatchOutcome, CommandError>) {
        self.call(result);
    }

    /// Drops the reply of a batch that was not accepted, without calling it.
    pub(crate) fn discard(mut self) {
        self.reply = None;
    }

    fn call(&mut self, result: Result<BatchOutcome, CommandError>) {
        let Some(reply) = self.reply.take() else { return };
        let call = std::panic::AssertUnwindSafe(move || reply(result));
        // A caller that panics harms only itself: it already has its result.
        let _ = std::panic::catch_unwind(call);
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        let error = match self.is_sealed {
            false => CommandError::Closed,
            true => CommandError::OutcomeUnknown(thread_panicked()),
        };
        if self.reply.is_some() {
            self.call(Err(error));
        }
    }
}

/// The error of a transaction whose thread has panicked.
pub(crate) fn thread_panicked() -> StorageError {
    let source = Arc::new(io::Error::other("a thread that writes transactions has panicked"));
    let reason = StorageError::Io { path: PathBuf::new(), operation: "write the journal", source };
    StorageError::Failed { reason: Arc::new(reason) }
}

/// Notified of what a durable transaction stored.
pub(crate) type OnStored = Box<dyn Fn(WriteTally) + Send + Sync>;

/// A caller whose batch is in a transaction that is not durable yet.
pub(crate) struct Pending {
    pub(crate) reply: PendingReply,
    pub(crate) outcome: BatchOutcome,
}

impl From<Executed> for Pending {
    fn from(executed: Executed) -> Self {
        Self { reply: executed.submission.reply.sealed(), outcome: executed.outcome }
    }
}

/// A batch that was executed in a transaction that is still open, and may have to be executed again
/// in another one.
pub(crate) struct Executed {
    pub(crate) submission: Submission,
    pub(crate) outcome: BatchOutcome,
}

/// A sealed transaction on its way to the disk, and its waiting callers.
pub(crate) struct Handover {
    pub(crate) sealed: SealedTransaction,
    pub(crate) pending: Vec<Pending>,
}

/// The turn of a thread that writes a transaction to the journal. If the thread panics, it ends as if the transaction
/// were lost.
pub(crate) struct JournalTurn<'s> {
    shared: &'s Shared,
    is_over: bool,
}

impl JournalTurn<'_> {
    /// The transaction is written, or lost: another thread may write the next one.
    pub(crate) fn end(mut self, written: &Result<(), StorageError>, batches: usize) {
        self.is_over = true;
        let mut state = self.shared.lock();
        state.is_writing = false;
        match written {
            Ok(()) => {
                state.statistics.transactions += 1;
                state.statistics.batches += batches as u64;
            }
            Err(error) => state.lost = Some(error.clone()),
        }
        self.shared.wake_waiting_writer(state);
    }
}

impl Drop for JournalTurn<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.shared.lock();
            state.is_writing = false;
            state.lost = Some(thread_panicked());
            self.shared.wake_waiting_writer(state);
        }
    }
}

/// Whether a thread executes batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriterRole {
    /// No thread does, and none is scheduled to.
    Vacant,
    /// A thread does, or is scheduled to.
    Taken,
    /// It waits with its open transaction, and has not been woken yet.
    Waiting,
}

/// What a writer without an open transaction has to do.
pub(crate) enum Todo {
    /// A transaction was lost, with this error.
    Recover(StorageError),
    /// Execute this batch.
    Execute(Submission),
}

pub(crate) struct QueueState {
    pub(crate) queue: VecDeque<Submission>,
    pub(crate) queue_bytes: usize,
    pub(crate) writer: WriterRole,
    /// A thread writes a transaction to the journal.
    pub(crate) is_writing: bool,
    /// The number of threads that work for the queue.
    threads: usize,
    /// Set when a transaction could not be written: the writer's open transaction is built on it
    /// and has to be abandoned. The writer takes the error.
    pub(crate) lost: Option<StorageError>,
    /// No more batches are accepted.
    pub(crate) is_closed: bool,
    /// Why batches are currently rejected.
    pub(crate) refusal: Option<Arc<LowDiskSpace>>,
    pub(crate) statistics: CommitQueueStatistics,
    /// Which revisions are kept by the batches executed from now on.
    pub(crate) revisions: Arc<RevisionsConfiguration>,
    /// The rules of compression.
    pub(crate) compression: Arc<Compression>,
    /// The separator in ids that they number.
    pub(crate) id_separator: IdSeparator,
    /// Collections, by their numbers, for which a dictionary is to be trained.
    pub(crate) trainings: BTreeSet<u32>,
}

pub(crate) struct Shared {
    state: Mutex<QueueState>,
    /// Held by the thread that acknowledges the callers of a transaction. It is taken before the journal
    /// is free, so threads take it in the order of their transactions: of several at the journal's end, one
    /// acknowledges, one waits here, and the next cannot write yet.
    answers: Mutex<()>,
    threads: Arc<CommitThreads>,
    /// What the threads run for this queue; gone when the queue is dropped.
    work: Weak<dyn Work>,
    writer_wakes: Condvar,
    /// Wakes those who wait for the end of a queue that is being closed.
    rests: Condvar,
    trainer_wakes: Condvar,
    /// The listener to changes.
    pub(crate) listener: OnceLock<Arc<dyn ChangeListener>>,
    /// Called with what was stored.
    pub(crate) on_stored: OnceLock<OnStored>,
    /// Where patches read compare exchange.
    pub(crate) values: SharedValues,
}

impl Shared {
    pub(crate) fn new(threads: Arc<CommitThreads>, work: Weak<dyn Work>) -> Self {
        let state = QueueState {
            queue: VecDeque::new(),
            queue_bytes: 0,
            writer: WriterRole::Vacant,
            is_writing: false,
            threads: 0,
            lost: None,
            is_closed: false,
            refusal: None,
            statistics: CommitQueueStatistics::default(),
            revisions: Arc::default(),
            compression: Arc::new(Compression::new(DocumentsCompression::nothing())),
            id_separator: IdSeparator::default(),
            trainings: BTreeSet::new(),
        };
        Self {
            state: Mutex::new(state),
            answers: Mutex::new(()),
            threads,
            work,
            writer_wakes: Condvar::new(),
            rests: Condvar::new(),
            trainer_wakes: Condvar::new(),
            listener: OnceLock::new(),
            on_stored: OnceLock::new(),
            values: Arc::default(),
        }
    }

    /// No code that may panic runs under the lock, so a poisoned lock still guards a sound state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, as the writer with an open transaction, for a batch or the journal.
    pub(crate) fn wait_as_writer<'s>(
        &self,
        mut state: MutexGuard<'s, QueueState>,
    ) -> MutexGuard<'s, QueueState> {
        state.writer = WriterRole::Waiting;
        while state.writer == WriterRole::Waiting {
            state = self.writer_wakes.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Waits, as the writer, until no transaction is at the journal.
    pub(crate) fn wait_for_journal(&self) {
        let mut state = self.lock();
        while state.is_writing {
            state = self.wait_as_writer(state);
        }
    }

    /// Wakes a writer that waits after a change under the lock, which is released first.
    pub(crate) fn wake_waiting_writer(&self, mut state: MutexGuard<'_, QueueState>) {
        if state.writer == WriterRole::Waiting {
            state.writer = WriterRole::Taken;
            drop(state);
            self.writer_wakes.notify_all();
        }
    }

    /// The same; without a writer, schedules one for what is pending.
    fn wake_writer(&self, state: MutexGuard<'_, QueueState>) {
        match state.writer {
            WriterRole::Vacant if state.has_work() => self.schedule_writer(state),
            _ => self.wake_waiting_writer(state),
        }
    }

    /// The thread at the journal becomes the writer when it is done; until then, a second one is worth
    /// it only if no other queue needs it.
    fn schedule_writer(&self, mut state: MutexGuard<'_, QueueState>) {
        if state.is_writing && !self.threads.has_free_thread() {
            return;
        }
        let now = self.threads.now();
        state.writer = WriterRole::Taken;
        drop(state);
        self.schedule(now);
    }

    fn schedule(&self, now: Duration) {
        if let Some(work) = self.work.upgrade() {
            self.threads.schedule(work, now);
        }
    }

    /// Those who execute batches with scripts share these.
    pub(crate) fn script_places(&self) -> &Arc<ScriptPlaces> {
        self.threads.script_places()
    }

    /// Waits until the callers of the transaction before are acknowledged.
    pub(crate) fn begin_answers(&self) -> MutexGuard<'_, ()> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread begins to work for the queue, as its writer.
    pub(crate) fn begin_work(&self) {
        self.lock().threads += 1;
    }

    /// The thread that began has nothing to do for the queue any more.
    pub(crate) fn end_work(&self) {
        let mut state = self.lock();
        state.threads -= 1;
        if state.is_closed && state.is_at_rest() {
            self.rests.notify_all();
        }
    }

    /// What the writer has to do. With nothing, there is no writer any more.
    pub(crate) fn next_as_writer(&self) -> Option<Todo> {
        let mut state = self.lock();
        if let Some(error) = state.lost.take() {
            return Some(Todo::Recover(error));
        }
        let next = state.pop();
        if next.is_none() {
            state.writer = WriterRole::Vacant;
        }
        next.map(Todo::Execute)
    }

    /// The writer takes its transaction to the journal; another one may follow.
    pub(crate) fn enter_journal(&self) -> JournalTurn<'_> {
        let turn = JournalTurn { shared: self, is_over: false };
        let mut state = self.lock();
        state.is_writing = true;
        state.writer = WriterRole::Vacant;
        if state.has_work() {
            self.schedule_writer(state);
        }
        turn
    }

    /// After the journal: whether this thread is now the writer. If other queues wait for a thread,
    /// they have their turn first.
    pub(crate) fn try_resume_as_writer(&self) -> bool {
        let now = self.threads.now();
        let mut state = self.lock();
        if state.writer != WriterRole::Vacant || !state.has_work() {
            return false;
        }
        state.writer = WriterRole::Taken;
        drop(state);
        !self.yield_to_others(now)
    }

    /// As the writer, without a transaction: if other queues wait for a thread, they have their turn
    /// first, and this one is scheduled after them. Returns whether that is so.
    pub(crate) fn yield_to_others(&self, now: Duration) -> bool {
        let yields = self.threads.have_pending();
        if yields {
            self.schedule(now);
        }
        yields
    }

    /// A thread has panicked outside of any batch: it is unknown what it was about to do. The queue is closed, and
    /// what is pending fails.
    pub(crate) fn thread_broke_down(&self, was_writer: bool) {
        if was_writer {
            // First: whatever waits for the end of the queue must not take this thread for one that still works.
            self.lock().writer = WriterRole::Vacant;
        }
        drop(self.close(false));
        let mut state = self.lock();
        if state.writer == WriterRole::Vacant {
            // There is no transaction that could be built on the lost one.
            state.lost = None;
        }
    }

    /// Waits until no thread works for a queue that was closed.
    pub(crate) fn wait_for_rest(&self) {
        let mut state = self.lock();
        while !state.is_at_rest() {
            state = self.rests.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Appends a batch to the queue.
    pub(crate) fn push(
        &self,
        submission: Submission,
        length_max: usize,
        bytes_max: usize,
    ) -> Result<(), SubmitError> {
        let mut state = self.lock();
        if let Err(refused) = state.accept(submission.size_bytes, length_max, bytes_max) {
            drop(state);
            submission.reply.discard();
            return Err(refused);
        }
        state.queue_bytes = state.queue_bytes.saturating_add(submission.size_bytes);
        state.queue.push_back(submission);
        self.wake_writer(state);
        Ok(())
    }

    /// Whether there is a listener to changes.
    pub(crate) fn has_listener(&self) -> bool {
        self.listener.get().is_some_and(|listener| listener.is_listening())
    }

    /// Reports what batches stored, once it is durable.
    pub(crate) fn count(&self, pending: &[Pending]) {
        if let Some(on_stored) = self.on_stored.get() {
            let tallies = pending.iter().map(|one| one.outcome.tally);
            on_stored(tallies.fold(WriteTally::default(), WriteTally::with));
        }
    }

    /// Enqueues a barrier: `reply` is called when everything submitted before is durable or has
    /// failed.
    pub(crate) fn push_mark(&self, reply: Reply) {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            return PendingReply::new(reply).answer(Err(CommandError::Closed));
        }
        let (batch, reply) = (Batch::default(), PendingReply::new(reply));
        state.queue.push_back(Submission { batch, size_bytes: 0, requeues: 0, reply });
        self.wake_writer(state);
    }

    /// Appends an internal batch of the queue after all others, unless the queue is closed. No
    /// caller is notified of its result.
    pub(crate) fn push_own(&self, batch: Batch) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        state.queue_bytes += OWN_BATCH_BYTES;
        let reply = PendingReply::new(Box::new(|_| ()));
        let submission = Submission { batch, size_bytes: OWN_BATCH_BYTES, requeues: 0, reply };
        state.queue.push_back(submission);
        self.wake_writer(state);
    }

    /// Requests the training of dictionaries.
    pub(crate) fn train(&self, collections: &[u32]) {
        self.lock().trainings.extend(collections);
        self.trainer_wakes.notify_all();
    }

    /// Waits for a collection that needs a dictionary; `None` when the queue is closed.
    pub(crate) fn wait_as_trainer(&self) -> Option<u32> {
        let mut state = self.lock();
        while !state.is_closed {
            if let Some(collection) = state.trainings.pop_first() {
                return Some(collection);
            }
            state = self.trainer_wakes.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Accepts no more batches; without `drain`, returns the pending ones, which will not be
    /// executed.
    pub(crate) fn close(&self, drain: bool) -> VecDeque<Submission> {
        let mut state = self.lock();
        state.is_closed = true;
        let refused = if drain {
            VecDeque::new()
        } else {
            state.queue_bytes = 0;
            std::mem::take(&mut state.queue)
        };
        self.wake_writer(state);
        self.trainer_wakes.notify_all();
        refused
    }
}

impl QueueState {
    /// Whether a batch of this size is accepted.
    fn accept(
        &mut self,
        size_bytes: usize,
        length_max: usize,
        bytes_max: usize,
    ) -> Result<(), SubmitError> {
        if self.is_closed {
            return Err(SubmitError::Closed);
        }
        // A batch that is larger than the whole queue may still go through an empty one.
        let is_too_large = bytes_max < self.queue_bytes.saturating_add(size_bytes);
        let is_full = length_max <= self.queue.len() || (!self.queue.is_empty() && is_too_large);
        let refused = match &self.refusal {
            Some(refusal) => SubmitError::LowDiskSpace(refusal.clone()),
            None if is_full => SubmitError::Full,
            None => return Ok(()),
        };
        self.statistics.batches_refused += 1;
        Err(refused)
    }

    /// Takes the oldest pending batch.
    pub(crate) fn pop(&mut self) -> Option<Submission> {
        let submission = self.queue.pop_front()?;
        self.queue_bytes -= submission.size_bytes;
        Some(submission)
    }

    /// Takes the oldest pending batch if it is one of these.
    pub(crate) fn pop_if(&mut self, is_one: impl Fn(&Batch) -> bool) -> Option<Submission> {
        is_one(&self.queue.front()?.batch).then(|| self.pop())?
    }

    /// Puts batches back at the front of the queue, in their order.
    pub(crate) fn requeue_front_all(&mut self, executed: Vec<Executed>) {
        for Executed { submission, .. } in executed.into_iter().rev() {
            self.requeue_front(submission);
        }
    }

    /// Puts a batch back at the front of the queue.
    pub(crate) fn requeue_front(&mut self, submission: Submission) {
        self.queue_bytes += submission.size_bytes;
        self.queue.push_front(submission);
    }

    /// Whether the writer has something to do.
    fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.lost.is_some()
    }

    /// Whether no thread works for the queue, or will.
    fn is_at_rest(&self) -> bool {
        self.writer == WriterRole::Vacant && self.threads == 0 && !self.has_work()
    }
}
