//! The rows of one page, from an iterator that may be resumed after an error.

use crate::error::QueryError;
use crate::row::Row;

/// Skips the first rows and ends when the page is full. An error is passed on without counting as a
/// row: it neither uses up the page nor ends the skipping, which is what [`Iterator::take`] and
/// [`Iterator::skip_while`] would do.
pub(crate) struct PageRows<R> {
    rows: R,
    /// Rows still to be skipped.
    skip: usize,
    /// Rows that still fit on the page.
    left: usize,
}

impl<R> PageRows<R> {
    pub(crate) fn new(rows: R, start: usize, page_size: usize) -> Self {
        Self { rows, skip: start, left: page_size }
    }
}

impl<'t, R> Iterator for PageRows<R>
where
    R: Iterator<Item = Result<Row<'t>, QueryError>>,
{
    type Item = Result<Row<'t>, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        while 0 < self.left {
            let row = self.rows.next()?;
            if row.is_err() {
                return Some(row);
            }
            if self.skip == 0 {
                self.left -= 1;
                return Some(row);
            }
            self.skip -= 1;
        }
        None
    }
}
