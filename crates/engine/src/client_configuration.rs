//! Which configuration clients load from the server: the database's own, or the server's.

use std::sync::atomic::Ordering;

use database::WrittenRecord;
use model::DatabaseRecord;
use wire::ClientConfiguration;

use crate::{configuration::ServerConfiguration, engine::Engine, error::EngineError};

impl Engine {
    /// The server's own configuration.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn server_client_configuration(&self) -> Result<Option<ClientConfiguration>, EngineError> {
        let stored = self.server_configuration(ServerConfiguration::Clients)?;
        Ok(stored.and_then(|value| ClientConfiguration::read(&value.bytes, value.index)))
    }

    /// The effective configuration for the clients of a database: its own, unless that is disabled and the server
    /// has one. The index is that of the newer of the two, so that clients notice a change of either.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn client_configuration(
        &self,
        record: &DatabaseRecord,
    ) -> Result<Option<ClientConfiguration>, EngineError> {
        let (own, of_server) = (own(record), self.server_client_configuration()?);
        let newest = own.iter().chain(&of_server).map(|one| one.index).max();
        let is_enabled = own.as_ref().is_some_and(|own| !own.is_disabled());
        let chosen = if is_enabled { own } else { of_server.or(own) };
        let index = |chosen: &ClientConfiguration| newest.unwrap_or(chosen.index);
        Ok(chosen.map(|chosen| ClientConfiguration { index: index(&chosen), ..chosen }))
    }

    /// No client configuration was written by a change with a higher index. Never blocks.
    pub fn newest_client_configuration(&self) -> u64 {
        self.newest_client_configuration.load(Ordering::Acquire)
    }

    /// To be called after each change of a record that may have changed its client configuration.
    pub(crate) fn note_client_configuration(&self, written: &WrittenRecord) {
        self.note_client_configuration_index(written.record.client_index);
    }

    /// To be called with the index of each change of a client configuration.
    pub(crate) fn note_client_configuration_index(&self, index: u64) {
        self.newest_client_configuration.fetch_max(index, Ordering::AcqRel);
    }

    /// The newest index of any configuration, from what is stored.
    pub(crate) fn newest_written_client_configuration(&self) -> Result<u64, EngineError> {
        let of_server = self.server_client_configuration()?;
        let of_server = of_server.map_or(0, |configuration| configuration.index);
        let records = self.records();
        let of_records = records.iter().filter_map(|record| own(record));
        Ok(of_records.map(|configuration| configuration.index).fold(of_server, u64::max))
    }
}

/// The configuration that the clients of a database get from its record. A removed one is sent as disabled: clients
/// keep the last configuration until they get another one.
fn own(record: &DatabaseRecord) -> Option<ClientConfiguration> {
    ClientConfiguration::of_record(record).or_else(|| {
        record.is_client_changed.then(|| ClientConfiguration::disabled(record.client_index))
    })
}
