//! Creates automatic indexes, and deletes those that are no longer needed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use database::DatabaseLease;
use indexing::{AutoIndexDefinition, Index, Position};

use crate::{
    engine::Engine, error::EngineError, query_target::MissingIndex, shared_by_name::SharedByName,
};

/// The automatic indexes that are being created, and those that will be deleted.
#[derive(Default)]
pub(crate) struct AutoIndexes {
    /// By database: concurrent queries that need the same index create it one after the other.
    creating: SharedByName<Mutex<()>>,
    superseded: Mutex<Vec<Superseded>>,
}

/// An index that is deleted some time after its successor has caught up.
#[derive(Clone)]
struct Superseded {
    database: String,
    index: String,
    /// It is gone if it was deleted or its database was closed; then the next query decides again.
    successor: Weak<Index>,
    /// The successor has caught up when it contains everything up to this position.
    until: Position,
    /// How long the index is kept from then on.
    kept: Duration,
    /// When to delete it, on the monotonic clock.
    due: Option<Duration>,
}

impl AutoIndexes {
    /// Those that are due. They stay in the list until they are deleted.
    fn due(&self, now: Duration) -> Vec<Superseded> {
        let mut due = Vec::new();
        lock(&self.superseded).retain_mut(|superseded| {
            let Some(successor) = superseded.successor.upgrade() else { return false };
            if successor.has_reached(superseded.until) {
                let at = *superseded.due.get_or_insert(now + superseded.kept);
                if at <= now {
                    due.push(superseded.clone());
                }
            }
            true
        });
        due
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AutoIndexes {
    /// Whether there are indexes to delete later.
    pub(crate) fn has_superseded(&self) -> bool {
        !lock(&self.superseded).is_empty()
    }
}

impl Engine {
    /// Creates the automatic index that a query needs, or returns the one that another query has created
    /// meanwhile. The index that it supersedes is deleted once it has caught up. Blocks.
    ///
    /// # Errors
    /// The record cannot be written; the index cannot be opened; or it was deleted at the same moment
    /// ([`EngineError::IndexDeleted`]).
    pub fn create_auto_index(
        &self,
        database: &DatabaseLease,
        missing: MissingIndex,
    ) -> Result<Arc<Index>, EngineError> {
        let MissingIndex { definition, supersedes } = missing;
        let turn =
            self.auto_indexes.creating.get(database.record().name.lower_cased(), Arc::default);
        let _turn = lock(&turn);
        let index = match database.indexes().get(&definition.name()) {
            Some(index) => index,
            None => self.write_auto_index(database, &definition)?,
        };
        if let Some(superseded) = supersedes
            && let Err(error) = self.supersede(database, &index, &superseded)
        {
            // Until a later query supersedes it, the old index costs indexing time but fails no
            // query.
            let index = superseded.name();
            tracing::warn!(index, %error, "a superseded index will not be deleted yet");
        }
        Ok(index)
    }

    /// Writes the definition into the record of the database, which creates the index.
    fn write_auto_index(
        &self,
        database: &DatabaseLease,
        definition: &AutoIndexDefinition,
    ) -> Result<Arc<Index>, EngineError> {
        let (name, shape) = (definition.name(), definition.to_shape());
        self.change_record_body(database.record().name.as_str(), |body| {
            body.put_auto_index(&name, &shape);
        })?;
        if let Some(index) = database.indexes().get(&name) {
            return Ok(index);
        }
        match database.indexes().faulty_named(&name) {
            Some(faulty) => Err(EngineError::IndexNotCreated { error: faulty.error }),
            None => Err(EngineError::IndexDeleted { name }),
        }
    }

    fn supersede(
        &self,
        database: &DatabaseLease,
        index: &Arc<Index>,
        superseded: &Index,
    ) -> Result<(), EngineError> {
        let last = index.last_position_in(&database.read())?;
        let superseded = Superseded {
            database: database.record().name.as_str().to_owned(),
            index: superseded.name().to_owned(),
            successor: Arc::downgrade(index),
            until: last,
            kept: database.auto_index_limits().superseded_kept,
            due: None,
        };
        let mut all = lock(&self.auto_indexes.superseded);
        all.retain(|known| {
            known.database != superseded.database || known.index != superseded.index
        });
        all.push(superseded);
        Ok(())
    }

    /// Deletes superseded automatic indexes that are due.
    pub(crate) fn delete_superseded(&self) {
        for superseded in self.auto_indexes.due(self.platform.clock.monotonic()) {
            let Superseded { database, index, .. } = superseded;
            if self.delete_auto_indexes(&database, std::slice::from_ref(&index)) {
                let is_it = |known: &Superseded| known.database == database && known.index == index;
                lock(&self.auto_indexes.superseded).retain(|known| !is_it(known));
            }
        }
    }

    /// Deletes the automatic indexes that no query has used for long.
    pub(crate) fn delete_unused_auto_indexes(&self) {
        for database in self.registry.open_leases() {
            let unused = database.indexes().update_idle_state(&database.auto_index_limits());
            if !unused.is_empty() {
                self.delete_auto_indexes(database.record().name.as_str(), &unused);
            }
        }
    }

    /// Returns whether it need not be tried again.
    fn delete_auto_indexes(&self, database: &str, names: &[String]) -> bool {
        tracing::info!(database, ?names, "deleting automatic indexes");
        let deleted = self.change_record_body(database, |body| {
            body.retain_auto_indexes(|name| !names.iter().any(|deleted| deleted == name));
        });
        match deleted {
            Ok(_) | Err(EngineError::DatabaseMissing { .. }) => true,
            Err(error) => {
                tracing::error!(database, %error, "automatic indexes could not be deleted");
                false
            }
        }
    }
}
