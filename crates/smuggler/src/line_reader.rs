//! Reads the lines of a file of JSON lines that arrives in pieces. Empty lines are passed over. Memory holds one line,
//! which has a limit.

use crate::error::RowFormatError;

/// The lines of a file.
pub(crate) struct LineReader {
    line: Vec<u8>,
    line_bytes_max: usize,
    is_complete: bool,
    is_too_long: bool,
    /// Of the line in `line`, from 1 on.
    number: u64,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineEvent {
    /// Another piece is needed.
    NeedMore,
    /// A line is complete.
    Line,
    /// A line that cannot be used.
    Refused(RowFormatError),
}

impl LineReader {
    pub(crate) fn new(line_bytes_max: usize) -> LineReader {
        let line = Vec::new();
        LineReader { line, line_bytes_max, is_complete: false, is_too_long: false, number: 1 }
    }

    /// Takes what it needs off the piece.
    pub(crate) fn next(&mut self, piece: &mut &[u8]) -> LineEvent {
        loop {
            if std::mem::take(&mut self.is_complete) {
                self.line.clear();
                self.number += 1;
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            self.add(&piece[..end.unwrap_or(piece.len())]);
            let Some(end) = end else {
                *piece = &[];
                return LineEvent::NeedMore;
            };
            *piece = &piece[end + 1..];
            if let Some(event) = self.end_line() {
                return event;
            }
        }
    }

    /// The last line, if it has no end.
    pub(crate) fn finish(&mut self) -> Option<LineEvent> {
        if self.is_complete {
            return None;
        }
        self.end_line()
    }

    fn add(&mut self, part: &[u8]) {
        if self.line_bytes_max < self.line.len() + part.len() {
            self.is_too_long = true;
            self.line = Vec::new();
        }
        if !self.is_too_long {
            self.line.extend_from_slice(part);
        }
    }

    /// `None` for an empty line.
    fn end_line(&mut self) -> Option<LineEvent> {
        self.is_complete = true;
        if std::mem::take(&mut self.is_too_long) {
            let bytes_max = self.line_bytes_max;
            return Some(LineEvent::Refused(RowFormatError::RowTooLong { bytes_max }));
        }
        (!self.text().is_empty()).then_some(LineEvent::Line)
    }

    /// The line that is complete.
    pub(crate) fn text(&self) -> &[u8] {
        self.line.trim_ascii()
    }

    /// Its number, from 1 on.
    pub(crate) fn line(&self) -> u64 {
        self.number
    }

    /// The memory of the line.
    pub(crate) fn held_bytes(&self) -> usize {
        self.line.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], bytes_max: usize, piece_bytes: usize) -> Vec<(u64, String)> {
        let (mut reader, mut lines) = (LineReader::new(bytes_max), Vec::new());
        let mut take = |reader: &LineReader, event: LineEvent| match event {
            LineEvent::NeedMore => {}
            LineEvent::Line => {
                lines.push((reader.line(), String::from_utf8_lossy(reader.text()).into_owned()));
            }
            LineEvent::Refused(error) => lines.push((reader.line(), error.to_string())),
        };
        for mut piece in text.chunks(piece_bytes) {
            loop {
                let event = reader.next(&mut piece);
                if event == LineEvent::NeedMore {
                    break;
                }
                take(&reader, event);
            }
        }
        while let Some(event) = reader.finish() {
            take(&reader, event);
        }
        lines
    }

    #[test]
    fn lines_are_found_wherever_the_pieces_are_cut() {
        let text = b"{1}\r\n\n  \n{2} \n{3}";
        for piece_bytes in 1..=text.len() {
            let expected = [(1, "{1}"), (4, "{2}"), (5, "{3}")];
            let found = lines(text, 100, piece_bytes);
            let found: Vec<_> =
                found.iter().map(|(number, line)| (*number, line.as_str())).collect();
            assert_eq!(found, expected);
        }
        assert!(lines(b"", 100, 1).is_empty());
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let text = [b"a\n".as_slice(), &[b'x'; 5000], b"\nb\n", &[b'x'; 5000]].concat();
        for piece_bytes in [1, 100, 10_000] {
            let found = lines(&text, 1000, piece_bytes);
            let too_long = "it has more than 1000 bytes or too many fields".to_owned();
            let expected = [(1, "a".into()), (2, too_long.clone()), (3, "b".into()), (4, too_long)];
            assert_eq!(found, expected);
        }
    }
}
