//! The server-wide state on disk and in memory, as seen by its readers.

use std::sync::{Arc, Mutex, PoisonError};

use model::{DatabaseId, DatabaseRecord, lower_case};
use storage::{Environment, HistoryMismatch, HistoryPoint, StorageError, WriteTransaction};

use crate::{
    command::Command,
    database_values::ValueSource,
    error::ClusterError,
    record_command,
    records::{Changes, ChangesListener, Listener, Records},
    refusals::Refusals,
    state::ClusterState,
    value_watches::ValueWatches,
};

/// The server-wide state in the server's own environment. Cloning is cheap; clones share one state.
#[derive(Clone)]
pub struct ClusterStore {
    environment: Arc<Environment>,
    watches: ValueWatches,
    refusals: Refusals,
    records: Records,
    listener: Listener,
    /// Held from before a change is durable until memory has followed it.
    following: Arc<Mutex<()>>,
}

impl ClusterStore {
    /// Opens the state stored in an environment.
    ///
    /// # Errors
    /// Storage errors; a damaged record.
    pub fn open(environment: Arc<Environment>) -> Result<ClusterStore, ClusterError> {
        let watches = ValueWatches::default();
        watches.follow(&environment);
        let records = Records::default();
        records.follow(&record_command::all(&environment.read())?);
        let (refusals, listener) = (Refusals::default(), Listener::default());
        let following = Arc::default();
        Ok(ClusterStore { environment, watches, refusals, records, listener, following })
    }

    /// Commits the transaction in which commands were applied, and shows readers the records that it changed.
    ///
    /// Readers see changes in the order in which they were applied, whatever threads call this: the environment
    /// has one write transaction at a time, and the next one cannot be committed here before readers see
    /// the changes of this one.
    ///
    /// # Errors
    /// Storage errors; readers see nothing of it then.
    pub fn commit(&self, tx: WriteTransaction, changes: &Changes) -> Result<(), StorageError> {
        let _following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        tx.commit()?;
        self.records.follow(&changes.records);
        self.listener.notify(changes);
        Ok(())
    }

    /// Has changes reported to `listener`, in their order. The first call counts.
    pub fn on_change(&self, listener: ChangesListener) {
        self.listener.set(listener);
    }

    /// The record of a database, in any case of the name. Never blocks.
    pub fn record(&self, name: &str) -> Option<Arc<DatabaseRecord>> {
        self.records.get(&lower_case(name))
    }

    /// All records, by lower-case name.
    pub fn records(&self) -> Vec<Arc<DatabaseRecord>> {
        self.records.all()
    }

    /// The environment that holds the state.
    pub fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    /// The current state. Cheap, and never blocks.
    pub fn read(&self) -> ClusterState {
        ClusterState::new(self.environment.read(), self.refusals.clone())
    }

    /// The point in the history of the environment at which this state was read.
    ///
    /// # Errors
    /// Storage errors.
    pub fn point_of(&self, state: &ClusterState) -> Result<Option<HistoryPoint>, StorageError> {
        self.environment.point_of(&state.tx)
    }

    /// Whether the point is part of the history of the environment.
    ///
    /// # Errors
    /// Storage errors.
    pub fn vouches_for(
        &self,
        point: &HistoryPoint,
    ) -> Result<Result<(), HistoryMismatch>, StorageError> {
        self.environment.vouches_for(point)
    }

    /// Refuses values, identities and transactions of a database for a reason, or accepts them again if there
    /// is none.
    pub fn refuse(&self, database: DatabaseId, reason: Option<&str>) {
        self.refusals.set(database, reason);
    }

    /// Refuses a command that cannot be applied, or whose database is refused.
    ///
    /// # Errors
    /// The reason for refusing.
    pub fn check(&self, command: &Command) -> Result<(), ClusterError> {
        command.check()?;
        match command.needs_history_of() {
            Some(database) => self.refusals.check(database),
            None => Ok(()),
        }
    }

    /// Reads the compare exchange values of a database.
    pub fn values_of(&self, database: DatabaseId) -> ValueSource {
        let environment = Arc::clone(&self.environment);
        ValueSource::new(environment, database, self.watches.clone(), self.refusals.clone())
    }
}
