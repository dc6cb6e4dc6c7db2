//! Rows that are counted before the response starts, so that their number is known.
//!
//! A few of them are kept until they are written; when there are more, or memory runs short, they
//! are read again. If there is no memory for even one row, counting resumes later from where it
//! stopped.

use std::rc::Rc;

use storage::{Held, WorkingMemory};

use crate::error::QueryError;
use crate::row::{Row, Rows};
use crate::row_counts::RowCounts;

/// Maximum number of rows kept until they are written.
const KEPT_MAX: usize = 4096;

/// Rows of a query whose total is counted before the first one is written.
pub(crate) struct CountedRows<'t> {
    rows: Rows<'t>,
    /// What was filtered out on the way to the rows.
    pub(crate) counts: Rc<RowCounts>,
    /// The rows so far; `None` once they no longer all fit.
    kept: Option<Vec<Row<'t>>>,
    /// Memory charged for the list of those. Each row charges what it owns itself.
    held: Held,
    /// The number of rows; where a script produces rows, the number it produced.
    pub(crate) found: u64,
}

impl<'t> CountedRows<'t> {
    pub(crate) fn new(
        rows: Rows<'t>,
        counts: Rc<RowCounts>,
        keeps: bool,
        memory: &Rc<WorkingMemory>,
    ) -> Self {
        let (kept, held) = (keeps.then(Vec::new), memory.holding());
        Self { rows, counts, kept, held, found: 0 }
    }

    /// Counts the rows.
    ///
    /// # Errors
    ///
    /// [`QueryError::Memory`] when there is no memory for a row, even though none is kept; the call
    /// may be repeated and resumes.
    pub(crate) fn count(&mut self) -> Result<(), QueryError> {
        loop {
            match self.rows.next().transpose() {
                Ok(None) => return Ok(()),
                Ok(Some(row)) => {
                    self.found += row.made.as_ref().map_or(1, |made| made.len() as u64);
                    self.keep(row);
                }
                Err(error) if error.is_out_of_memory() && self.has_kept() => self.forget(),
                Err(error) => return Err(error),
            }
        }
    }

    fn has_kept(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| !kept.is_empty())
    }

    fn keep(&mut self, row: Row<'t>) {
        let Some(kept) = &mut self.kept else { return };
        let count = kept.len() + 1;
        // A growing list exists twice while it is reallocated.
        let bytes = 2 * count.next_power_of_two() * size_of::<Row<'_>>();
        if count <= KEPT_MAX && self.held.grow_to(bytes as u64).is_ok() {
            kept.push(row);
        } else {
            drop(row);
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.kept = None;
        self.held.set(0);
    }

    /// The rows, if all of them were kept.
    pub(crate) fn into_kept(self) -> Option<Rows<'t>> {
        let Self { kept, held, .. } = self;
        let kept = kept?.into_iter().map(move |row| {
            // Charged while it exists.
            let _ = &held;
            Ok(row)
        });
        Some(Box::new(kept))
    }
}
