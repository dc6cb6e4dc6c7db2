//! The output of the maps for one document.

use search::{EntryBuilder, FieldSet};

use crate::{
    entry_writer::{Entries, EntryWriter},
    map_context::MapContext,
    mapper::{MapError, Mapper},
    output_room::{ALLOWED_BYTES, OutputRoom},
    reduce::MappedRows,
    references::References,
    source::SourceItem,
};

/// See the module. Reused for the next document.
#[derive(Default)]
pub(crate) struct Mapped {
    entries: Entries,
    /// In an index with a reduce, instead of entries.
    rows: MappedRows,
    error: Option<MapError>,
}

impl Mapped {
    /// Nothing yet; the output for a document may take so much.
    pub(crate) fn within(room: impl Fn() -> OutputRoom) -> Self {
        let (entries, rows) = (Entries::within(room()), MappedRows::in_room(room()));
        Self { entries, rows, error: None }
    }

    /// Changes what the output for the next document may take.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: u64) {
        self.entries.room().set_bytes_max(bytes_max);
        self.rows.room().set_bytes_max(bytes_max);
    }

    /// Bytes that the output takes.
    pub(crate) fn bytes(&mut self) -> u64 {
        self.entries.room().bytes() + self.rows.room().bytes()
    }

    /// Whether the output takes more than it may.
    pub(crate) fn is_too_large(&mut self) -> bool {
        self.entries.room().is_exceeded() || self.rows.room().is_exceeded()
    }

    /// Ends the document: its output was gathered, and buffers are released that are large.
    pub(crate) fn end(&mut self) {
        if ALLOWED_BYTES < self.bytes() {
            self.entries.release();
            self.rows.release();
        }
        self.entries.room().end();
        self.rows.room().end();
    }

    /// The output of a document that is not mapped, because nothing that it returns fits.
    pub(crate) fn refuse(&mut self, refusal: MapError) {
        self.entries.clear();
        self.rows.clear();
        self.error = Some(refusal);
    }

    /// Runs the maps on an item.
    pub(crate) fn map(
        &mut self,
        mapper: &dyn Mapper,
        fields: &mut FieldSet,
        item: &SourceItem<'_>,
        context: MapContext<'_>,
    ) {
        self.entries.clear();
        self.rows.clear();
        if !mapper.takes(item) {
            self.error = None;
            return;
        }
        let mapped = match mapper.reducer() {
            Some(reducer) => reducer.map_rows(item, context, &mut self.rows),
            None => mapper.map(item, context, &mut EntryWriter::new(fields, &mut self.entries)),
        };
        self.error = mapped.err();
        if self.error.is_some() {
            self.entries.forget();
            self.rows.forget_rows();
        }
    }

    /// Takes the failure of the maps, if any.
    pub(crate) fn take_error(&mut self) -> Option<MapError> {
        self.error.take()
    }

    /// Takes what the maps read.
    pub(crate) fn take_references(&mut self) -> References {
        let mut references = self.entries.take_references();
        references.add(self.rows.take_references());
        references
    }

    pub(crate) fn entries(&self) -> &[EntryBuilder] {
        self.entries.as_slice()
    }

    /// The rows for the reduce.
    pub(crate) fn rows(&mut self) -> &mut MappedRows {
        &mut self.rows
    }

    /// The number of entries or rows.
    pub(crate) fn len(&self) -> usize {
        self.entries.as_slice().len() + self.rows.len()
    }
}
