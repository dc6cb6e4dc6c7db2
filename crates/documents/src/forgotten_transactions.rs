//! Forgetting notes of transactions: one of whose changes fewer than two are left needs none.

use model::Etag;
use storage::Transaction;

use crate::{
    error::{DocumentError, corrupt},
    log::{self, EntryKind, EntryKinds, Selection},
    transactions::{VALUE_BYTES, tree},
    write::DocumentWriter,
};

/// Notes that are looked at at once.
const LOOKED_AT_MAX: usize = 500;

impl DocumentWriter<'_> {
    /// Forgets notes of transactions of whose changes fewer than two are left, from an etag on, as far as there is time for
    /// it; returns where to go on, or `None` at the end.
    ///
    /// # Errors
    /// Storage errors; a damaged note.
    pub fn forget_transactions(&mut self, from: Etag) -> Result<Option<Etag>, DocumentError> {
        let (mut useless, mut next) = (Vec::new(), None);
        let tx = self.transaction();
        for (count, note) in tx.fixed_tree(&tree())?.range(from.0)?.enumerate() {
            let (first, last) = note?;
            if count == LOOKED_AT_MAX {
                next = Some(Etag(first));
                break;
            }
            let last = last.try_into().map(u64::from_le_bytes);
            let last = last.map_err(|_| corrupt("the note of a transaction is damaged"))?;
            let everything = [Selection::all(EntryKinds::of(&EntryKind::ALL))];
            let log = log::read(tx, &everything, Etag(first.saturating_sub(1)))?;
            let mut left = 0;
            for entry in log.take(2) {
                left += usize::from(entry?.etag().0 <= last);
            }
            if left < 2 {
                useless.push(first);
            }
        }
        if !useless.is_empty() {
            let mut notes = self.tx.fixed_tree_mut(&tree(), VALUE_BYTES)?;
            for first in useless {
                notes.delete(first)?;
            }
            self.note_quiet_change();
        }
        Ok(next)
    }
}
