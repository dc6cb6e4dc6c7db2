//! Indexes that are built from nothing, watched until they have caught up, for the server's log.
//!
//! Nothing is looked at while no index is built.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{handlers::index_progress::progress_of, server_state::ServerState};

/// How often indexes that are built are looked at.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the log says how far one is.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Database and name.
type Key = (String, String);

/// The indexes that are built.
#[derive(Default)]
pub(crate) struct IndexBuilds {
    builds: Mutex<BTreeMap<Key, Build>>,
}

#[derive(Clone, Copy, Default)]
struct Build {
    /// When it was seen first, and when it was last reported.
    seen: Option<(Duration, Duration)>,
}

/// What is seen of an index.
enum Seen {
    /// There is no such index any more, or its database is closed.
    Gone,
    Building {
        done: u64,
        all: u64,
    },
    Built {
        documents: u64,
    },
}

impl IndexBuilds {
    /// An index is there that has nothing yet.
    pub(crate) fn begun(&self, database: &str, index: &str) {
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        builds.insert((database.to_owned(), index.to_owned()), Build::default());
    }

    /// An index is gone, or has another name from now on.
    pub(crate) fn ended(&self, database: &str, index: &str) {
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        builds.remove(&(database.to_owned(), index.to_owned()));
    }

    /// Whether none is built.
    pub(crate) fn is_empty(&self) -> bool {
        self.builds.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn all(&self) -> Vec<(Key, Build)> {
        let builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        builds.iter().map(|(key, build)| (key.clone(), *build)).collect()
    }

    /// Keeps what is known of one, unless it ended meanwhile.
    fn keep(&self, key: &Key, build: Build) {
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = builds.get_mut(key) {
            *kept = build;
        }
    }
}

/// Looks at each index that is built. Reads from databases, so it must not run where others wait.
pub(crate) fn look(state: &Arc<ServerState>) {
    let builds = state.files.index_builds();
    let now = state.platform.clock.monotonic();
    for (key, build) in builds.all() {
        let (database, index) = (key.0.as_str(), key.1.as_str());
        let (began, reported) = build.seen.unwrap_or((now, now));
        match seen(state, database, index) {
            Seen::Gone => builds.ended(database, index),
            Seen::Built { documents } => {
                let milliseconds = now.saturating_sub(began).as_millis() as u64;
                tracing::info!(database, index, documents, milliseconds, "an index was built");
                builds.ended(database, index);
            }
            Seen::Building { done, all } => {
                let mut reported = reported;
                if build.seen.is_none() {
                    tracing::info!(database, index, documents = all, "an index is being built");
                } else if REPORT_INTERVAL <= now.saturating_sub(reported) {
                    let percent = done * 100 / all.max(1);
                    tracing::info!(database, index, done, all, percent, "an index is being built");
                    reported = now;
                }
                builds.keep(&key, Build { seen: Some((began, reported)) });
            }
        }
    }
}

fn seen(state: &ServerState, database: &str, index: &str) -> Seen {
    let Some(lease) = state.registry.if_open(database) else { return Seen::Gone };
    let Some(index) = lease.indexes().get(index) else { return Seen::Gone };
    let Ok(progress) = progress_of(&lease.read(), &index) else { return Seen::Gone };
    let all: u64 = progress.iter().map(|one| one.documents).sum();
    let behind: u64 = progress.iter().map(|one| one.lag + one.tombstone_lag).sum();
    match behind {
        0 => Seen::Built { documents: all },
        _ => Seen::Building { done: all.saturating_sub(behind), all },
    }
}
