//! Blocking work, away from the threads that read connections.

use wire::ErrorKind;

use crate::api_error::ApiError;

/// Runs `work` on a thread of the blocking pool. It completes even if the client disconnects.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ApiError::new(ErrorKind::Internal, format!("The work failed: {error}"))),
    }
}
