//! Reading from a snapshot that is held for the client: the header `Corvus-Snapshot`.
//!
//! Invariant: a request with the header is answered from that snapshot or rejected. So the routes
//! that support it are listed here, and every other route rejects the header, including those that
//! write.

use std::sync::Arc;

use database::{DatabaseLease, HeldSnapshot, SnapshotEnd};
use http::HeaderMap;
use wire::{ErrorKind, header_names, header_names::unquote};

use crate::{api_error::ApiError, http::router::Route, server_state::ServerState};

/// The routes that read from a snapshot. Their handlers read through [`crate::call::Call::read`];
/// `/multi_get` passes the header on to its parts.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/databases/*/docs"),
    ("POST", "/databases/*/docs"),
    ("HEAD", "/databases/*/docs"),
    ("GET", "/databases/*/docs/size"),
    ("GET", "/databases/*/streams/docs"),
    ("GET", "/databases/*/collections/docs"),
    ("GET", "/databases/*/collections/stats"),
    ("GET", "/databases/*/queries"),
    ("POST", "/databases/*/queries"),
    ("GET", "/databases/*/streams/queries"),
    ("POST", "/databases/*/streams/queries"),
    ("GET", "/databases/*/revisions"),
    ("GET", "/databases/*/revisions/count"),
    ("GET", "/databases/*/revisions/bin"),
    ("GET", "/databases/*/counters"),
    ("GET", "/databases/*/timeseries"),
    ("GET", "/databases/*/timeseries/ranges"),
    ("GET", "/databases/*/timeseries/stats"),
    ("GET", "/databases/*/streams/timeseries"),
    ("POST", "/databases/*/multi_get"),
];

/// The routes that support snapshots, as method and path.
pub fn snapshot_routes() -> &'static [(&'static str, &'static str)] {
    ROUTES
}

/// The snapshot that a request reads from: the one that it names, or that of the enclosing request.
///
/// # Errors
///
/// When the route does not support snapshots, or the snapshot has expired.
pub(crate) fn snapshot_of(
    state: &ServerState,
    database: Option<&DatabaseLease>,
    route: &Route,
    headers: &HeaderMap,
    outer: Option<&Arc<HeldSnapshot>>,
) -> Result<Option<Arc<HeldSnapshot>>, ApiError> {
    let mut tokens = headers.get_all(header_names::SNAPSHOT).iter();
    let token = tokens.next();
    if token.is_none() && outer.is_none() {
        return Ok(None);
    }
    let (Some(database), true) = (database, ROUTES.contains(&(route.method, route.path))) else {
        let message = format!(
            "'{} {}' does not read from a snapshot: send it without the header {}",
            route.method,
            route.path,
            header_names::SNAPSHOT
        );
        return Err(ApiError::new(ErrorKind::BadRequest, message));
    };
    if tokens.next().is_some() {
        let message = format!("The header {} is present more than once", header_names::SNAPSHOT);
        return Err(ApiError::new(ErrorKind::BadRequest, message));
    }
    let Some(token) = token else { return Ok(outer.cloned()) };
    let token = unquote(token.to_str().unwrap_or_default());
    let now = state.engine.clock().monotonic();
    database.held_snapshot(token, now).map(Some).map_err(ended)
}

fn ended(end: SnapshotEnd) -> ApiError {
    let reason = match end {
        SnapshotEnd::Time => "its lifetime has expired",
        SnapshotEnd::Released => "it was released",
        SnapshotEnd::Space => "it retained too much in memory or in the journal",
        SnapshotEnd::Unknown => "this database has no snapshot with this token",
    };
    let message = format!("The snapshot has ended: {reason}. Open another one and read again");
    ApiError::new(ErrorKind::SnapshotEnded, message)
}
