//! The databases of the data directory: their records, and the open ones.

use std::sync::Arc;

use database::{Access, AccessError, Activity, DatabaseLease};
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

    /// How much all databases are asked, write and index.
    pub fn activity(&self) -> &Arc<Activity> {
        self.files.activity()
    }
}
