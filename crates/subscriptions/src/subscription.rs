//! One subscription with its workers.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cluster_state::{Handover, SubscriptionPosition};
use model::Etag;
use query::LogQuery;
use storage::HistoryPoint;

use crate::{
    activity::PastConnections,
    ended::Ended,
    handover::{Marks, Replicated},
    holders::{Admission, Holders, Occupied, Strategy},
    progress::{Progress, WorkerNumber},
    worker::WorkerShared,
};

/// The maximum number of workers of one subscription, including waiting ones.
pub const WORKERS_MAX: usize = 128;

/// A subscription that has, or had, workers since its database was opened.
pub struct Subscription {
    id: u64,
    name: String,
    query: Arc<LogQuery>,
    query_text: String,
    /// The number of the change that last set its position or its query. Acknowledgements of an
    /// older one are ignored.
    version: u64,
    pub(crate) work: Mutex<Work>,
    past: Mutex<PastConnections>,
}

/// The progress and the workers of a subscription.
pub(crate) struct Work {
    pub(crate) progress: Progress,
    /// The change vector at the cursor.
    pub(crate) change_vector: String,
    /// The newest point in history at which the log was read.
    pub(crate) read_at: Option<HistoryPoint>,
    /// The query selects nothing between the cursor and this etag.
    pub(crate) looked_until: Etag,
    /// The same, up to the end of the log when it was last read to the end.
    pub(crate) passed_until: Etag,
    /// What another node may take as passed.
    pub(crate) marks: Marks,
    pub(crate) holders: Holders,
    pub(crate) workers: HashMap<WorkerNumber, Arc<WorkerShared>>,
    pub(crate) next_number: WorkerNumber,
    /// The cursor that was last stored, or is being stored.
    pub(crate) stored: Etag,
    /// Whether unsettled changes were stored with it.
    pub(crate) stored_unsettled: bool,
    /// What was stored with it for other nodes.
    pub(crate) stored_handover: Option<Handover>,
}

impl Subscription {
    pub(crate) fn new(
        id: u64,
        name: &str,
        (query_text, query): (&str, Arc<LogQuery>),
        version: u64,
        position: &SubscriptionPosition,
    ) -> Subscription {
        let is_of_revisions = query.is_of_revisions();
        Subscription {
            id,
            name: name.to_owned(),
            query,
            query_text: query_text.to_owned(),
            version,
            work: Mutex::new(Work {
                progress: Progress::new(position.cursor, &position.unsettled),
                change_vector: position.change_vector.clone(),
                read_at: position.read_at,
                looked_until: position.cursor,
                passed_until: position.cursor,
                marks: Marks::of(position.handover.as_ref(), is_of_revisions),
                holders: Holders::default(),
                workers: HashMap::new(),
                next_number: 1,
                stored: position.cursor,
                stored_unsettled: !position.unsettled.is_empty(),
                stored_handover: position.handover.clone(),
            }),
            past: Mutex::default(),
        }
    }

    /// Its number within the database.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its name, in its original case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its query, parsed and validated.
    pub fn query(&self) -> &LogQuery {
        &self.query
    }

    /// The text of its query.
    pub fn query_text(&self) -> &str {
        &self.query_text
    }

    /// See [`crate::SubscriptionSet::connect`].
    pub fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The etag up to which the log was read.
    pub fn cursor(&self) -> Etag {
        self.lock().progress.cursor()
    }

    /// The number of changes up to the cursor that are not settled.
    pub fn unsettled(&self) -> usize {
        self.lock().progress.unsettled().len()
    }

    /// The position to store when no worker holds anything and it has moved since it was last
    /// stored: past changes that the query does not match, or for other nodes, which have more by now.
    pub fn position_to_store(&self, replicated: Replicated) -> Option<SubscriptionPosition> {
        let mut work = self.lock();
        if work.progress.has_unsettled() {
            return None;
        }
        work.note_passed(replicated);
        let has_moved = work.stored < work.progress.cursor() || work.stored_unsettled;
        if !has_moved && work.stored_handover == work.marks.handover() {
            return None;
        }
        Some(work.store_position(replicated))
    }

