//! Indexes that are built from nothing, watched until they have caught up, for the server's log.
//!
//! Nothing is looked at while no index is built.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use indexing::Position;

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

#[derive(Clone, Copy)]
struct Build {
    /// When the index began.
    began: Duration,
    /// Where the index is built: up to what there was when it was first looked at, since others may write for
    /// as long as it indexes.
    until: Option<Position>,
    /// What the log said of it last.
    reported: Option<Report>,
}

/// How far an index was when the log said so.
#[derive(Clone, Copy)]
struct Report {
    at: Duration,
    done: u64,
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
        let mut build = build;
        match seen(state, database, index, &mut build.until) {
            Seen::Gone => builds.ended(database, index),
            Seen::Built { documents } => {
                let milliseconds = now.saturating_sub(build.began).as_millis() as u64;
                tracing::info!(database, index, documents, milliseconds, "an index was built");
                builds.ended(database, index);
            }
            Seen::Building { done, all } => {
                match build.reported {
                    None => {
                        tracing::info!(database, index, documents = all, "an index is being built");
                    }
                    Some(last) if last.is_due(now, done) => {
                        let percent = done * 100 / all.max(1);
                        tracing::info!(
                            database,
                            index,
                            done,
                            all,
                            percent,
                            "an index is being built"
                        );
                    }
                    Some(_) => continue,
                }
                builds.keep(&key, Build { reported: Some(Report { at: now, done }), ..build });
            }
        }
    }
}

impl Report {
    /// Whether the log says how far the index is now. One that rests, because it is paused or has no memory,
    /// is not spoken of again and again.
    fn is_due(self, now: Duration, done: u64) -> bool {
        REPORT_INTERVAL <= now.saturating_sub(self.at) && self.done != done
    }
}

fn seen(state: &ServerState, database: &str, index: &str, until: &mut Option<Position>) -> Seen {
    let Some(lease) = state.registry.if_open(database) else { return Seen::Gone };
    let Some(index) = lease.indexes().get(index) else { return Seen::Gone };
    let documents = lease.read();
    let until = match until {
        Some(until) => *until,
        None => match index.last_position_in(&documents) {
            Ok(last) => *until.insert(last),
            Err(_) => return Seen::Gone,
        },
    };
    let Ok(progress) = progress_of(&documents, &index) else { return Seen::Gone };
    let all: u64 = progress.iter().map(|one| one.documents).sum();
    let behind: u64 = progress.iter().map(|one| one.lag + one.tombstone_lag).sum();
    match index.has_reached(until) {
        true => Seen::Built { documents: all.saturating_sub(behind) },
        false => Seen::Building { done: all.saturating_sub(behind), all },
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
