//! Reads the rows of a CSV file that arrives in pieces.
//!
//! The format is RFC 4180, read leniently as RavenDB does: lines may end in any way, empty ones are passed over, and a
//! quote inside of an unquoted field stands for itself. `csv-core` finds the fields; this part collects them. Memory
//! holds one row, which has a limit.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::error::RowFormatError;

/// Precedes the text of files of spreadsheets and of exports.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Room for fields and for ends of fields at first.
const BUFFER_BYTES: usize = 4 << 10;
const BUFFER_FIELDS: usize = 64;
/// A row with more fields is refused.
const FIELDS_MAX: usize = 64 << 10;

/// How the fields of a CSV file are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvFormat {
    /// Between two fields.
    pub delimiter: u8,
    /// Around a field that has delimiters, quotes or line ends; twice inside of it.
    pub quote: u8,
    /// Begins a line that is passed over.
    pub comment: Option<u8>,
    /// Whether blanks around a field are left out.
    pub trims: bool,
}

impl Default for CsvFormat {
    fn default() -> Self {
        Self { delimiter: b',', quote: b'"', comment: None, trims: false }
    }
}

/// The rows of a file.
pub(crate) struct CsvReader {
    core: Reader,
    trims: bool,
    row_bytes_max: usize,
    /// The fields of the row so far, without anything between them, and where each ends.
    fields: Vec<u8>,
    used: usize,
    ends: Vec<usize>,
    ends_used: usize,
    /// Whether the row has more than the limit; the rest of it is passed over.
    is_too_long: bool,
    begins_row: bool,
    /// Whether anything was read: a mark is only at the beginning.
    has_read: bool,
    /// How many rows are complete.
    rows: u64,
    head: Head,
}

/// Whether the beginning of the file was looked at.
enum Head {
    Open(Vec<u8>),
    Passed,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CsvEvent {
    /// Another piece is needed.
    NeedMore,
    /// A row is complete.
    Row,
    /// A row that cannot be used.
    Refused(RowFormatError),
}

impl CsvReader {
    pub(crate) fn new(format: CsvFormat, row_bytes_max: usize) -> CsvReader {
        let core = ReaderBuilder::new()
            .delimiter(format.delimiter)
            .quote(format.quote)
            .comment(format.comment)
            .build();
        CsvReader {
            core,
            trims: format.trims,
            row_bytes_max,
            fields: vec![0; BUFFER_BYTES],
            used: 0,
            ends: vec![0; BUFFER_FIELDS],
            ends_used: 0,
            is_too_long: false,
            begins_row: true,
            has_read: false,
            rows: 0,
            head: Head::Open(Vec::new()),
        }
    }

    /// Takes what it needs off the piece.
    pub(crate) fn next(&mut self, piece: &mut &[u8]) -> CsvEvent {
        if let Head::Open(head) = &mut self.head
            && !self.has_read
        {
            while head.len() < BYTE_ORDER_MARK.len() && !piece.is_empty() {
                head.push(piece[0]);
                *piece = &piece[1..];
            }
            if head.len() < BYTE_ORDER_MARK.len() {
                return CsvEvent::NeedMore;
            }
        }
        match self.read_head() {
            CsvEvent::NeedMore => self.read(piece),
            event => event,
        }
    }

    /// The last row, if its line has no end.
    pub(crate) fn finish(&mut self) -> Option<CsvEvent> {
        match self.read_head() {
            CsvEvent::NeedMore => {}
            event => return Some(event),
        }
        if self.begins_row {
            return None;
        }
        let used = self.used;
        match self.read(&mut &b"\n"[..]) {
            CsvEvent::NeedMore if used < self.used || self.is_too_long => {
                self.end_row();
                Some(CsvEvent::Refused(RowFormatError::OpenQuote))
            }
            CsvEvent::NeedMore => None,
            event => Some(event),
        }
    }

    /// Reads what was kept to look for the mark.
    fn read_head(&mut self) -> CsvEvent {
        let head = match std::mem::replace(&mut self.head, Head::Passed) {
            Head::Open(head) if head == BYTE_ORDER_MARK => return CsvEvent::NeedMore,
            Head::Open(head) => head,
            Head::Passed => return CsvEvent::NeedMore,
        };
        self.has_read = true;
        let mut rest = head.as_slice();
        let event = self.read(&mut rest);
        if event != CsvEvent::NeedMore {
            self.head = Head::Open(rest.to_vec());
        }
        event
    }

    fn read(&mut self, piece: &mut &[u8]) -> CsvEvent {
        loop {
            // Without input, `csv-core` would take the file for complete.
            if piece.is_empty() {
                return CsvEvent::NeedMore;
            }
            if self.begins_row {
                self.begin_row();
            }
            let (result, taken, written, fields) = self.core.read_record(
                piece,
                &mut self.fields[self.used..],
                &mut self.ends[self.ends_used..],
            );
            *piece = &piece[taken..];
            self.used += written;
            self.ends_used += fields;
            match result {
                ReadRecordResult::InputEmpty => return CsvEvent::NeedMore,
                ReadRecordResult::OutputFull => self.make_room(),
                ReadRecordResult::OutputEndsFull => self.make_room_for_fields(),
                ReadRecordResult::Record => return self.row(),
                ReadRecordResult::End => return CsvEvent::NeedMore,
            }
        }
    }

    fn begin_row(&mut self) {
        (self.used, self.ends_used) = (0, 0);
        self.is_too_long = false;
        self.begins_row = false;
    }

    fn make_room(&mut self) {
        if self.fields.len() < self.row_bytes_max {
            let bytes = (self.fields.len() * 2).min(self.row_bytes_max);
            self.fields.resize(bytes, 0);
        } else {
            self.is_too_long = true;
            self.used = 0;
        }
    }

