//! Events of indexes in the server's log.

use std::time::Duration;

use indexing::{IndexChange, IndexSetEvent};

use crate::index_builds::IndexBuilds;

/// Logs an event; new indexes are watched until they are built. `now` is the time of the monotonic
/// clock.
pub(crate) fn log(builds: &IndexBuilds, now: Duration, database: &str, event: &IndexSetEvent<'_>) {
    match event {
        IndexSetEvent::Failed { index, error, again_after: Some(pause) } => tracing::warn!(
            database, index, %error, again_after_seconds = pause.as_secs(),
            "an index stopped; it is opened again after a pause"
        ),
        IndexSetEvent::Failed { index, error, again_after: None } => tracing::error!(
            database, index, %error, "an index stopped; it waits for a reset or a new definition"
        ),
        IndexSetEvent::Reopened { index } => {
            tracing::info!(database, index, "an index that had stopped was opened again");
        }
        IndexSetEvent::ForeignFiles { place, because, documents_are_older: true } => {
            tracing::error!(
                database, place = %place.display(), because,
                "an index has seen later documents than the database contains: the files of the database are an \
                 older copy, or lost their newest transactions; put the newer files back if they exist"
            )
        }
        IndexSetEvent::ForeignFiles { place, because, documents_are_older: false } => {
            tracing::warn!(
                database, place = %place.display(), because,
                "the files of an index do not belong to the database; the index is rebuilt"
            )
        }
        IndexSetEvent::Indexed { .. } => {}
        IndexSetEvent::Created { index } => builds.begun(database, index, now),
        IndexSetEvent::Changed { index, change } => log_change(builds, database, index, *change),
        IndexSetEvent::Replaced { index } => {
            tracing::info!(database, index, "an index with a changed definition took over");
        }
    }
}

fn log_change(builds: &IndexBuilds, database: &str, index: &str, change: IndexChange) {
    match change {
        IndexChange::Removed => {
            builds.ended(database, index);
            tracing::info!(database, index, "an index was deleted");
        }
        IndexChange::Paused => tracing::info!(database, index, "an index was paused"),
        IndexChange::Disabled => tracing::info!(database, index, "an index was disabled"),
        IndexChange::MarkedAsErrored => {
            builds.ended(database, index);
            tracing::error!(
                database,
                index,
                "an index is suspended because of errors: see GET /databases/*/indexes/errors"
            );
        }
        IndexChange::BecameIdle => {
            tracing::debug!(database, index, "an automatic index is idle");
        }
        IndexChange::QueriedAgain => {
            tracing::debug!(database, index, "an idle automatic index is queried again");
        }
        IndexChange::BatchCompleted => tracing::debug!(database, index, "a batch was indexed"),
        IndexChange::Added
        | IndexChange::SwappedIn
        | IndexChange::LockModeChanged
        | IndexChange::PriorityChanged => {}
    }
}
