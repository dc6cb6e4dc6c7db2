//! What a query does while there is no memory for it: it waits as long as that is of use, and takes back what it has
//! begun.

use std::rc::Rc;

use database::DatabaseLease;
use engine::RunningQuery;
use query::{QueryError, QueryResult};
use storage::{ReadTransaction, WorkingMemory};

use crate::{
    api_error::{ApiError, canceled},
    handlers::queries::Prepared,
    long_answer::{INLINE_BYTES_MAX, Sink},
    piece_sender::{LOOK_INTERVAL, PIECE_BYTES, RoomWait},
    server_state::ServerState,
};

/// Where the rows are counted that are looked at before the answer is begun.
pub(crate) fn memory_to_count(state: &ServerState) -> Rc<WorkingMemory> {
    Rc::new(WorkingMemory::beyond(INLINE_BYTES_MAX as u64, &state.memory.answers))
}

/// Takes back a row that was not written to its end, with the room that was made for it.
pub(super) fn forget_behind(begin: usize, out: &mut Vec<u8>) {
    out.truncate(begin);
    out.shrink_to(begin.max(PIECE_BYTES));
}

impl Prepared {
    /// Looks at the rows that are counted before the answer is begun. A filter has a thread that may wait for room,
    /// as long as that is of use.
    pub(super) fn count_filtered(
        &self,
        database: &DatabaseLease,
        result: &mut QueryResult<'_, ReadTransaction>,
        memory: &WorkingMemory,
    ) -> Result<(), ApiError> {
        let mut wait = RoomWait::default();
        loop {
            match result.count_filtered() {
                Err(error) if error.is_for_want_of_memory() && self.query.filter.is_some() => {
                    if wait.is_over() || database.is_closing() {
                        return Err(ApiError::from(error));
                    }
                    self.refuse_when_stopped()?;
                    memory.wait_for_room(LOOK_INTERVAL);
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

    /// Does what may find no room, again and again while it is of use to wait for room.
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
