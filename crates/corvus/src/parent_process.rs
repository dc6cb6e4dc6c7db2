//! The end of the process that this server belongs to.

use tokio::sync::oneshot;

/// Waits until one of the processes has ended; for ever when there are none. A process that is not
/// there counts as ended.
pub(crate) async fn any_ended(ids: &[u32]) {
    let (sender, receiver) = oneshot::channel();
    let ids = ids.to_vec();
    if ids.is_empty() {
        return std::future::pending().await;
    }
    // Waiting blocks, and cannot be interrupted: it gets a thread of its own, which ends with the
    // process.
    let watch = move || match platform::other_process::wait_for_end_of_any(&ids) {
        Ok(()) => {
            // Somebody else may have stopped the server already.
            let _told = sender.send(());
        }
        Err(error) => tracing::warn!(%error, "the parent process cannot be watched"),
    };
    let watcher = std::thread::Builder::new().name("parent watch".into()).spawn(watch);
    if watcher.is_err() || receiver.await.is_err() {
        std::future::pending::<()>().await;
    }
}
