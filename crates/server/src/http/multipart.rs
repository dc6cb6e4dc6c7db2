//! Multipart bodies, `multipart/mixed` or `multipart/form-data`, parsed as they arrive.
//!
//! No sockets: pieces go in, events come out. Invariant: at most the headers of one part and a
//! piece of its content are held, whatever the size of the body.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memmem::Finder;
use wire::ErrorKind;

use crate::api_error::ApiError;

/// Maximum size of the headers of a part.
const HEADERS_BYTES_MAX: usize = 16 << 10;
/// Maximum length of a boundary; the standard allows 70.
const BOUNDARY_BYTES_MAX: usize = 256;
const LINE_END: &[u8] = b"\r\n";
const HEADERS_END: &[u8] = b"\r\n\r\n";

/// The next event of a body.
#[derive(Debug, PartialEq)]
pub(crate) enum PartEvent {
    /// Another piece of the body is needed.
    NeedMore,
    /// A part begins, with these headers.
    Begin(HeaderMap),
    /// A piece of its content.
    Content(Bytes),
    /// The part is over.
    End,
    /// There are no more parts.
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Before the first boundary.
    Preamble,
    /// Directly after a boundary.
    BehindBoundary,
    Headers,
    Content,
    Over,
}

/// Parses the parts of a body that arrives in pieces.
pub(crate) struct MultipartReader {
    /// A line end, two dashes and the boundary.
    delimiter: Finder<'static>,
    buffer: BytesMut,
    place: Place,
}

impl MultipartReader {
    /// For a body of that content type; `None` when it is not multipart.
    pub(crate) fn of(content_type: &str) -> Option<Result<MultipartReader, ApiError>> {
        let (media_type, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
        if !media_type.trim().to_ascii_lowercase().starts_with("multipart/") {
            return None;
        }
        let boundary = boundary_of(parameters)
            .ok_or_else(|| ApiError::new(ErrorKind::InvalidData, "Missing content-type boundary."));
        Some(boundary.map(|boundary| MultipartReader::new(&boundary)))
    }

    fn new(boundary: &str) -> MultipartReader {
        let delimiter = [LINE_END, b"--", boundary.as_bytes()].concat();
        // The first boundary may be at the very start, without a line end.
        let buffer = BytesMut::from(LINE_END);
        MultipartReader {
            delimiter: Finder::new(&delimiter).into_owned(),
            buffer,
            place: Place::Preamble,
        }
    }

    /// Adds the next piece of the body.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        if self.place != Place::Over {
            self.buffer.extend_from_slice(piece);
        }
    }

    /// The next event in the bytes received so far.
    pub(crate) fn next(&mut self) -> Result<PartEvent, ApiError> {
        loop {
            match self.place {
                Place::Over => return Ok(PartEvent::Over),
                Place::Preamble => match self.delimiter.find(&self.buffer) {
                    Some(at) => self.pass_delimiter(at),
                    None => {
                        let kept = self.delimiter.needle().len() - 1;
                        self.buffer.advance(self.buffer.len().saturating_sub(kept));
                        return Ok(PartEvent::NeedMore);
                    }
                },
                Place::BehindBoundary => match self.behind_boundary()? {
                    true => {}
                    false => return Ok(PartEvent::NeedMore),
                },
                Place::Headers => return self.headers(),
                Place::Content => return Ok(self.content()),
            }
        }
    }

    /// The error for a body that ends before its last boundary.
    pub(crate) fn cut() -> ApiError {
        let message = "Unexpected end of Stream, the content may have already been read by another \
                       component. ";
        ApiError::new(ErrorKind::PartsCut, message)
    }

    fn pass_delimiter(&mut self, at: usize) {
        self.buffer.advance(at + self.delimiter.needle().len());
        self.place = Place::BehindBoundary;
    }

    /// Whether it is known what follows the boundary: the end, or a part.
    fn behind_boundary(&mut self) -> Result<bool, ApiError> {
        if self.buffer.starts_with(b"--") {
            self.buffer = BytesMut::new();
            self.place = Place::Over;
            return Ok(true);
        }
        let blanks = self.buffer.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let rest = &self.buffer[blanks..];
        if rest.starts_with(LINE_END) {
            // The line end stays: without headers, it is the first half of their end.
            self.buffer.advance(blanks);
            self.place = Place::Headers;
            return Ok(true);
        }
        let may_become_one = matches!(rest, b"" | b"\r" | b"-") && blanks < HEADERS_BYTES_MAX;
        if may_become_one {
            Ok(false)
        } else {
            Err(invalid("A boundary is not followed by its line's end"))
        }
    }

    fn headers(&mut self) -> Result<PartEvent, ApiError> {
        let Some(end) = memchr::memmem::find(&self.buffer, HEADERS_END) else {
            if self.buffer.len() > HEADERS_BYTES_MAX {
                return Err(invalid("The headers of a part are too long"));
            }
            return Ok(PartEvent::NeedMore);
        };
        let lines = self.buffer.split_to(end);
        self.buffer.advance(HEADERS_END.len());
        // Content may be empty: its boundary's line end is then the end of the headers.
        self.place = Place::Content;
        read_headers(&lines).map(PartEvent::Begin)
    }

    fn content(&mut self) -> PartEvent {
        match self.delimiter.find(&self.buffer) {
            Some(0) => {
                self.pass_delimiter(0);
                PartEvent::End
            }
            Some(at) => PartEvent::Content(self.buffer.split_to(at).freeze()),
            None => {
                // The end of the buffer may be the start of a boundary.
                let kept = self.delimiter.needle().len() - 1;
                match self.buffer.len().saturating_sub(kept) {
                    0 => PartEvent::NeedMore,
                    sure => PartEvent::Content(self.buffer.split_to(sure).freeze()),
                }
            }
        }
    }
}

