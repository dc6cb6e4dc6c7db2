//! Progress of index builds in the server's log.

use indexing::Position;

use crate::{
    engine::Engine,
    index_builds::{Build, Report},
    index_progress::progress_of,
};

/// What was observed of an index.
enum Seen {
    /// The index does not exist any more, or its database is closed.
    Gone,
    Building {
        done: u64,
        all: u64,
    },
    Built {
        documents: u64,
    },
}

impl Engine {
    /// Checks every index that is being built. Reads from databases, so it must not run on a thread
    /// that others wait for.
    pub(crate) fn log_index_builds(&self) {
        let builds = self.files.index_builds();
        let now = self.platform.clock.monotonic();
        for (key, build) in builds.all() {
            let (database, index) = (key.0.as_str(), key.1.as_str());
            let mut build = build;
            match seen(self, database, index, &mut build.until) {
                Seen::Gone => builds.ended(database, index),
                Seen::Built { documents } => {
                    let milliseconds = now.saturating_sub(build.began).as_millis() as u64;
                    tracing::info!(database, index, documents, milliseconds, "an index was built");
                    builds.ended(database, index);
                }
                Seen::Building { done, all } => {
                    match build.reported {
                        None => {
                            tracing::info!(
                                database,
                                index,
                                documents = all,
                                "an index is being built"
                            );
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
}

fn seen(engine: &Engine, database: &str, index: &str, until: &mut Option<Position>) -> Seen {
    let Some(lease) = engine.registry.if_open(database) else { return Seen::Gone };
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
