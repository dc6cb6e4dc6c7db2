//! Documents in the rows of a CSV file, or in the lines of a file of JSON lines, that arrives in pieces.

use crate::{
    csv_document::CsvColumns,
    csv_reader::{CsvEvent, CsvFormat, CsvReader},
    error::{CsvHeaderError, RowFormatError},
    line_reader::{LineEvent, LineReader},
};

/// What a file of documents looks like.
#[derive(Clone, Debug)]
pub enum RowFormat {
    /// Column names, and then one document a row.
    Csv {
        /// How fields are separated.
        format: CsvFormat,
        /// The collection of documents that have none in a column.
        collection: Option<String>,
    },
    /// One document in JSON a line.
    Lines,
}

/// The next thing in a file.
#[derive(Debug, PartialEq, Eq)]
pub enum RowEvent<'r> {
    /// Another piece is needed.
    NeedMore,
    /// A document in JSON; that of a line may be damaged.
    Document {
        /// The text.
        text: &'r [u8],
        /// The number of the row or the line, from 1 on; the column names are row 1.
        number: u64,
    },
    /// A row that cannot be used.
    Refused {
        /// Its number.
        number: u64,
        /// Why.
        reason: RowFormatError,
    },
}

/// See the module.
pub struct RowReader(Format);

enum Format {
    Csv(Box<CsvRows>),
    Lines(LineReader),
}

struct CsvRows {
    reader: CsvReader,
    collection: Option<String>,
    columns: Option<CsvColumns>,
    document: Vec<u8>,
}

impl RowReader {
    /// Rows up to that length in bytes are read; longer ones are refused.
    pub fn new(format: RowFormat, row_bytes_max: usize) -> RowReader {
        RowReader(match format {
            RowFormat::Csv { format, collection } => Format::Csv(Box::new(CsvRows {
                reader: CsvReader::new(format, row_bytes_max),
                collection,
                columns: None,
                document: Vec::new(),
            })),
            RowFormat::Lines => Format::Lines(LineReader::new(row_bytes_max)),
        })
    }

    /// Takes what it needs off the piece.
    ///
    /// # Errors
    /// The first row of a CSV file cannot be its header: nothing of the file can be read.
    pub fn next(&mut self, piece: &mut &[u8]) -> Result<RowEvent<'_>, CsvHeaderError> {
        match &mut self.0 {
            Format::Csv(rows) => loop {
                let event = rows.reader.next(piece);
                if rows.take_header(&event)? {
                    continue;
                }
                return Ok(rows.document(event));
            },
            Format::Lines(lines) => {
                let event = lines.next(piece);
                Ok(document_in_line(lines, event))
            }
        }
    }

    /// What is left when the file has ended; `None` if nothing is. To be called until then.
    ///
    /// # Errors
    /// As for [`RowReader::next`].
    pub fn finish(&mut self) -> Result<Option<RowEvent<'_>>, CsvHeaderError> {
        match &mut self.0 {
            Format::Csv(rows) => {
                let Some(event) = rows.reader.finish() else { return Ok(None) };
                if rows.take_header(&event)? {
                    return Ok(None);
                }
                Ok(Some(rows.document(event)))
            }
            Format::Lines(lines) => {
                let event = lines.finish();
                Ok(event.map(|event| document_in_line(lines, event)))
            }
        }
    }

    /// About how much memory it holds, in bytes.
    pub fn held_bytes(&self) -> usize {
        match &self.0 {
            Format::Csv(rows) => rows.reader.held_bytes() + rows.document.capacity(),
            Format::Lines(lines) => lines.held_bytes(),
        }
    }
}

fn document_in_line(lines: &LineReader, event: LineEvent) -> RowEvent<'_> {
    match event {
        LineEvent::NeedMore => RowEvent::NeedMore,
        LineEvent::Line => RowEvent::Document { text: lines.text(), number: lines.line() },
        LineEvent::Refused(reason) => RowEvent::Refused { number: lines.line(), reason },
    }
}

