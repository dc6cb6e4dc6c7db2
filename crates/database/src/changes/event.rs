//! The events of a database: who is notified of each, and the text of the notification.

use documents::{
    Change, CounterChange, CounterChangeKind, DocumentChange, DocumentChangeKind, TimeSeriesChange,
    TimeSeriesChangeKind,
};
use indexing::IndexChange;
use model::{date, lower_case};
use wire::{
    changes::{
        CounterChangeShape, DocumentChangeShape, IndexChangeShape, Notification,
        TimeSeriesChangeShape, Watch, operation_change,
    },
    operation_state::operation_state,
};

use crate::operations::OperationState;

/// An event of a database.
#[derive(Clone, Debug)]
pub enum Event {
    /// Documents, or data attached to them, have changed durably.
    Data(Change),
    /// Something happened to an index.
    Index {
        /// The name of the index.
        name: String,
        /// The kind of change.
        change: IndexChange,
    },
    /// An operation has made progress or ended.
    Operation {
        /// The id of the operation.
        id: i64,
        /// Its progress, and how it ended.
        state: OperationState,
    },
}

/// Kinds of events that are watched together or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    Data,
    Index,
    Operation,
}

impl Family {
    pub(crate) const ALL: [Family; 3] = [Family::Data, Family::Index, Family::Operation];

    /// Whether such a watch covers any of these events.
    pub(crate) fn concerns(self, watch: &Watch) -> bool {
        match watch {
            Watch::Documents
            | Watch::Document(_)
            | Watch::Prefix(_)
            | Watch::Collection(_)
            | Watch::Counters
            | Watch::Counter(_)
            | Watch::CountersOf(_)
            | Watch::CounterOf(..)
            | Watch::TimeSeries
            | Watch::TimeSeriesNamed(_)
            | Watch::TimeSeriesOf(_)
            | Watch::OneTimeSeriesOf(..) => self == Family::Data,
            Watch::Indexes | Watch::Index(_) => self == Family::Index,
            Watch::Operations | Watch::Operation(_) => self == Family::Operation,
            Watch::AggressiveCaching => self != Family::Operation,
            Watch::Topology => false,
        }
    }
}

impl Event {
    pub(crate) fn family(&self) -> Family {
        match self {
            Event::Data(_) => Family::Data,
            Event::Index { .. } => Family::Index,
            Event::Operation { .. } => Family::Operation,
        }
    }

    /// The watches that match the event, except prefix watches.
    pub(crate) fn watches(&self) -> Vec<Watch> {
        match self {
            Event::Data(Change::Document(change)) => vec![
                Watch::Documents,
                Watch::Document(change.id.lower_cased().to_owned()),
                Watch::Collection(lower_case(change.collection.as_str()).into_owned()),
            ],
            Event::Data(Change::Counter(change)) => {
                let (document, name) = of_document(change.document_id.lower_cased(), &change.name);
                vec![
                    Watch::Counters,
                    Watch::Counter(name.clone()),
                    Watch::CountersOf(document.clone()),
                    Watch::CounterOf(document, name),
                ]
            }
            Event::Data(Change::TimeSeries(change)) => {
                let (document, name) = of_document(change.document_id.lower_cased(), &change.name);
                vec![
                    Watch::TimeSeries,
                    Watch::TimeSeriesNamed(name.clone()),
                    Watch::TimeSeriesOf(document.clone()),
                    Watch::OneTimeSeriesOf(document, name),
                ]
            }
            Event::Index { name, .. } => {
                vec![Watch::Indexes, Watch::Index(lower_case(name).into_owned())]
            }
            Event::Operation { id, .. } => vec![Watch::Operations, Watch::Operation(*id)],
        }
    }

    /// Whether the event is a change of a document itself.
    pub(crate) fn is_of_document(&self) -> bool {
        matches!(self, Event::Data(Change::Document(_)))
    }

    /// The id that prefix watches are matched against.
    pub(crate) fn prefixed(&self) -> Option<&str> {
        match self {
            Event::Data(Change::Document(change)) => Some(change.id.lower_cased()),
            _ => None,
        }
    }

    /// Whether the event may invalidate answers cached by a client.
    pub(crate) fn outdates_answers(&self) -> bool {
        match self {
            Event::Data(Change::Document(_)) => true,
            Event::Index { change, .. } => matches!(
                change,
                IndexChange::BatchCompleted | IndexChange::Removed | IndexChange::SwappedIn
            ),
            Event::Data(_) | Event::Operation { .. } => false,
        }
    }

    /// The text of the notification.
    pub(crate) fn text(&self) -> String {
        match self {
            Event::Data(Change::Document(change)) => document_text(change),
            Event::Data(Change::Counter(change)) => counter_text(change),
            Event::Data(Change::TimeSeries(change)) => time_series_text(change),
            Event::Index { name, change } => {
                Notification::IndexChange(IndexChangeShape { name, kind: index_word(*change) })
                    .text()
            }
            Event::Operation { id, state } => {
                operation_change(*id, operation_state(&state.status, Some(&state.progress)))
            }
        }
    }
}

fn index_word(change: IndexChange) -> &'static str {
    match change {
        IndexChange::Added => "IndexAdded",
        IndexChange::Removed => "IndexRemoved",
        IndexChange::BatchCompleted => "BatchCompleted",
        IndexChange::MarkedAsErrored => "IndexMarkedAsErrored",
        IndexChange::Disabled => "IndexDemotedToDisabled",
        IndexChange::BecameIdle => "IndexDemotedToIdle",
        IndexChange::QueriedAgain => "IndexPromotedFromIdle",
        IndexChange::Paused => "IndexPaused",
        IndexChange::SwappedIn => "SideBySideReplace",
        IndexChange::LockModeChanged => "LockModeChanged",
        IndexChange::PriorityChanged => "PriorityChanged",
    }
}

fn of_document(document: &str, name: &str) -> (String, String) {
    (document.to_owned(), lower_case(name).into_owned())
}

fn document_text(change: &DocumentChange) -> String {
    let kind = match change.kind {
        DocumentChangeKind::Put => "Put",
        DocumentChangeKind::Delete => "Delete",
    };
    let shape = DocumentChangeShape {
        kind,
        id: change.id.as_str(),
        collection_name: change.collection.as_str(),
        change_vector: change.change_vector.as_deref(),
    };
    Notification::DocumentChange(shape).text()
}

fn counter_text(change: &CounterChange) -> String {
    let kind = match change.kind {
        CounterChangeKind::Put => "Put",
        CounterChangeKind::Increment => "Increment",
        CounterChangeKind::Delete => "Delete",
    };
    let shape = CounterChangeShape {
        name: &change.name,
        value: change.value,
        document_id: change.document_id.as_str(),
        collection_name: change.collection.as_str(),
        change_vector: &change.change_vector,
        kind,
    };
    Notification::CounterChange(shape).text()
}

fn time_series_text(change: &TimeSeriesChange) -> String {
    let kind = match change.kind {
        TimeSeriesChangeKind::Put => "Put",
        TimeSeriesChangeKind::Delete => "Delete",
    };
    let shape = TimeSeriesChangeShape {
        name: &change.name,
        from: change.from.map(date::format),
        to: change.to.map(date::format),
        document_id: change.document_id.as_str(),
        change_vector: &change.change_vector,
        kind,
        collection_name: change.collection.as_str(),
    };
    Notification::TimeSeriesChange(shape).text()
}
