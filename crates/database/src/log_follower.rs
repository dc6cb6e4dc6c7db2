//! Readers that are woken when the document log has grown.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use documents::TombstoneKind;
use model::{CollectionName, Etag};

use crate::{changes::Wake, tombstones::TombstoneNeed};

/// The followers of one log. Without any, waking them costs nothing.
#[derive(Default)]
pub struct LogFollowers {
    count: AtomicUsize,
    wakes: Mutex<Wakes>,
}

#[derive(Default)]
struct Wakes {
    last: u64,
    by_number: BTreeMap<u64, Following>,
}

struct Following {
    wake: Wake,
    collections: Vec<CollectionName>,
    known: Arc<AtomicU64>,
}

/// A follower of a log, until it is dropped.
pub struct LogFollower {
    followers: Arc<LogFollowers>,
    number: u64,
    known: Arc<AtomicU64>,
}

impl LogFollower {
    /// Records that the follower has read every deletion up to here.
    pub fn note_known(&self, etag: Etag) {
        self.known.store(etag.0, Ordering::SeqCst);
    }
}

impl LogFollowers {
    fn lock(&self) -> MutexGuard<'_, Wakes> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The document tombstones that the followers still need.
    pub(crate) fn tombstone_needs(&self) -> Vec<TombstoneNeed> {
        let wakes = self.lock();
        let needs = wakes.by_number.iter().flat_map(|(number, following)| {
            let need = TombstoneNeed {
                holder: format!("Reader {number} of the live tail"),
                process: "Tail",
                condition: "Running",
                kind: TombstoneKind::Documents,
                collection: None,
                known: Etag(following.known.load(Ordering::SeqCst)),
            };
            let all = following.collections.is_empty().then(|| need.clone());
            let each = following
                .collections
                .iter()
                .map(move |name| TombstoneNeed { collection: Some(name.clone()), ..need.clone() });
            all.into_iter().chain(each)
        });
        needs.collect()
    }

    /// Calls `wake` after every transaction that becomes visible from now on, on the thread that published
    /// it, and when the database is closed. A read after `wake` also sees everything older. The follower
    /// reads these collections, or all if the list is empty, and has read their deletions up to `known`.
    pub fn follow(
        self: &Arc<Self>,
        wake: Wake,
        collections: Vec<CollectionName>,
        known: Etag,
    ) -> LogFollower {
        let known = Arc::new(AtomicU64::new(known.0));
        let mut wakes = self.lock();
        wakes.last += 1;
        let number = wakes.last;
        let following = Following { wake, collections, known: Arc::clone(&known) };
        wakes.by_number.insert(number, following);
        self.count.store(wakes.by_number.len(), Ordering::SeqCst);
        LogFollower { followers: Arc::clone(self), number, known }
    }

    /// Called when the log may have grown, or has ended.
    pub(crate) fn wake(&self) {
        if self.count.load(Ordering::SeqCst) != 0 {
            self.lock().by_number.values().for_each(|following| (following.wake)());
        }
    }
}

impl Drop for LogFollower {
    fn drop(&mut self) {
        let mut wakes = self.followers.lock();
        wakes.by_number.remove(&self.number);
        self.followers.count.store(wakes.by_number.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_woken_until_they_are_dropped() {
        let followers = Arc::new(LogFollowers::default());
        let woken = Arc::new(AtomicUsize::new(0));
        let follow = |by: usize| {
            let woken = Arc::clone(&woken);
            let wake = Box::new(move || {
                woken.fetch_add(by, Ordering::Relaxed);
            });
            followers.follow(wake, Vec::new(), Etag::ZERO)
        };
        let (one, ten) = (follow(1), follow(10));
        followers.wake();
        drop(one);
        followers.wake();
        drop(ten);
        followers.wake();
        assert_eq!(woken.load(Ordering::Relaxed), 21);
    }
}
