//! State shared by the callers and the two threads of a commit queue.
//!
//! One mutex guards everything, held only for moving values in and out; one condition variable
//! wakes the writer (a batch came, the journal is free, the queue closes), another the journal
//! thread. A sleeping thread is marked as such under the lock, so that waking a running one costs
//! no system call.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use documents::{Compression, WriteTally};
use model::{DocumentsCompression, IdSeparator, RevisionsConfiguration};
use platform::ProcessMemory;
use storage::{SealedTransaction, StorageError};

use crate::{
    change_listener::ChangeListener,
    command::{Batch, BatchOutcome},
    commit_queue::{CommitQueueStatistics, Reply},
    error::{CommandError, LowDiskSpace, SubmitError},
    patch::SharedValues,
};

/// The size that an internal batch counts as: large enough that a transaction does not take many of
/// them.
const OWN_BATCH_BYTES: usize = 4 << 20;

/// How long an idle thread waits before it returns memory to the system, and between further
/// attempts: its allocations are freed by other threads, at the latest with the second flush after
/// its last work.
const REST_PAUSE: Duration = Duration::from_secs(2);
const REST_PAUSES: u32 = 6;
/// The first pause is shorter: many databases may be written briefly one after another, and memory
/// retained by their threads is in no budget.
const REST_PAUSE_FIRST: Duration = Duration::from_millis(100);

/// What a thread does while it has no work.
pub(crate) struct Rest {
    memory: Arc<dyn ProcessMemory>,
    pauses: u32,
}

impl Rest {
    pub(crate) fn new(memory: Arc<dyn ProcessMemory>) -> Self {
        Self { memory, pauses: 0 }
    }

    /// The thread has worked: its memory will be returned when it is idle.
    pub(crate) fn worked(&mut self) {
        self.pauses = REST_PAUSES;
    }
}

/// A pending batch and its caller.
pub(crate) struct Submission {
    pub(crate) batch: Batch,
    pub(crate) size_bytes: usize,
    /// How often it was retried because memory was short.
    pub(crate) requeues: u8,
    pub(crate) reply: Reply,
}

/// Notified of what a durable transaction stored.
pub(crate) type OnStored = Box<dyn Fn(WriteTally) + Send + Sync>;

/// A caller whose batch is in a transaction that is not durable yet.
pub(crate) struct Pending {
    pub(crate) reply: Reply,
    pub(crate) outcome: BatchOutcome,
}

/// A batch that was executed in a transaction that is still open, and may have to be executed again
/// in another one.
pub(crate) struct Executed {
    pub(crate) submission: Submission,
    pub(crate) outcome: BatchOutcome,
}

/// A sealed transaction in flight to the disk, and its waiting callers.
pub(crate) struct Handover {
    pub(crate) sealed: SealedTransaction,
    pub(crate) pending: Vec<Pending>,
}

/// What the journal thread is doing.
pub(crate) enum Journal {
    /// Waiting for a transaction.
    Idle,
    /// A transaction is ready for it.
    Waiting(Handover),
    Writing,
}

