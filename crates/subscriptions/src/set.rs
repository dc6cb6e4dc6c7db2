//! The subscriptions of a database that have workers, or had since it was opened.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use cluster_state::SubscriptionPosition;
use documents::DocumentError;
use query::LogQuery;
use storage::Transaction;

use crate::{
    activity::ConnectionFacts,
    ended::Ended,
    holders::{Occupied, Strategy},
    subscription::Subscription,
    waiting::Waiting,
    worker::{Worker, WorkerRequest, WorkerShared},
};

/// A stored subscription, for a worker that connects.
pub struct StoredSubscription<'s> {
    /// The number of the subscription within its database.
    pub id: u64,
    /// The name of the subscription.
    pub name: &'s str,
    /// The text of its query.
    pub query_text: &'s str,
    /// The query, parsed and validated.
    pub query: Arc<LogQuery>,
    /// The number of the change that last set its query or its position.
    pub version: u64,
    /// The stored position from which its workers continue.
    pub position: &'s SubscriptionPosition,
    /// Whether workers were last on another node, so that what is known here is outdated.
    pub is_taken_over: bool,
}

/// Called when [`SubscriptionSet::look`] should be called.
type OnPublished = Box<dyn Fn() + Send + Sync>;

/// See the module.
#[derive(Default)]
pub struct SubscriptionSet {
    /// By number.
    subscriptions: Mutex<HashMap<u64, Arc<Subscription>>>,
    waiting: Waiting,
    on_published: OnceLock<OnPublished>,
    /// The last batch number, for monitoring.
    last_batch: AtomicU64,
    is_closed: AtomicBool,
}

impl SubscriptionSet {
    /// Connects a worker. The stored subscription is used only if no worker has connected since it
    /// was last changed.
    ///
    /// # Errors
    /// When others hold it.
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

    /// Records a rejected worker.
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
        if let Some(known) = subscriptions.get(&stored.id) {
            if !stored.is_taken_over && stored.version <= known.version() {
                return Arc::clone(known);
            }
            if stored.is_taken_over {
                known.end(&Ended::OtherNode, |_| true);
            }
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

    /// All subscriptions that have or had workers.
    pub fn all(&self) -> Vec<Arc<Subscription>> {
        self.lock().values().cloned().collect()
    }

    /// Ends the workers because the subscription was changed; the next ones start with what is
    /// stored then.
    pub fn end(&self, id: u64, ended: &Ended) {
        let Some(subscription) = self.lock().remove(&id) else { return };
        subscription.end(ended, |_| true);
    }

    /// Drops all its workers, or those with a given name.
    pub fn drop_workers(&self, id: u64, only: Option<&str>) {
        let Some(subscription) = self.get(id) else { return };
        subscription.end(&Ended::Dropped, |worker| {
            only.is_none_or(|only| worker.activity().facts().worker_id.eq_ignore_ascii_case(only))
        });
    }

    /// Registers a callback for one notification that workers may have changes to read; the
    /// callback then calls [`SubscriptionSet::look`]. `false` when one is registered already.
    pub fn on_published(&self, notice: impl Fn() + Send + Sync + 'static) -> bool {
        self.on_published.set(Box::new(notice)).is_ok()
    }

    /// Notifies that a transaction is durable. Returns at once.
    pub fn published(&self) {
        if self.waiting.is_any()
            && let Some(notice) = self.on_published.get()
        {
            notice();
        }
    }

    /// Wakes the workers that wait for the changes.
    ///
    /// # Errors
    /// When the documents cannot be read.
    pub fn look(&self, tx: &impl Transaction) -> Result<(), DocumentError> {
        self.waiting.look(tx)
    }

    /// Ends all workers; later ones end at once.
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
