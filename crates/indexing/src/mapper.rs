//! What turns a document, or something else that is indexed, into entries: the interface of every kind of map.

use std::{error::Error, fmt};

use model::{CollectionName, DocumentFlags};
use wire::ArchivedDataProcessingBehavior;

use crate::{
    beside::Beside,
    entry_writer::EntryWriter,
    error::IndexError,
    reduce::Reducer,
    source::{SourceItem, SourceKind},
};

/// A map. It knows documents and the fields of its index, never etags or batches.
pub trait Mapper: Send + Sync {
    /// The collections whose documents it maps; none is all documents.
    fn collections(&self) -> &[CollectionName];

    /// The documents that it looks at beside the one that it maps, as far as its text tells. A change
    /// of one leads to those that looked at it.
    fn looks_at(&self) -> Follows<'_> {
        Follows::Collections(&[])
    }

    /// Whether it looks at values of compare exchange. A change of one leads to those that looked at it.
    fn reads_values(&self) -> bool {
        false
    }

    /// The fields of its entries that are known without a document, in their order.
    fn fields(&self) -> Vec<String>;

    /// Whether documents may name further fields.
    fn has_created_fields(&self) -> bool {
        false
    }

    /// What it maps.
    fn source_kind(&self) -> SourceKind {
        SourceKind::Documents
    }

    /// What it makes of archived documents.
    fn archived_documents(&self) -> ArchivedDataProcessingBehavior {
        ArchivedDataProcessingBehavior::ExcludeArchived
    }

    /// Whether it maps the item at all.
    fn takes(&self, item: &SourceItem<'_>) -> bool {
        let Some(document) = item.document() else { return true };
        let is_archived = document.flags().contains(DocumentFlags::ARCHIVED);
        match self.archived_documents() {
            ArchivedDataProcessingBehavior::ExcludeArchived => !is_archived,
            ArchivedDataProcessingBehavior::IncludeArchived => true,
            ArchivedDataProcessingBehavior::ArchivedOnly => is_archived,
        }
    }

    /// Gives the entries of an item to `entries`: none, one or many.
    ///
    /// # Errors
    ///
    /// See [`MapError`]; entries that were given before the error are not used.
    fn map<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        beside: Beside<'a>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError>;

    /// Makes on the calling thread what its first map there would otherwise wait for. Called when there is
    /// nothing to map.
    fn make_ready(&self) {}

    /// What the maps give goes through this, if there is anything: entries are its results.
    fn reducer(&self) -> Option<&dyn Reducer> {
        None
    }
}

/// Documents whose changes an index follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Follows<'a> {
    /// All.
    Everything,
    /// Those of these collections.
    Collections(&'a [CollectionName]),
}

/// Why a document has no entries.
#[derive(Debug)]
pub enum MapError {
    /// The map fails on this document, or the reduce on these items. Others go on.
    Document {
        /// What happened, where in the map.
        message: String,
    },
    /// Something else broke; the batch cannot go on.
    Index(IndexError),
}

/// The failure of a map on a document because of what it says.
pub(crate) fn failed_on(id: &str, message: &str) -> MapError {
    MapError::Document {
        message: format!("Failed to execute mapping function on {id}. Exception: {message}"),
    }
}

impl MapError {
    /// The same error, naming the document when it is one of a document.
    pub(crate) fn on(self, id: &str) -> Self {
        match self {
            Self::Document { message } => failed_on(id, &message),
            Self::Index(_) => self,
        }
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document { message } => f.write_str(message),
            Self::Index(error) => error.fmt(f),
        }
    }
}

impl Error for MapError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Document { .. } => None,
            Self::Index(error) => Some(error),
        }
    }
}

impl<E: Into<IndexError>> From<E> for MapError {
    fn from(error: E) -> Self {
        Self::Index(error.into())
    }
}
