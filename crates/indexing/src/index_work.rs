//! An index in the line of the pool: one batch a turn, and what becomes of failures.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use storage::StorageError;
use wire::IndexPriority;

use crate::{
    error::IndexError,
    index_core::IndexCore,
    indexer::Indexer,
    indexing_pool::{NextTurn, Worker},
};

/// See the module.
pub(crate) struct IndexWork {
    core: Arc<IndexCore>,
    /// Locked by the thread that gives the turn, only.
    indexer: Mutex<Indexer>,
}

impl IndexWork {
    pub(crate) fn new(indexer: Indexer, core: Arc<IndexCore>) -> Self {
        Self { core, indexer: Mutex::new(indexer) }
    }

    fn index_batch(&self, spare_threads: usize) -> Result<bool, IndexError> {
        let mut indexer = self.indexer.lock().unwrap_or_else(PoisonError::into_inner);
        catch_unwind(AssertUnwindSafe(|| indexer.index_batch(spare_threads)))
            .unwrap_or(Err(IndexError::Panicked))
    }
}

impl Worker for IndexWork {
    fn priority(&self) -> IndexPriority {
        self.core.priority()
    }

    fn take_turn(self: Arc<Self>, spare_threads: usize) -> NextTurn {
        if !self.core.begin_turn() {
            return NextTurn::None;
        }
        match self.index_batch(spare_threads) {
            Ok(has_more) => self.core.end_turn(has_more),
            Err(IndexError::Closing) => self.core.end_turn(true),
            Err(error) if may_be_retried(&error) => self.core.rest_after(error),
            Err(error) => self.core.fail(error),
        }
    }
}

/// Whether the same batch may be written later by the same environment: when there is room again, or
/// the documents take changes again. One that failed has to be opened again.
fn may_be_retried(error: &IndexError) -> bool {
    matches!(
        error,
        IndexError::Storage(
            StorageError::DiskFull { .. }
                | StorageError::TooManyUnflushed { .. }
                | StorageError::NoMemory(_)
        ) | IndexError::Output { .. }
    )
}
