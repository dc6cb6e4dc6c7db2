//! Which changes were made by one transaction.
//!
//! ```text
//! tree Transactions   etag of the first change, 64 bits -> etag of the last change, 64 bits little-endian
//! ```
//!
//! Only transactions of more than one change are noted: every other etag is a transaction by itself. What a transaction
//! has changed may have been changed again since, so that fewer entries of the log are left of it, or none.
//! A note of whose changes fewer than two are left says nothing, and is forgotten.
//! Databases that were written by older versions have no notes of what was written then: there every change counts as
//! a transaction by itself.

use std::iter::Peekable;

use model::Etag;
use storage::{StorageError, Transaction, TreeName, WriteTransaction};

use crate::error::{DocumentError, corrupt};

pub(crate) const VALUE_BYTES: u16 = 8;

pub(crate) fn tree() -> TreeName {
    TreeName::from("Transactions")
}

/// Notes a transaction whose changes follow an etag, up to `last`.
pub(crate) fn note(
    tx: &mut WriteTransaction,
    before: Etag,
    last: Etag,
) -> Result<(), DocumentError> {
    let Some(first) = before.next().filter(|first| *first < last) else { return Ok(()) };
    tx.fixed_tree_mut(&tree(), VALUE_BYTES)?.put(first.0, &last.0.to_le_bytes())?;
    Ok(())
}

type Notes<'t> = dyn Iterator<Item = Result<(u64, &'t [u8]), StorageError>> + 't;

/// Where transactions end, along the log.
pub struct TransactionEnds<'t> {
    notes: Peekable<Box<Notes<'t>>>,
}

impl<'t> TransactionEnds<'t> {
    /// For changes after an etag.
    ///
    /// # Errors
    /// Storage errors.
    pub fn after<T: Transaction>(tx: &'t T, etag: Etag) -> Result<Self, DocumentError> {
        let rows = tx.fixed_tree(&tree())?;
        // The transaction in which the etag is, if it is within one.
        let from = rows.range_back(etag.0)?.next().transpose()?.map_or(0, |(first, _)| first);
        let notes: Box<Notes<'t>> = Box::new(rows.range(from)?);
        Ok(Self { notes: notes.peekable() })
    }

    /// The etag of the last change of the transaction that made the change with this etag. Etags rise from call to call.
    ///
    /// # Errors
    /// Storage errors; a damaged note.
    pub fn end_of(&mut self, etag: Etag) -> Result<Etag, DocumentError> {
        while let Some(note) = self.notes.peek() {
            let (first, last) = match note {
                Ok((first, last)) => (*first, *last),
                Err(error) => return Err(error.clone().into()),
            };
            let last = last.try_into().map(u64::from_le_bytes);
            let last = last.map_err(|_| corrupt("the note of a transaction is damaged"))?;
            if last <= first {
                return Err(corrupt("a transaction ends before it begins"));
            }
            if etag.0 < first {
                break;
            }
            if etag.0 <= last {
                return Ok(Etag(last));
            }
            self.notes.next();
        }
        Ok(etag)
    }
}
