//! The values of compare exchange of one database, as queries, maps and scripts read them.

use std::sync::Arc;

use blittable::Value;
use model::{DatabaseId, lower_case};
use storage::{Environment, HistoryMismatch, HistoryPoint, ReadTransaction, StorageError};

use crate::{
    compare_exchange::{self, CompareExchangeEntry},
    error::ClusterError,
    refusals::Refusals,
    value_log::{self, ChangedValue},
    value_watches::{ValueWatch, ValueWatches},
};

/// The name under which a value lies in what is stored for its key.
const OBJECT: &str = "Object";

/// Where the values of a database are read.
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

    /// The values now. Everything whose outcome was told before is among them. Never blocks.
    pub fn read(&self) -> DatabaseValues {
        let refusals = self.refusals.clone();
        DatabaseValues { tx: self.environment.read(), database: self.database, refusals }
    }

    /// The point in the history of the machine's environment that these values show.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn point_of(&self, values: &DatabaseValues) -> Result<Option<HistoryPoint>, StorageError> {
        self.environment.point_of(&values.tx)
    }

    /// Whether the point lies in the history of the machine's environment.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn vouches_for(
        &self,
        point: &HistoryPoint,
    ) -> Result<Result<(), HistoryMismatch>, StorageError> {
        self.environment.vouches_for(point)
    }

    /// Has `notice` called after every change of a value, on the thread of the machine: it must be quick.
    /// It may be called without a change, and once for several.
    pub fn watch(&self, notice: impl Fn() + Send + Sync + 'static) -> ValueWatch {
        self.watches.watch(self.database, notice)
    }
}

/// The values at one moment, which never changes.
pub struct DatabaseValues {
    tx: ReadTransaction,
    database: DatabaseId,
    refusals: Refusals,
}

impl DatabaseValues {
    /// Whether they may be read at all.
    ///
    /// # Errors
    /// The reason why those of this database are refused.
    pub fn check(&self) -> Result<(), ClusterError> {
        self.refusals.check(self.database)
    }

    /// What is stored under a key, in any case.
    ///
    /// # Errors
    /// Those of the storage; a damaged value.
    pub fn get(&self, key: &str) -> Result<Option<CompareExchangeEntry<'_>>, ClusterError> {
        self.check()?;
        compare_exchange::present(&self.tx, self.database, &lower_case(key))
    }

    /// The index of the last change of any value, as far as it is kept. What it tells is that nothing has
    /// changed between two moments: it goes back only when a deletion is forgotten.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn last_change(&self) -> Result<u64, ClusterError> {
        value_log::last(&self.tx, self.database)
    }

    /// The last change of each key behind an index, in their order; deletions until they are forgotten.
    ///
    /// # Errors
    /// Those of the storage; each entry may be damaged.
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
    /// When it is damaged.
    pub fn object(&self) -> Result<Option<Value<'t>>, ClusterError> {
        Ok(self.value.root().get(OBJECT)?)
    }
}
