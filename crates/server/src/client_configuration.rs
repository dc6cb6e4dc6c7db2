//! The version of the configuration that clients load from the server.

use database::DatabaseLease;
use engine::Engine;
use wire::ClientConfiguration;

/// The etag that clients see when nothing is configured.
const NO_CONFIGURATION_ETAG: i64 = -2;

/// The etag of a configuration as clients see it.
pub(crate) fn etag(configuration: Option<&ClientConfiguration>) -> i64 {
    configuration.map_or(NO_CONFIGURATION_ETAG, |configuration| {
        i64::try_from(configuration.index).unwrap_or(i64::MAX)
    })
}

/// Whether there is a newer configuration than the client has.
pub(crate) fn is_older(engine: &Engine, database: &DatabaseLease, known: i64) -> bool {
    // No configuration is newer than this, so most requests need no further check. A client that
    // sends a negative etag always gets the configuration: it requests it.
    if known >= 0 && i128::from(known) >= i128::from(engine.newest_client_configuration()) {
        return false;
    }
    let current = engine.client_configuration(&database.record()).ok().flatten();
    known < etag(current.as_ref())
}
