//! The state that an index's threads and users share: its progress, its stage in the pool, and its
//! waiters.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use cluster_state::{DatabaseValues, ValueSource};
use documents::DocumentError;
use model::{Etag, IndexPriority};
use platform::Platform;
use storage::{Environment, Transaction};

use crate::{
    batch_log::BatchLog,
    error::IndexError,
    fan_out::FanOut,
    index_change::IndexChange,
    index_event::{IndexEvent, OnEvent, WaitReply},
    index_kind::IndexKind,
    index_record::IndexRecord,
    indexing_pool::NextTurn,
    mapper::Mapper,
    output::{OutputQueue, OutputTarget},
    position::Position,
    source::Followed,
};

/// How often in a row an index may run out of memory before it fails: others may hold the memory
/// only briefly.
const RESTS_FOR_MEMORY_MAX: u32 = 30;
/// How long an index waits after a transient failure.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How long an index waits for readers of older snapshots of it, and how often in a row at most.
const REST_FOR_READERS: Duration = Duration::from_millis(100);
const RESTS_FOR_READERS_MAX: u32 = 100;
/// It waits when its changes take this fraction of their memory although they were flushed.
const READERS_DIVISOR: u64 = 4;

/// The state that an index's threads and users share.
pub(crate) struct IndexCore {
    pub(crate) names: Names,
    pub(crate) kind: RwLock<Arc<IndexKind>>,
    pub(crate) mapper: Box<dyn Mapper>,
    /// Where its results are written as documents, if anywhere.
    pub(crate) target: Option<OutputTarget>,
    pub(crate) outputs: Arc<dyn OutputQueue>,
    /// Whether outputs may be written: an index that replaces another waits until that one has
    /// written its last.
    pub(crate) writes_outputs: AtomicBool,
    /// The logs that it follows.
    pub(crate) followed: Followed,
    /// The last etag of the database when it was created.
    pub(crate) began_at: Etag,
    pub(crate) platform: Platform,
    pub(crate) documents: Arc<Environment>,
    /// Compare exchange, if available.
    pub(crate) values: Option<ValueSource>,
    pub(crate) environment: Arc<Environment>,
    pub(crate) progress: Mutex<Progress>,
    pub(crate) changed: Condvar,
    pub(crate) last_query_ticks: AtomicI64,
    pub(crate) is_idle: AtomicBool,
    pub(crate) batches: Mutex<BatchLog>,
    /// The number of outputs above which a document is reported.
    pub(crate) outputs_noted: u64,
    pub(crate) fan_out: Mutex<FanOut>,
    /// Whether it is closed and reports no further changes. Locked during each report: nothing is
    /// reported after [`IndexCore::end_indexing`].
    pub(crate) is_silent: Mutex<bool>,
    pub(crate) on_event: OnEvent,
}

/// The name of an index, and the one that it has until it replaces another.
pub(crate) struct Names {
    pub(crate) own: String,
    pub(crate) as_replacement: String,
    pub(crate) is_replacement: AtomicBool,
}

impl Names {
    pub(crate) fn current(&self) -> &str {
        if self.is_replacement.load(Ordering::Acquire) { &self.as_replacement } else { &self.own }
    }
}

/// The progress of an index, and what stops it.
pub(crate) struct Progress {
    pub(crate) record: IndexRecord,
    /// Whether documents are yet to be written for its entries.
    pub(crate) has_pending_output: bool,
    /// Whether there may be pending changes.
    pub(crate) may_have_changes: bool,
    /// Since when, on the monotonic clock.
    pub(crate) changes_since: Option<Duration>,
    pub(crate) stage: Stage,
    /// Until the server stops.
    pub(crate) is_paused: bool,
    /// Whether a batch has indexed everything that was pending at its beginning.
    pub(crate) has_caught_up: bool,
    /// By its definition.
    pub(crate) is_disabled: bool,
    /// By a setting of the database or of the server.
    pub(crate) is_disabled_by_setting: bool,
    pub(crate) is_closing: bool,
    /// Why it stopped or is waiting to retry.
    pub(crate) failure: Option<Failure>,
    /// How often in a row it has waited for memory.
    pub(crate) rests_for_memory: u32,
    /// How often in a row it has waited for readers.
    pub(crate) rests_for_readers: u32,
    /// Whether the failure is permanent.
    pub(crate) is_broken: bool,
    /// Whether listeners are notified when nothing is left to be indexed.
    pub(crate) reports_completion: bool,
    pub(crate) waiters: Vec<(Position, WaitReply)>,
}

/// An error that stops an index, for good or until it is retried.
#[derive(Clone)]
pub(crate) struct Failure {
    pub(crate) error: Arc<IndexError>,
    /// When it occurred, in ticks.
    pub(crate) ticks: i64,
}

/// The stage of an index in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Out,
    InLine,
    Indexing,
}

impl Progress {
    pub(crate) fn has_reached(&self, position: Position) -> bool {
        self.record.has_reached(position) && !self.has_pending_output
    }

