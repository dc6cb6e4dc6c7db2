//! Rows of a result, and where they come from.

use std::rc::Rc;

use documents::DocumentRow;
use search::EntryId;
use storage::{Held, WorkingMemory};

use crate::error::QueryError;
use crate::made_object::MadeObject;
use crate::row_document::{RowDocument, decompressed_bytes};
use crate::row_notes::NotesOfRow;
use crate::row_told::{RowLocation, Told};

/// One row of a result.
pub struct Row<'t> {
    /// What it shows, or shows something of.
    pub document: RowDocument<'t>,
    /// Its score in the index; `None` without an index.
    pub score: Option<f32>,
    /// The values that the index stored for it, JSON, by projected field; empty when none is taken from there.
    pub(crate) stored: Vec<Option<&'t [u8]>>,
    /// The entry of an index behind it.
    pub(crate) entry: Option<EntryId>,
    /// Where it lies, when rows are ordered by distance.
    pub(crate) location: Option<RowLocation>,
    /// The objects that a script made of it, if the script has run already.
    pub(crate) made: Option<Vec<MadeObject>>,
    /// What it takes of memory as long as it is there, beside itself: its document, if that is compressed, and
    /// what was made of it. `None` when that is nothing.
    pub(crate) held: Option<Held>,
}

impl<'t> Row<'t> {
    pub(crate) fn of_document(document: DocumentRow<'t>) -> Self {
        let document = RowDocument::Stored(document);
        let (score, stored, entry, location, made, held) = Default::default();
        Self { document, score, stored, entry, location, made, held }
    }

    /// Counts what its document takes once it is decompressed, before it is.
    pub(crate) fn count(&mut self, memory: &Rc<WorkingMemory>) -> Result<(), QueryError> {
        let bytes = self.document.stored().map_or(0, decompressed_bytes);
        if 0 < bytes && self.held.is_none() {
            let mut held = memory.holding();
            held.grow_to(bytes)?;
            self.held = Some(held);
        }
        Ok(())
    }

    /// It also has what another owner counts.
    pub(crate) fn has_made(&mut self, made: Vec<MadeObject>, held: Held) {
        self.made = Some(made);
        match &mut self.held {
            Some(own) => own.absorb(held),
            None => self.held = Some(held),
        }
    }

    /// What the index knows of it.
    pub(crate) fn told(&self) -> Told {
        Told { score: self.score, location: self.location }
    }
}

/// Rows one after the other.
pub(crate) type Rows<'t> = Box<dyn Iterator<Item = Result<Row<'t>, QueryError>> + 't>;

/// Where the rows of a query come from.
pub(crate) trait RowSource<'t> {
    /// The rows in the order of the query: `count` of them, the first `first` left out.
    fn rows(&self, first: usize, count: usize) -> Result<Rows<'t>, QueryError>;

    /// How many rows of [`RowSource::rows`] are left out because they repeat a document.
    fn repeated(&self, _first: usize, _count: usize) -> Result<u64, QueryError> {
        Ok(0)
    }

    /// The highlightings and the explanation of a row.
    fn notes(&self, _row: &Row<'t>) -> Result<NotesOfRow, QueryError> {
        Ok(NotesOfRow::default())
    }
}
