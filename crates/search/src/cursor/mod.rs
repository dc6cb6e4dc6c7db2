//! Cursors: matching entries in ascending order, found on demand.

mod difference;
mod filtered;
mod intersection;
mod set;
mod terms;
mod union;

pub(crate) use {
    difference::DifferenceCursor,
    filtered::{EntryFilter, FilteredCursor},
    intersection::IntersectionCursor,
    set::SetCursor,
    terms::{EmptyCursor, TermCursor},
    union::UnionCursor,
};

use crate::error::SearchError;

/// The position of a cursor after its last entry.
pub(crate) const END: u64 = u64::MAX;

/// Matching entries in ascending order. A new cursor is at its first entry.
pub(crate) trait Cursor: Send {
    /// The entry here, [`END`] after the last.
    fn current(&self) -> u64;

    /// Moves to the next entry and returns it.
    fn advance(&mut self) -> Result<u64, SearchError>;

    /// Moves to the first entry at or above `target`, never backwards, and returns it.
    fn seek(&mut self, target: u64) -> Result<u64, SearchError>;

    /// An upper bound on the matches; exact for single terms.
    fn estimate(&self) -> u64;

    /// How well the entry here matches.
    fn score(&mut self) -> Result<f32, SearchError>;
}

/// A cursor of any kind.
pub(crate) type BoxedCursor<'c> = Box<dyn Cursor + 'c>;
