//! Events of databases in the server's log.

use database::RegistryEvent;

/// Writes an event of a database to the server's log.
pub(crate) fn log(event: &RegistryEvent<'_>) {
    match event {
        RegistryEvent::Opened { database, took, documents, recovery } => {
            let milliseconds = took.as_millis() as u64;
            if recovery.transactions == 0 {
                tracing::info!(database, documents, milliseconds, "a database was opened");
            } else {
                let (transactions, bytes) = (recovery.transactions, recovery.bytes);
                tracing::info!(
                    database,
                    documents,
                    milliseconds,
                    recovered_transactions = transactions,
                    recovered_bytes = bytes,
                    "a database was opened and recovered: the previous process did not shut down properly"
                );
            }
            if recovery.disk_full {
                tracing::error!(
                    database,
                    "the disk is full: what was recovered is in memory, and writes are refused until there \
                     is room for it in the data file"
                );
            }
        }
        RegistryEvent::Failed { database, error } => tracing::error!(
            database, %error, "a database could not be opened; the next request tries again"
        ),
        RegistryEvent::Broken { database, error: Some(error) } => tracing::error!(
            database, %error, "the storage of a database failed: it is closed, and opened again"
        ),
        RegistryEvent::Broken { database, error: None } => {
            tracing::error!(database, "a database failed: it is closed, and opened again");
        }
        RegistryEvent::Closed { database } => tracing::info!(database, "a database was closed"),
    }
}
