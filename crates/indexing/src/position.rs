//! The position of an index in the logs that it follows.

use model::Etag;

/// A position in the log of the documents, and in that of compare exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The etag of the last change of documents, or of other stored data.
    pub etag: Etag,
    /// The index of the last change of compare exchange; 0 where it does not matter.
    pub value: u64,
}

impl Position {
    /// Whether this includes everything up to `other`.
    pub(crate) fn covers(self, other: Self) -> bool {
        other.etag <= self.etag && other.value <= self.value
    }
}

impl From<Etag> for Position {
    fn from(etag: Etag) -> Self {
        Self { etag, value: 0 }
    }
}
