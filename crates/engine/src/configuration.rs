//! What operators configure: sections of a database's record, its lock mode, the order of its nodes, and what
//! applies to the whole server.
//!
//! Each change is decided on the record that it replaces, and written through the state that all nodes agree on.
//! When a call returns, an open database follows the changed record or a newer one.

use cluster_state::ServerValue;
use database::{CatalogError, Decision, WrittenRecord};
use model::DatabaseLockMode;
use wire::{RecordBody, SectionKind, StoredSection, TimeSeriesSectionChange};

use crate::{engine::Engine, error::EngineError};

/// A configuration that applies to the server and to every database without one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerConfiguration {
    /// What clients load from the server.
    Clients,
    /// What the studio shows of the server.
    Studio,
}

impl ServerConfiguration {
    /// The name under which the state stores it.
    fn stored_name(self) -> &'static str {
        match self {
            ServerConfiguration::Clients => "Configuration/Client",
            ServerConfiguration::Studio => "Configuration/Studio",
        }
    }
}

impl Engine {
    /// Replaces sections of a database's record, all in one change. Settings take effect when the database is next
    /// opened. Blocks.
    ///
    /// # Errors
    /// The database does not exist; a setting is invalid, or names a directory that it must not; the record
    /// cannot be written.
    pub fn configure(
        &self,
        database: &str,
        sections: &[StoredSection],
    ) -> Result<WrittenRecord, EngineError> {
        let record = self.catalog.record(database);
        let name = &record.ok_or_else(|| missing(database))?.name;
        for settings in sections.iter().filter_map(StoredSection::settings) {
            self.check_record_settings(name, &settings)?;
        }
        let changes_client = sections.iter().any(|section| section.kind() == SectionKind::Client);
        let written = self.decide_record(database, |record, draft| {
            let mut body = RecordBody::of_record(record);
            sections.iter().for_each(|section| body.put_section(section));
            draft.body = body.to_json();
            draft.changes_client = changes_client;
            Ok(Decision::Replace)
        })?;
        self.note_client_configuration(&written);
        Ok(written)
    }

    /// Changes a part of the time series configuration of a database; `None` if the change changes nothing. Blocks.
    ///
    /// # Errors
    /// The configuration would be invalid; the database does not exist; the record cannot be written.
    pub fn change_time_series(
        &self,
        database: &str,
        change: &TimeSeriesSectionChange,
    ) -> Result<Option<WrittenRecord>, EngineError> {
        let mut has_changed = false;
        let written = self.decide_record_body(database, |_, body| {
            let changed = change.apply(body.section(SectionKind::TimeSeries))?;
            has_changed = changed.is_some();
            Ok(match changed {
                Some(section) => {
                    body.put_section(&section);
                    Decision::Replace
                }
                None => Decision::Keep,
            })
        })?;
        Ok(has_changed.then_some(written))
    }

    /// Protects databases from deletion, or stops protecting them. Blocks.
    ///
    /// # Errors
    /// One of them does not exist, and no record is changed; one is deleted during the call, or a record cannot be
    /// written, and those before it are changed.
    pub fn set_lock_mode(
        &self,
        databases: &[String],
        mode: DatabaseLockMode,
    ) -> Result<Vec<WrittenRecord>, EngineError> {
        if let Some(name) = databases.iter().find(|name| self.catalog.record(name).is_none()) {
            return Err(missing(name));
        }
        let set = |name: &String| self.change_record_body(name, |body| body.set_lock_mode(mode));
        databases.iter().map(set).collect()
    }

    /// Disables a database, which closes it, or enables it again. Blocks.
    ///
    /// # Errors
    /// The database does not exist ([`EngineError::DatabaseMissing`]); the record cannot be written.
    pub fn set_disabled(
        &self,
        database: &str,
        disabled: bool,
    ) -> Result<WrittenRecord, EngineError> {
        let mut is_changed = false;
        let written = self.registry.change_record(database, |record, draft| {
            draft.disabled = disabled;
            is_changed = record.disabled != disabled;
            if is_changed { Decision::Replace } else { Decision::Keep }
        })?;
        let written = written.ok_or_else(|| missing(database))?;
        if is_changed {
            let what = if disabled { "a database was disabled" } else { "a database was enabled" };
            tracing::info!(database, "{what}");
        }
        Ok(written)
    }

    /// A configuration of the server as it is stored.
    ///
    /// # Errors
    /// The state cannot be read.
    pub fn server_configuration(
        &self,
        configuration: ServerConfiguration,
    ) -> Result<Option<ServerValue>, CatalogError> {
        self.catalog.value(configuration.stored_name())
    }

    /// Replaces a configuration of the server; returns the index of the change. Blocks.
    ///
    /// # Errors
    /// The change cannot be written.
    pub fn configure_server(
        &self,
        configuration: ServerConfiguration,
        content: &StoredSection,
    ) -> Result<u64, EngineError> {
        let index = self.catalog.put_value(configuration.stored_name(), &content.to_json())?;
        if configuration == ServerConfiguration::Clients {
            self.note_client_configuration_index(index);
        }
        Ok(index)
    }
}

fn missing(database: &str) -> EngineError {
    EngineError::DatabaseMissing { name: database.to_owned() }
}
