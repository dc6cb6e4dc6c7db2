//! Databases whose commands are refused, because the state has lost part of their history.
//!
//! A database remembers the newest point in the history of the server's state that it has seen. If the state
//! is an older copy of itself, or another one, identities would repeat, values are out of date, and the
//! indexes of its transactions have been used before. So reads and writes of values, identities and
//! transactions of that database are refused until an operator decides which of the two is right.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use model::DatabaseId;

use crate::error::ClusterError;

/// The refused databases, each with a reason.
#[derive(Clone, Default)]
pub(crate) struct Refusals {
    reasons: Arc<RwLock<HashMap<DatabaseId, Arc<str>>>>,
}

impl Refusals {
    /// Refuses a database for a reason, or accepts it again if there is none.
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
