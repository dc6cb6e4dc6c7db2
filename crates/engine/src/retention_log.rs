//! Events of expiration and retention in the server's log.

use database::RetentionEvent;
use model::RetentionKind;

/// Writes what expiration, refresh, archival, time series policies or tombstone removal did to the log.
pub(crate) fn log(event: &RetentionEvent) {
    match event {
        RetentionEvent::Done { database, kind, documents } => match kind {
            RetentionKind::Expiration => tracing::info!(database, documents, "documents expired"),
            RetentionKind::Refresh => {
                tracing::info!(database, documents, "documents were refreshed");
            }
            RetentionKind::Archival => {
                tracing::info!(database, documents, "documents were archived");
            }
        },
        RetentionEvent::PoliciesApplied { entries: 0, .. } => {}
        RetentionEvent::PoliciesApplied { database, series, entries } => {
            tracing::info!(database, series, entries, "time series were rolled up");
        }
        RetentionEvent::TombstonesRemoved { database, tombstones } => {
            tracing::info!(
                database,
                tombstones,
                "tombstones that were no longer needed were removed"
            );
        }
        RetentionEvent::Failed { database, message } => {
            tracing::warn!(database, message, "due documents could not be processed");
        }
    }
}
