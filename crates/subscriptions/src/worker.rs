//! One connected worker.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cluster_state::{DatabaseValues, SubscriptionPosition};
use model::Etag;
use query::{IncludedSeries, Includes, SourceDocuments};
use script::ScriptPool;
use storage::{CountedOutput, HistoryPoint, Transaction};

use crate::{
    activity::{ConnectionActivity, ConnectionFacts, IncludesFacts},
    batch_reader::{self, ReadError},
    ended::Ended,
    handover::Replicated,
    holders::Strategy,
    progress::WorkerNumber,
    set::SubscriptionSet,
    subscription::Subscription,
    waiting::Awaited,
    wake::Wake,
};

/// The maximum number of documents in a batch, whatever its worker requests.
pub const BATCH_DOCUMENTS_MAX: usize = 1 << 16;

/// The request of a connecting worker.
pub struct WorkerRequest {
    /// The opening strategy that it requests.
    pub strategy: Strategy,
    /// The facts of its connection, for operators.
    pub facts: ConnectionFacts,
    /// How to wake it.
    pub wake: Arc<dyn Wake>,
}

/// Whether a worker holds the subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Others do; it waits for its turn.
    Waits,
    /// It does.
    Works,
    /// No longer.
    Ended(Ended),
}

/// The part of a worker that others see.
pub struct WorkerShared {
    pub(crate) number: WorkerNumber,
    activity: ConnectionActivity,
    pub(crate) wake: Arc<dyn Wake>,
    standing: Mutex<Standing>,
    /// The changes that it holds.
    held: Mutex<BTreeSet<Etag>>,
}

impl WorkerShared {
    /// Its activity so far.
    pub fn activity(&self) -> &ConnectionActivity {
        &self.activity
    }

    pub(crate) fn new(number: WorkerNumber, request: WorkerRequest) -> WorkerShared {
        WorkerShared {
            number,
            activity: ConnectionActivity::new(request.facts, request.strategy),
            wake: request.wake,
            standing: Mutex::new(Standing::Waits),
            held: Mutex::default(),
        }
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, BTreeSet<Etag>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_standing(&self, standing: Standing) {
        let mut now = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*now, Standing::Ended(_)) {
            *now = standing;
        }
        drop(now);
        self.wake.wake();
    }

    pub(crate) fn begin(&self) {
        self.set_standing(Standing::Works);
    }

    pub(crate) fn end(&self, ended: &Ended) {
        self.set_standing(Standing::Ended(*ended));
    }

    pub(crate) fn wake(&self) {
        self.wake.wake();
    }

    /// Whether it holds the subscription.
    pub fn standing(&self) -> Standing {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A piece of a batch that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Number of documents in the piece.
    pub documents: usize,
    /// Whether it is the last one of the batch.
    pub is_last: bool,
}

/// See the module. Dropping it releases the changes that it holds.
pub struct Worker {
    pub(crate) set: Arc<SubscriptionSet>,
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) shared: Arc<WorkerShared>,
    pub(crate) documents_max: usize,
    awaited: Awaited,
    pub(crate) batch: BatchSoFar,
}

/// The batch being read.
#[derive(Default)]
pub(crate) struct BatchSoFar {
    pub(crate) documents: usize,
    pub(crate) bytes: usize,
    /// Whether it consists of changes that are sent again; where to continue.
    pub(crate) again_after: Option<Etag>,
    pub(crate) included: Includes,
}

impl Worker {
    pub(crate) fn new(
        set: Arc<SubscriptionSet>,
        subscription: Arc<Subscription>,
        shared: Arc<WorkerShared>,
        documents_max: usize,
    ) -> Worker {
        let awaited = match subscription.query().source() {
            // Revisions may be created without a change in the collection's log.
            SourceDocuments::Collection(name) if !subscription.query().is_of_revisions() => {
                Some(name.clone())
            }
            SourceDocuments::Collection(_) | SourceDocuments::All => None,
        };
        let documents_max = documents_max.clamp(1, BATCH_DOCUMENTS_MAX);
        let batch = BatchSoFar::default();
        Worker { set, subscription, shared, documents_max, awaited, batch }
    }

