//! What stands for the state as a whole.

use std::{fmt, sync::Arc};

use storage::ReadTransaction;

/// The state as a whole.
#[derive(Clone)]
pub(crate) enum StateImage {
    /// The state of this node, as a transaction sees it.
    Stored(Arc<ReadTransaction>),
    /// The state of another node, whose pieces are all staged.
    Staged,
}

impl fmt::Debug for StateImage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Stored(_) => "Stored",
            Self::Staged => "Staged",
        })
    }
}
