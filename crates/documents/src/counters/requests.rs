//! What a caller requests of counters, and the results.

use model::{ChangeVector, CounterName, DatabaseId, DocumentId, Etag, NodeTag};

/// Changes and reads of the counters of one document.
#[derive(Clone, Debug)]
pub struct ChangeCounters {
    /// The id of the document.
    pub id: DocumentId,
    /// The steps, in order.
    pub steps: Vec<CounterStep>,
    /// Whether nothing happens, instead of an error, if there is no such document.
    pub ignores_missing: bool,
}

/// One change or read of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterStep {
    /// Increment or decrement it; a missing counter starts at 0.
    Increment {
        /// Its name.
        name: CounterName,
        /// The delta.
        by: i64,
    },
    /// Set it to a value: what this database has counted makes up the difference to what others have.
    Set {
        /// Its name.
        name: CounterName,
        /// The value.
        value: i64,
    },
    /// Delete it; a missing one is no error.
    Delete {
        /// Its name.
        name: CounterName,
    },
    /// Return its value.
    Get {
        /// Its name.
        name: CounterName,
    },
}

/// The value that one database has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterValue {
    /// The node of the database.
    pub node_tag: NodeTag,
    /// The id of the database that counted.
    pub database_id: DatabaseId,
    /// The value that this database contributes to the sum.
    pub value: i64,
    /// The position of its last change in that database's log.
    pub etag: Etag,
}

/// The value of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterDetail {
    /// Its name as the request writes it.
    pub name: CounterName,
    /// The sum of its values.
    pub total: i64,
    /// What each database has counted.
    pub values: Vec<CounterValue>,
}

/// The result of [`ChangeCounters`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountersChanged {
    /// The document as the request writes it.
    pub id: DocumentId,
    /// For each increment and read, in order, the counter's value; `None` when there is none.
    pub counters: Vec<Option<CounterDetail>>,
    /// The version of the last change; `None` when nothing changed.
    pub change_vector: Option<ChangeVector>,
    /// Whether a counter was created or deleted, so that the document is stored again at the end of
    /// the batch.
    pub touches_document: bool,
    /// The version of the document at the end of the batch, when it was touched.
    pub document_change_vector: Option<ChangeVector>,
}
