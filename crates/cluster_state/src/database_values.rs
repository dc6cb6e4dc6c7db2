//! The compare exchange values of one database, as read by queries, maps and scripts.

use std::sync::Arc;

use blittable::Value;
use model::{DatabaseId, lower_case};
use storage::{Environment, HistoryMismatch, HistoryPoint, ReadTransaction, StorageError};

use crate::{
    compare_exchange::{self, CompareExchangeEntry},
    error::ClusterError,
    refusals::Refusals,
    schema::Counted,
    value_log::{self, ChangedValue},
    value_watches::{ValueWatch, ValueWatches},
};

/// The property that holds the value itself in the stored document.
const OBJECT: &str = "Object";

/// A source of snapshots of the values of one database.
#[derive(Clone)]
pub struct ValueSource {
    environment: Arc<Environment>,
    database: DatabaseId,
    watches: ValueWatches,
    refusals: Refusals,
}

impl ValueSource {
    pub(crate) fn new(
        environment: Arc<Environment>,
        database: DatabaseId,
        watches: ValueWatches,
        refusals: Refusals,
    ) -> Self {
        Self { environment, database, watches, refusals }
    }

    /// The current values. Includes every change whose outcome has been reported. Never blocks.
    pub fn read(&self) -> DatabaseValues {
        let refusals = self.refusals.clone();
        DatabaseValues { tx: self.environment.read(), database: self.database, refusals }
    }

    /// The point in the history of the server's environment at which these values were read.
    ///
    /// # Errors
    /// Storage errors.
    pub fn point_of(&self, values: &DatabaseValues) -> Result<Option<HistoryPoint>, StorageError> {
        self.environment.point_of(&values.tx)
    }

    /// Whether the point is part of the history of the server's environment.
    ///
    /// # Errors
    /// Storage errors.
    pub fn vouches_for(
        &self,
        point: &HistoryPoint,
    ) -> Result<Result<(), HistoryMismatch>, StorageError> {
        self.environment.vouches_for(point)
    }

    /// Calls `notice` after every change of a value, on the thread of the state machine, so it must be quick.
    /// It may be called without a change, and once for several.
    pub fn watch(&self, notice: impl Fn() + Send + Sync + 'static) -> ValueWatch {
        self.watches.watch(self.database, notice)
    }
}

/// An immutable snapshot of the values.
pub struct DatabaseValues {
    tx: ReadTransaction,
    database: DatabaseId,
    refusals: Refusals,
}

impl DatabaseValues {
    /// Refuses to read if commands for this database are refused.
    ///
    /// # Errors
    /// The reason for refusing.
    pub fn check(&self) -> Result<(), ClusterError> {
        self.refusals.check(self.database)
    }

    /// The entry under a key, in any case.
    ///
    /// # Errors
    /// Storage errors; a damaged value.
    pub fn get(&self, key: &str) -> Result<Option<CompareExchangeEntry<'_>>, ClusterError> {
        self.check()?;
        compare_exchange::present(&self.tx, self.database, &lower_case(key))
    }

    /// The index of the last change that is still kept. Two equal results mean that nothing changed in
    /// between; it decreases only when a deletion is forgotten.
    ///
    /// # Errors
    /// Storage errors.
    pub fn last_change(&self) -> Result<u64, ClusterError> {
        value_log::last(&self.tx, self.database)
    }

    /// The index of the newest deletion that was forgotten; 0 if none was. A reader that knows the values up to an older
    /// index cannot learn from [`changes_after`](Self::changes_after) what was deleted since.
    ///
    /// # Errors
    /// Storage errors; the index is damaged.
    pub fn last_forgotten_deletion(&self) -> Result<u64, ClusterError> {
        let (tx, database) = (&self.tx, self.database);
        compare_exchange::counted_so_far(tx, database, Counted::ForgottenDeletion)
    }

    /// The last change of each key after an index, in order; deletions are included until they are forgotten.
    ///
    /// # Errors
    /// Storage errors; each entry may be damaged.
    pub fn changes_after(
        &self,
        index: u64,
    ) -> Result<impl Iterator<Item = Result<ChangedValue, ClusterError>>, ClusterError> {
        self.check()?;
        value_log::after(&self.tx, self.database, index)
    }
}

impl<'t> CompareExchangeEntry<'t> {
    /// The value itself, without its metadata.
    ///
    /// # Errors
    /// The value is damaged.
    pub fn object(&self) -> Result<Option<Value<'t>>, ClusterError> {
        Ok(self.value.root().get(OBJECT)?)
    }
}
