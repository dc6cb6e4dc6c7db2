//! Rows that are gone through before the answer begins, so that it is known how many there are.
//!
//! A few of them are kept until they are written; more, or more than there is memory for, are found again.
//! Where there is no room even for one, counting goes on later from where it is.

use std::rc::Rc;

use storage::{Held, WorkingMemory};

use crate::error::QueryError;
use crate::row::{Row, Rows};
use crate::row_counts::RowCounts;

/// Rows that are kept until they are written.
const KEPT_MAX: usize = 4096;

/// See the module.
pub(crate) struct CountedRows<'t> {
    rows: Rows<'t>,
    /// What was done on the way to the rows.
    pub(crate) counts: Rc<RowCounts>,
    /// The rows so far; `None` when not all of them are kept.
    kept: Option<Vec<Row<'t>>>,
    /// What the list of those takes. What each has beside itself it counts itself.
    held: Held,
    /// How many rows there are; of what a script made of a document, each.
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

    /// Goes through the rows.
    ///
    /// # Errors
    ///
    /// [`QueryError::Memory`] when there is no room for a row, although none is kept: it may go on later.
    pub(crate) fn count(&mut self) -> Result<(), QueryError> {
        loop {
            match self.rows.next().transpose() {
                Ok(None) => return Ok(()),
                Ok(Some(row)) => {
                    self.found += row.made.as_ref().map_or(1, |made| made.len() as u64);
                    self.keep(row);
                }
                Err(error) if error.is_for_want_of_memory() && self.has_kept() => self.forget(),
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
        // A list that grows is there twice for a moment.
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

    /// The rows, if all of them are kept.
    pub(crate) fn into_kept(self) -> Option<Rows<'t>> {
        let Self { kept, held, .. } = self;
        let kept = kept?.into_iter().map(move |row| {
            // Counted as long as there is one.
            let _ = &held;
            Ok(row)
        });
        Some(Box::new(kept))
    }
}
