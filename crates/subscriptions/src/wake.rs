//! Waking a worker.

/// Notified when a worker may have something to do.
pub trait Wake: Send + Sync {
    /// Returns at once.
    fn wake(&self);
}