    /// Whether it makes no further progress, as far as is known.
    pub(crate) fn is_over(&self) -> bool {
        self.is_closing || self.failure.is_some() || self.record.has_failed
    }

    /// After a change of what stops it, it looks for changes, and listeners are notified when it is
    /// done.
    pub(crate) fn look_again_if(&mut self, is_changed: bool) {
        self.may_have_changes |= is_changed;
        self.reports_completion |= is_changed;
    }

    /// Whether a turn would have any effect.
    fn needs_turn(&self) -> bool {
        let is_kept_back = self.is_paused || self.is_disabled || self.is_disabled_by_setting;
        let has_ended = self.is_closing || self.is_broken || self.record.has_failed;
        self.may_have_changes && !is_kept_back && !has_ended
    }
}

impl IndexCore {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn batch_log(&self) -> MutexGuard<'_, BatchLog> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fan_out(&self) -> MutexGuard<'_, FanOut> {
        self.fan_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now_ticks(&self) -> i64 {
        self.platform.clock.now().ticks()
    }

    pub(crate) fn record(&self) -> IndexRecord {
        self.lock().record
    }

    pub(crate) fn last_etag_in(&self, documents: &impl Transaction) -> Result<Etag, DocumentError> {
        self.followed.last_etag_in(documents)
    }

    /// The current values that maps may read; `None` when they read none.
    pub(crate) fn read_values(&self) -> Option<DatabaseValues> {
        let values = self.values.as_ref().filter(|_| self.mapper.reads_values());
        values.map(ValueSource::read)
    }

    /// The position that it can reach.
    pub(crate) fn last_position_in(
        &self,
        documents: &impl Transaction,
        values: Option<&DatabaseValues>,
    ) -> Result<Position, IndexError> {
        let etag = self.last_etag_in(documents)?;
        let values = values.filter(|_| self.mapper.reads_values());
        let value = values.map(DatabaseValues::last_change).transpose()?;
        Ok(Position { etag, value: value.unwrap_or(0) })
    }

    /// Its priority in the pool.
    pub(crate) fn priority(&self) -> IndexPriority {
        match self.kind.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            IndexKind::Static(definition) => definition.priority.unwrap_or(IndexPriority::Normal),
            IndexKind::Auto(_) => IndexPriority::Normal,
        }
    }

    /// Applies a change; `true` when the index must then be enqueued.
    pub(crate) fn must_enqueue_after(&self, change: impl FnOnce(&mut Progress)) -> bool {
        let mut progress = self.lock();
        change(&mut progress);
        let enters = progress.stage == Stage::Out && progress.needs_turn();
        if enters {
            progress.stage = Stage::InLine;
        }
        enters
    }

    /// Looks for changes.
    pub(crate) fn notice(&self, progress: &mut Progress) {
        progress.may_have_changes = true;
        progress.changes_since.get_or_insert_with(|| self.platform.clock.monotonic());
    }

