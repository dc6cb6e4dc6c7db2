//! Positions in a definition's text.
//!
//! The tree stores byte offsets, which cost nothing; the line and column for people are computed
//! only when an error is built.

/// A range of bytes in the text of a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// Offsets are bounded by `DEFINITION_BYTES_MAX`, far below 2^32.
    pub(crate) fn new(start: usize, end: usize) -> Span {
        let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Span { start: narrow(start), end: narrow(end) }
    }

    /// From the start of this to the end of `other`.
    pub(crate) fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }

    /// The text of the range.
    pub(crate) fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}
