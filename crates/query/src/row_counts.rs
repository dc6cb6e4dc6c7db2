//! Counts of rows dropped on the way to a page.

use std::cell::Cell;

/// Counts that the iterators of a page share.
#[derive(Debug, Default)]
pub(crate) struct RowCounts {
    scanned: Cell<u64>,
    passed: Cell<u64>,
    repeated: Cell<u64>,
}

impl RowCounts {
    /// How many rows a filter scanned.
    pub(crate) fn scanned(&self) -> u64 {
        self.scanned.get()
    }

    /// How many of them passed.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.get()
    }

    /// How many rows equaled an earlier one.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated.get()
    }

    pub(crate) fn note_scanned(&self, passed: bool) {
        self.scanned.set(self.scanned.get() + 1);
        self.passed.set(self.passed.get() + u64::from(passed));
    }

    pub(crate) fn note_repeated(&self, rows: u64) {
        self.repeated.set(self.repeated.get() + rows);
    }
}
