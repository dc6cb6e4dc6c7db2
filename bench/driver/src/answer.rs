//! The framing of an HTTP/1.1 response: where it ends, and which bytes of it are the body.
//!
//! Not here: sockets. Invariant: a response is only recognised once all of its bytes have arrived.

use std::{mem::MaybeUninit, ops::Range};

use crate::error::DriverError;

const HEADERS_MAX: usize = 64;

/// A complete response at the start of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Its length in bytes, including a preceding `100 Continue`.
    pub(crate) bytes: usize,
    body: Range<usize>,
    is_chunked: bool,
}

enum BodyLength {
    Bytes(usize),
    Chunked,
}

impl Answer {
    /// The response at the start of `input`; `None` while part of it is missing.
    pub(crate) fn read(input: &[u8]) -> Result<Option<Self>, DriverError> {
        let mut begin = 0;
        loop {
            match Self::read_at(input, begin)? {
                Some(answer) if answer.status == 100 => begin = answer.bytes,
                other => return Ok(other),
            }
        }
    }

    fn read_at(input: &[u8], begin: usize) -> Result<Option<Self>, DriverError> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default()
            .parse_response_with_uninit_headers(&mut response, &input[begin..], &mut headers)
            .map_err(|error| DriverError::NotHttp(error.to_string()))?;
        let httparse::Status::Complete(head_bytes) = parsed else { return Ok(None) };
        let status = response.code.unwrap_or(0);
        let body_begin = begin + head_bytes;
        let (body_end, bytes, is_chunked) = match body_length(status, response.headers)? {
            BodyLength::Bytes(length) => (body_begin + length, body_begin + length, false),
            BodyLength::Chunked => match end_of_chunks(input, body_begin)? {
                Some(end) => (end, end, true),
                None => return Ok(None),
            },
        };
        let body = body_begin..body_end;
        Ok((bytes <= input.len()).then_some(Self { status, bytes, body, is_chunked }))
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Appends the body to `out`. `input` is the buffer from which the response was read.
    pub(crate) fn copy_body(&self, input: &[u8], out: &mut Vec<u8>) -> Result<(), DriverError> {
        if !self.is_chunked {
            out.extend_from_slice(&input[self.body.clone()]);
            return Ok(());
        }
        let mut at = self.body.start;
        while let Some(chunk) = chunk_at(input, at)?.filter(|chunk| !chunk.is_empty()) {
            at = chunk.end + b"\r\n".len();
            out.extend_from_slice(&input[chunk]);
        }
        Ok(())
    }
}

fn body_length(status: u16, headers: &[httparse::Header<'_>]) -> Result<BodyLength, DriverError> {
    for header in headers {
        if header.name.eq_ignore_ascii_case("Content-Length") {
            return std::str::from_utf8(header.value)
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .map(BodyLength::Bytes)
                .ok_or_else(|| DriverError::NotHttp("a length that is no number".to_owned()));
        }
        if header.name.eq_ignore_ascii_case("Transfer-Encoding") {
            return Ok(BodyLength::Chunked);
        }
    }
    match status {
        100 | 204 | 304 => Ok(BodyLength::Bytes(0)),
        _ => Err(DriverError::NotHttp("an answer without a length".to_owned())),
    }
}

/// The end of the response whose first chunk starts at `at`; `None` while part of it is missing.
fn end_of_chunks(input: &[u8], mut at: usize) -> Result<Option<usize>, DriverError> {
    while let Some(chunk) = chunk_at(input, at)? {
        at = chunk.end + b"\r\n".len();
        if chunk.is_empty() {
            return Ok((at <= input.len()).then_some(at));
        }
    }
    Ok(None)
}

/// The content of the chunk that starts at `at`, which may be beyond the end of `input`; `None`
/// when its size is not complete.
fn chunk_at(input: &[u8], at: usize) -> Result<Option<Range<usize>>, DriverError> {
    let Some(rest) = input.get(at..) else { return Ok(None) };
    match httparse::parse_chunk_size(rest) {
        Ok(httparse::Status::Complete((size_bytes, length))) => {
            let begin = at + size_bytes;
            Ok(Some(begin..begin + length as usize))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(DriverError::NotHttp("a chunk without a size".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_there_once_its_last_byte_is() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                 3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
                200,
                "abc0123456789",
            ),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 X\r\ncontent-length: 0\r\n\r\n", 201, ""),
            ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
            ("HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nbusy", 409, "busy"),
        ];
        for (text, status, body) in cases {
            let input = [text.as_bytes(), b"HTTP/1.1 200 OK"].concat();
            for length in 0..text.len() {
                assert_eq!(Answer::read(&input[..length]).unwrap(), None, "{length} of {text}");
            }
            let answer = Answer::read(&input).unwrap().unwrap();
            assert_eq!((answer.status, answer.bytes), (status, text.len()), "{text}");
            let mut copied = Vec::new();
            answer.copy_body(&input, &mut copied).unwrap();
            assert_eq!(copied, body.as_bytes(), "{text}");
        }
    }

    #[test]
    fn what_is_not_http_is_refused() {
        let inputs = [
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        ];
        for input in inputs {
            assert!(Answer::read(input.as_bytes()).is_err(), "{input}");
        }
    }
}
