//! What a command is applied to.

use model::NodeTag;
use storage::WriteTransaction;

use crate::records::Changes;

/// The state while a command is applied, and the index of its change.
pub(crate) struct Applying<'t> {
    pub(crate) tx: &'t mut WriteTransaction,
    pub(crate) index: u64,
    /// This node, for what it notes for itself alone: no outcome depends on it.
    pub(crate) node: NodeTag,
    /// What it has changed so far.
    pub(crate) changes: &'t mut Changes,
}
