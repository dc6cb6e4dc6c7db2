//! Indexes that are built from nothing, watched until they have caught up, for the server's log.
//!
//! Nothing is looked at while no index is built.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indexing::Position;

/// How often indexes that are built are looked at.
pub const INDEX_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the log says how far one is.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Database and name.
pub(crate) type Key = (String, String);

/// The indexes that are built.
#[derive(Default)]
pub(crate) struct IndexBuilds {
    builds: Mutex<BTreeMap<Key, Build>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Build {
    /// When the index began.
    pub(crate) began: Duration,
    /// Where the index is built: up to what there was when it was first looked at, since others may write for
    /// as long as it indexes.
    pub(crate) until: Option<Position>,
    /// What the log said of it last.
    pub(crate) reported: Option<Report>,
}

/// How far an index was when the log said so.
#[derive(Clone, Copy)]
pub(crate) struct Report {
    pub(crate) at: Duration,
    pub(crate) done: u64,
}

impl IndexBuilds {
    /// An index is there that has nothing yet.
    pub(crate) fn begun(&self, database: &str, index: &str, now: Duration) {
        let build = Build { began: now, until: None, reported: None };
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        builds.insert((database.to_owned(), index.to_owned()), build);
    }

    /// An index is gone, has another name from now on, or does not go on.
    pub(crate) fn ended(&self, database: &str, index: &str) {
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        builds.remove(&(database.to_owned(), index.to_owned()));
    }

    /// Whether none is built.
    pub(crate) fn is_empty(&self) -> bool {
        self.builds.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Those that are being built.
    pub(crate) fn all(&self) -> Vec<(Key, Build)> {
        let builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        builds.iter().map(|(key, build)| (key.clone(), *build)).collect()
    }

    /// Keeps what is known of one, unless it ended meanwhile.
    pub(crate) fn keep(&self, key: &Key, build: Build) {
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = builds.get_mut(key) {
            *kept = build;
        }
    }
}

impl Report {
    /// Whether the log says how far the index is now. One that rests, because it is paused or has no memory,
    /// is not spoken of again and again.
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
