//! A durable mark that an index is at its first batch since it was opened, so that one whose batches end
//! the process cannot do so again and again.
//!
//! ```text
//! tree `Index`   Begun   one byte: how many processes in a row began a batch here that did not end
//! ```
//!
//! The mark is written before the first batch, and removed in the transaction of the batch, or when the
//! batch fails in a process that continues. A process that ends in a later batch begins with that one when it
//! restarts, so the first is enough. Kept only where memory is bounded: elsewhere there is nothing that
//! a batch could run out of.
//!
//! Invariant: an index that starts paused has an error that says why, and its count is reset: the next
//! process tries again.

use std::sync::Arc;

use storage::{Environment, StorageError, Transaction, WriteTransaction};

use crate::{
    error::IndexError,
    index_record::{self, IndexingAction, IndexingError, index_tree},
};

const BEGUN: &[u8] = b"Begun";
/// The number of processes that must end during a batch before the index starts paused.
const BEGUN_MAX: u8 = 2;

/// The number of processes that began a batch that did not end.
fn read(tx: &impl Transaction) -> Result<u8, StorageError> {
    let stored = tx.tree(&index_tree())?.get(BEGUN)?;
    Ok(stored.and_then(|bytes| bytes.first().copied()).unwrap_or(0))
}

/// Marks the beginning of a batch.
pub(crate) fn begin(environment: &Arc<Environment>) -> Result<(), StorageError> {
    let mut tx = environment.write()?;
    let begun = read(&tx)?.saturating_add(1);
    tx.tree_mut(&index_tree())?.put(BEGUN, &[begun])?;
    tx.commit()
}

/// Removes the mark in the transaction of the batch.
pub(crate) fn end_in(tx: &mut WriteTransaction) -> Result<(), StorageError> {
    tx.tree_mut(&index_tree())?.delete(BEGUN).map(drop)
}

/// Removes the mark after a failure that the process survives.
pub(crate) fn end(environment: &Arc<Environment>) -> Result<(), StorageError> {
    let mut tx = environment.write()?;
    end_in(&mut tx)?;
    tx.commit()
}

/// Whether an index starts paused when it is opened; if so, its errors say why.
pub(crate) fn starts_paused(
    environment: &Arc<Environment>,
    now_ticks: i64,
) -> Result<bool, IndexError> {
    if read(&environment.read())? < BEGUN_MAX {
        return Ok(false);
    }
    let mut tx = environment.write()?;
    let error = IndexingError {
        ticks: now_ticks,
        action: IndexingAction::Write,
        document: String::new(),
        message: format!(
            "The server ended {BEGUN_MAX} times in a row while this index was at its first batch, most \
             likely because there was no memory. It starts paused. Start it again, or give the server more \
             memory (Memory.LimitInMb, or the limit of its control group), or change the definition."
        ),
    };
    index_record::add_error(&mut tx, &error)?;
    end_in(&mut tx)?;
    tx.commit()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use platform::Platform;
    use storage::EnvironmentOptions;

    use super::*;

    #[test]
    fn an_index_whose_batch_ended_two_processes_starts_paused_once_and_says_why() {
        let environment =
            Environment::open(&Platform::memory(), EnvironmentOptions::new("index")).unwrap();
        begin(&environment).unwrap();
        assert!(!starts_paused(&environment, 1).unwrap());
        begin(&environment).unwrap();
        assert!(starts_paused(&environment, 2).unwrap());
        let errors = index_record::errors(&environment.read()).unwrap();
        assert_eq!((errors.len(), errors[0].ticks), (1, 2));
        assert!(errors[0].message.contains("memory"), "{}", errors[0].message);
        assert!(!starts_paused(&environment, 3).unwrap(), "the next process tries again");
        begin(&environment).unwrap();
        end(&environment).unwrap();
        begin(&environment).unwrap();
        assert!(!starts_paused(&environment, 4).unwrap(), "a batch that ended does not count");
    }
}
