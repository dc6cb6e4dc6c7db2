//! `select distinct`: rows that show the same as an earlier row are left out.
//!
//! What a row shows is compared by a hash of 128 bits, so memory follows the number of different rows
//! and not their size.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::QueryError;
use crate::projection::Projection;
use crate::result::Row;

/// Different rows that one query may show; each costs some tens of bytes.
const DIFFERENT_ROWS_MAX: usize = 4 << 20;

/// The rows that show something new.
pub(crate) struct DistinctRows<R> {
    rows: R,
    projection: Projection,
    seen: HashSet<u128>,
    shown: Vec<u8>,
    skipped: u64,
}

impl<'t, R> DistinctRows<R>
where
    R: Iterator<Item = Result<Row<'t>, QueryError>>,
{
    pub(crate) fn new(rows: R, projection: Projection) -> DistinctRows<R> {
        DistinctRows { rows, projection, seen: HashSet::new(), shown: Vec::new(), skipped: 0 }
    }

    /// How many rows were left out so far.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    fn is_new(&mut self, row: &Row<'_>) -> Result<bool, QueryError> {
        self.shown.clear();
        self.projection.write_fields(row, &[], &mut self.shown)?;
        if self.seen.len() == DIFFERENT_ROWS_MAX {
            let message = format!("'select distinct' gives more than {DIFFERENT_ROWS_MAX} rows");
            return Err(QueryError::InvalidOperation { message });
        }
        Ok(self.seen.insert(xxh3_128(&self.shown)))
    }
}

impl<'t, R> Iterator for DistinctRows<R>
where
    R: Iterator<Item = Result<Row<'t>, QueryError>>,
{
    type Item = Result<Row<'t>, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let row = match self.rows.next()? {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            match self.is_new(&row) {
                Ok(true) => return Some(Ok(row)),
                Ok(false) => self.skipped += 1,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
