//! Writes more than one transaction should hold, in transactions of bounded size.
//!
//! Not atomic: each bounded transaction is durable on its own. Meant for environments that have no
//! users until they are finished (see unfinished.rs).

use std::sync::Arc;

use crate::{environment::Environment, error::StorageError, write_transaction::WriteTransaction};

/// A transaction is committed when it changed this many pages (16 MB).
const TRANSACTION_PAGES_MAX: usize = 2048;

/// Hands out a write transaction and commits it whenever it has grown enough.
pub struct BulkWriter<'e> {
    environment: &'e Arc<Environment>,
    open: Option<WriteTransaction>,
}

impl<'e> BulkWriter<'e> {
    /// A writer that commits to `environment` in portions.
    pub fn new(environment: &'e Arc<Environment>) -> Self {
        Self { environment, open: None }
    }

    /// The transaction for the next change. What earlier ones wrote may already be durable, whether
    /// or not this one commits.
    pub fn transaction(&mut self) -> Result<&mut WriteTransaction, StorageError> {
        let full = |tx: &mut WriteTransaction| tx.dirty_pages() >= TRANSACTION_PAGES_MAX;
        if let Some(tx) = self.open.take_if(full) {
            self.commit(tx)?;
        }
        match &mut self.open {
            Some(tx) => Ok(tx),
            none => Ok(none.insert(self.environment.write()?)),
        }
    }

    /// Commits the last portion.
    pub fn finish(mut self) -> Result<(), StorageError> {
        match self.open.take() {
            Some(tx) => self.commit(tx),
            None => Ok(()),
        }
    }

    fn commit(&self, tx: WriteTransaction) -> Result<(), StorageError> {
        tx.commit()?;
        if self.environment.flush_wanted() { self.environment.keep_up() } else { Ok(()) }
    }
}
