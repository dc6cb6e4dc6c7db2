//! Follows what other nodes changed in the state that all agree on: open databases follow their records, execute the
//! transactions of the cluster, and are closed and removed when this node is no longer to have them.
//!
//! The thread that applies changes must not wait for databases, so it only notes which of them are concerned.

use std::sync::Arc;

use model::DatabaseId;

use crate::{deletion, engine::Engine};

impl Engine {
    /// Calls `wake` after each change of the shared state: [`Engine::follow_changes`] is to be called then. It must not
    /// block. The first call counts.
    pub fn on_change(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.followed.on_change(Box::new(wake));
    }

    /// Follows the changes since the last call. To be called by one thread at a time. Blocks.
    pub fn follow_changes(self: &Arc<Self>) {
        let pending = self.followed.take();
        for key in pending.records {
            self.follow_record(&key);
        }
        self.follow_database_groups();
        let databases = self.registry.open_leases();
        for database in databases {
            let record = database.record();
            if pending.transactions.contains(&record.topology_id.0) {
                self.follow_transactions(&database);
            }
        }
    }

    pub(crate) fn follow_record(&self, key: &str) {
        let own = self.node_tag();
        match self.catalog.record(key) {
            Some(record) if record.topology.has(own) => {
                if self.has_files_of_another(key, record.topology_id) {
                    self.registry.with_closed(key, || deletion::finish_files_of(self, key));
                }
                self.registry.follow(key);
            }
            Some(_) | None => {
                self.registry.with_closed(key, || deletion::finish_files_of(self, key))
            }
        }
    }

    /// Whether a deleted database of this name is still here: it was deleted, and another one created, while this node was
    /// away.
    fn has_files_of_another(&self, key: &str, database: DatabaseId) -> bool {
        let is_open = self.if_open(key).is_some_and(|open| open.record().topology_id != database);
        is_open || deletion::has_pending(self, key)
    }
}
