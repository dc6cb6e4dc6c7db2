//! What a caller asks of counters, and what it is told.

use model::{ChangeVector, CounterName, DatabaseId, DocumentId, Etag, NodeTag};

/// Changes of the counters of one document, and looks at them.
#[derive(Clone, Debug)]
pub struct ChangeCounters {
    /// The document.
    pub id: DocumentId,
    /// What to do, in order.
    pub steps: Vec<CounterStep>,
}

/// One change of a counter, or a look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterStep {
    /// Count up, or down; a counter that is not there begins at 0.
    Increment {
        /// Its name.
        name: CounterName,
        /// By how much.
        by: i64,
    },
    /// Delete it; a missing one is no error.
    Delete {
        /// Its name.
        name: CounterName,
    },
    /// Tell what it says.
    Get {
        /// Its name.
        name: CounterName,
    },
}

/// What one database has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterValue {
    /// The node of the database.
    pub node_tag: NodeTag,
    /// The database.
    pub database_id: DatabaseId,
    /// How far.
    pub value: i64,
    /// The position of its last change in that database's log.
    pub etag: Etag,
}

/// What a counter says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterDetail {
    /// Its name as the request writes it.
    pub name: CounterName,
    /// The sum of its values.
    pub total: i64,
    /// What each database has counted.
    pub values: Vec<CounterValue>,
}

/// What became of [`ChangeCounters`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountersChanged {
    /// The document as the request writes it.
    pub id: DocumentId,
    /// For each increment and each look, in order, what the counter says; `None` when there is none.
    pub counters: Vec<Option<CounterDetail>>,
    /// The version of the last change; `None` when nothing changed.
    pub change_vector: Option<ChangeVector>,
    /// Whether a counter came or went, so that the document is stored anew at the end of the batch.
    pub touches_document: bool,
    /// The version of the document at the end of the batch, when it was touched.
    pub document_change_vector: Option<ChangeVector>,
}
