//! Rows of a result, and where they come from.

use std::rc::Rc;

use documents::DocumentRow;
use search::EntryId;
use storage::{Held, WorkingMemory};

use crate::error::QueryError;
use crate::made_object::MadeObject;
use crate::row_document::{RowDocument, decompressed_bytes};
use crate::row_metadata::{RowLocation, RowMetadata};
use crate::row_notes::NotesOfRow;

/// One row of a result.
pub struct Row<'t> {
    /// The document, or the stored result, that the row consists of.
    pub document: RowDocument<'t>,
    /// Its score in the index; `None` without an index.
    pub score: Option<f32>,
    /// The values that the index stored for it, as JSON, by projected field; empty when none is
    /// used.
    pub(crate) stored: Vec<Option<&'t [u8]>>,
    /// Its entry in the index; `None` without an index.
    pub(crate) entry: Option<EntryId>,
    /// Its location, when rows are ordered by distance.
    pub(crate) location: Option<RowLocation>,
    /// The objects that a script produced from it, if the script has run already.
    pub(crate) made: Option<Vec<MadeObject>>,
    /// Memory charged for as long as the row exists: its document, if that is compressed, and what
    /// was made of it. `None` when nothing is charged.
    pub(crate) held: Option<Held>,
}

impl<'t> Row<'t> {
    pub(crate) fn of_document(document: DocumentRow<'t>) -> Self {
        let document = RowDocument::Stored(document);
        let (score, stored, entry, location, made, held) = Default::default();
        Self { document, score, stored, entry, location, made, held }
    }

    /// Charges the memory of its decompressed document, before it is decompressed.
    pub(crate) fn charge_document(&mut self, memory: &Rc<WorkingMemory>) -> Result<(), QueryError> {
        let bytes = self.document.stored().map_or(0, decompressed_bytes);
        if 0 < bytes && self.held.is_none() {
            let mut held = memory.holding();
            held.grow_to(bytes)?;
            self.held = Some(held);
        }
        Ok(())
    }

    /// Stores the objects that a script produced, and takes over the charge for them.
    pub(crate) fn set_made(&mut self, made: Vec<MadeObject>, held: Held) {
        self.made = Some(made);
        match &mut self.held {
            Some(own) => own.absorb(held),
            None => self.held = Some(held),
        }
    }

    /// The metadata that the index supplies.
    pub(crate) fn metadata(&self) -> RowMetadata {
        RowMetadata { score: self.score, location: self.location }
    }
}

/// A stream of rows.
pub(crate) type Rows<'t> = Box<dyn Iterator<Item = Result<Row<'t>, QueryError>> + 't>;

/// Where the rows of a query come from.
pub(crate) trait RowSource<'t> {
    /// The rows in the order of the query: at most `count`, after the first `first`.
    fn rows(&self, first: usize, count: usize) -> Result<Rows<'t>, QueryError>;

    /// How many rows [`RowSource::rows`] drops because they repeat a document.
    fn repeated(&self, _first: usize, _count: usize) -> Result<u64, QueryError> {
        Ok(0)
    }

    /// The highlightings and the explanation of a row.
    fn notes(&self, _row: &Row<'t>) -> Result<NotesOfRow, QueryError> {
        Ok(NotesOfRow::default())
    }
}
