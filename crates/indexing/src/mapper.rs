//! The common interface of all maps, which turn documents and other items into entries.

use std::{error::Error, fmt};

use model::{ArchivedDataProcessingBehavior, CollectionName, DocumentFlags};

use crate::{
    entry_writer::EntryWriter,
    error::IndexError,
    map_context::MapContext,
    reduce::Reducer,
    source::{SourceItem, SourceKind},
};

/// A map. It sees documents and the fields of its index, never etags or batches.
pub trait Mapper: Send + Sync {
    /// The collections that it maps; empty for all documents.
    fn collections(&self) -> &[CollectionName];

    /// The documents that it may read besides the one that it maps, as far as its text shows. When
    /// one changes, its readers are mapped again.
    fn looks_at(&self) -> Follows<'_> {
        Follows::Collections(&[])
    }

    /// Whether it reads compare exchange values. When one changes, its readers are mapped again.
    fn reads_values(&self) -> bool {
        false
    }

    /// The fields of its entries that are known without a document, in order.
    fn fields(&self) -> Vec<String>;

    /// Whether documents may create further fields.
    fn has_created_fields(&self) -> bool {
        false
    }

    /// The kind of items that it maps.
    fn source_kind(&self) -> SourceKind {
        SourceKind::Documents
    }

    /// How it treats archived documents.
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

    /// Adds the entries of an item to `entries`: none, one or many.
    ///
    /// # Errors
    ///
    /// See [`MapError`]; entries added before the error are discarded.
    fn map<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        context: MapContext<'a>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError>;

    /// Prepares the calling thread, so that its first map there need not wait. Called when there is
    /// nothing to map.
    fn make_ready(&self) {}

    /// The reduce that processes the output of the maps, if there is one.
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
    /// The map failed on this document, or the reduce on these items. Others are unaffected.
    Document {
        /// What happened, and where in the map.
        message: String,
    },
    /// Another failure, which ends the batch.
    Index(IndexError),
}

/// The failure of a map on a document because of its content.
pub(crate) fn failed_on(id: &str, message: &str) -> MapError {
    MapError::Document {
        message: format!("Failed to execute mapping function on {id}. Exception: {message}"),
    }
}

impl MapError {
    /// The same error with the document's name, if it is about a document.
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
