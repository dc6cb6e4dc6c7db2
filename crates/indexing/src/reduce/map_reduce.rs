//! What the maps of an index with a reduce are to the rest of the index.

use model::{ArchivedDataProcessingBehavior, CollectionName};

use super::{Reducer, entry::EntryFields};
use crate::{
    entry_writer::EntryWriter,
    map_context::MapContext,
    mapper::{Follows, MapError, Mapper},
    source::{SourceItem, SourceKind},
};

/// The maps and the reduce of a definition. They read what the maps read, and their entries have the
/// fields of the reduce.
pub(super) trait MapReduce: Reducer {
    type Maps: Mapper;

    fn maps(&self) -> &Self::Maps;

    fn entry_fields(&self) -> &EntryFields;
}

impl<R: MapReduce> Mapper for R {
    fn collections(&self) -> &[CollectionName] {
        self.maps().collections()
    }

    fn looks_at(&self) -> Follows<'_> {
        self.maps().looks_at()
    }

    fn reads_values(&self) -> bool {
        self.maps().reads_values()
    }

    fn fields(&self) -> Vec<String> {
        self.entry_fields().names()
    }

    fn source_kind(&self) -> SourceKind {
        self.maps().source_kind()
    }

    fn archived_documents(&self) -> ArchivedDataProcessingBehavior {
        self.maps().archived_documents()
    }

    fn map<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        context: MapContext<'a>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError> {
        self.maps().map(item, context, entries)
    }

    fn make_ready(&self) {
        self.maps().make_ready();
    }

    fn reducer(&self) -> Option<&dyn Reducer> {
        Some(self)
    }
}
