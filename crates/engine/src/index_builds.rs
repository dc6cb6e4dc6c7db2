//! Index builds, watched until they have caught up, for the server's log.
//!
//! Nothing is checked while no index is being built.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indexing::Position;

/// How often index builds are checked.
pub const INDEX_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often progress is logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The name of a database and the name of one of its indexes.
pub(crate) type Key = (String, String);

/// The indexes that are being built.
#[derive(Default)]
pub(crate) struct IndexBuilds {
    builds: Mutex<BTreeMap<Key, Build>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Build {
    /// When the build began.
    pub(crate) began: Duration,
    /// When the build ends: at the newest change when it was first checked, since others may write
    /// for as long as it indexes.
    pub(crate) until: Option<Position>,
    /// The last logged progress.
    pub(crate) reported: Option<Report>,
}

/// Logged progress of an index.
#[derive(Clone, Copy)]
pub(crate) struct Report {
    pub(crate) at: Duration,
    pub(crate) done: u64,
}

impl IndexBuilds {
    /// An index exists that has not indexed anything yet.
    pub(crate) fn begun(&self, database: &str, index: &str, now: Duration) {
        let build = Build { began: now, until: None, reported: None };
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        builds.insert((database.to_owned(), index.to_owned()), build);
    }

    /// An index is gone, was renamed, or has stopped.
    pub(crate) fn ended(&self, database: &str, index: &str) {
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        builds.remove(&(database.to_owned(), index.to_owned()));
    }

    /// Whether no index is being built.
    pub(crate) fn is_empty(&self) -> bool {
        self.builds.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Those that are being built.
    pub(crate) fn all(&self) -> Vec<(Key, Build)> {
        let builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        builds.iter().map(|(key, build)| (key.clone(), *build)).collect()
    }

    /// Stores the state of one, unless it ended in the meantime.
    pub(crate) fn keep(&self, key: &Key, build: Build) {
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = builds.get_mut(key) {
            *kept = build;
        }
    }
}

impl Report {
    /// Whether progress is due to be logged. One that rests, because it is paused or has no memory,
    /// is not logged repeatedly.
    pub(crate) fn is_due(self, now: Duration, done: u64) -> bool {
        REPORT_INTERVAL <= now.saturating_sub(self.at) && self.done != done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_an_index_is_is_said_now_and_then_while_it_goes_on() {
        let last = Report { at: Duration::from_secs(5), done: 7 };
        assert!(!last.is_due(Duration::from_secs(14), 8), "too soon");
        assert!(last.is_due(Duration::from_secs(15), 8));
        assert!(!last.is_due(Duration::from_secs(60), 7), "nothing was done");
    }
}
