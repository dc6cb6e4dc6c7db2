//! Positions in a definition's text.
//!
//! The tree stores byte offsets, which cost nothing; the line and column for people are computed
//! only when an error is built.

use std::fmt;

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

/// A line and a column, both counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Position {
    /// The position of the byte `offset` in `text`; an offset past the end means the end.
    pub(crate) fn of(text: &str, offset: usize) -> Position {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let lines = before.bytes().filter(|byte| *byte == b'\n').count();
        let columns = before[line_start..].chars().count();
        Position { line: count(lines), column: count(columns) }
    }
}

fn count(zero_based: usize) -> u32 {
    u32::try_from(zero_based + 1).unwrap_or(u32::MAX)
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "from A\nwhere é = 1";
        for (offset, expected) in [(0, "1:1"), (6, "1:7"), (7, "2:1"), (16, "2:9"), (999, "2:12")] {
            assert_eq!(Position::of(text, offset).to_string(), expected, "offset {offset}");
        }
    }
}
