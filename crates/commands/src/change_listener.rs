//! The listener to the changes of a database.

use documents::Change;

/// Notified by a commit queue of what its batches changed, once that is durable.
pub trait ChangeListener: Send + Sync {
    /// Whether there is any subscriber. Called before each batch is executed, on a commit thread.
    fn is_listening(&self) -> bool;

    /// These changes are durable, in this order. Called on a commit thread before the callers
    /// of the batches are acknowledged: it must be quick.
    fn notify(&self, changes: Vec<Change>);
}
