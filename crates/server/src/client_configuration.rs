//! The configuration that clients receive from the server: the database's own, or the server's.

use std::sync::atomic::Ordering;

use database::DatabaseLease;
use engine::Engine;
use model::DatabaseRecord;
use serde_json::{Map, Value};
use wire::{CLIENT_CONFIGURATION_PROPERTY, client_configuration};

use crate::{api_error::ApiError, server_state::ServerState};

/// The name under which the catalog stores the server's own configuration.
pub(crate) const SERVER_CONFIGURATION: &str = "Configuration/Client";

/// The property of a configuration that contains the index of its last change.
const ETAG: &str = "Etag";
/// The etag that clients see when nothing is configured.
const NO_CONFIGURATION_ETAG: i64 = -2;

/// A configuration and the index of the change that wrote it.
pub(crate) struct Configuration {
    pub(crate) index: u64,
    pub(crate) json: Value,
}

/// The server's own configuration.
pub(crate) fn of_server(engine: &Engine) -> Result<Option<Configuration>, ApiError> {
    let stored = engine.server_value(SERVER_CONFIGURATION)?;
    Ok(stored.and_then(|value| {
        let stored: Map<String, Value> = serde_json::from_slice(&value.bytes).ok()?;
        let json = client_configuration(&stored, value.index);
        Some(Configuration { index: value.index, json })
    }))
}

/// The configuration in a database's record.
pub(crate) fn of_record(record: &DatabaseRecord) -> Option<Configuration> {
    let body: Map<String, Value> = serde_json::from_slice(record.configuration.json()).ok()?;
    let stored = body.get(CLIENT_CONFIGURATION_PROPERTY)?.as_object()?;
    let index = match record.client_index {
        // Earlier builds stored it in the configuration. The next change of the record stores it in
        // the record.
        0 => stored
            .get(ETAG)
            .and_then(Value::as_u64)
            .map_or(record.etag, |etag| etag.min(record.etag)),
        index => index,
    };
    Some(Configuration { index, json: client_configuration(stored, index) })
}

/// The configuration that the clients of a database get from its record. A removed one is sent as
/// disabled: clients keep the last configuration until they get another one.
fn own(record: &DatabaseRecord) -> Option<Configuration> {
    let index = record.client_index;
    of_record(record).or_else(|| {
        let disabled = Map::from_iter([("Disabled".to_owned(), Value::Bool(true))]);
        let json = client_configuration(&disabled, index);
        record.is_client_changed.then_some(Configuration { index, json })
    })
}

/// Whether two records of a database contain different client configurations.
pub(crate) fn is_changed(before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
    let said = |body: &Map<String, Value>| {
        let mut stored = body.get(CLIENT_CONFIGURATION_PROPERTY)?.as_object()?.clone();
        stored.remove(ETAG);
        Some(stored)
    };
    said(before) != said(after)
}

/// The effective configuration for the clients of a database: its own, unless that is disabled and
/// the server has one. The index is that of the newer of the two, so that clients notice a change
/// of either.
pub(crate) fn effective(
    state: &ServerState,
    record: &DatabaseRecord,
) -> Result<Option<Configuration>, ApiError> {
    let (own, of_server) = (own(record), of_server(&state.engine)?);
    let newest = own.iter().chain(&of_server).map(|one| one.index).max();
    let is_enabled = own.as_ref().is_some_and(|own| own.json["Disabled"] != Value::Bool(true));
    let chosen = if is_enabled { own } else { of_server.or(own) };
    Ok(chosen.map(|chosen| Configuration { index: newest.unwrap_or(chosen.index), ..chosen }))
}

/// The etag of a configuration as clients see it.
pub(crate) fn etag(configuration: Option<&Configuration>) -> i64 {
    configuration.map_or(NO_CONFIGURATION_ETAG, |configuration| {
        i64::try_from(configuration.index).unwrap_or(i64::MAX)
    })
}

/// Whether there is a newer configuration than the client has.
pub(crate) fn is_older(state: &ServerState, database: &DatabaseLease, known: i64) -> bool {
    let newest = state.newest_client_configuration.load(Ordering::Acquire);
    // No configuration is newer than this, so most requests need no further check. A client that
    // sends a negative etag always gets the configuration: it requests it.
    if known >= 0 && i128::from(known) >= i128::from(newest) {
        return false;
    }
    let current = effective(state, &database.record()).ok().flatten();
    known < etag(current.as_ref())
}

/// The newest index of any configuration, when the server starts.
pub(crate) fn newest_index(engine: &Engine) -> Result<u64, ApiError> {
    let of_server = of_server(engine)?.map_or(0, |configuration| configuration.index);
    let records = engine.records();
    let of_records = records.iter().filter_map(|record| own(record));
    Ok(of_records.map(|configuration| configuration.index).fold(of_server, u64::max))
}
