//! Why a worker was ended.

/// Why a worker was ended, other than by its own request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The subscription was deleted.
    Deleted,
    /// It was disabled.
    Disabled,
    /// The worker was dropped by a request.
    Dropped,
    /// The query was changed.
    QueryChanged,
    /// The position was changed.
    Moved,
    /// Another worker took over.
    TakenOver,
    /// Another node serves the subscription.
    OtherNode,
    /// The database was closed or deleted.
    DatabaseClosed,
}

impl Ended {
    /// The reason as a sentence without a period.
    pub fn reason(&self) -> &'static str {
        match self {
            Ended::Deleted => "The subscription was deleted",
            Ended::Disabled => "The subscription was disabled",
            Ended::Dropped => "Dropped by API request",
            Ended::QueryChanged => "The query was modified",
            Ended::Moved => "The position was modified",
            Ended::TakenOver => "Closed by TakeOver",
            Ended::OtherNode => "Another node serves the subscription",
            Ended::DatabaseClosed => "The database was closed",
        }
    }
}
