//! The rows of one page, from rows that may be asked for again after an error.

use crate::error::QueryError;
use crate::row::Row;

/// Leaves out the first rows and ends after the page is full. An error is passed on and is no row: it uses up
/// nothing of the page, and rows that are to be left out are left out behind it, too. [`Iterator::take`] and
/// [`Iterator::skip_while`] would count it.
pub(crate) struct PageRows<R> {
    rows: R,
    /// Rows that are yet to be left out.
    skip: usize,
    /// Rows that the page still has room for.
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
