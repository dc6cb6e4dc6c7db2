//! Positions in a query text.
//!
//! The tree stores byte offsets, which cost nothing; the line and column for people are computed
//! only when an error is built.

use model::TextPosition as Position;

/// A byte offset into the query text that a tree was parsed from.
///
/// All offsets compare as equal: two trees are equal when they mean the same, whatever their
/// positions. That is what lets `parse(print(tree)) == tree` be a meaningful test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offset(u32);

impl Offset {
    pub(crate) fn new(offset: usize) -> Offset {
        // Texts are bounded by QUERY_BYTES_MAX, far below u32::MAX.
        Offset(u32::try_from(offset).unwrap_or(u32::MAX))
    }

    /// Line and column of this offset in `text`, the text that the tree was parsed from.
    pub fn locate(self, text: &str) -> Position {
        Position::of(text, self.0 as usize)
    }
}

impl PartialEq for Offset {
    fn eq(&self, _: &Offset) -> bool {
        true
    }
}

impl Eq for Offset {}
