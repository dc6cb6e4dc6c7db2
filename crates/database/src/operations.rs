//! The long operations of one database, or of the server: their ids, their states, and requests to stop them.
//!
//! Finished operations stay readable, up to a limit, because clients ask for the outcome afterwards.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use platform::Timestamp;
use wire::operation_state::{BulkInsertProgress, OperationProgress, OperationStatus};

use crate::changes::{ChangesHub, Event, Family};

/// Operations kept, running ones included; the oldest finished ones go first.
const OPERATIONS_MAX: usize = 1024;

/// A long operation that a client can poll, watch and stop.
pub struct Operation {
    /// What it does, for people.
    pub description: String,
    /// What it does, for programs.
    pub task_type: &'static str,
    /// The text of the query it runs, if it runs one.
    pub query: Option<String>,
    /// When it was registered.
    pub started: Timestamp,
    id: i64,
    /// The hub that is notified of its progress.
    watched_in: Option<Arc<ChangesHub>>,
    state: Mutex<OperationState>,
    stop: AtomicBool,
}

/// The state of an operation.
#[derive(Clone, Debug)]
pub struct OperationState {
    /// Whether it is running, and how it ended.
    pub status: OperationStatus,
    /// How far it is.
    pub progress: OperationProgress,
    /// When it ended; `None` while it runs.
    pub ended: Option<Timestamp>,
}

/// The operations of one database, or of the server.
#[derive(Default)]
pub struct Operations {
    last_id: AtomicI64,
    operations: Mutex<BTreeMap<i64, Arc<Operation>>>,
    watched_in: Option<Arc<ChangesHub>>,
}

/// Operations with larger ids do not move the counter of ids.
const CHOSEN_ID_MAX: i64 = i64::MAX / 2;

/// The limit of running operations is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyOperations;

impl Operations {
    /// No operations yet. Listeners of the hub are notified of the progress of later ones.
    pub(crate) fn announced_in(hub: &Arc<ChangesHub>) -> Self {
        Self { watched_in: Some(Arc::clone(hub)), ..Self::default() }
    }

    /// An id that no operation of this database has had since it was opened.
    pub fn next_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Registers an operation that begins now, replacing a finished one with the same id.
    pub fn begin(
        &self,
        id: i64,
        description: impl Into<String>,
        task_type: &'static str,
        now: Timestamp,
    ) -> Result<Arc<Operation>, TooManyOperations> {
        self.register(id, description.into(), task_type, None, now)
    }

    /// As [`begin`](Operations::begin), for an operation on the documents that a query chooses.
    pub fn begin_query(
        &self,
        id: i64,
        description: &str,
        task_type: &'static str,
        query: &str,
        now: Timestamp,
    ) -> Result<Arc<Operation>, TooManyOperations> {
        self.register(id, description.to_owned(), task_type, Some(query.to_owned()), now)
    }

    fn register(
        &self,
        id: i64,
        description: String,
        task_type: &'static str,
        query: Option<String>,
        now: Timestamp,
    ) -> Result<Arc<Operation>, TooManyOperations> {
        let state = OperationState {
            status: OperationStatus::InProgress,
            progress: BulkInsertProgress::default().into(),
            ended: None,
        };
        let operation = Arc::new(Operation {
            description,
            task_type,
            query,
            started: now,
            id,
            watched_in: self.watched_in.clone(),
            state: Mutex::new(state),
            stop: AtomicBool::new(false),
        });
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        if operations.len() >= OPERATIONS_MAX {
            let finished = operations.iter().find(|(_, one)| !one.is_running());
            let oldest = *finished.ok_or(TooManyOperations)?.0;
            operations.remove(&oldest);
        }
        operations.insert(id, Arc::clone(&operation));
        // Clients choose ids, and must not use up those that are given out.
        if id < CHOSEN_ID_MAX {
            self.last_id.fetch_max(id, Ordering::Relaxed);
        }
        Ok(operation)
    }

    /// The operation with this id.
    pub fn get(&self, id: i64) -> Option<Arc<Operation>> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// All operations by id.
    pub fn all(&self) -> Vec<(i64, Arc<Operation>)> {
        let operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        operations.iter().map(|(id, operation)| (*id, Arc::clone(operation))).collect()
    }

    /// Asks a running operation to stop; `false` if there is none with this id.
    pub fn kill(&self, id: i64) -> bool {
        let Some(operation) = self.get(id).filter(|operation| operation.is_running()) else {
            return false;
        };
        operation.stop();
        true
    }
}

impl Operation {
    /// A copy of its current state.
    pub fn state(&self) -> OperationState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&self) -> bool {
        matches!(self.state().status, OperationStatus::InProgress)
    }

    /// Requests that it ends soon.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Whether it has been asked to stop.
    pub fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Sets and announces its progress.
    pub fn set_progress(&self, progress: impl Into<OperationProgress>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.progress = progress.into();
        self.announce(&state);
    }

    /// Records how the operation ended, and notifies its watchers.
    pub fn finish(&self, status: OperationStatus, now: Timestamp) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.status = status;
        state.ended = Some(now);
        self.announce(&state);
    }

    /// Called with the state locked, so that no listener receives an earlier state after a later one.
    fn announce(&self, state: &OperationState) {
        if let Some(hub) = &self.watched_in {
            hub.announce(Family::Operation, || Event::Operation {
                id: self.id,
                state: state.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::operation_state::BulkOperationResult;

    use super::*;

    const NOW: Timestamp = Timestamp::from_ticks(0);

    fn completed() -> OperationStatus {
        OperationStatus::Completed(BulkOperationResult::default())
    }

    #[test]
    fn only_a_running_operation_can_be_killed() {
        let operations = Operations::default();
        assert!(!operations.kill(1));
        let operation = operations.begin(1, "d", "t", NOW).unwrap();
        assert!(operations.kill(1));
        assert!(operation.should_stop());
        operation.finish(OperationStatus::Canceled, NOW);
        assert!(!operations.kill(1));
        assert_eq!(operations.get(1).unwrap().state().status, OperationStatus::Canceled);
    }

    #[test]
    fn ids_are_never_issued_twice_even_if_a_client_chose_one() {
        let operations = Operations::default();
        assert_eq!(operations.next_id(), 1);
        operations.begin(99, "d", "t", NOW).unwrap();
        assert_eq!(operations.next_id(), 100);
    }

    #[test]
    fn finished_operations_make_room_and_running_ones_do_not() {
        let operations = Operations::default();
        for id in 0..OPERATIONS_MAX as i64 {
            operations.begin(id, "d", "t", NOW).unwrap();
        }
        assert!(matches!(operations.begin(-1, "d", "t", NOW), Err(TooManyOperations)));
        operations.get(5).unwrap().finish(completed(), NOW);
        operations.begin(-1, "d", "t", NOW).unwrap();
        assert!(operations.get(5).is_none());
        assert!(operations.get(6).is_some());
    }
}
