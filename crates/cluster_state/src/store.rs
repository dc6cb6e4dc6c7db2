//! Where the server-wide state lies, for everything that reads it.

use std::sync::Arc;

use model::{DatabaseId, lower_case};
use storage::{Environment, HistoryMismatch, HistoryPoint, StorageError};

use crate::{
    command::Command,
    database_record::DatabaseRecord,
    database_values::ValueSource,
    error::ClusterError,
    record_command,
    records::{ChangedRecord, Records},
    refusals::Refusals,
    state::ClusterState,
    value_watches::ValueWatches,
};

/// The server-wide state in the server's own environment. Cloning is cheap, and all clones are one.
#[derive(Clone)]
pub struct ClusterStore {
    environment: Arc<Environment>,
    watches: ValueWatches,
    refusals: Refusals,
    records: Records,
}

impl ClusterStore {
    /// The state that lies in an environment.
    ///
    /// # Errors
    /// Those of the storage; a damaged record.
    pub fn open(environment: Arc<Environment>) -> Result<ClusterStore, ClusterError> {
        let watches = ValueWatches::default();
        watches.follow(&environment);
        let records = Records::default();
        records.follow(record_command::all(&environment.read())?);
        Ok(ClusterStore { environment, watches, refusals: Refusals::default(), records })
    }

    /// Has readers see what changed, which is durable. Called by what applies commands, in their order.
    pub fn follow(&self, changed: Vec<ChangedRecord>) {
        self.records.follow(changed);
    }

    /// The record of a database, in any case of the name. Never blocks.
    pub fn record(&self, name: &str) -> Option<Arc<DatabaseRecord>> {
        self.records.get(&lower_case(name))
    }

    /// All records, by lower-cased name.
    pub fn records(&self) -> Vec<Arc<DatabaseRecord>> {
        self.records.all()
    }

    /// The environment in which it lies.
    pub fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    /// The state now. Cheap, and never blocks.
    pub fn read(&self) -> ClusterState {
        ClusterState::new(self.environment.read(), self.refusals.clone())
    }

    /// The point in the history of the environment that this state shows.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn point_of(&self, state: &ClusterState) -> Result<Option<HistoryPoint>, StorageError> {
        self.environment.point_of(&state.tx)
    }

    /// Whether the point lies in the history of the environment.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn vouches_for(
        &self,
        point: &HistoryPoint,
    ) -> Result<Result<(), HistoryMismatch>, StorageError> {
        self.environment.vouches_for(point)
    }

    /// Refuses values, identities and transactions of a database with this reason, or no longer.
    pub fn refuse(&self, database: DatabaseId, reason: Option<&str>) {
        self.refusals.set(database, reason);
    }

    /// Refuses a command that could not be applied, or whose database is refused.
    ///
    /// # Errors
    /// Why it cannot be applied.
    pub fn check(&self, command: &Command) -> Result<(), ClusterError> {
        command.check()?;
        match command.needs_history_of() {
            Some(database) => self.refusals.check(database),
            None => Ok(()),
        }
    }

    /// Where the values of a database are read.
    pub fn values_of(&self, database: DatabaseId) -> ValueSource {
        let environment = Arc::clone(&self.environment);
        ValueSource::new(environment, database, self.watches.clone(), self.refusals.clone())
    }
}
