//! Where the history of an environment begins.

/// The point at which the history of a new environment begins: that of the environment whose
/// content it takes over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) environment_id: u128,
    /// The newest transaction.
    pub(crate) transaction: u64,
    /// Journals from this number on have not been used.
    pub(crate) journal: u64,
}
