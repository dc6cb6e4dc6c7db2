//! An index in the pool: one batch per turn, and the handling of failures.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use model::IndexPriority;
use storage::StorageError;

use crate::{
    error::IndexError,
    index_core::IndexCore,
    indexer::Indexer,
    indexing_pool::{NextTurn, Worker},
};

/// See the module.
pub(crate) struct IndexWork {
    core: Arc<IndexCore>,
    /// Locked only by the thread that runs the turn.
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
        if let Some(rest) = self.core.rest_for_readers() {
            return rest;
        }
        match self.index_batch(spare_threads) {
            Ok(has_more) => self.core.end_turn(has_more),
            Err(IndexError::Closing) => self.core.end_turn(true),
            Err(error) if may_be_retried(&error) => self.core.rest_after(error),
            Err(error) => self.core.fail(error),
        }
    }
}

/// Whether the same batch may be written later to the same environment: when memory is available,
/// or the documents accept changes again. After other errors the environment has to be reopened.
fn may_be_retried(error: &IndexError) -> bool {
    let is_room_missing = matches!(
        error.storage(),
        Some(
            StorageError::DiskFull { .. }
                | StorageError::TooManyUnflushed { .. }
                | StorageError::NoMemory(_)
        )
    );
    is_room_missing || matches!(error, IndexError::Output { .. })
}

#[cfg(test)]
mod tests {
    use search::SearchError;
    use storage::MemoryExhausted;

    use super::*;

    #[test]
    fn a_batch_without_room_is_tried_again_wherever_that_was_seen() {
        let exhausted = MemoryExhausted { own: 1, taken: 2, bytes_max: 1 };
        let table = [
            (StorageError::NoMemory(exhausted), true),
            (StorageError::DiskFull { path: "x".into() }, true),
            (StorageError::Closed, false),
        ];
        for (error, expected) in table {
            let wrapped = [
                IndexError::Storage(error.clone()),
                IndexError::Search(SearchError::Storage(error.clone())),
                IndexError::Documents(error.into()),
            ];
            for error in wrapped {
                assert_eq!(may_be_retried(&error), expected, "{error:?}");
            }
        }
        assert!(!may_be_retried(&IndexError::Panicked));
    }
}
