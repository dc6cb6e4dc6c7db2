//! Map-reduce: rows by reduce key, and one result per key, updated incrementally. The formats are
//! on `docs/internals/map-reduce.md`.
//!
//! Invariant: after every transaction the result of a key is that of the reduce over its rows,
//! applied to groups of them and then to the groups' results; a key without rows has neither result
//! nor entry.
//!
//! | file | what |
//! |---|---|
//! | `key`, `format` | the identity of a key, and all byte formats |
//! | `stage` | a batch: from rows of documents to entries of keys |
//! | `row_changes` | the rows of a batch by key |
//! | `touched_key`, `key_output` | one key of it: its rows, its result |
//! | `key_tree` | the nodes of one key |
//! | `tree` | the stored state of a key, for inspection |
//! | `entry` | a result as an entry |
//! | `linq_reduce`, `js_reduce`, `map_reduce` | the reduce of a definition; what it has of its maps |
//! | `auto_reduce`, `auto_rows`, `auto_sum` | the reduce of an automatic index |

mod auto_reduce;
mod auto_rows;
mod auto_sum;
mod entry;
mod format;
mod js_reduce;
mod key;
mod key_output;
mod key_tree;
mod linq_reduce;
mod map_reduce;
mod row_changes;
mod stage;
mod touched_key;
mod tree;

use blittable::{BlittableBuf, Document};

pub(crate) use auto_reduce::AutoReduce;
pub(crate) use js_reduce::JsReduce;
pub(crate) use key::ReduceKey;
pub(crate) use linq_reduce::LinqReduce;
pub(crate) use stage::{ReduceStage, Staged};

pub(crate) use tree::{documents_with_rows, trees_of};

pub use entry::RESULT_FIELD;
pub(crate) use format::documents_tree;
pub use tree::{ReduceItems, ReduceNode, ReduceRow, ReduceTree};

use crate::{
    entry_writer::EntryWriter, error::IndexError, map_context::MapContext, mapper::MapError,
    output::OutputTarget, output_room::OutputRoom, references::References, source::SourceItem,
};

/// Stores a C# map's output in the current entry: if the item is not a document, queries return
/// nothing else.
pub(crate) fn store_output(
    output: &linq::Output<'_, '_>,
    entries: &mut EntryWriter<'_>,
) -> Result<(), MapError> {
    entry::store_result(&linq_reduce::shown_output(output)?.as_view(), entries)
}

/// As [`store_output`], for a JavaScript map.
pub(crate) fn store_script_entry(
    given: &script::IndexEntry,
    entries: &mut EntryWriter<'_>,
) -> Result<(), MapError> {
    entry::store_result(&js_reduce::shown_entry(given)?.as_view(), entries)
}

/// The maps and the reduce of an index.
pub trait Reducer: Send + Sync {
    /// Adds the rows of an item to `rows`.
    ///
    /// # Errors
    ///
    /// See [`MapError`]; rows added before the error are discarded.
    fn map_rows<'a>(
        &'a self,
        item: &'a SourceItem<'_>,
        context: MapContext<'a>,
        rows: &mut MappedRows,
    ) -> Result<(), MapError>;

    /// Reduces `items`, which are rows of one key or results of the reduce for such rows. `sample`
    /// is one of its rows.
    ///
    /// # Errors
    ///
    /// [`MapError::Document`] when the reduce fails on these items.
    fn reduce<'a>(
        &'a self,
        sample: &Document<'a>,
        items: &[Document<'a>],
        results: &mut Vec<BlittableBuf>,
    ) -> Result<(), MapError>;

    /// The text of a row's key, for messages.
    ///
    /// # Errors
    ///
    /// When the row is damaged.
    fn key_text(&self, sample: &Document<'_>) -> Result<String, MapError>;

    /// The values of a row's key with their names, as a JSON object.
    ///
    /// # Errors
    ///
    /// When the row is damaged.
    fn key_json(&self, sample: &Document<'_>) -> Result<Vec<u8>, MapError>;

    /// Adds a result to the current entry.
    ///
    /// # Errors
    ///
    /// When it cannot be an entry.
    fn write_entry(
        &self,
        result: &Document<'_>,
        entries: &mut EntryWriter<'_>,
    ) -> Result<(), MapError>;
}

/// The context of a running reduce.
pub(crate) struct Reducing<'a> {
    pub(crate) reducer: &'a dyn Reducer,
    /// Where results are written as documents, if anywhere.
    pub(crate) target: Option<&'a OutputTarget>,
    /// Whether the index is closing, so that the batch is not worth finishing.
    pub(crate) is_closing: &'a dyn Fn() -> bool,
}