    fn make_room_for_fields(&mut self) {
        if self.ends.len() < FIELDS_MAX {
            self.ends.resize(self.ends.len() * 2, 0);
        } else {
            self.is_too_long = true;
            self.ends_used = 0;
        }
    }

    fn row(&mut self) -> CsvEvent {
        let is_too_long = self.is_too_long;
        self.end_row();
        match is_too_long {
            true => CsvEvent::Refused(RowFormatError::RowTooLong { bytes_max: self.row_bytes_max }),
            false => CsvEvent::Row,
        }
    }

    fn end_row(&mut self) {
        self.begins_row = true;
        self.rows += 1;
        // What one long row took is not kept for all that follow.
        if self.is_too_long {
            self.fields = vec![0; BUFFER_BYTES];
            (self.used, self.ends_used) = (0, 0);
        }
    }

    /// The number of the row that is complete, from 1 on, that of the column names included; empty lines do not count.
    pub(crate) fn row_number(&self) -> u64 {
        self.rows
    }

    /// The memory of the row.
    pub(crate) fn held_bytes(&self) -> usize {
        self.fields.len() + self.ends.len() * size_of::<usize>()
    }

    /// The fields of the row that is complete.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends[..self.ends_used].iter().map(move |end| {
            let field = &self.fields[begin..*end];
            begin = *end;
            if self.trims { field.trim_ascii() } else { field }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows with their numbers; a refused one as its reason.
    fn rows(
        format: CsvFormat,
        bytes_max: usize,
        text: &[u8],
        piece_bytes: usize,
    ) -> Vec<(u64, Vec<String>)> {
        let (mut reader, mut rows) = (CsvReader::new(format, bytes_max), Vec::new());
        let mut take = |reader: &CsvReader, event: CsvEvent| match event {
            CsvEvent::NeedMore => {}
            CsvEvent::Row => {
                let texts = reader.fields().map(|field| String::from_utf8_lossy(field).into());
                rows.push((reader.row_number(), texts.collect()));
            }
            CsvEvent::Refused(error) => rows.push((reader.row_number(), vec![error.to_string()])),
        };
        for mut piece in text.chunks(piece_bytes) {
            loop {
                let event = reader.next(&mut piece);
                if event == CsvEvent::NeedMore {
                    break;
                }
                take(&reader, event);
            }
        }
        while let Some(event) = reader.finish() {
            take(&reader, event);
        }
        rows
    }

    fn check(format: CsvFormat, text: &[u8], expected: &[(u64, &[&str])]) {
        for piece_bytes in 1..=text.len().max(1) {
            let found = rows(format, 1 << 20, text, piece_bytes);
            let found: Vec<(u64, Vec<&str>)> = found
                .iter()
                .map(|(number, row)| (*number, row.iter().map(String::as_str).collect()))
                .collect();
            let expected: Vec<_> =
                expected.iter().map(|(number, row)| (*number, row.to_vec())).collect();
            assert_eq!(found, expected, "{piece_bytes} bytes at a time");
        }
    }

    #[test]
    fn rows_are_found_wherever_the_pieces_are_cut() {
        let text = "a,b\r\n\"x \"\"y\"\"\n,z\",\"\"\n\n\nq\"r, s \r,\u{e9}";
        let expected: &[(u64, &[&str])] = &[
            (1, &["a", "b"]),
            (2, &["x \"y\"\n,z", ""]),
            (3, &["q\"r", " s "]),
            (4, &["", "\u{e9}"]),
        ];
        check(CsvFormat::default(), text.as_bytes(), expected);
        check(CsvFormat::default(), b"", &[]);
        check(CsvFormat::default(), b"\xef\xbb\xbf", &[]);
        check(CsvFormat::default(), b"\xef\xbb\xbfa", &[(1, &["a"])]);
        check(CsvFormat::default(), b"a", &[(1, &["a"])]);
        check(CsvFormat::default(), b"\xef\xbb", &[(1, &["\u{fffd}"])]);
    }

    #[test]
    fn delimiters_quotes_comments_and_blanks_are_as_asked_for() {
        let format = CsvFormat { delimiter: b';', quote: b'\'', comment: Some(b'#'), trims: true };
        check(format, b"#c\n a ;'b;'\n#'\n\"c\";d", &[(1, &["a", "b;"]), (2, &["\"c\"", "d"])]);
    }

    #[test]
    fn a_quote_that_never_ends_is_told_from_a_field() {
        let open = "the last field of the file begins with a quote and has no other";
        check(CsvFormat::default(), b"a\n\"b\nc", &[(1, &["a"]), (2, &[open])]);
        check(CsvFormat::default(), b"a\n\"", &[(1, &["a"]), (2, &[open])]);
        check(CsvFormat::default(), b"a\n\"b\"", &[(1, &["a"]), (2, &["b"])]);
    }

    #[test]
    fn a_row_that_is_too_long_is_passed_over() {
        let long = "x".repeat(20_000);
        let text = format!("a\n{long},\"{long}\"\nb\n{}\nc\n", ",".repeat(FIELDS_MAX + 5));
        for piece_bytes in [1, 7, 4096, text.len()] {
            let found = rows(CsvFormat::default(), 10_000, text.as_bytes(), piece_bytes);
            let texts: Vec<&str> = found.iter().map(|(_, row)| row[0].as_str()).collect();
            let too_long = "it has more than 10000 bytes or too many fields";
            assert_eq!(texts, ["a", too_long, "b", too_long, "c"]);
        }
    }
}
