//! `select distinct`: rows that show the same as an earlier row are left out.
//!
//! What a row shows is compared by a hash of 128 bits, so memory follows the number of different rows
//! and not their size.

use std::collections::HashSet;
use std::rc::Rc;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::QueryError;
use crate::made_object::MadeObject;
use crate::row::Row;
use crate::row_counts::RowCounts;

/// Different rows that one query may show; each costs some tens of bytes.
const DIFFERENT_ROWS_MAX: usize = 4 << 20;

/// What a row shows: one text, or one for each object that a script made of it.
pub(crate) enum Content {
    /// Printed again when the row is.
    Fields(Vec<u8>),
    /// Kept with the row.
    Made(Vec<MadeObject>),
}

/// Tells what a row shows.
pub(crate) type ContentOf<'t> = Box<dyn Fn(&Row<'t>) -> Result<Content, QueryError> + 't>;

/// The rows that show something new.
pub(crate) struct DistinctRows<'t, R> {
    rows: R,
    content_of: ContentOf<'t>,
    seen: HashSet<u128>,
    counts: Rc<RowCounts>,
}

impl<'t, R> DistinctRows<'t, R> {
    pub(crate) fn new(rows: R, content_of: ContentOf<'t>, counts: &Rc<RowCounts>) -> Self {
        Self { rows, content_of, seen: HashSet::new(), counts: Rc::clone(counts) }
    }

    /// Whether the row shows something new; what of it is not is taken away from it.
    fn is_new(&mut self, row: &mut Row<'t>) -> Result<bool, QueryError> {
        let made = match (self.content_of)(row)? {
            Content::Fields(shown) => {
                let is_new = self.is_first(&shown)?;
                self.counts.note_repeated(u64::from(!is_new));
                return Ok(is_new);
            }
            Content::Made(made) => made,
        };
        let mut kept = Vec::with_capacity(made.len());
        for object in made {
            match self.is_first(&object.identity())? {
                true => kept.push(object),
                false => self.counts.note_repeated(1),
            }
        }
        let is_new = !kept.is_empty();
        row.made = Some(kept);
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
            let mut row = match self.rows.next()? {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            match self.is_new(&mut row) {
                Ok(true) => return Some(Ok(row)),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