    /// How long the changes at the start of this turn's batch have waited.
    pub(crate) fn take_lag(&self) -> Duration {
        let since = self.lock().changes_since.take();
        let now = self.platform.clock.monotonic();
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Begins a turn; `false` when there is nothing left to do.
    pub(crate) fn begin_turn(&self) -> bool {
        let mut progress = self.lock();
        if !progress.needs_turn() {
            progress.stage = Stage::Out;
            return false;
        }
        progress.may_have_changes = false;
        progress.failure = None;
        progress.stage = Stage::Indexing;
        true
    }

    /// Ends a turn after a batch.
    pub(crate) fn end_turn(&self, has_more: bool) -> NextTurn {
        let mut progress = self.lock();
        progress.rests_for_memory = 0;
        progress.may_have_changes |= has_more;
        let has_caught_up = !has_more && !progress.record.has_failed;
        progress.has_caught_up |= has_caught_up;
        let tells = has_caught_up && std::mem::take(&mut progress.reports_completion);
        let again = progress.needs_turn();
        progress.stage = if again { Stage::InLine } else { Stage::Out };
        drop(progress);
        self.changed.notify_all();
        if has_caught_up && self.names.is_replacement.load(Ordering::Acquire) {
            self.notify(IndexEvent::CaughtUp);
        }
        if tells {
            self.report(IndexChange::BatchCompleted);
        }
        if again { NextTurn::InLine } else { NextTurn::None }
    }

    /// Whether a batch should end early.
    pub(crate) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// Prevents further turns, waits for the current one to end, and reports no changes from then
    /// on. `false` when this was done before.
    pub(crate) fn end_indexing(&self) -> bool {
        let mut progress = self.lock();
        let is_first = !std::mem::replace(&mut progress.is_closing, true);
        while progress.stage == Stage::Indexing {
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        drop(progress);
        *self.is_silent.lock().unwrap_or_else(PoisonError::into_inner) = true;
        is_first
    }

    /// Publishes entries up to the record: notifies waiters, unless their outputs are pending.
    pub(crate) fn advance(&self, record: IndexRecord, has_pending_output: bool) {
        let has_pending_output = has_pending_output && self.writes_outputs();
        self.notify_reached(|progress| {
            progress.record = record;
            progress.has_pending_output |= has_pending_output;
            progress.reports_completion = true;
        });
    }

    /// Whether it may write outputs.
    fn writes_outputs(&self) -> bool {
        self.writes_outputs.load(Ordering::Acquire)
    }

    /// Whether outputs are pending that may be written now.
    pub(crate) fn has_pending_output(&self) -> bool {
        self.writes_outputs() && self.lock().has_pending_output
    }

    /// All its outputs are durable.
    pub(crate) fn clear_pending_output(&self) {
        self.notify_reached(|progress| progress.has_pending_output = false);
    }

    fn notify_reached(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.lock();
        change(&mut progress);
        let has_failed = progress.record.has_failed;
        let waiting = std::mem::take(&mut progress.waiters);
        let (done, waiting): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|(position, reply)| (position, progress.has_reached(position), reply))
            .partition(|(_, is_reached, _)| *is_reached || has_failed);
        progress.waiters =
            waiting.into_iter().map(|(position, _, reply)| (position, reply)).collect();
        drop(progress);
        done.into_iter().for_each(|(_, is_reached, reply)| reply(is_reached));
    }

    /// Waits while queries read older snapshots, so that these do not retain so many changes of the index
    /// that a query has to be cut off: queries take precedence, but only for a limited time. `None` if there is
    /// nothing to wait for.
    pub(crate) fn rest_for_readers(&self) -> Option<NextTurn> {
        if !self.do_readers_retain_much() {
            self.lock().rests_for_readers = 0;
            return None;
        }
        if RESTS_FOR_READERS_MAX <= self.lock().rests_for_readers {
            return None;
        }
        // Only what remains after a flush is retained by snapshots. A flush that fails is detected by
        // the next write.
        drop(self.environment.flush());
        let retains_much = self.do_readers_retain_much();
        let mut progress = self.lock();
        if !retains_much {
            progress.rests_for_readers = 0;
            return None;
        }
        progress.rests_for_readers += 1;
        progress.may_have_changes = true;
        progress.stage = Stage::InLine;
        drop(progress);
        // Closing the index waits for the end of its turn.
        self.changed.notify_all();
        Some(NextTurn::After(REST_FOR_READERS))
    }

    fn do_readers_retain_much(&self) -> bool {
        let bytes_max = self.environment.options().unflushed_bytes_max;
        bytes_max / READERS_DIVISOR < self.environment.statistics().unflushed_bytes
            && self.environment.has_readers_of_older_snapshots()
    }

    /// Waits after a transient failure, such as a full disk; the same changes are retried.
    pub(crate) fn rest_after(&self, error: IndexError) -> NextTurn {
        let mut progress = self.lock();
        let is_short_of_memory = error.is_short_of_memory();
        progress.rests_for_memory += u32::from(is_short_of_memory);
        if !is_short_of_memory || RESTS_FOR_MEMORY_MAX < progress.rests_for_memory {
            progress.failure = Some(self.failure(error));
        }
        progress.may_have_changes = true;
        progress.stage = Stage::InLine;
        drop(progress);
        self.changed.notify_all();
        NextTurn::After(REST_AFTER_FAILURE)
    }

    fn failure(&self, error: IndexError) -> Failure {
        Failure { error: Arc::new(error), ticks: self.now_ticks() }
    }

    /// Stops because of an error.
    pub(crate) fn fail(&self, error: IndexError) -> NextTurn {
        let mut progress = self.lock();
        progress.failure = Some(self.failure(error));
        progress.is_broken = true;
        progress.stage = Stage::Out;
        drop(progress);
        self.changed.notify_all();
        self.notify_waiters();
        self.report(IndexChange::MarkedAsErrored);
        self.notify(IndexEvent::Failed);
        NextTurn::None
    }

    /// Reports an event to its set.
    pub(crate) fn notify(&self, event: IndexEvent) {
        (self.on_event)(self.names.current(), event);
    }

    /// Reports a change, unless the index is closed. A listener must not close it.
    pub(crate) fn report(&self, change: IndexChange) {
        let is_silent = self.is_silent.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_silent {
            self.notify(IndexEvent::Changed(change));
        }
    }

    /// Reports the end of a batch; too many errors stop the index.
    pub(crate) fn report_batch(&self, before: &IndexRecord, after: &IndexRecord) {
        if after.has_failed && !before.has_failed {
            self.report(IndexChange::MarkedAsErrored);
        }
        self.report(IndexChange::BatchCompleted);
    }

    pub(crate) fn notify_waiters(&self) {
        let waiters = std::mem::take(&mut self.lock().waiters);
        waiters.into_iter().for_each(|(_, reply)| reply(false));
    }
}
