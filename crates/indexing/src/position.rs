//! How far an index is in the logs that it follows.

use model::Etag;

/// A place in the log of the documents, and in that of compare exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The last change of documents, or of something that belongs to them.
    pub etag: Etag,
    /// The index of the last change of compare exchange; 0 where it does not matter.
    pub value: u64,
}

impl Position {
    /// Whether everything up to `other` lies before this.
    pub(crate) fn covers(self, other: Self) -> bool {
        other.etag <= self.etag && other.value <= self.value
    }
}

impl From<Etag> for Position {
    fn from(etag: Etag) -> Self {
        Self { etag, value: 0 }
    }
}
