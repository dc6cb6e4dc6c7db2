//! What a command is applied to.

use storage::WriteTransaction;

use crate::records::ChangedRecord;

/// The state while a command is applied, and the index of its change.
pub(crate) struct Applying<'t> {
    pub(crate) tx: &'t mut WriteTransaction,
    pub(crate) index: u64,
    /// The records it has changed so far.
    pub(crate) records: &'t mut Vec<ChangedRecord>,
}
