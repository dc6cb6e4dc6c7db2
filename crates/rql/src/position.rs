//! Positions in a query text.
//!
//! The tree stores byte offsets, which cost nothing; the line and column for people are computed
//! only when an error is built.

use std::fmt;

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
