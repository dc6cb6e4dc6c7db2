//! Retries of a query for which there is not enough memory: it waits while waiting can help, and
//! reverts what it has begun.

use std::cell::Cell;

use database::DatabaseLease;
use engine::RunningQuery;
use query::{QueryError, QueryResult};
use storage::{ReadTransaction, WorkingMemory};

use crate::{
    answers::{
        long_answer::Sink,
        piece_sender::{PIECE_BYTES, RoomWait, WAIT_CHECK_INTERVAL},
    },
    api_error::{ApiError, canceled},
    handlers::queries::Prepared,
};

/// Removes a row that was not written to its end, and releases its memory.
pub(super) fn forget_after(begin: usize, out: &mut Vec<u8>) {
    out.truncate(begin);
    out.shrink_to(begin.max(PIECE_BYTES));
}

impl Prepared {
    /// Scans the rows that are counted before the response begins. A filter runs on a thread that
    /// may wait for memory, while waiting can help.
    pub(super) fn count_filtered(
        &self,
        database: &DatabaseLease,
        result: &mut QueryResult<'_, ReadTransaction>,
        memory: &WorkingMemory,
    ) -> Result<(), ApiError> {
        let mut wait = RoomWait::default();
        loop {
            match result.count_filtered() {
                Err(error)
                    if error.may_find_memory_later() && self.bound.query.filter.is_some() =>
                {
                    wait.note_progress(result.counted_rows());
                    if wait.is_over() || database.is_closing() {
                        return Err(ApiError::from(error));
                    }
                    self.refuse_when_stopped()?;
                    memory.wait_for_room(WAIT_CHECK_INTERVAL);
                }
                counted => return counted.map_err(ApiError::from),
            }
        }
    }

    pub(super) fn refuse_when_stopped(&self) -> Result<(), ApiError> {
        match self.running.as_ref().is_some_and(RunningQuery::should_stop) {
            true => Err(canceled()),
            false => Ok(()),
        }
    }

    /// Counts rows, and waits for memory while waiting can help.
    pub(super) async fn with_room_to_count<T>(
        &self,
        sink: Sink<'_>,
        result: &mut QueryResult<'_, ReadTransaction>,
        count: impl Fn(&mut QueryResult<'_, ReadTransaction>) -> Result<T, QueryError>,
    ) -> Result<T, ApiError> {
        let progress = Cell::new(0);
        sink.with_room_for(&progress, || {
            self.refuse_when_stopped()?;
            let counted = count(result);
            progress.set(result.counted_rows());
            counted.map_err(ApiError::from)
        })
        .await
    }

    /// Retries what may run out of memory, while waiting can help.
    pub(super) async fn with_room<T>(
        &self,
        sink: Sink<'_>,
        mut work: impl FnMut() -> Result<T, QueryError>,
    ) -> Result<T, ApiError> {
        sink.with_room(|| {
            self.refuse_when_stopped()?;
            work().map_err(ApiError::from)
        })
        .await
    }
}
