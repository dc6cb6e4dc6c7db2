//! The records of all databases in memory, because every request asks for one.
//!
//! Invariant: memory changes only after the change is durable, and in the order of the changes.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::database_record::DatabaseRecord;

/// A record as it is after a change, under the lower-cased name; `None` when it was removed.
pub type ChangedRecord = (String, Option<Arc<DatabaseRecord>>);

/// All records, by lower-cased name.
#[derive(Clone, Default)]
pub(crate) struct Records(Arc<RwLock<BTreeMap<String, Arc<DatabaseRecord>>>>);

impl Records {
    /// Takes over what was changed, and is durable.
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
