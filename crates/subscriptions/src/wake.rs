//! Waking a worker.

/// Notified when there may be something for a worker to do.
pub trait Wake: Send + Sync {
    /// Returns at once.
    fn wake(&self);
}