impl CsvRows {
    /// Whether the row has the names of the columns.
    fn take_header(&mut self, event: &CsvEvent) -> Result<bool, CsvHeaderError> {
        if self.columns.is_some() {
            return Ok(false);
        }
        match event {
            CsvEvent::NeedMore => Ok(false),
            CsvEvent::Refused(reason) => Err(CsvHeaderError::Unreadable(reason.clone())),
            CsvEvent::Row => {
                let columns = CsvColumns::of_header(self.reader.fields(), self.collection.take())?;
                self.columns = Some(columns);
                Ok(true)
            }
        }
    }

    fn document(&mut self, event: CsvEvent) -> RowEvent<'_> {
        let number = self.reader.row_number();
        match (event, &self.columns) {
            (CsvEvent::Refused(reason), _) => RowEvent::Refused { number, reason },
            (CsvEvent::Row, Some(columns)) => {
                self.document.clear();
                match columns.write_document(self.reader.fields(), &mut self.document) {
                    Ok(()) => RowEvent::Document { text: &self.document, number },
                    Err(reason) => RowEvent::Refused { number, reason },
                }
            }
            (CsvEvent::NeedMore, _) | (CsvEvent::Row, None) => RowEvent::NeedMore,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(format: &RowFormat, text: &[u8], piece_bytes: usize) -> Result<Vec<String>, String> {
        let (mut reader, mut found) = (RowReader::new(format.clone(), 10_000), Vec::new());
        let mut take = |event: RowEvent<'_>| match event {
            RowEvent::NeedMore => false,
            RowEvent::Document { text, number } => {
                found.push(format!("{number} {}", String::from_utf8_lossy(text)));
                true
            }
            RowEvent::Refused { number, reason } => {
                found.push(format!("{number} {reason}"));
                true
            }
        };
        for mut piece in text.chunks(piece_bytes) {
            while take(reader.next(&mut piece).map_err(|error| error.to_string())?) {}
        }
        while let Some(event) = reader.finish().map_err(|error| error.to_string())? {
            take(event);
        }
        Ok(found)
    }

    fn csv() -> RowFormat {
        RowFormat::Csv { format: CsvFormat::default(), collection: Some("Cs".to_owned()) }
    }

    #[test]
    fn rows_become_documents_and_bad_ones_are_numbered() {
        let text = "@id,a\r\nx/1,1\r\nx/2\r\nx/3,3";
        for piece_bytes in 1..=text.len() {
            let found = read(&csv(), text.as_bytes(), piece_bytes).unwrap();
            let document = |n: u32| {
                format!(r#"{} {{"a":{n},"@metadata":{{"@id":"x/{n}","@collection":"Cs"}}}}"#, n + 1)
            };
            let refused = "3 it has 1 fields, but there are 2 columns".to_owned();
            assert_eq!(found, [document(1), refused, document(3)]);
        }
        assert_eq!(read(&csv(), b"", 1), Ok(Vec::new()));
        assert_eq!(read(&csv(), b"@id,a", 1), Ok(Vec::new()));
        let lines = read(&RowFormat::Lines, b"{\"a\":1}\r\n\r\n{\"a\":2}", 3).unwrap();
        assert_eq!(lines, ["1 {\"a\":1}", "3 {\"a\":2}"]);
    }

    #[test]
    fn a_header_that_cannot_be_used_is_an_error() {
        let error = read(&csv(), b"A,A.B\n1,2\n", 5).unwrap_err();
        assert!(error.contains("'A.B'"), "{error}");
        let error = read(&csv(), b"\"A", 5).unwrap_err();
        assert!(error.starts_with("the row of column names"), "{error}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_give_the_same_whatever_the_pieces(
            text in prop::collection::vec(
                prop::sample::select(&b"\",\n\r[]{}a1. @\xff\xef\xbb\xbf"[..]), 0..60),
            piece_bytes in 1_usize..9,
        ) {
            for format in [csv(), RowFormat::Lines] {
                let whole = read(&format, &text, text.len().max(1));
                prop_assert_eq!(whole, read(&format, &text, piece_bytes));
            }
        }
    }
}
