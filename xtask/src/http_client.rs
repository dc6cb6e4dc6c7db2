//! The minimal HTTP/1.1 client that a drill needs: one connection, one request at a time, complete
//! responses.
//!
//! Not a general client: no redirects, no TLS, no compression. It depends on the standard library
//! only, so that nothing comes between the server and the oracle that checks it.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

const TIMEOUT: Duration = Duration::from_secs(30);
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
const HEADERS_MAX: usize = 100;

pub(crate) struct HttpClient {
    host: String,
    connection: BufReader<TcpStream>,
}

/// A complete response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Its status and text, for error messages.
    pub(crate) fn described(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

impl HttpClient {
    /// Connects to `http://host:port`.
    pub(crate) fn connect(url: &str) -> io::Result<Self> {
        Self::connect_within(url, TIMEOUT)
    }

    /// The same for a server that may not answer: connecting, sending and each reading fail after that time.
    pub(crate) fn connect_within(url: &str, time_max: Duration) -> io::Result<Self> {
        let host = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/').to_owned();
        let address = host.to_socket_addrs()?.next().ok_or_else(|| invalid("no address"))?;
        let stream = TcpStream::connect_timeout(&address, time_max)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(time_max))?;
        stream.set_write_timeout(Some(time_max))?;
        Ok(Self { host, connection: BufReader::new(stream) })
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        self.send_with(method, path, &[], body)
    }

    /// Sends a request with additional headers.
    pub(crate) fn send_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n",
            self.host,
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        self.connection.get_mut().write_all(&request)?;
        self.read_answer()
    }

    /// Sends a body of unknown length, in pieces.
    pub(crate) fn stream(
        &mut self,
        method: &str,
        path: &str,
        pieces: impl IntoIterator<Item = Vec<u8>>,
    ) -> io::Result<Answer> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\n\r\n",
            self.host
        );
        self.connection.get_mut().write_all(head.as_bytes())?;
        for piece in pieces {
            if piece.is_empty() {
                continue;
            }
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(&piece);
            chunk.extend_from_slice(b"\r\n");
            self.connection.get_mut().write_all(&chunk)?;
        }
        self.connection.get_mut().write_all(b"0\r\n\r\n")?;
        self.read_answer()
    }

    fn read_answer(&mut self) -> io::Result<Answer> {
        let status = self.read_line()?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| invalid("no status line"))?;
        let (mut length, mut chunked) = (0, false);
        for _ in 0..HEADERS_MAX {
            let line = self.read_line()?.to_ascii_lowercase();
            match line.split_once(':') {
                _ if line.is_empty() => break,
                Some(("content-length", value)) => {
                    length = value.trim().parse().map_err(|_| invalid("Content-Length"))?;
                }
                Some(("transfer-encoding", value)) => chunked = value.trim() == "chunked",
                _ => {}
            }
        }
        let body = if chunked { self.read_chunks()? } else { self.read_bytes(length)? };
        Ok(Answer { status, body })
    }

    fn read_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.read_line()?, 16);
            let chunk = self.read_bytes(length.map_err(|_| invalid("length of a chunk"))?)?;
            self.read_line()?;
            if chunk.is_empty() {
                return Ok(body);
            }
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(invalid("a response that is too long"));
            }
            body.extend_from_slice(&chunk);
        }
    }

    fn read_bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > BODY_BYTES_MAX {
            return Err(invalid("a response that is too long"));
        }
        let mut bytes = vec![0; length];
        self.connection.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// A line without its line end. A closed connection is an error.
    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.connection.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not an HTTP answer: {what}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn answers_of_both_framings_are_read_to_their_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            for answer in [
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
                "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntorn",
            ] {
                assert!(stream.read(&mut request).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let mut client = HttpClient::connect(&url).unwrap();
        let first = client.send("GET", "/", b"").unwrap();
        assert_eq!((first.status, first.body.as_slice()), (200, b"abc".as_slice()));
        let second = client.send("GET", "/", b"").unwrap();
        assert_eq!((second.status, second.body.as_slice()), (404, b"def".as_slice()));
        assert!(client.send("GET", "/", b"").is_err(), "half an answer is no answer");
        server.join().unwrap();
    }
}
