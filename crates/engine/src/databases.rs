//! The databases of the data directory: their records, and the open ones.

use std::sync::{Arc, mpsc};

use database::{Access, AccessError, Activity, DatabaseLease};
use model::{DatabaseId, DatabaseRecord};

use crate::{backup::LOCKED_REASON, engine::Engine, error::EngineError};

impl Engine {
    /// The record of a database, in any case of the name. Never blocks.
    pub fn record(&self, name: &str) -> Option<Arc<DatabaseRecord>> {
        self.catalog.record(name)
    }

    /// The records of all databases, by lower-case name. Never blocks.
    pub fn records(&self) -> Vec<Arc<DatabaseRecord>> {
        self.catalog.records()
    }

    /// A database, or a ticket to wait with until it is open. Never blocks.
    ///
    /// # Errors
    /// It does not exist, is disabled or locked, or could not be opened; the engine is closing.
    pub fn access(&self, name: &str) -> Result<Access, AccessError> {
        let access = self.registry.access(name)?;
        match &access {
            Access::Ready(database) if is_restoring(&database.record()) => {
                Err(AccessError::Locked { reason: LOCKED_REASON })
            }
            _ => Ok(access),
        }
    }

    /// The database of this topology id, opened if necessary; `None` if it cannot be used at the moment, or another one has
    /// its name by now. For work that goes on when it can be used again. Blocks.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open_if_usable(
        &self,
        name: &str,
        database: DatabaseId,
    ) -> Result<Option<DatabaseLease>, EngineError> {
        match self.open_blocking(name) {
            Ok(lease) => Ok(Some(lease).filter(|lease| lease.record().topology_id == database)),
            Err(EngineError::NotOpened {
                error:
                    AccessError::Disabled
                    | AccessError::NotRelevant
                    | AccessError::Locked { .. }
                    | AccessError::Missing
                    | AccessError::ShuttingDown,
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A database, opened if necessary, also one that is being restored. Blocks.
    ///
    /// # Errors
    /// As [`Engine::access`], as [`EngineError::NotOpened`].
    pub(crate) fn open_blocking(&self, name: &str) -> Result<DatabaseLease, EngineError> {
        let refused = |error: AccessError| EngineError::NotOpened { name: name.to_owned(), error };
        loop {
            match self.registry.access(name).map_err(refused)? {
                Access::Ready(database) => return Ok(database),
                Access::Wait(ticket) => {
                    let (sender, arrival) = mpsc::channel();
                    let notify = move |arrived| drop(sender.send(arrived));
                    ticket.on_arrival(notify).map_err(refused)?;
                    match arrival.recv() {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return Err(refused(AccessError::Load(error))),
                        Err(_) => return Err(refused(AccessError::ShuttingDown)),
                    }
                }
            }
        }
    }

    /// A database if it is open, and may be used.
    pub fn if_open(&self, name: &str) -> Option<DatabaseLease> {
        self.registry.if_open(name).filter(|database| !is_restoring(&database.record()))
    }

    /// How much all databases are asked, write and index.
    pub fn activity(&self) -> &Arc<Activity> {
        self.files.activity()
    }
}

fn is_restoring(record: &DatabaseRecord) -> bool {
    wire::sections_of(&record.configuration).is_restoring
}
