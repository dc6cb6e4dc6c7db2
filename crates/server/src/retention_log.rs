//! What came of documents whose time had come, in the server's log.

use database::RetentionEvent;

/// Logs an event.
pub(crate) fn log(event: &RetentionEvent) {
    match event {
        RetentionEvent::Done { database, is_expiration: true, documents } => {
            tracing::info!(database, documents, "documents expired");
        }
        RetentionEvent::Done { database, is_expiration: false, documents } => {
            tracing::info!(database, documents, "documents were refreshed");
        }
        RetentionEvent::Failed { database, message } => {
            tracing::warn!(
                database,
                message,
                "documents whose time has come could not be dealt with"
            );
        }
    }
}