    /// Its current workers, in the order in which they connected.
    pub fn connections(&self) -> Vec<Arc<WorkerShared>> {
        let mut workers: Vec<_> = self.lock().workers.values().cloned().collect();
        workers.sort_by_key(|worker| worker.number);
        workers
    }

    /// Whether several workers currently share it.
    pub fn is_shared(&self) -> bool {
        self.lock().holders.is_shared()
    }

    /// The last connections that ended or were rejected.
    pub fn past(&self) -> MutexGuard<'_, PastConnections> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all its workers, or some of them.
    pub(crate) fn end(&self, ended: &Ended, only: impl Fn(&WorkerShared) -> bool) {
        let work = self.lock();
        work.workers.values().filter(|worker| only(worker)).for_each(|worker| worker.end(ended));
    }
}

impl Work {
    /// Takes over what other nodes may take as passed now.
    fn note_passed(&mut self, replicated: Replicated) {
        let up_to = match self.progress.first_unsettled() {
            Some(first) => Etag(first.0.saturating_sub(1)),
            None => self.progress.cursor().max(self.passed_until),
        };
        self.marks.note_passed(up_to, replicated);
    }

    /// The position, which is about to be stored.
    pub(crate) fn store_position(&mut self, replicated: Replicated) -> SubscriptionPosition {
        self.note_passed(replicated);
        let unsettled = self.progress.unsettled();
        self.stored = self.progress.cursor();
        self.stored_unsettled = !unsettled.is_empty();
        self.stored_handover = self.marks.handover();
        SubscriptionPosition {
            cursor: self.stored,
            change_vector: self.change_vector.clone(),
            unsettled,
            read_at: self.read_at,
            handover: self.stored_handover.clone(),
        }
    }

    /// Records the point in history at which the log is read. Workers arrive with their snapshots
    /// in any order.
    pub(crate) fn note_read(&mut self, at: Option<HistoryPoint>) {
        let transaction = |point: &HistoryPoint| point.transaction;
        if self.read_at.as_ref().map(transaction) < at.as_ref().map(transaction) {
            self.read_at = at;
        }
    }

    /// Admits a new worker, or not.
    pub(crate) fn admit(
        &mut self,
        strategy: Strategy,
        make: impl FnOnce(WorkerNumber) -> Arc<WorkerShared>,
    ) -> Result<Arc<WorkerShared>, Occupied> {
        let number = self.next_number;
        match self.holders.admit(number, strategy, WORKERS_MAX) {
            Admission::Refused(occupied) => return Err(occupied),
            Admission::Waits => {
                let worker = make(number);
                self.workers.insert(number, Arc::clone(&worker));
            }
            Admission::Begins { losing } => {
                let worker = make(number);
                self.workers.insert(number, Arc::clone(&worker));
                for loser in losing {
                    if let Some(loser) = self.workers.get(&loser) {
                        loser.end(&Ended::TakenOver);
                    }
                    self.leave(loser);
                }
                worker.begin();
            }
        }
        self.next_number += 1;
        Ok(Arc::clone(&self.workers[&number]))
    }

    /// Removes a worker and releases what it holds.
    pub(crate) fn leave(&mut self, number: WorkerNumber) {
        let Some(worker) = self.workers.remove(&number) else { return };
        let held = std::mem::take(&mut *worker.held());
        self.release(&held);
        if let Some(next) = self.holders.leave(number).and_then(|next| self.workers.get(&next)) {
            next.begin();
        }
    }

    fn release(&mut self, held: &BTreeSet<Etag>) {
        self.progress.release(held);
        if !held.is_empty() {
            self.wake_all();
        }
    }

    /// Wakes all workers, because there may be something to do.
    pub(crate) fn wake_all(&self) {
        self.workers.values().for_each(|worker| worker.wake());
    }
}
