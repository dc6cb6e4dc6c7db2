//! What a command is applied to.

use storage::WriteTransaction;

use crate::records::ChangedRecord;

/// The state while a command is applied, and the number of the change that it makes.
pub(crate) struct Applying<'t> {
    pub(crate) tx: &'t mut WriteTransaction,
    pub(crate) index: u64,
    /// The records that it changed.
    pub(crate) records: &'t mut Vec<ChangedRecord>,
}
