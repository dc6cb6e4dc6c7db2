//! What may happen to an index that somebody watches.

/// What happened to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexChange {
    /// It is there.
    Added,
    /// It is gone.
    Removed,
    /// A batch of changes is in its entries, or there is none left to come.
    BatchCompleted,
    /// It failed.
    MarkedAsErrored,
    /// Its definition says that it follows the documents no more.
    Disabled,
    /// It rests until it is told to go on.
    Paused,
    /// Nobody asks it.
    BecameIdle,
    /// Somebody asks it again.
    IsAskedAgain,
    /// It took the place of the one before it.
    TookPlace,
    /// Who may change it has changed.
    LockModeChanged,
    /// How soon it has its turn has changed.
    PriorityChanged,
}