impl Reducing<'_> {
    /// Ends the batch when the index is closing. A batch may run many reduces, each of which may
    /// take its whole budget.
    fn check_closing(&self) -> Result<(), IndexError> {
        if (self.is_closing)() { Err(IndexError::Closing) } else { Ok(()) }
    }
}

/// The rows that the maps returned for one document.
#[derive(Default)]
pub struct MappedRows {
    rows: Vec<MappedRow>,
    /// Their limits, if any.
    bounds: Option<RowBounds>,
    /// Whether a row exceeded the limits.
    is_full: bool,
    /// What the maps read.
    references: References,
    /// What the rows take.
    room: OutputRoom,
}

/// The maximum number of rows and their maximum bytes.
#[derive(Clone, Copy)]
pub(crate) struct RowBounds {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// One row, and the key that it belongs to.
pub(crate) struct MappedRow {
    pub(crate) key: ReduceKey,
    pub(crate) row: Vec<u8>,
}

impl MappedRows {
    /// An empty collection with limits.
    pub(crate) fn within(bounds: RowBounds) -> MappedRows {
        MappedRows { bounds: Some(bounds), ..MappedRows::default() }
    }

    /// An empty collection; the rows of a document may take what the room has.
    pub(crate) fn in_room(room: OutputRoom) -> MappedRows {
        MappedRows { room, ..MappedRows::default() }
    }

    /// What the rows take.
    pub(crate) fn room(&mut self) -> &mut OutputRoom {
        &mut self.room
    }

    /// For a map that runs: what it reads is recorded, and what it makes is counted.
    pub(crate) fn references_and_room(&mut self) -> (&mut References, &mut OutputRoom) {
        (&mut self.references, &mut self.room)
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// [`MapError::Document`] when it exceeds the limits, and as [`OutputRoom::take`].
    pub(crate) fn push(&mut self, key: ReduceKey, row: BlittableBuf) -> Result<(), MapError> {
        let row = row.into_bytes();
        self.room.take((size_of::<MappedRow>() + row.capacity()) as u64)?;
        if let Some(bounds) = &mut self.bounds {
            let left = bounds.rows.checked_sub(1).zip(bounds.bytes.checked_sub(row.len()));
            let Some((rows, bytes)) = left else {
                let message =
                    "The maps return more or larger results for one document than may be \
                               looked at. Name smaller documents."
                        .to_owned();
                self.is_full = true;
                return Err(MapError::Document { message });
            };
            *bounds = RowBounds { rows, bytes };
        }
        self.rows.push(MappedRow { key, row });
        Ok(())
    }

    /// Whether a row exceeded the limits.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn into_rows(self) -> Vec<MappedRow> {
        self.rows
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.references.clear();
        self.room.begin();
    }

    /// Releases the memory of the rows.
    pub(crate) fn release(&mut self) {
        self.rows = Vec::new();
    }

    /// Removes the rows, but not the references: the maps failed.
    pub(crate) fn forget_rows(&mut self) {
        self.rows.clear();
    }

    /// Takes what the maps read.
    pub(crate) fn take_references(&mut self) -> References {
        std::mem::take(&mut self.references)
    }
}
