//! What a thread does for a queue: it executes batches into a transaction, as the writer, and takes
//! this to the journal; meanwhile another thread may be the writer.
//!
//! While one transaction is in flight to the disk, batches are collected into the next; it is
//! sealed as soon as the journal is free. So the slower the disk, the larger the groups, and no
//! batch ever waits for a timer. A single batch is executed, written and acknowledged by one thread.
//!
//! Invariants: at most one transaction is open and one at the journal; an open transaction that is
//! built on a lost one is abandoned.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::Duration,
};

use documents::{ErrorKind, WriteContext};
use platform::Platform;
use storage::{Environment, MemoryExhausted, StorageError, WriteTransaction};

use crate::{
    command::{Batch, BatchOutcome, Command},
    commit_queue::CommitQueueOptions,
    commit_threads::Work,
    error::{CommandError, ends_writing},
    execute::execute_batch,
    journal,
    patch::{Patcher, ThreadPatcher},
    queue_state::{Executed, Handover, Pending, Shared, Submission, Todo},
    script_places::ScriptPlace,
};

/// How often a batch is retried that ran out of memory alongside others.
const REQUEUES_MAX: u8 = 3;
/// How long each attempt waits for other databases.
const OTHERS_WAIT_MAX: Duration = Duration::from_millis(250);
/// How long a transaction takes further batches although the journal is free. Its callers wait until it
/// is sealed, so this bounds how long the scripts of others, and batches that fail, hold them up. Scripts that have to
/// wait for their turn are left for the next transaction.
const TRANSACTION_TIME_MAX: Duration = Duration::from_millis(100);

pub(crate) struct Writer {
    pub(crate) environment: Arc<Environment>,
    pub(crate) platform: Platform,
    pub(crate) options: CommitQueueOptions,
    pub(crate) shared: Arc<Shared>,
}

/// A batch that can be executed now.
struct ReadyBatch {
    submission: Submission,
    /// If it has scripts.
    place: Option<ScriptPlace>,
}

/// What to do with the open transaction.
enum Next {
    /// Execute one more batch into it.
    Execute(ReadyBatch),
    /// Seal it and hand it over.
    Seal,
    /// Abandon it, because of this error.
    Abandon(StorageError),
}

/// Why a batch could not be begun.
enum NotBegun {
    NoTransaction(StorageError),
    /// There is a place for its scripts, but no memory for their heap.
    NoMemory(MemoryExhausted),
}

/// How executing one batch ended.
enum Execution {
    Succeeded(BatchOutcome),
    /// Only this batch failed.
    Failed(CommandError),
    /// The batch failed in a way that leaves the transaction in doubt.
    Spoiled(CommandError),
}

impl Work for Writer {
    fn run(self: Arc<Self>, patcher: &mut ThreadPatcher) {
        let shared = Arc::clone(&self.shared);
        shared.begin_work();
        let worked = catch_unwind(AssertUnwindSafe(|| {
            self.work(patcher);
            patcher.release();
        }));
        // A caller that waits for the end may open the environment again.
        drop(self);
        shared.end_work();
        if let Err(panic) = worked {
            resume_unwind(panic);
        }
    }
}

impl Writer {
    /// The thread is the writer when this begins.
    ///
    /// # Panics
    /// When executing or writing does, outside of what is caught for each batch. The queue is closed
    /// then.
    fn work(&self, patcher: &mut ThreadPatcher) {
        let is_writer = Cell::new(true);
        let turns = AssertUnwindSafe(|| {
            while let Some(handover) = self.next_transaction(patcher) {
                let turn = self.shared.enter_journal();
                is_writer.set(false);
                journal::write(&self.shared, turn, handover);
                is_writer.set(self.shared.try_resume_as_writer());
                if !is_writer.get() {
                    return;
                }
            }
        });
        if let Err(panic) = catch_unwind(turns) {
            self.shared.thread_broke_down(is_writer.get());
            resume_unwind(panic)
        }
    }

    /// Executes pending batches, until a transaction is sealed. Without one, the thread is no longer the
    /// writer: there is nothing to do, or another thread is scheduled for it.
    fn next_transaction(&self, patcher: &mut ThreadPatcher) -> Option<Handover> {
        loop {
            let first = match self.shared.next_as_writer()? {
                Todo::Execute(first) => first,
                Todo::Recover(error) => {
                    self.after_loss(&error);
                    continue;
                }
            };
            let sealed = match self.begin(&first.batch) {
                Ok((tx, place)) => {
                    let first = ReadyBatch { submission: first, place };
                    self.run_transaction(tx, first, self.prepared(patcher))
                }
                Err(NotBegun::NoTransaction(error)) => {
                    self.refuse(first, error);
                    None
                }
                Err(NotBegun::NoMemory(exhausted)) => {
                    self.refuse_scripts(first, exhausted);
                    None
                }
            };
            if sealed.is_some() || self.shared.yield_to_others(self.platform.clock.monotonic()) {
                return sealed;
            }
        }
    }

