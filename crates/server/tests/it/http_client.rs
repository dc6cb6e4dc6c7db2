//! A minimal HTTP client for the tests: one connection per request, with access to every byte.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a header; its name is case-insensitive.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The ids of the documents in `Results`; a missing one is empty.
    pub(crate) fn ids(&self) -> Vec<String> {
        let json = self.json();
        let results = json["Results"].as_array().expect("an array").iter();
        results.map(|one| one["@metadata"]["@id"].as_str().unwrap_or("").to_owned()).collect()
    }
}

/// A connection on which tests write bytes directly.
pub(crate) struct Connection(TcpStream);

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Connection {
        Connection(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Sends, and ignores that the other side has disconnected.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// Reads exactly these bytes.
    pub(crate) fn expect(&mut self, bytes: &[u8]) {
        let mut read = vec![0; bytes.len()];
        self.0.read_exact(&mut read).unwrap();
        assert_eq!(String::from_utf8_lossy(&read), String::from_utf8_lossy(bytes));
    }

    /// The status of the response that arrives, of which nothing else is read.
    pub(crate) fn status(&mut self) -> u16 {
        let mut start = [0; 12];
        self.0.read_exact(&mut start).unwrap();
        std::str::from_utf8(&start[9..]).unwrap().parse().unwrap()
    }

    /// Whether the first byte of a response arrives.
    pub(crate) fn has_begun(&mut self) -> bool {
        self.0.read(&mut [0]).unwrap() == 1
    }

    /// Everything received until the other side closes or resets the connection.
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut piece = vec![0; 64 << 10];
        while let Ok(count @ 1..) = self.0.read(&mut piece) {
            bytes.extend_from_slice(&piece[..count]);
        }
        bytes
    }

    /// Sends one chunk of a chunked body.
    pub(crate) fn send_chunk(&mut self, bytes: &[u8]) {
        self.send(format!("{:x}\r\n", bytes.len()).as_bytes());
        self.send(bytes);
        self.send(b"\r\n");
    }

    /// Reads one response; `is_head` says that it has no body, regardless of its headers.
    pub(crate) fn read_reply(&mut self, is_head: bool) -> Reply {
        let mut bytes = Vec::new();
        let head_end = loop {
            if let Some(end) = find(&bytes, b"\r\n\r\n") {
                break end + 4;
            }
            assert!(self.read_more(&mut bytes), "the response ended within its headers");
        };
        let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut reply = Reply { status, headers, body: bytes.split_off(head_end) };
        if is_head || matches!(status, 204 | 304) {
            return reply;
        }
        match reply.header("transfer-encoding") {
            Some(_) => {
                while !reply.body.ends_with(b"0\r\n\r\n") {
                    assert!(self.read_more(&mut reply.body), "the response ended within its body");
                }
                reply.body = dechunk(&reply.body);
            }
            None => {
                let length: usize = reply.header("content-length").unwrap().parse().unwrap();
                while reply.body.len() < length {
                    assert!(self.read_more(&mut reply.body), "the response ended within its body");
                }
            }
        }
        reply
    }

    /// Whether anything has been received so far.
    pub(crate) fn has_anything(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).unwrap();
        peeked.is_ok()
    }

    /// Waits until the other side closes the connection without sending anything more.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 16]), Ok(0) | Err(_))
    }

    /// What has arrived by now; `None` if there is nothing and the connection is open.
    pub(crate) fn received_now(&mut self) -> Option<String> {
        self.0.set_nonblocking(true).unwrap();
        let mut bytes = vec![0; 16 << 10];
        let read = self.0.read(&mut bytes);
        self.0.set_nonblocking(false).unwrap();
        read.ok().map(|count| String::from_utf8_lossy(&bytes[..count]).into_owned())
    }

    fn read_more(&mut self, bytes: &mut Vec<u8>) -> bool {
        let mut piece = [0; 16 << 10];
        let count = self.0.read(&mut piece).unwrap();
        bytes.extend_from_slice(&piece[..count]);
        count > 0
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

fn dechunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = find(bytes, b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[line + 2..line + 2 + size]);
        bytes = &bytes[line + 2 + size + 2..];
    }
}
