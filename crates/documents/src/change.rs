//! What a batch changed, as those who watch the database are told.
//!
//! The log says how things are now; this says what happened, each step of it. A writer notes changes
//! only when somebody watches ([`WriteContext::notes_changes`](crate::WriteContext)).

use model::{CollectionName, DocumentId};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of a document.
    Document(DocumentChange),
    /// Of a counter.
    Counter(CounterChange),
    /// Of a time series.
    TimeSeries(TimeSeriesChange),
}

/// What happened to a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentChange {
    /// What.
    pub kind: DocumentChangeKind,
    /// Its id, in the spelling of the request.
    pub id: DocumentId,
    /// Its collection.
    pub collection: CollectionName,
    /// Its new version, or that of its tombstone; absent when it was deleted before.
    pub change_vector: Option<String>,
}

/// The kinds of changes of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentChangeKind {
    /// It was stored, or something that belongs to it was.
    Put,
    /// It was deleted, perhaps not for the first time.
    Delete,
}

/// What happened to a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterChange {
    /// What.
    pub kind: CounterChangeKind,
    /// Its name, in the spelling of the request.
    pub name: String,
    /// Its value now; 0 when it was deleted.
    pub value: i64,
    /// Its document.
    pub document_id: DocumentId,
    /// The collection of its document.
    pub collection: CollectionName,
    /// The version of the counters.
    pub change_vector: String,
}

/// The kinds of changes of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterChangeKind {
    /// It was not there before.
    Put,
    /// Its value was changed.
    Increment,
    /// It was deleted.
    Delete,
}

/// What happened to a time series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSeriesChange {
    /// What.
    pub kind: TimeSeriesChangeKind,
    /// Its name, in the spelling of the request.
    pub name: String,
    /// The first and the last moment concerned, in ticks of UTC; absent at an open end.
    pub from: Option<i64>,
    /// See `from`.
    pub to: Option<i64>,
    /// Its document.
    pub document_id: DocumentId,
    /// The collection of its document.
    pub collection: CollectionName,
    /// The version of the segment.
    pub change_vector: String,
}

/// The kinds of changes of a time series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSeriesChangeKind {
    /// Entries were appended.
    Put,
    /// Entries were deleted.
    Delete,
}

/// The changes of a batch, in order, if somebody wants them.
#[derive(Debug, Default)]
pub(crate) struct NotedChanges(Option<Vec<Change>>);

impl NotedChanges {
    pub(crate) fn new(are_wanted: bool) -> Self {
        Self(are_wanted.then(Vec::new))
    }

    /// Notes a change; it is only made when somebody wants it.
    pub(crate) fn note(&mut self, change: impl FnOnce() -> Change) {
        if let Some(changes) = &mut self.0 {
            changes.push(change());
        }
    }

    pub(crate) fn are_wanted(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn take(&mut self) -> Vec<Change> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
