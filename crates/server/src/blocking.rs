//! Work that blocks, away from the threads that read connections.

use wire::{ErrorKind, ProtocolError};

/// Runs `work` on a thread of the blocking pool. It runs to its end even when the client goes away.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProtocolError> + Send + 'static,
) -> Result<T, ProtocolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            Err(ProtocolError::new(ErrorKind::Internal, format!("The work failed: {error}")))
        }
    }
}
