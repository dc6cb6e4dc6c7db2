//! Workers that wait for changes, by collection.
//!
//! One look per collection serves all workers that wait for it, however many there are. A worker
//! registers before it looks for work a last time, so that it misses no change in between.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use documents::{
    DocumentError,
    log::{self, EntryKinds, Selection},
};
use model::{CollectionName, Etag};
use storage::Transaction;

use crate::wake::Wake;

/// What a worker waits for: a change in a collection, or any change.
pub(crate) type Awaited = Option<CollectionName>;

#[derive(Default)]
struct Waiters {
    /// The last etag when they were last woken.
    seen: Etag,
    wakes: Vec<Arc<dyn Wake>>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Waiting {
    count: AtomicUsize,
    waiters: Mutex<HashMap<Awaited, Waiters>>,
}

impl Waiting {
    /// Wakes `wake` once, at or before the next change that it waits for.
    pub(crate) fn add(&self, awaited: &Awaited, wake: &Arc<dyn Wake>) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let of_awaited = waiters.entry(awaited.clone()).or_default();
        if of_awaited.wakes.iter().any(|waiting| Arc::ptr_eq(waiting, wake)) {
            return;
        }
        of_awaited.wakes.push(Arc::clone(wake));
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes `wake`.
    pub(crate) fn remove(&self, awaited: &Awaited, wake: &Arc<dyn Wake>) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(of_awaited) = waiters.get_mut(awaited) else { return };
        let before = of_awaited.wakes.len();
        of_awaited.wakes.retain(|waiting| !Arc::ptr_eq(waiting, wake));
        self.count.fetch_sub(before - of_awaited.wakes.len(), Ordering::SeqCst);
        if of_awaited.wakes.is_empty() {
            waiters.remove(awaited);
        }
    }

    /// Whether any worker waits.
    pub(crate) fn is_any(&self) -> bool {
        0 < self.count.load(Ordering::SeqCst)
    }

    /// Wakes the workers whose collections have changed since they were last woken.
    pub(crate) fn look(&self, tx: &impl Transaction) -> Result<(), DocumentError> {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        for (awaited, of_awaited) in waiters.iter_mut().filter(|(_, of)| !of.wakes.is_empty()) {
            let last = match awaited {
                Some(collection) => {
                    let of_collection = Selection::of_collection(EntryKinds::DOCUMENTS, collection);
                    log::last_etag(tx, &[of_collection])?
                }
                None => documents::progress(tx)?.last_etag,
            };
            if last <= of_awaited.seen {
                continue;
            }
            of_awaited.seen = last;
            self.count.fetch_sub(of_awaited.wakes.len(), Ordering::SeqCst);
            of_awaited.wakes.drain(..).for_each(|wake| wake.wake());
        }
        Ok(())
    }
}