pub(crate) struct State {
    pub(crate) queue: VecDeque<Submission>,
    pub(crate) queue_bytes: usize,
    pub(crate) journal: Journal,
    /// Set when a transaction could not be written: the writer's open transaction is built on it
    /// and has to be abandoned. The writer takes the error.
    pub(crate) lost: Option<StorageError>,
    /// The writer sleeps and has not been woken yet.
    writer_sleeps: bool,
    /// The same of the journal thread.
    journal_sleeps: bool,
    /// No more batches are accepted.
    pub(crate) is_closed: bool,
    /// Why batches are currently rejected.
    pub(crate) refusal: Option<Arc<LowDiskSpace>>,
    /// The writer has ended; the journal thread ends when it has nothing left.
    pub(crate) writer_ended: bool,
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
    state: Mutex<State>,
    writer_wakes: Condvar,
    journal_wakes: Condvar,
    trainer_wakes: Condvar,
    /// The listener to changes.
    pub(crate) listener: OnceLock<Arc<dyn ChangeListener>>,
    /// Called with what was stored.
    pub(crate) on_stored: OnceLock<OnStored>,
    /// Where patches read compare exchange.
    pub(crate) values: SharedValues,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let state = State {
            queue: VecDeque::new(),
            queue_bytes: 0,
            journal: Journal::Idle,
            lost: None,
            writer_sleeps: false,
            journal_sleeps: false,
            is_closed: false,
            refusal: None,
            writer_ended: false,
            statistics: CommitQueueStatistics::default(),
            revisions: Arc::default(),
            compression: Arc::new(Compression::new(DocumentsCompression::nothing())),
            id_separator: IdSeparator::default(),
            trainings: BTreeSet::new(),
        };
        Self {
            state: Mutex::new(state),
            writer_wakes: Condvar::new(),
            journal_wakes: Condvar::new(),
            trainer_wakes: Condvar::new(),
            listener: OnceLock::new(),
            on_stored: OnceLock::new(),
            values: Arc::default(),
        }
    }

    /// No code that may panic runs under the lock, so a poisoned lock still guards a sound state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait_as_writer<'s>(
        &self,
        mut state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State> {
        state.writer_sleeps = true;
        let mut state = self.writer_wakes.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.writer_sleeps = false;
        state
    }

    pub(crate) fn rest_as_writer<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        rest: &mut Rest,
    ) -> MutexGuard<'s, State> {
        state.writer_sleeps = true;
        self.rest(&self.writer_wakes, state, rest, |state| state.writer_sleeps = false)
    }

    pub(crate) fn rest_as_journal<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        rest: &mut Rest,
    ) -> MutexGuard<'s, State> {
        state.journal_sleeps = true;
        self.rest(&self.journal_wakes, state, rest, |state| state.journal_sleeps = false)
    }

    /// Waits to be woken, at first only for some time, after which memory is returned. `awake`
    /// marks the thread as no longer sleeping.
    fn rest<'s>(
        &'s self,
        wakes: &Condvar,
        state: MutexGuard<'s, State>,
        rest: &mut Rest,
        awake: impl Fn(&mut State),
    ) -> MutexGuard<'s, State> {
        if rest.pauses == 0 {
            let mut state = wakes.wait(state).unwrap_or_else(PoisonError::into_inner);
            awake(&mut state);
            return state;
        }
        let pause = if rest.pauses == REST_PAUSES { REST_PAUSE_FIRST } else { REST_PAUSE };
        let waited = wakes.wait_timeout(state, pause);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        awake(&mut state);
        if !timeout.timed_out() {
            return state;
        }
        drop(state);
        rest.pauses -= 1;
        rest.memory.release_unused();
        self.lock()
    }

    /// Wakes the writer after a change under the lock, which is released first.
    pub(crate) fn wake_writer(&self, mut state: MutexGuard<'_, State>) {
        let sleeps = std::mem::take(&mut state.writer_sleeps);
        drop(state);
        if sleeps {
            self.writer_wakes.notify_all();
        }
    }

    /// Wakes the journal thread after a change under the lock, which is released first.
    pub(crate) fn wake_journal(&self, mut state: MutexGuard<'_, State>) {
        let sleeps = std::mem::take(&mut state.journal_sleeps);
        drop(state);
        if sleeps {
            self.journal_wakes.notify_all();
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
        if state.is_closed {
            return Err(SubmitError::Closed);
        }
        if let Some(refusal) = &state.refusal {
            let refusal = SubmitError::LowDiskSpace(refusal.clone());
            state.statistics.batches_refused += 1;
            return Err(refusal);
        }
        // A batch that is larger than the whole queue may still go through an empty one.
        let bytes = state.queue_bytes.saturating_add(submission.size_bytes);
        if length_max <= state.queue.len() || (!state.queue.is_empty() && bytes_max < bytes) {
            state.statistics.batches_refused += 1;
            return Err(SubmitError::Full);
        }
        state.queue_bytes = bytes;
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
            return answer(reply, Err(CommandError::Closed));
        }
        let batch = Batch::default();
        state.queue.push_back(Submission { batch, size_bytes: 0, requeues: 0, reply });
        self.wake_writer(state);
    }

    /// Appends an internal batch of the queue behind all others, unless the queue is closed. No
    /// caller is notified of its result.
    pub(crate) fn push_own(&self, batch: Batch) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        state.queue_bytes += OWN_BATCH_BYTES;
        let reply = Box::new(|_| ());
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
        self.wake_journal(self.lock());
        self.trainer_wakes.notify_all();
        refused
    }
}

impl State {
    /// Takes the oldest pending batch.
    pub(crate) fn pop(&mut self) -> Option<Submission> {
        let submission = self.queue.pop_front()?;
        self.queue_bytes -= submission.size_bytes;
        Some(submission)
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

    pub(crate) fn journal_is_idle(&self) -> bool {
        matches!(self.journal, Journal::Idle)
    }
}

/// Replies to a caller. What the caller does with the reply cannot harm the queue.
pub(crate) fn answer(reply: Reply, result: Result<BatchOutcome, CommandError>) {
    let call = std::panic::AssertUnwindSafe(move || reply(result));
    // A caller that panics harms only itself: it already has its result.
    let _ = std::panic::catch_unwind(call);
}
