//! Blocking work, away from the threads that read connections.

use platform::secret_memory;
use tokio::task::{JoinHandle, spawn_blocking};
use wire::ErrorKind;

use crate::api_error::ApiError;

/// Runs `work` on a thread of the blocking pool. It completes even if the client disconnects.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    match begin_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ApiError::new(ErrorKind::Internal, format!("The work failed: {error}"))),
    }
}

/// Begins `work` on a thread of the blocking pool, whose stack shows nothing of encrypted databases afterwards.
pub(crate) fn begin_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    spawn_blocking(move || {
        let done = work();
        secret_memory::wipe_stack_after_work();
        done
    })
}
