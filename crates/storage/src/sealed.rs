//! A transaction that is closed but not durable yet.

use std::sync::Arc;

use crate::{environment::Environment, error::StorageError, write_pages::Frozen};

pub(crate) struct SealedContent {
    /// Its memory is held until the transaction is in the journal: building its record takes as many bytes again.
    pub(crate) frozen: Frozen,
    pub(crate) generation: u64,
}

/// A closed write transaction: the next one builds on it while this one's journal write is in
/// progress.
///
/// Dropping it without [`SealedTransaction::make_durable`] abandons it, along with everything built
/// on it.
pub struct SealedTransaction {
    environment: Arc<Environment>,
    /// `None` when the transaction changed nothing.
    content: Option<SealedContent>,
}

impl SealedTransaction {
    pub(crate) fn new(environment: Arc<Environment>, content: SealedContent) -> Self {
        Self { environment, content: Some(content) }
    }

    pub(crate) fn unchanged(environment: Arc<Environment>) -> Self {
        Self { environment, content: None }
    }

    /// Writes the transaction to the journal, on the calling thread and after every transaction
    /// before it, and publishes it to readers. `Ok` means that it survives a power cut. After
    /// [`StorageError::Failed`] it is unknown whether it will exist when the environment is
    /// reopened; after any other error it will not.
    pub fn make_durable(mut self) -> Result<(), StorageError> {
        match self.content.take() {
            Some(content) => self.environment.make_durable(content),
            None => Ok(()),
        }
    }
}

impl Drop for SealedTransaction {
    fn drop(&mut self) {
        if let Some(content) = self.content.take() {
            self.environment.abandon(content.frozen.snapshot.transaction, content.generation);
        }
    }
}
