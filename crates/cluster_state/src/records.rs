//! The records of all databases in memory, because every request reads one.
//!
//! Invariant: memory follows changes only once they are durable, and in their order.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::database_record::DatabaseRecord;

/// A record after a change, under its lower-case name; `None` if it was removed.
pub type ChangedRecord = (String, Option<Arc<DatabaseRecord>>);

/// All records, by lower-case name.
#[derive(Clone, Default)]
pub(crate) struct Records(Arc<RwLock<BTreeMap<String, Arc<DatabaseRecord>>>>);

impl Records {
    /// Adopts changes that are durable.
    pub(crate) fn follow(&self, changed: Vec<ChangedRecord>) {
        if changed.is_empty() {
            return;
        }
        let mut records = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (key, record) in changed {
            match record {
                Some(record) => records.insert(key, record),
                None => records.remove(&key),
            };
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<DatabaseRecord>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<DatabaseRecord>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
