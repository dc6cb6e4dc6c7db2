//! The subscriptions of a database that have workers, or had since it was opened.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use documents::DocumentError;
use query::LogQuery;
use storage::Transaction;

use crate::{
    activity::ConnectionFacts,
    ended::Ended,
    holders::{Occupied, Strategy},
    progress::Position,
    subscription::Subscription,
    waiting::Waiting,
    worker::{Worker, WorkerRequest, WorkerShared},
};

/// A subscription as it is stored, for a worker that comes.
pub struct StoredSubscription<'s> {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: &'s str,
    /// What it asks.
    pub query_text: &'s str,
    /// The same, checked.
    pub query: Arc<LogQuery>,
    /// The number of the change that last set its query or its position.
    pub version: u64,
    /// How far it has come.
    pub position: &'s Position,
}

/// Called when it is worth calling [`SubscriptionSet::look`].
type OnPublished = Box<dyn Fn() + Send + Sync>;

/// See the module.
#[derive(Default)]
pub struct SubscriptionSet {
    /// By number.
    subscriptions: Mutex<HashMap<u64, Arc<Subscription>>>,
    waiting: Waiting,
    on_published: OnceLock<OnPublished>,
    /// Numbers batches, for whoever operates the server.
    last_batch: AtomicU64,
    is_closed: AtomicBool,
}

impl SubscriptionSet {
    /// A worker comes. What is stored of the subscription counts only if no worker has come before
    /// since it was last changed.
    ///
    /// # Errors
    /// When others work on it.
    pub fn connect(
        self: &Arc<Self>,
        stored: &StoredSubscription<'_>,
        documents_max: usize,
        request: WorkerRequest,
    ) -> Result<Worker, Occupied> {
        let subscription = self.subscription(stored);
        let strategy = request.strategy;
        let admitted = subscription
            .lock()
            .admit(strategy, |number| Arc::new(WorkerShared::new(number, request)))?;
        if self.is_closed() {
            admitted.end(&Ended::DatabaseClosed);
        }
        Ok(Worker::new(Arc::clone(self), subscription, admitted, documents_max))
    }

    /// Remembers a worker that was refused.
    pub fn rejected(
        &self,
        id: u64,
        (facts, strategy): (ConnectionFacts, Strategy),
        reason: &str,
        now_ticks: i64,
    ) {
        if let Some(subscription) = self.get(id) {
            subscription.past().reject(facts, strategy, reason, now_ticks);
        }
    }

    /// The number of a new batch.
    pub(crate) fn number_batch(&self) -> u64 {
        self.last_batch.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn subscription(&self, stored: &StoredSubscription<'_>) -> Arc<Subscription> {
        let mut subscriptions = self.lock();
        if let Some(known) = subscriptions.get(&stored.id)
            && stored.version <= known.version()
        {
            return Arc::clone(known);
        }
        let query = (stored.query_text, Arc::clone(&stored.query));
        let made =
            Subscription::new(stored.id, stored.name, query, stored.version, stored.position);
        let made = Arc::new(made);
        subscriptions.insert(stored.id, Arc::clone(&made));
        made
    }

    /// The subscription of that number, if it has or had workers.
    pub fn get(&self, id: u64) -> Option<Arc<Subscription>> {
        self.lock().get(&id).cloned()
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Subscription>> {
        self.lock().values().cloned().collect()
    }

    /// The subscription was changed so that its workers cannot go on; the next ones begin with what is
    /// stored by then.
    pub fn end(&self, id: u64, ended: &Ended) {
        let Some(subscription) = self.lock().remove(&id) else { return };
        subscription.end(ended, |_| true);
    }

    /// Drops its workers, or the one of a client's naming.
    pub fn drop_workers(&self, id: u64, only: Option<&str>) {
        let Some(subscription) = self.get(id) else { return };
        subscription.end(&Ended::Dropped, |worker| {
            only.is_none_or(|only| worker.activity().facts().worker_id.eq_ignore_ascii_case(only))
        });
    }

    /// Registers who is told, once, when there are changes that workers may wait for; it calls
    /// [`SubscriptionSet::look`] then. `false` when somebody is registered already.
    pub fn on_published(&self, notice: impl Fn() + Send + Sync + 'static) -> bool {
        self.on_published.set(Box::new(notice)).is_ok()
    }

    /// A transaction has become durable. Returns at once.
    pub fn published(&self) {
        if self.waiting.is_any()
            && let Some(notice) = self.on_published.get()
        {
            notice();
        }
    }

    /// Wakes the workers that wait for what has changed.
    ///
    /// # Errors
    /// When the documents cannot be read.
    pub fn look(&self, tx: &impl Transaction) -> Result<(), DocumentError> {
        self.waiting.look(tx)
    }

    /// Ends all workers; those that come later end at once.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        for subscription in self.all() {
            subscription.end(&Ended::DatabaseClosed, |_| true);
        }
        if let Some(notice) = self.on_published.get() {
            notice();
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Subscription>>> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
