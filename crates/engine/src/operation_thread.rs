//! Long operations: each runs on its own thread, and always ends with a status.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use database::{DatabaseLease, Operation};
use wire::operation_state::OperationStatus;

use crate::{engine::Engine, error::EngineError};

/// Maximum number of running operations of all databases: each has a thread.
const RUNNING_MAX: u64 = 256;
/// With less memory there are fewer: one for each this many bytes of the limit. The ids and batches
/// of an operation are counted; its snapshot, its script and the overhead of the allocator are not.
const OPERATION_BYTES: u64 = 10 << 20;
/// Some may always run.
const RUNNING_MIN: u64 = 4;

/// What clients are shown of an operation that failed.
pub type ShowFailure = fn(EngineError) -> OperationStatus;

/// The threads of operations.
#[derive(Default)]
pub(crate) struct OperationThreads {
    running: Mutex<Vec<(Arc<Operation>, JoinHandle<()>)>>,
}

impl OperationThreads {
    fn add(
        &self,
        operation: &Arc<Operation>,
        running_max: usize,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), EngineError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|(_, thread)| !thread.is_finished());
        if running_max <= running.len() {
            return Err(EngineError::TooManyOperations);
        }
        let thread = std::thread::Builder::new().name("operation".into()).spawn(run);
        let thread = thread.map_err(|source| EngineError::NoThread { source })?;
        running.push((Arc::clone(operation), thread));
        Ok(())
    }

    /// Requests that all operations end soon.
    pub(crate) fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().for_each(|(operation, _)| operation.stop());
    }

    /// Stops all operations, and waits until they have ended.
    pub(crate) fn close(&self) {
        self.stop();
        let running =
            std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        for (_, thread) in running {
            // Panics of operations are caught; an operation that closes the engine does not wait
            // for itself.
            if thread.thread().id() != std::thread::current().id() {
                drop(thread.join());
            }
        }
    }
}

/// How many operations may run with this memory limit.
fn running_max(limit_bytes: u64) -> usize {
    (limit_bytes / OPERATION_BYTES).clamp(RUNNING_MIN, RUNNING_MAX) as usize
}

/// Whether an operation on a database is to go on.
///
/// # Errors
/// It was stopped ([`EngineError::Stopped`]); the database is being closed.
pub(crate) fn check_wanted(
    operation: &Operation,
    database: &DatabaseLease,
) -> Result<(), EngineError> {
    match () {
        () if operation.should_stop() => Err(EngineError::Stopped),
        () if database.is_closing() => Err(EngineError::DatabaseClosing { is_written: false }),
        () => Ok(()),
    }
}

impl Engine {
    /// Runs an operation that was registered. It ends with the status that `work` returns, as canceled if that is
    /// [`EngineError::Stopped`], and as failed after any other error or a panic.
    ///
    /// # Errors
    /// The maximum number of operations is running, or no thread can be started; the
    /// operation has failed then.
    pub(crate) fn run_operation(
        self: &Arc<Self>,
        operation: Arc<Operation>,
        show_failure: ShowFailure,
        work: impl FnOnce() -> Result<OperationStatus, EngineError> + Send + 'static,
    ) -> Result<(), EngineError> {
        let (clock, running) = (Arc::clone(&self.platform.clock), Arc::clone(&operation));
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            let status = match outcome.unwrap_or(Err(EngineError::Panicked)) {
                Ok(status) => status,
                Err(EngineError::Stopped) => OperationStatus::Canceled,
                Err(error) => show_failure(error),
            };
            running.finish(status, clock.now());
        };
        let added = self.operation_threads.add(
            &operation,
            running_max(self.memory.pressure.limit().bytes),
            run,
        );
        if let Err(error) = &added {
            // The caller reports the error; the operation, which is already listed, ends.
            let status = match error {
                EngineError::NoThread { source } => {
                    show_failure(EngineError::NoThread { source: source.kind().into() })
                }
                _ => show_failure(EngineError::TooManyOperations),
            };
            operation.finish(status, self.platform.clock.now());
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_has_few_operations() {
        assert_eq!([64 << 20, 256 << 20, 64 << 30].map(running_max), [6, 25, 256]);
        assert_eq!(running_max(0), 4);
    }
}
