//! Time limits, so that a drill that hangs fails: on a forgotten lock or wake-up, for example.

use std::{sync::mpsc, time::Duration};

/// The time limit. Everything that a drill waits for takes milliseconds, or seconds on a busy
/// machine.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The result of `work`, or `None` when it does not end in time; its thread is then abandoned.
pub(crate) fn wait_for<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // The receiver was dropped if it took too long.
        drop(sender.send(work()));
    });
    receiver.recv_timeout(SILENCE_MAX).ok()
}