    /// The subscription that it reads.
    pub fn subscription(&self) -> &Arc<Subscription> {
        &self.subscription
    }

    /// Whether it holds the subscription.
    pub fn standing(&self) -> Standing {
        self.shared.standing()
    }

    /// Its activity so far, for monitoring.
    pub fn activity(&self) -> &ConnectionActivity {
        &self.shared.activity
    }

    /// Whether there is something to read. If not, it is woken when there may be.
    ///
    /// # Errors
    /// When the documents cannot be read.
    pub fn has_work<T: Transaction>(&self, read: impl FnOnce() -> T) -> Result<bool, ReadError> {
        self.set.waiting().add(&self.awaited, &self.shared.wake);
        let tx = read();
        let looked_until = {
            let work = self.subscription.lock();
            if work.progress.next_free(Etag::ZERO, self.shared.number).is_some() {
                return Ok(true);
            }
            work.progress.cursor().max(work.looked_until)
        };
        Ok(looked_until < batch_reader::last_etag(&tx, self.subscription.query())?)
    }

    /// Reads the next piece of a batch and appends it as messages of the protocol. A batch may turn
    /// out to be empty; it then needs no acknowledgement. Scripts read compare exchange from
    /// `values`. `at` is the point of `tx` in the history of the database, if it has one.
    ///
    /// # Errors
    /// When the documents cannot be read, or the query cannot be executed.
    pub fn read(
        &mut self,
        (tx, at): (&impl Transaction, Option<HistoryPoint>),
        values: Option<&DatabaseValues>,
        scripts: &ScriptPool,
        out: &mut CountedOutput,
    ) -> Result<Piece, ReadError> {
        batch_reader::read_piece(self, (tx, at), values, scripts, out)
    }

    /// Appends the includes of the batch, as messages of the protocol, and returns their size; call
    /// it after the last piece was read.
    ///
    /// # Errors
    /// When the documents cannot be read.
    pub fn write_includes(
        &self,
        tx: &impl Transaction,
        out: &mut CountedOutput,
    ) -> Result<IncludesFacts, ReadError> {
        batch_reader::write_includes(&self.batch.included, tx, out)
    }

    /// The included time series of the batch; complete after the last piece was read.
    pub fn included_series(&self) -> &IncludedSeries {
        self.batch.included.series()
    }

    /// Begins a new batch, and discards the previous, empty one.
    pub fn begin_batch(&mut self, now_ticks: i64) {
        self.batch = BatchSoFar::default();
        self.activity().batch_begins(self.set.number_batch(), now_ticks);
        let free = {
            let work = self.subscription.lock();
            work.progress.next_free(Etag::ZERO, self.shared.number).is_some()
        };
        self.batch.again_after = free.then_some(Etag::ZERO);
    }

    /// The number of documents in the batch so far.
    pub fn batch_documents(&self) -> usize {
        self.batch.documents
    }

    /// Acknowledges the batch. The position must be stored before the worker is sent the
    /// confirmation; `store` is called under the lock, so that positions are stored in order.
    pub fn acknowledge<R>(
        &mut self,
        replicated: Replicated,
        store: impl FnOnce(SubscriptionPosition) -> R,
    ) -> R {
        let mut work = self.subscription.lock();
        let settled = std::mem::take(&mut *self.shared.held());
        settled.iter().for_each(|etag| work.progress.remove(*etag));
        if work.holders.is_shared() {
            work.wake_all();
        }
        self.batch = BatchSoFar::default();
        store(work.store_position(replicated))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.set.waiting().remove(&self.awaited, &self.shared.wake);
        self.subscription.lock().leave(self.shared.number);
        let ended = match self.standing() {
            Standing::Ended(ended) => Some(ended),
            Standing::Waits | Standing::Works => None,
        };
        self.subscription.past().add(&self.shared.activity, ended);
    }
}
