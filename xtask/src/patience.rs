//! A drill that waits for ever has found something, too: a lock left behind, a wake-up forgotten.

use std::{sync::mpsc, time::Duration};

/// Everything that is waited for in a drill takes milliseconds, or seconds on a busy machine.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What `work` gives, or `None` when it does not end in time; its thread is left to itself then.
pub(crate) fn wait_for<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // Nobody listens any more when it took too long.
        drop(sender.send(work()));
    });
    receiver.recv_timeout(SILENCE_MAX).ok()
}
