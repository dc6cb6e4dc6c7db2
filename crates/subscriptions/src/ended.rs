//! Why the work of a worker has ended.

/// Why the work of a worker ended, other than by its own request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The subscription was deleted.
    Deleted,
    /// It was switched off.
    Disabled,
    /// Somebody dropped the worker.
    Dropped,
    /// The query was changed.
    QueryChanged,
    /// It is to go on from another place.
    Moved,
    /// Another worker took over.
    TakenOver,
    /// The database was closed or deleted.
    DatabaseClosed,
}

impl Ended {
    /// In a few words.
    pub fn reason(&self) -> &'static str {
        match self {
            Ended::Deleted => "The subscription was deleted",
            Ended::Disabled => "The subscription was disabled",
            Ended::Dropped => "Dropped by API request",
            Ended::QueryChanged => "The query was modified",
            Ended::Moved => "The position was modified",
            Ended::TakenOver => "Closed by TakeOver",
            Ended::DatabaseClosed => "The database was closed",
        }
    }
}
