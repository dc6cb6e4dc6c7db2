//! Waiting for indexes after a write.
//!
//! The write is complete already, so an index that is late does not undo it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use commands::BatchOutcome;
use database::DatabaseLease;
use indexing::{Index, Position};
use model::{Etag, IndexState};

use crate::{catch_up::CatchUp, engine::Engine, error::EngineError, indexes_behind::IndexesBehind};

/// What a caller expects of the indexes after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexWait {
    /// The maximum time, for all indexes together.
    pub timeout: Duration,
    /// Whether it is an error if indexes are still behind then.
    pub is_required: bool,
    /// Only indexes of these names, in any case; if there are none, all that follow a changed collection.
    pub names: Vec<String>,
}

/// The indexes that a caller waits for after a write: a future as [`CatchUp`].
/// Pass it to [`PendingIndexes::end`] when it is ready, or when [`PendingIndexes::time_left`] is over.
pub struct PendingIndexes {
    catch_up: CatchUp,
    is_required: bool,
    /// The last change that the indexes are to contain.
    etag: Etag,
}

impl Engine {
    /// Waits until the indexes of the collections that a write changed contain the write. Blocks.
    ///
    /// # Errors
    /// Those of [`PendingIndexes::end`]; the documents cannot be read.
    pub fn wait_for_indexes(
        &self,
        database: &DatabaseLease,
        wait: &IndexWait,
        written: &BatchOutcome,
    ) -> Result<(), EngineError> {
        let mut pending = self.begin_index_wait(database, wait, written)?;
        pending.catch_up.block(wait.timeout);
        pending.end()
    }

    /// Begins to wait as [`Engine::wait_for_indexes`]. The time counts from now. Never blocks.
    ///
    /// # Errors
    /// The documents cannot be read.
    pub fn begin_index_wait(
        &self,
        database: &DatabaseLease,
        wait: &IndexWait,
        written: &BatchOutcome,
    ) -> Result<PendingIndexes, EngineError> {
        let documents = database.read();
        let position = |index: Arc<Index>| -> Result<(Arc<Index>, Position), EngineError> {
            // Not every change of the database is one that the index follows.
            let last = index.last_etag_in(&documents)?.min(written.last_etag);
            Ok((index, last.into()))
        };
        let positions = wait.relevant(database, written).into_iter().map(position);
        let positions = positions.collect::<Result<_, _>>()?;
        let IndexWait { timeout, is_required, .. } = *wait;
        let catch_up = CatchUp::begin(database, Arc::clone(self.clock()), positions, timeout);
        Ok(PendingIndexes { catch_up, is_required, etag: written.last_etag })
    }
}

impl IndexWait {
    /// The indexes that the changes of a batch affect.
    fn relevant(&self, database: &DatabaseLease, written: &BatchOutcome) -> Vec<Arc<Index>> {
        if written.collections.is_empty() {
            return Vec::new();
        }
        let is_named = |index: &Index| {
            self.names.is_empty()
                || self.names.iter().any(|name| name.eq_ignore_ascii_case(index.name()))
        };
        let mut indexes = database.indexes().all();
        indexes.retain(|index| {
            let is_on = index.state() != IndexState::Disabled;
            is_on && is_named(index) && index.follows(&written.collections)
        });
        indexes
    }
}

impl PendingIndexes {
    /// How much of the timeout is left.
    pub fn time_left(&self) -> Duration {
        self.catch_up.time_left()
    }

    /// Ends the wait, whether it is over or not.
    ///
    /// # Errors
    /// Some indexes are behind, and the caller requires them: because the database is being closed
    /// ([`EngineError::DatabaseClosing`]), or although the time is over ([`EngineError::IndexesBehind`]).
    pub fn end(self) -> Result<(), EngineError> {
        let late = self.catch_up.late();
        if late.is_empty() || !self.is_required {
            return Ok(());
        }
        if self.catch_up.is_closing() {
            return Err(EngineError::DatabaseClosing { is_written: true });
        }
        let names = |is_listed: &dyn Fn(&Index) -> bool| {
            let listed = late.iter().filter(|index| is_listed(index));
            listed.map(|index| index.name().to_owned()).collect()
        };
        Err(EngineError::IndexesBehind(Box::new(IndexesBehind {
            elapsed: self.catch_up.elapsed(),
            etag: self.etag,
            relevant: self.catch_up.indexes().len(),
            stale: names(&|_| true),
            paused: names(&Index::is_paused),
            errored: names(&|index| index.state() == IndexState::Error),
        })))
    }
}

impl Future for PendingIndexes {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.catch_up).poll(context)
    }
}
