//! Changes of an index that listeners are notified of.

/// A change of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexChange {
    /// It was created.
    Added,
    /// It was deleted.
    Removed,
    /// A batch was indexed, or nothing more is pending.
    BatchCompleted,
    /// It failed.
    MarkedAsErrored,
    /// Its definition disabled it.
    Disabled,
    /// It was paused until it is resumed.
    Paused,
    /// It is no longer queried.
    BecameIdle,
    /// It is queried again.
    QueriedAgain,
    /// It replaced the previous index.
    SwappedIn,
    /// Its lock mode changed.
    LockModeChanged,
    /// Its priority changed.
    PriorityChanged,
}
