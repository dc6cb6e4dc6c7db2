//! Databases for which the machine does no work, because it cannot know what it did for them before.
//!
//! A database remembers the newest point in the machine's history that it has seen. When the machine is
//! an older copy of itself, or another one, its identities would repeat, its values are old, and the
//! indexes of its transactions were used before. So values, identities and transactions of that database
//! are refused, for reading and for writing, until an operator says which of the two is right.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use model::DatabaseId;

use crate::error::ClusterError;

/// Which databases are refused, and why.
#[derive(Clone, Default)]
pub(crate) struct Refusals {
    reasons: Arc<RwLock<HashMap<DatabaseId, Arc<str>>>>,
}

impl Refusals {
    /// Refuses a database from now on, or no longer.
    pub(crate) fn set(&self, database: DatabaseId, reason: Option<&str>) {
        let mut reasons = self.reasons.write().unwrap_or_else(PoisonError::into_inner);
        match reason {
            Some(reason) => reasons.insert(database, reason.into()),
            None => reasons.remove(&database),
        };
    }

    pub(crate) fn check(&self, database: DatabaseId) -> Result<(), ClusterError> {
        let reasons = self.reasons.read().unwrap_or_else(PoisonError::into_inner);
        match reasons.get(&database) {
            Some(reason) => Err(ClusterError::Refused { reason: Arc::clone(reason) }),
            None => Ok(()),
        }
    }
}
