//! Reading a long response as it arrives: its documents are counted and discarded.
//!
//! Not here: responses that fit into memory, see `connection`.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use memchr::memmem;

use crate::{connection::check_success, error::DriverError};

const READ_BYTES: usize = 256 << 10;
const HEAD_BYTES_MAX: usize = 16 << 10;
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Each document of a response contains this once.
const MARK: &[u8] = b"\"@id\":";

/// Sends the request and reads its chunked response to the end; returns the number of documents in
/// it. `look` is called after each piece. Blocks the thread.
pub(crate) fn read_stream(
    address: SocketAddr,
    request: &[u8],
    mut look: impl FnMut(),
) -> Result<u64, DriverError> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.write_all(request)?;
    let mut input = vec![0; READ_BYTES];
    let mut filled = 0;
    let body_begin = loop {
        filled += read_some(&mut stream, &mut input[filled..])?;
        match head(&input[..filled])? {
            Some((200, begin)) => break begin,
            Some((status, begin)) => {
                check_success(status, request, &input[begin..filled])?;
                return Err(DriverError::NotHttp(format!("status {status} of a stream")));
            }
            None if filled > HEAD_BYTES_MAX => {
                return Err(DriverError::NotHttp("a head without an end".to_owned()));
            }
            None => {}
        }
    };
    let mut chunks = Chunks::default();
    let mut documents = Marks::default();
    let mut piece = body_begin..filled;
    while !chunks.read(&input[piece], &mut |content| documents.count(content))? {
        look();
        piece = 0..read_some(&mut stream, &mut input)?;
    }
    Ok(documents.counted)
}

fn read_some(stream: &mut TcpStream, into: &mut [u8]) -> Result<usize, DriverError> {
    match stream.read(into)? {
        0 => Err(DriverError::ClosedEarly),
        read => Ok(read),
    }
}

/// Status and length of the head, once it is complete.
fn head(input: &[u8]) -> Result<Option<(u16, usize)>, DriverError> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(input).map_err(|error| DriverError::NotHttp(error.to_string()))?;
    Ok(match parsed {
        httparse::Status::Complete(bytes) => Some((response.code.unwrap_or(0), bytes)),
        httparse::Status::Partial => None,
    })
}

/// The chunks of a response, which may be split anywhere.
#[derive(Default)]
struct Chunks {
    /// Remaining bytes of the current chunk, including its line end.
    missing: u64,
    /// The part of the line with the size of the next chunk that has arrived.
    line: Vec<u8>,
    is_last: bool,
}

impl Chunks {
    /// Passes on the content of a piece; `true` once the last chunk has ended.
    fn read(
        &mut self,
        mut piece: &[u8],
        content: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, DriverError> {
        const LINE_END: u64 = 2;
        while !piece.is_empty() {
            if self.missing == 0 {
                let end = memchr::memchr(b'\n', piece);
                let taken = end.map_or(piece.len(), |end| end + 1);
                self.line.extend_from_slice(&piece[..taken]);
                piece = &piece[taken..];
                if end.is_some() {
                    let size = chunk_size(&self.line)?;
                    self.is_last = size == 0;
                    self.missing = size + LINE_END;
                    self.line.clear();
                }
                continue;
            }
            let taken = piece.len().min(usize::try_from(self.missing).unwrap_or(usize::MAX));
            let of_content = (self.missing.saturating_sub(LINE_END) as usize).min(taken);
            content(&piece[..of_content]);
            piece = &piece[taken..];
            self.missing -= taken as u64;
            if self.is_last && self.missing == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, DriverError> {
    match httparse::parse_chunk_size(line) {
        Ok(httparse::Status::Complete((_, size))) => Ok(size),
        Ok(httparse::Status::Partial) | Err(_) => {
            Err(DriverError::NotHttp("a chunk without a size".to_owned()))
        }
    }
}

/// Counts [`MARK`], also across the border of two pieces.
#[derive(Default)]
struct Marks {
    counted: u64,
    /// The end of the previous piece, too short to contain a mark.
    tail: Vec<u8>,
}

impl Marks {
    fn count(&mut self, piece: &[u8]) {
        let keep = MARK.len() - 1;
        self.tail.extend_from_slice(&piece[..piece.len().min(keep)]);
        self.counted += memmem::find_iter(&self.tail, MARK).count() as u64;
        if piece.len() >= keep {
            self.counted += memmem::find_iter(piece, MARK).count() as u64;
            self.tail.clear();
            self.tail.extend_from_slice(&piece[piece.len() - keep..]);
        } else {
            let surplus = self.tail.len().saturating_sub(keep);
            self.tail.drain(..surplus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_counted_wherever_the_answer_is_cut() {
        let rows = r#"{"a":1,"@metadata":{"@id":"x"}},{"@metadata":{"@id":"y"}}"#;
        let mut body = Vec::new();
        for chunk in rows.as_bytes().chunks(7) {
            body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        for piece_bytes in 1..body.len() {
            let (mut chunks, mut marks) = (Chunks::default(), Marks::default());
            let mut ended = Vec::new();
            for piece in body.chunks(piece_bytes) {
                ended.push(chunks.read(piece, &mut |content| marks.count(content)).unwrap());
            }
            assert_eq!(marks.counted, 2, "pieces of {piece_bytes}");
            assert_eq!(ended.iter().position(|one| *one), Some(ended.len() - 1));
        }
    }
}
