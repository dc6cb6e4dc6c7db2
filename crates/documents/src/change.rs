//! What a batch changed, as change listeners see it.
//!
//! The log holds the current state; this records each step that led to it. A writer records changes
//! only when there is a listener ([`WriteContext::notes_changes`](crate::WriteContext)).

use model::{CollectionName, DocumentId};

/// One change of a batch, for the clients that watch for it.
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
    /// The kind of change.
    pub kind: DocumentChangeKind,
    /// Its id, in the spelling of the request.
    pub id: DocumentId,
    /// The collection of the document.
    pub collection: CollectionName,
    /// Its new version, or that of its tombstone; absent when it was already deleted.
    pub change_vector: Option<String>,
}

/// The kinds of changes of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentChangeKind {
    /// It was stored, or something that belongs to it was stored.
    Put,
    /// It was deleted, possibly again.
    Delete,
}

/// What happened to a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterChange {
    /// The kind of change.
    pub kind: CounterChangeKind,
    /// Its name, in the spelling of the request.
    pub name: String,
    /// Its value now; 0 when it was deleted.
    pub value: i64,
    /// The id of the document that has the counter.
    pub document_id: DocumentId,
    /// The collection of its document.
    pub collection: CollectionName,
    /// The version of the counters.
    pub change_vector: String,
}

/// The kinds of changes of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterChangeKind {
    /// It was created.
    Put,
    /// Its value was changed.
    Increment,
    /// It was deleted.
    Delete,
}

/// What happened to a time series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSeriesChange {
    /// The kind of change.
    pub kind: TimeSeriesChangeKind,
    /// Its name, in the spelling of the request.
    pub name: String,
    /// The first and the last moment concerned, in ticks of UTC; absent at an open end.
    pub from: Option<i64>,
    /// The last moment concerned, as `from`.
    pub to: Option<i64>,
    /// The id of the document that has the series.
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

/// The changes of a batch, in order, if there is a listener.
#[derive(Debug, Default)]
pub(crate) struct NotedChanges(Option<Vec<Change>>);

impl NotedChanges {
    pub(crate) fn new(are_wanted: bool) -> Self {
        Self(are_wanted.then(Vec::new))
    }

    /// Records a change; `change` is called only when there is a listener.
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
