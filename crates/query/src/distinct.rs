//! `select distinct`: rows equal to an earlier row are dropped.
//!
//! Rows are compared by a 128-bit hash of what they show, so memory use depends on the number of
//! distinct rows and not on their size.

use std::collections::HashSet;
use std::rc::Rc;

use storage::{Held, WorkingMemory};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::QueryError;
use crate::made_object::MadeObject;
use crate::row::Row;
use crate::row_counts::RowCounts;

/// Maximum number of distinct rows of one query; each costs some tens of bytes.
const DIFFERENT_ROWS_MAX: usize = 4 << 20;
/// The cost of each, including the free slots of the hash table.
const HASH_BYTES: usize = 24;

/// What a row shows: one JSON value, or one for each object that a script produced from it.
pub(crate) enum Content {
    /// Printed again when the row is written.
    Fields(Vec<u8>),
    /// Kept with the row, and charged to this owner.
    Made(Vec<MadeObject>, Held),
}

/// Returns what a row shows, and charges the row for the memory it takes from then on.
pub(crate) type ContentOf<'t> = Box<dyn Fn(&mut Row<'t>) -> Result<Content, QueryError> + 't>;

/// Rows that were not seen before. When memory runs short, the same row is returned again by the
/// next call.
pub(crate) struct DistinctRows<'t, R> {
    rows: R,
    /// The row for which there was no memory.
    waiting: Option<Row<'t>>,
    content_of: ContentOf<'t>,
    seen: HashSet<u128>,
    /// Memory charged for `seen`.
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

    /// Whether the row shows anything new; removes from it what is not.
    fn is_new(&mut self, row: &mut Row<'t>) -> Result<bool, QueryError> {
        // One more entry may double the table, while the old one still exists.
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
        row.set_made(kept, held);
        Ok(is_new)
    }

    fn is_first(&mut self, shown: &[u8]) -> Result<bool, QueryError> {
        if self.seen.len() == DIFFERENT_ROWS_MAX {
            let message = format!("'select distinct' produces more than {DIFFERENT_ROWS_MAX} rows");
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
                    self.waiting = Some(row).filter(|_| error.is_out_of_memory());
                    return Some(Err(error));
                }
            }
        }
    }
}
