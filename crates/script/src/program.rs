//! A script's text, assembled from parts by different authors, and positions mapped back to them.
//!
//! The text is one function that is evaluated once per engine. Authors' texts are on separate lines
//! between lines of this crate, so that a position in the whole maps to one in a part.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Position;

/// How long the text of one program may be, in bytes.
pub const PROGRAM_BYTES_MAX: usize = 4 << 20;

/// The file name of the text in the engine.
pub(crate) const FILE_NAME: &str = "script";

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The text of a script, ready for any engine.
#[derive(Debug)]
pub(crate) struct Program {
    /// Identifies the program in the engines' caches.
    pub(crate) id: u64,
    pub(crate) text: String,
    parts: Vec<Part>,
}

/// The range of an author's text.
#[derive(Debug)]
struct Part {
    first_line: u32,
    lines: u32,
}

/// Puts a program together.
pub(crate) struct ProgramBuilder {
    text: String,
    line: u32,
    parts: Vec<Part>,
}

impl ProgramBuilder {
    pub(crate) fn new() -> Self {
        ProgramBuilder { text: String::new(), line: 1, parts: Vec::new() }
    }

    /// Adds lines of this crate's own.
    pub(crate) fn frame(&mut self, text: &str) -> &mut Self {
        self.push(text);
        self
    }

    /// Adds an author's text.
    pub(crate) fn part(&mut self, text: &str) -> &mut Self {
        let first_line = self.line;
        self.push(text);
        self.parts.push(Part { first_line, lines: self.line - first_line });
        self
    }

    pub(crate) fn finish(self) -> Program {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Program { id, text: self.text, parts: self.parts }
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
        let newlines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
        self.line = self.line.saturating_add(u32::try_from(newlines).unwrap_or(u32::MAX));
    }
}

impl Program {
    /// The position in the author's text; `None` on a line of this crate.
    pub(crate) fn position(&self, line: u32, column: u32) -> Option<Position> {
        let part = self
            .parts
            .iter()
            .find(|part| (part.first_line..part.first_line + part.lines).contains(&line))?;
        Some(Position { line: line - part.first_line + 1, column })
    }

    /// Rewrites the engine's description of a stack: only calls of the author's text, at its positions.
    pub(crate) fn stack(&self, stack: &str) -> (Option<Position>, String) {
        let mut first = None;
        let mut lines = Vec::new();
        for line in stack.lines() {
            let Some((function, position)) = self.stack_line(line) else { continue };
            first = first.or(Some(position));
            lines.push(format!("at {function}:{}:{}", position.line, position.column));
        }
        (first, lines.join("\n"))
    }

    /// A line such as `    at f (script:3:7)` or `    at script:3:7`.
    fn stack_line<'a>(&self, line: &'a str) -> Option<(&'a str, Position)> {
        let line = line.trim().strip_prefix("at ")?;
        let (function, place) = match line.split_once(" (") {
            Some((function, place)) => (function, place.strip_suffix(')')?),
            None => ("<anonymous>", line),
        };
        let mut numbers = place.strip_prefix(FILE_NAME)?.strip_prefix(':')?.split(':');
        let line = numbers.next()?.parse().ok()?;
        let column = numbers.next().and_then(|column| column.parse().ok()).unwrap_or(1);
        Some((function, self.position(line, column)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_author() {
        let mut builder = ProgramBuilder::new();
        builder.frame("(function () {\n'use strict';").part("a\nb").frame("//").part("c");
        let program = builder.finish();
        let at = |line, column| Some(Position { line, column });
        assert_eq!(program.position(2, 1), None);
        assert_eq!(program.position(3, 5), at(1, 5));
        assert_eq!(program.position(4, 1), at(2, 1));
        assert_eq!(program.position(5, 1), None);
        assert_eq!(program.position(6, 9), at(1, 9));
        let (position, stack) = program
            .stack("    at f (script:4:7)\n    at map (native)\n    at <eval> (script:1:2)\n");
        assert_eq!(position, at(2, 7));
        assert_eq!(stack, "at f:2:7");
    }
}
