//! The rows that pass a filter.

use std::rc::Rc;

use crate::error::QueryError;
use crate::row::Row;
use crate::row_counts::RowCounts;

/// Tests a row, and charges it for the memory it takes from then on.
pub(crate) type Passes<'t> = Box<dyn Fn(&mut Row<'t>) -> Result<bool, QueryError> + 't>;

/// The rows that pass a filter. Rows are scanned lazily. When memory runs short, the same row is
/// tested again by the next call.
pub(crate) struct FilteredRows<'t, R> {
    rows: R,
    /// The row for which there was no memory.
    waiting: Option<Row<'t>>,
    passes: Passes<'t>,
    /// How many rows may still be scanned.
    left: u64,
    counts: Rc<RowCounts>,
}

impl<'t, R> FilteredRows<'t, R> {
    /// `scanned_max` is the maximum number of rows to scan.
    pub(crate) fn new(
        rows: R,
        passes: Passes<'t>,
        scanned_max: u64,
        counts: &Rc<RowCounts>,
    ) -> Self {
        Self { rows, waiting: None, passes, left: scanned_max, counts: Rc::clone(counts) }
    }
}

impl<'t, R> Iterator for FilteredRows<'t, R>
where
    R: Iterator<Item = Result<Row<'t>, QueryError>>,
{
    type Item = Result<Row<'t>, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        while 0 < self.left {
            let mut row =
                match self.waiting.take().map_or_else(|| self.rows.next(), |row| Some(Ok(row)))? {
                    Ok(row) => row,
                    Err(error) => return Some(Err(error)),
                };
            let passes = match (self.passes)(&mut row) {
                Ok(passes) => passes,
                Err(error) => {
                    self.waiting = Some(row).filter(|_| error.is_out_of_memory());
                    return Some(Err(error));
                }
            };
            self.left -= 1;
            self.counts.note_scanned(passes);
            if passes {
                return Some(Ok(row));
            }
        }
        None
    }
}