fn boundary_of(parameters: &str) -> Option<String> {
    let boundary = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then_some(value.trim())
    })?;
    let boundary = boundary.strip_prefix('"').map_or(boundary, |text| text.trim_end_matches('"'));
    (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()).then(|| boundary.to_owned())
}

fn read_headers(lines: &[u8]) -> Result<HeaderMap, ApiError> {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').map(|line| line.trim_ascii()) {
        if line.is_empty() {
            continue;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Err(invalid("A header of a part has no colon"));
        };
        let name = HeaderName::from_bytes(line[..colon].trim_ascii());
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(invalid("A header of a part cannot be read"));
        };
        headers.insert(name, value);
    }
    Ok(headers)
}

fn invalid(message: &str) -> ApiError {
    ApiError::new(ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of headers, and content.
    type Part = (Vec<String>, Vec<u8>);

    /// The parts of a body that arrives in pieces of `piece_bytes`.
    fn parts(content_type: &str, body: &[u8], piece_bytes: usize) -> Result<Vec<Part>, String> {
        let reader = MultipartReader::of(content_type).expect("a type in parts");
        let mut reader = reader.map_err(|error| error.message.clone())?;
        let (mut parts, mut pieces) = (Vec::new(), body.chunks(piece_bytes));
        loop {
            match reader.next().map_err(|error| error.message.clone())? {
                PartEvent::NeedMore => match pieces.next() {
                    Some(piece) => reader.push(piece),
                    None => return Err(MultipartReader::cut().message.clone()),
                },
                PartEvent::Begin(headers) => {
                    parts.push((headers.keys().map(|name| name.to_string()).collect(), Vec::new()));
                }
                PartEvent::Content(piece) => {
                    parts.last_mut().expect("a part has begun").1.extend_from_slice(&piece);
                }
                PartEvent::End => {}
                PartEvent::Over => return Ok(parts),
            }
        }
    }

    #[test]
    fn parts_are_found_wherever_the_pieces_are_cut() {
        let body = b"preamble\r\n--b\r\nContent-Type: a/b\r\nX: y\r\n\r\n{}\r\n--b  \r\n\r\n\
                     \r\n-\r\n--\r\n--c\r\n--b\r\nZ:1\r\n\r\n\r\n--b--\r\nepilogue";
        let expected = vec![
            (vec!["content-type".to_owned(), "x".to_owned()], b"{}".to_vec()),
            (vec![], b"\r\n-\r\n--\r\n--c".to_vec()),
            (vec!["z".to_owned()], vec![]),
        ];
        for content_type in
            ["multipart/mixed; boundary=b", "Multipart/Form-Data; x=1;Boundary=\"b\""]
        {
            for piece_bytes in 1..body.len() {
                assert_eq!(parts(content_type, body, piece_bytes), Ok(expected.clone()));
            }
        }
    }

    #[test]
    fn the_first_boundary_may_stand_at_the_beginning_and_the_last_may_end_the_body() {
        let found = parts("multipart/mixed;boundary=b", b"--b\r\n\r\nx\r\n--b--", 3).unwrap();
        assert_eq!(found, [(vec![], b"x".to_vec())]);
    }

    #[test]
    fn what_is_cut_or_wrong_is_refused() {
        for body in ["", "garbage", "--b\r\n", "--b\r\n\r\nabc", "--b\r\n\r\nabc\r\n--b"] {
            let error = parts("multipart/mixed;boundary=b", body.as_bytes(), 4).unwrap_err();
            assert!(error.starts_with("Unexpected end of Stream"), "{body}: {error}");
        }
        for body in ["--bx\r\n\r\n", "--b\r\nno colon\r\n\r\n", "--b\r\n\u{1}: x\r\n\r\n"] {
            assert!(parts("multipart/mixed;boundary=b", body.as_bytes(), 4).is_err(), "{body}");
        }
        let long = [b"--b\r\nA: ".as_slice(), &vec![b'x'; 2 * HEADERS_BYTES_MAX]].concat();
        assert!(parts("multipart/mixed;boundary=b", &long, 1000).is_err());
        for content_type in ["multipart/mixed", "multipart/mixed; boundary=", "multipart/x;b=1"] {
            let error = parts(content_type, b"", 1).unwrap_err();
            assert_eq!(error, "Missing content-type boundary.");
        }
        assert!(MultipartReader::of("application/json").is_none());
    }
}
