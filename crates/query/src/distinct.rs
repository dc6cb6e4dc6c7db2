//! `select distinct`: rows that show the same as an earlier row are left out.
//!
//! What a row shows is compared by a hash of 128 bits, so memory follows the number of different rows
//! and not their size.

use std::collections::HashSet;
use std::rc::Rc;

use storage::{Held, WorkingMemory};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::QueryError;
use crate::made_object::MadeObject;
use crate::row::Row;
use crate::row_counts::RowCounts;

/// Different rows that one query may show; each costs some tens of bytes.
const DIFFERENT_ROWS_MAX: usize = 4 << 20;
/// What each costs, with the room that a table leaves free.
const HASH_BYTES: usize = 24;

/// What a row shows: one text, or one for each object that a script made of it.
pub(crate) enum Content {
    /// Printed again when the row is.
    Fields(Vec<u8>),
    /// Kept with the row, and counted by this owner.
    Made(Vec<MadeObject>, Held),
}

/// Tells what a row shows, and counts what the row takes from then on.
pub(crate) type ContentOf<'t> = Box<dyn Fn(&mut Row<'t>) -> Result<Content, QueryError> + 't>;

/// The rows that show something new. Where there is no room for what that takes, the same row comes again.
pub(crate) struct DistinctRows<'t, R> {
    rows: R,
    /// There was no room for this one.
    waiting: Option<Row<'t>>,
    content_of: ContentOf<'t>,
    seen: HashSet<u128>,
    /// What `seen` takes.
    held: Held,
    counts: Rc<RowCounts>,
}

impl<'t, R> DistinctRows<'t, R> {
    pub(crate) fn new(
        rows: R,
        content_of: ContentOf<'t>,
        counts: &Rc<RowCounts>,
        memory: &Rc<WorkingMemory>,
    ) -> Self {
        let (seen, held, counts) = (HashSet::new(), memory.holding(), Rc::clone(counts));
        Self { rows, waiting: None, content_of, seen, held, counts }
    }

    /// Whether the row shows something new; what of it is not is taken away from it.
    fn is_new(&mut self, row: &mut Row<'t>) -> Result<bool, QueryError> {
        // One more may make the table twice as large, the old one beside it.
        let hashes = if self.seen.len() < self.seen.capacity() { 1 } else { 4 };
        self.held.grow_to((hashes * HASH_BYTES * self.seen.capacity()) as u64)?;
        let (made, held) = match (self.content_of)(row)? {
            Content::Fields(shown) => {
                let is_new = self.is_first(&shown)?;
                self.counts.note_repeated(u64::from(!is_new));
                return Ok(is_new);
            }
            Content::Made(made, held) => (made, held),
        };
        let mut kept = Vec::with_capacity(made.len());
        for object in made {
            match self.is_first(&object.identity())? {
                true => kept.push(object),
                false => self.counts.note_repeated(1),
            }
        }
        let is_new = !kept.is_empty();
        row.has_made(kept, held);
        Ok(is_new)
    }

    fn is_first(&mut self, shown: &[u8]) -> Result<bool, QueryError> {
        if self.seen.len() == DIFFERENT_ROWS_MAX {
            let message = format!("'select distinct' gives more than {DIFFERENT_ROWS_MAX} rows");
            return Err(QueryError::InvalidOperation { message });
        }
        Ok(self.seen.insert(xxh3_128(shown)))
    }
}

impl<'t, R> Iterator for DistinctRows<'t, R>
where
    R: Iterator<Item = Result<Row<'t>, QueryError>>,
{
    type Item = Result<Row<'t>, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut row =
                match self.waiting.take().map_or_else(|| self.rows.next(), |row| Some(Ok(row)))? {
                    Ok(row) => row,
                    Err(error) => return Some(Err(error)),
                };
            match self.is_new(&mut row) {
                Ok(true) => return Some(Ok(row)),
                Ok(false) => {}
                Err(error) => {
                    self.waiting = Some(row).filter(|_| error.is_for_want_of_memory());
                    return Some(Err(error));
                }
            }
        }
    }
}
