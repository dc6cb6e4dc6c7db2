//! The end of the process that this server belongs to.

use tokio::sync::oneshot;

/// Waits until one of the processes has ended; forever when there are none. A process that does not
/// exist counts as ended.
pub(crate) async fn any_ended(ids: &[u32]) {
    let (sender, receiver) = oneshot::channel();
    let ids = ids.to_vec();
    if ids.is_empty() {
        return std::future::pending().await;
    }
    // Waiting blocks, and cannot be interrupted: it gets a dedicated thread, which ends with the
    // process.
    let watch = move || match platform::other_process::wait_for_end_of_any(&ids) {
        Ok(()) => {
            // The server may already be stopping.
            let _sent = sender.send(());
        }
        Err(error) => tracing::warn!(%error, "the parent process cannot be watched"),
    };
    let watcher = std::thread::Builder::new().name("parent watch".into()).spawn(watch);
    if watcher.is_err() || receiver.await.is_err() {
        std::future::pending::<()>().await;
    }
}