    /// A transaction, and a place for the scripts of its first batch, if there are any.
    fn begin(&self, first: &Batch) -> Result<(WriteTransaction, Option<ScriptPlace>), NotBegun> {
        let transaction = || self.environment.write().map_err(NotBegun::NoTransaction);
        let tx = transaction()?;
        if !first.has_scripts() {
            return Ok((tx, None));
        }
        let places = self.shared.script_places();
        if let Some(place) = places.try_take() {
            return Ok((tx, Some(place)));
        }
        // An open transaction keeps memory that the scripts may wait for. A place is not taken before one is opened,
        // unless it has to be: that may wait for a slow disk.
        drop(tx);
        let place = places.take().map_err(NotBegun::NoMemory)?;
        Ok((transaction()?, Some(place)))
    }

    fn prepared<'p>(&self, patcher: &'p mut ThreadPatcher) -> &'p mut Patcher {
        patcher.serving(
            &self.platform.clock,
            self.options.patches,
            &self.shared.values,
            &self.environment.options().transaction_budget,
        )
    }

    fn run_transaction(
        &self,
        mut tx: WriteTransaction,
        first: ReadyBatch,
        patcher: &mut Patcher,
    ) -> Option<Handover> {
        let mut executed = Vec::new();
        let (mut bytes, mut batches, mut is_full) = (0, 0, false);
        let mut next = first;
        let due = self.platform.clock.monotonic().saturating_add(TRANSACTION_TIME_MAX);
        loop {
            let ReadyBatch { mut submission, place } = next;
            bytes += submission.size_bytes;
            batches += 1;
            let was_alone = executed.is_empty() && self.is_alone();
            match self.execute(&mut tx, &submission.batch, patcher, place) {
                Execution::Succeeded(outcome) => {
                    if outcome.has_leftover_contents {
                        self.shared.push_own(Batch::one(Command::RemoveLeftoverContents));
                    }
                    executed.push(Executed { submission, outcome });
                }
                Execution::Failed(error)
                    if error.is_short_of_memory()
                        && submission.requeues < REQUEUES_MAX
                        && !(was_alone && self.is_alone()) =>
                {
                    if executed.is_empty() {
                        self.wait_for_others();
                    }
                    submission.requeues += 1;
                    self.shared.lock().requeue_front(submission);
                    is_full = true;
                }
                Execution::Failed(error) => self.fail(submission, error),
                Execution::Spoiled(error) => {
                    drop(tx);
                    self.spoil(submission, error, executed);
                    return None;
                }
            }
            is_full |= self.options.transaction_batches_max <= batches
                || self.options.transaction_bytes_max <= bytes;
            next = match self.next(is_full, due) {
                Next::Execute(ready) => ready,
                Next::Seal if executed.is_empty() && tx.dirty_pages() == 0 => return None,
                Next::Seal => return self.seal(tx, executed),
                Next::Abandon(error) => {
                    drop(tx);
                    self.abandon(executed, &error);
                    return None;
                }
            }
        }
    }

    /// Whether no transaction in flight and no other database holds much of the memory. A batch
    /// that runs out of memory although it was alone in its transaction from beginning to end is
    /// too large; any other one is retried as the first of the next transaction.
    fn is_alone(&self) -> bool {
        let is_half_taken = self.environment.options().transaction_budget.is_half_taken();
        !is_half_taken && !self.shared.lock().is_writing
    }

    /// Waits briefly for others to release the memory they hold.
    fn wait_for_others(&self) {
        self.environment.options().transaction_budget.wait_for_half(OTHERS_WAIT_MAX);
    }

    /// Waits until there is something to do with the open transaction, which takes no more batches when
    /// it is full, or once it is due and the journal is free.
    fn next(&self, is_full: bool, due: Duration) -> Next {
        // The next batch would have to wait for a place for its scripts, and what is executed already with it.
        let mut lacks_place = false;
        let mut state = self.shared.lock();
        loop {
            if let Some(error) = state.lost.take() {
                return Next::Abandon(error);
            }
            let is_due = || due <= self.platform.clock.monotonic();
            let takes_more = !is_full && !lacks_place && (state.is_writing || !is_due());
            if takes_more && let Some(submission) = state.pop() {
                if !submission.batch.has_scripts() {
                    return Next::Execute(ReadyBatch { submission, place: None });
                }
                drop(state);
                let place = self.shared.script_places().try_take();
                if place.is_some() {
                    return Next::Execute(ReadyBatch { submission, place });
                }
                lacks_place = true;
                state = self.shared.lock();
                state.requeue_front(submission);
                continue;
            }
            if !state.is_writing {
                return Next::Seal;
            }
            state = self.shared.wait_as_writer(state);
            lacks_place = false;
        }
    }

    /// Executes a batch; `place` is needed by scripts.
    fn execute(
        &self,
        tx: &mut WriteTransaction,
        batch: &Batch,
        patcher: &mut Patcher,
        place: Option<ScriptPlace>,
    ) -> Execution {
        let call = AssertUnwindSafe(|| {
            let state = self.shared.lock();
            let revisions = Arc::clone(&state.revisions);
            let compression = Arc::clone(&state.compression);
            let id_separator = state.id_separator;
            drop(state);
            let now = self.platform.clock.now();
            let entropy = &*self.platform.entropy;
            let context = WriteContext {
                now,
                entropy,
                revisions: &revisions,
                compression: &compression,
                id_separator,
                notes_changes: self.shared.has_listener(),
                document_bytes_max: self.options.document_bytes_max,
            };
            execute_batch(tx, batch, context, patcher)
        });
        let executed = catch_unwind(call);
        if executed.is_err() {
            // It may have stopped midway.
            patcher.renew();
        }
        if place.is_some() {
            patcher.end_scripts();
        }
        drop(place);
        match executed {
            Ok(Ok(outcome)) => Execution::Succeeded(outcome),
            Ok(Err(error)) if error.kind() == ErrorKind::Ours => Execution::Spoiled(error),
            Ok(Err(error)) => Execution::Failed(error),
            Err(panic) => {
                Execution::Spoiled(CommandError::Panicked { message: message_of(&*panic) })
            }
        }
    }

    /// Seals the transaction, which is then taken to the journal.
    fn seal(&self, tx: WriteTransaction, executed: Vec<Executed>) -> Option<Handover> {
        match tx.seal() {
            Ok(sealed) => {
                let pending = executed.into_iter().map(Pending::from).collect();
                Some(Handover { sealed, pending })
            }
            Err(error) => {
                self.abandon(executed, &error);
                None
            }
        }
    }

    /// A batch for which no transaction could be opened. While a transaction is on its way to the journal, the
    /// newest published snapshot retains pages that a flush has copied already; they are released when the transaction
    /// is published. So the batch is tried again then.
    fn refuse(&self, mut submission: Submission, error: StorageError) {
        let may_pass = matches!(error, StorageError::TooManyUnflushed { .. });
        if may_pass && submission.requeues < REQUEUES_MAX {
            submission.requeues += 1;
            self.shared.lock().requeue_front(submission);
            return self.shared.wait_for_journal();
        }
        let ends = ends_writing(&error);
        self.fail(submission, CommandError::NotWritten(error));
        if ends {
            self.end_writing();
        }
    }

    /// A batch for whose scripts there is no memory, and those with scripts right behind it: each would wait as long for
    /// the same, and everything behind them with it.
    fn refuse_scripts(&self, first: Submission, exhausted: MemoryExhausted) {
        let mut refused = Some(first);
        while let Some(submission) = refused {
            self.fail(submission, CommandError::NoMemoryForScripts(exhausted));
            refused = self.shared.lock().pop_if(|batch| batch.has_scripts());
        }
    }

    /// The transaction failed before it was handed over, because of the journal or by itself.
    fn abandon(&self, executed: Vec<Executed>, error: &StorageError) {
        for Executed { submission, .. } in executed {
            self.fail(submission, CommandError::NotWritten(error.clone()));
        }
        self.after_loss(error);
    }

    /// One batch left the transaction in doubt: it is discarded, and the other batches are executed
    /// again in a new one, unless writing has ended.
    fn spoil(&self, culprit: Submission, error: CommandError, innocent: Vec<Executed>) {
        let ends = matches!(error, CommandError::Document(_));
        self.shared.lock().requeue_front_all(innocent);
        self.fail(culprit, error);
        if ends {
            self.end_writing();
        }
    }

    fn after_loss(&self, error: &StorageError) {
        if ends_writing(error) {
            self.end_writing();
        }
    }

    fn end_writing(&self) {
        for submission in self.shared.close(false) {
            self.fail(submission, CommandError::Closed);
        }
    }

    fn fail(&self, submission: Submission, error: CommandError) {
        self.shared.lock().statistics.batches_failed += 1;
        submission.reply.answer(Err(error));
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}
