//! The databases of the data directory: their records, and the open ones.

use std::sync::Arc;

use cluster_state::RecordDraft;
use database::{
    Access, AccessError, Activity, CatalogError, DatabaseLease, Decision, Replacement,
    WrittenRecord,
};
use model::DatabaseRecord;

use crate::engine::Engine;

impl Engine {
    /// The record of a database, in any case of the name. Never blocks.
    pub fn record(&self, name: &str) -> Option<Arc<DatabaseRecord>> {
        self.catalog.record(name)
    }

    /// The records of all databases, by lower-case name. Never blocks.
    pub fn records(&self) -> Vec<Arc<DatabaseRecord>> {
        self.catalog.records()
    }

    /// A database, or a ticket to wait with until it is open. Never blocks.
    ///
    /// # Errors
    /// It does not exist, is disabled or locked, or could not be opened; the engine is closing.
    pub fn access(&self, name: &str) -> Result<Access, AccessError> {
        self.registry.access(name)
    }

    /// A database if it is open.
    pub fn if_open(&self, name: &str) -> Option<DatabaseLease> {
        self.registry.if_open(name)
    }

    /// Changes the record of a database, and has the open database follow it. `change` is called again with a
    /// newer record if another change came first. `None` if there is no such database. Blocks.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn change_record(
        &self,
        name: &str,
        change: impl FnMut(&DatabaseRecord, &mut RecordDraft) -> Decision,
    ) -> Result<Option<WrittenRecord>, CatalogError> {
        self.registry.change_record(name, change)
    }

    /// Replaces the record of a database, and has the open database follow it. `changes_client` says whether
    /// the clients' configuration differs from that of the record before. Blocks.
    ///
    /// # Errors
    /// The record is not the expected one; it cannot be written.
    pub fn replace_record(
        &self,
        replacement: Replacement,
        changes_client: impl FnOnce(&DatabaseRecord) -> bool,
    ) -> Result<WrittenRecord, CatalogError> {
        self.registry.replace_record(replacement, changes_client)
    }

    /// How much all databases are asked, write and index.
    pub fn activity(&self) -> &Arc<Activity> {
        self.files.activity()
    }
}
