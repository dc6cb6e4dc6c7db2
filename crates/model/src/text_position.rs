//! Where something stands in a text, for people.

use std::fmt;

/// A line and a column, both counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPosition {
    /// The line, counted from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl TextPosition {
    /// The position of the byte `offset` in `text`; an offset past the end means the end.
    pub fn of(text: &str, offset: usize) -> TextPosition {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let lines = before.bytes().filter(|byte| *byte == b'\n').count();
        let columns = before[line_start..].chars().count();
        TextPosition { line: count(lines), column: count(columns) }
    }
}

fn count(zero_based: usize) -> u32 {
    u32::try_from(zero_based + 1).unwrap_or(u32::MAX)
}

impl fmt::Display for TextPosition {
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
            assert_eq!(TextPosition::of(text, offset).to_string(), expected, "offset {offset}");
        }
    }
}
