//! A minimal HTTP/1.1 connection: it sends a prepared request and returns the status and body of
//! the response. No pipelining, no redirects, no compression. For single requests; `load` sends
//! many.
//!
//! Invariant: after an exchange the buffer contains no part of its response.

use std::{fmt::Display, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{answer::Answer, error::DriverError};

/// No work expects longer responses.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 16 << 10;

/// A connection that is kept alive between requests.
pub(crate) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    body: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, DriverError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: Vec::with_capacity(READ_BYTES), body: Vec::new() })
    }

    /// Sends a complete request and reads the response; returns its status. The body is in
    /// [`Connection::body`].
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<u16, DriverError> {
        self.send(request).await?;
        self.receive().await
    }

    /// Like [`Connection::exchange`]; a response other than success is an error.
    pub(crate) async fn succeed(&mut self, request: &[u8]) -> Result<(), DriverError> {
        let status = self.exchange(request).await?;
        self.check_success(status, request)
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), DriverError> {
        Ok(self.stream.write_all(bytes).await?)
    }

    pub(crate) async fn receive(&mut self) -> Result<u16, DriverError> {
        let answer = loop {
            if let Some(answer) = Answer::read(&self.input)? {
                break answer;
            }
            self.read_more().await?;
        };
        self.body.clear();
        answer.copy_body(&self.input, &mut self.body)?;
        self.input.drain(..answer.bytes);
        Ok(answer.status)
    }

    /// The body of the last response.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn check_success(&self, status: u16, request: &[u8]) -> Result<(), DriverError> {
        check_success(status, request, &self.body)
    }

    pub(crate) fn unexpected(&self, request: &[u8]) -> DriverError {
        DriverError::UnexpectedAnswer { request: first_line(request), body: beginning(&self.body) }
    }

    async fn read_more(&mut self) -> Result<(), DriverError> {
        if self.input.len() > ANSWER_BYTES_MAX {
            return Err(DriverError::NotHttp("the answer does not end".to_owned()));
        }
        self.input.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(DriverError::ClosedEarly),
            _ => Ok(()),
        }
    }
}

/// The error for a response other than success.
pub(crate) fn check_success(status: u16, request: &[u8], body: &[u8]) -> Result<(), DriverError> {
    if (200..300).contains(&status) {
        return Ok(());
    }
    Err(DriverError::Refused { request: first_line(request), status, body: beginning(body) })
}

fn first_line(request: &[u8]) -> String {
    let end = memchr::memchr(b'\r', request).unwrap_or(request.len());
    String::from_utf8_lossy(&request[..end]).trim_end_matches(" HTTP/1.1").to_owned()
}

fn beginning(body: &[u8]) -> String {
    const SHOWN_BYTES: usize = 300;
    String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).into_owned()
}

/// Appends a request with a body to `out`. `path` begins with a slash.
pub(crate) fn write_request(out: &mut Vec<u8>, method: &str, path: impl Display, body: &[u8]) {
    use std::io::Write as _;
    write!(
        out,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    )
    .expect("writing to a Vec cannot fail");
    out.extend_from_slice(body);
}

/// A request with a body; see [`write_request`].
pub(crate) fn request(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_request(&mut out, method, path, body);
    out
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A server that reads one request head per response and sends the response in pieces of this
    /// size.
    async fn exchange_all(answers: &'static [&'static str], piece: usize) -> Vec<(u16, String)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut scratch = [0; 1024];
            for answer in answers {
                assert!(stream.read(&mut scratch).await.unwrap() > 0);
                for part in answer.as_bytes().chunks(piece) {
                    stream.write_all(part).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut connection = Connection::open(address).await.unwrap();
        let mut received = Vec::new();
        for _ in answers {
            let status = connection.exchange(&request("GET", "/", b"")).await.unwrap();
            received.push((status, String::from_utf8(connection.body().to_vec()).unwrap()));
        }
        server.await.unwrap();
        received
    }

    #[tokio::test]
    async fn answers_are_read_however_they_are_framed_and_cut() {
        const ANSWERS: &[&str] = &[
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
        ];
        for piece in [1, 7, 4096] {
            let received = exchange_all(ANSWERS, piece).await;
            let expected = [(200, "hello"), (200, "abc0123456789"), (201, ""), (204, "")];
            let expected: Vec<_> = expected.map(|(status, body)| (status, body.to_owned())).into();
            assert_eq!(received, expected, "in pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn a_refusal_names_the_request_and_what_the_server_said() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
            let answer = b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nbusy";
            stream.write_all(answer).await.unwrap();
        });
        let mut connection = Connection::open(address).await.unwrap();
        let error = connection.succeed(&request("PUT", "/docs?id=1", b"{}")).await.unwrap_err();
        assert_eq!(error.to_string(), "PUT /docs?id=1 returned 409: busy");
        server.await.unwrap();
    }
}
