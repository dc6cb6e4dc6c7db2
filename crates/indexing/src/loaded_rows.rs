//! The documents that a map loaded, kept as long as values of them are in use.
//!
//! A list that only grows, so that what was given out stays where it is while more is added.

use std::cell::OnceCell;

use documents::DocumentRow;

/// A place for one row, and all places behind it.
#[derive(Default)]
pub(crate) struct LoadedRows<'t>(OnceCell<Box<Loaded<'t>>>);

struct Loaded<'t> {
    row: DocumentRow<'t>,
    behind: LoadedRows<'t>,
}

impl<'t> LoadedRows<'t> {
    /// Keeps a row in the first free place; gives it back with the places behind it.
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
    /// One after the other: a long list may not need a deep stack.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut loaded) = next {
            next = loaded.behind.0.take();
        }
    }
}
