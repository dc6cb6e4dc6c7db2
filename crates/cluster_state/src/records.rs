//! The records of all databases in memory, because every request reads one.
//!
//! Invariants: memory follows changes only once they are durable; a change older than the one in force is never
//! adopted. [`ClusterStore::commit`](crate::ClusterStore::commit) makes them arrive in their order.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use model::{DatabaseId, DatabaseRecord};

/// A change of a record.
#[derive(Clone, Debug)]
pub struct ChangedRecord {
    /// The lower-case name of the database.
    pub key: String,
    /// The index of the change.
    pub index: u64,
    /// The record after the change; `None` if it was deleted.
    pub record: Option<Arc<DatabaseRecord>>,
}

/// What a transaction of the state changed, as far as it concerns open databases.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The changed records.
    pub records: Vec<ChangedRecord>,
    /// The databases that have new transactions to execute.
    pub transactions: Vec<DatabaseId>,
}

impl Changes {
    /// Adds later changes.
    pub fn extend(&mut self, later: Changes) {
        self.records.extend(later.records);
        self.transactions.extend(later.transactions);
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.transactions.is_empty()
    }
}

/// Notified of changes once they are durable and readers see them. It must not block.
pub type ChangesListener = Box<dyn Fn(&Changes) + Send + Sync>;

/// The listener of changes, once there is one.
#[derive(Clone, Default)]
pub(crate) struct Listener(Arc<OnceLock<ChangesListener>>);

impl Listener {
    pub(crate) fn set(&self, listener: ChangesListener) {
        // A server has one engine.
        drop(self.0.set(listener));
    }

    pub(crate) fn notify(&self, changes: &Changes) {
        if let Some(listener) = self.0.get().filter(|_| !changes.is_empty()) {
            listener(changes);
        }
    }
}

/// All records, by lower-case name.
#[derive(Clone, Default)]
pub(crate) struct Records(Arc<RwLock<BTreeMap<String, Arc<DatabaseRecord>>>>);

impl Records {
    /// Adopts changes that are durable.
    pub(crate) fn follow(&self, changed: &[ChangedRecord]) {
        if changed.is_empty() {
            return;
        }
        let mut records = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for ChangedRecord { key, index, record } in changed {
            if records.get(key).is_some_and(|present| *index < present.etag) {
                continue;
            }
            match record {
                Some(record) => records.insert(key.clone(), Arc::clone(record)),
                None => records.remove(key),
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

#[cfg(test)]
mod tests {
    use model::{DatabaseId, DatabaseName, RecordConfiguration};

    use super::*;

    fn changed(etag: u64, is_deleted: bool) -> ChangedRecord {
        let record = DatabaseRecord {
            name: DatabaseName::new("Db").unwrap(),
            disabled: false,
            etag,
            topology: model::DatabaseTopology::only(model::NodeTag::A),
            topology_index: 1,
            client_index: 1,
            is_client_changed: false,
            created_ticks: 1,
            topology_id: DatabaseId([1; 16]),
            cluster_transaction_id: DatabaseId([2; 16]),
            requests: Vec::new(),
            configuration: RecordConfiguration::new(b"{}"),
        };
        let record = (!is_deleted).then(|| Arc::new(record));
        ChangedRecord { key: "db".to_owned(), index: etag, record }
    }

    #[test]
    fn a_change_older_than_the_record_in_force_is_not_adopted() {
        let records = Records::default();
        records.follow(&[changed(5, false)]);
        for older in [changed(4, false), changed(4, true)] {
            records.follow(&[older]);
            assert_eq!(records.get("db").unwrap().etag, 5);
        }
        records.follow(&[changed(6, false)]);
        assert_eq!(records.get("db").unwrap().etag, 6);
        records.follow(&[changed(7, true)]);
        assert!(records.get("db").is_none());
    }
}
