//! What the maps gave for one document, on its way into a batch.

use search::{EntryBuilder, FieldSet};

use crate::{
    beside::Beside,
    entry_writer::{Entries, EntryWriter},
    mapper::{MapError, Mapper},
    reduce::MappedRows,
    references::References,
    source::SourceItem,
};

/// See the module. Reused from one document to the next.
#[derive(Default)]
pub(crate) struct Mapped {
    entries: Entries,
    /// Of an index with a reduce, in place of entries.
    rows: MappedRows,
    error: Option<MapError>,
}

impl Mapped {
    /// Runs the maps on an item.
    pub(crate) fn map(
        &mut self,
        mapper: &dyn Mapper,
        fields: &mut FieldSet,
        item: &SourceItem<'_>,
        beside: Beside<'_>,
    ) {
        self.entries.clear();
        self.rows.clear();
        if !mapper.takes(item) {
            self.error = None;
            return;
        }
        let mapped = match mapper.reducer() {
            Some(reducer) => reducer.map_rows(item, beside, &mut self.rows),
            None => mapper.map(item, beside, &mut EntryWriter::new(fields, &mut self.entries)),
        };
        self.error = mapped.err();
        if self.error.is_some() {
            self.entries.forget();
            self.rows.forget_rows();
        }
    }

    /// Why the document has nothing, if the maps failed.
    pub(crate) fn take_error(&mut self) -> Option<MapError> {
        self.error.take()
    }

    /// What the maps looked at.
    pub(crate) fn take_references(&mut self) -> References {
        let mut references = self.entries.take_references();
        references.add(self.rows.take_references());
        references
    }

    pub(crate) fn entries(&self) -> &[EntryBuilder] {
        self.entries.as_slice()
    }

    /// What goes to the reduce.
    pub(crate) fn rows(&mut self) -> &mut MappedRows {
        &mut self.rows
    }

    /// How many entries, or rows, there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.as_slice().len() + self.rows.len()
    }
}
