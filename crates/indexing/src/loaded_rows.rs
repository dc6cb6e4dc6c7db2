//! The documents that a map loaded, kept while their values are in use.
//!
//! An append-only list, so that references into it stay valid while more is added.

use std::cell::OnceCell;

use documents::DocumentRow;

/// A place for one row, and all places after it.
#[derive(Default)]
pub(crate) struct LoadedRows<'t>(OnceCell<Box<Loaded<'t>>>);

struct Loaded<'t> {
    row: DocumentRow<'t>,
    behind: LoadedRows<'t>,
}

impl<'t> LoadedRows<'t> {
    /// Adds a row in the first free place; returns it with the places after it.
    pub(crate) fn add(&self, row: DocumentRow<'t>) -> (&DocumentRow<'t>, &Self) {
        let mut place = self;
        while let Some(taken) = place.0.get() {
            place = &taken.behind;
        }
        let loaded = place.0.get_or_init(|| Box::new(Loaded { row, behind: Self::default() }));
        (&loaded.row, &loaded.behind)
    }
}

impl Drop for LoadedRows<'_> {
    /// Iterative: dropping a long list recursively could overflow the stack.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut loaded) = next {
            next = loaded.behind.0.take();
        }
    }
}
