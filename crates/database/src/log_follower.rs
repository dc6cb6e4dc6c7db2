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

use crate::{changes::Wake, open_database::Database, tombstones::TombstoneNeed};

/// The followers of one log. Without any, waking them costs nothing.
#[derive(Default)]
pub struct LogFollowers {
    count: AtomicUsize,
    growth: AtomicU64,
    wakes: Mutex<Wakes>,
}

#[derive(Default)]
struct Wakes {
    last: u64,
    by_number: BTreeMap<u64, Following>,
}

struct Following {
    wake: Wake,
    /// What it needs of deletions; `None` if somebody else reports that.
    needs: Option<(Vec<CollectionName>, Arc<AtomicU64>)>,
}

/// A follower of a log, until it is dropped.
pub struct LogFollower {
    /// Until it is dropped.
    #[expect(dead_code, reason = "ends the waking when it is dropped")]
    watch: LogWatch,
    known: Arc<AtomicU64>,
}

/// Somebody who is woken when a log grows, until it is dropped.
pub struct LogWatch {
    followers: Arc<LogFollowers>,
    number: u64,
}

impl LogWatch {
    /// Whether the log is that of an open database.
    pub fn is_of(&self, database: &Database) -> bool {
        Arc::ptr_eq(&self.followers, database.followers())
    }

    /// How often the log has grown while it was watched. If this is the same before a snapshot is taken and later, the
    /// log has nothing that the snapshot lacks, also once the database is closed.
    pub fn growth(&self) -> u64 {
        self.followers.growth.load(Ordering::SeqCst)
    }
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
        let with_needs = wakes.by_number.iter().filter_map(|(number, following)| {
            following.needs.as_ref().map(|(collections, known)| (number, collections, known))
        });
        let needs = with_needs.flat_map(|(number, collections, known)| {
            let need = TombstoneNeed {
                holder: format!("Reader {number} of the live tail"),
                process: "Tail",
                condition: "Running",
                kind: TombstoneKind::Documents,
                collection: None,
                known: Etag(known.load(Ordering::SeqCst)),
            };
            let all = collections.is_empty().then(|| need.clone());
            let each = collections
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
        let needs = Some((collections, Arc::clone(&known)));
        LogFollower { watch: self.add(Following { wake, needs }), known }
    }

    /// As [`LogFollowers::follow`], for a reader that holds no deletions back: somebody else reports what it needs.
    pub fn watch(self: &Arc<Self>, wake: Wake) -> LogWatch {
        self.add(Following { wake, needs: None })
    }

    fn add(self: &Arc<Self>, following: Following) -> LogWatch {
        let mut wakes = self.lock();
        wakes.last += 1;
        let number = wakes.last;
        wakes.by_number.insert(number, following);
        self.count.store(wakes.by_number.len(), Ordering::SeqCst);
        LogWatch { followers: Arc::clone(self), number }
    }

    /// Called when the log may have grown.
    pub(crate) fn grow(&self) {
        self.growth.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Called when the log has ended.
    pub(crate) fn end(&self) {
        self.wake();
    }

    fn wake(&self) {
        if self.count.load(Ordering::SeqCst) != 0 {
            self.lock().by_number.values().for_each(|following| (following.wake)());
        }
    }
}

impl Drop for LogWatch {
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
        followers.grow();
        drop(one);
        followers.end();
        drop(ten);
        followers.grow();
        assert_eq!(woken.load(Ordering::Relaxed), 21);
    }

    #[test]
    fn a_watch_tells_growth_from_the_end() {
        let followers = Arc::new(LogFollowers::default());
        let watch = followers.watch(Box::new(|| ()));
        let seen = watch.growth();
        followers.end();
        assert_eq!(watch.growth(), seen);
        followers.grow();
        assert_ne!(watch.growth(), seen);
    }
}
