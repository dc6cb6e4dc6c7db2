//! What happens to indexes by itself, in the server's log.

use indexing::IndexSetEvent;

/// Logs an event.
pub(crate) fn log(database: &str, event: &IndexSetEvent<'_>) {
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
        IndexSetEvent::Strangers { place, because } => tracing::warn!(
            database, place = %place.display(), because,
            "the files of an index do not belong to the database; the index is built again"
        ),
        // Somebody did that, or it is what indexes do.
        IndexSetEvent::Changed { .. } => {}
        IndexSetEvent::Replaced { index } => {
            tracing::info!(database, index, "an index of a changed definition took over");
        }
    }
}
