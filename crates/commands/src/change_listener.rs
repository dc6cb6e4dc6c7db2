//! Who is told of the changes of a database.

use documents::Change;

/// Told by a commit queue what its batches changed, once that is durable.
pub trait ChangeListener: Send + Sync {
    /// Whether anybody wants to know. Asked before each batch is executed, on the writer's thread.
    fn is_listening(&self) -> bool;

    /// These changes are durable, in this order. Called on the journal's thread before the callers
    /// of the batches are answered: it must be quick.
    fn tell(&self, changes: Vec<Change>);
}
