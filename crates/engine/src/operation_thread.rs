//! Long operations: each runs on a thread of its own, and always ends with a status.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use database::Operation;
use wire::operation_state::OperationStatus;

use crate::{engine::Engine, error::EngineError};

/// What clients are shown of an operation that failed.
pub type ShowFailure = fn(EngineError) -> OperationStatus;

impl Engine {
    /// Runs an operation that was registered. It ends with the status that `work` returns, as canceled if that is
    /// [`EngineError::Stopped`], and as failed after any other error or a panic.
    ///
    /// # Errors
    /// No thread can be started; the operation has failed then.
    pub(crate) fn run_operation(
        self: &Arc<Self>,
        operation: Arc<Operation>,
        show_failure: ShowFailure,
        work: impl FnOnce() -> Result<OperationStatus, EngineError> + Send + 'static,
    ) -> Result<(), EngineError> {
        let (engine, running) = (Arc::clone(self), Arc::clone(&operation));
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            let status = match outcome.unwrap_or(Err(EngineError::Panicked)) {
                Ok(status) => status,
                Err(EngineError::Stopped) => OperationStatus::Canceled,
                Err(error) => show_failure(error),
            };
            running.finish(status, engine.platform.clock.now());
        };
        let spawned = std::thread::Builder::new().name("operation".into()).spawn(run);
        spawned.map(drop).map_err(|source| {
            let message = format!("no thread could be started: {source}");
            let refused = || EngineError::Refused { message: message.clone() };
            operation.finish(show_failure(refused()), self.platform.clock.now());
            refused()
        })
    }
}
