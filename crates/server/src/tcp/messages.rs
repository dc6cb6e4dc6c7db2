//! Sends and receives JSON objects, with limits of time and size.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};
use wire::{ErrorKind, ObjectSplitter};

use crate::{api_error::ApiError, feeds::gone::Gone};

/// How long a client may take to read what is sent to it, and its machine to acknowledge it.
pub(super) const SEND_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum size of a client's message.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Why there is no further message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// The client disconnected between two messages or within one.
    Gone,
    /// What it sent is not a message.
    Broken(ApiError),
}

/// Messages of a client.
pub(super) struct MessageReader<R> {
    stream: R,
    received: Vec<u8>,
    splitter: ObjectSplitter,
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    pub(super) fn new(stream: R) -> MessageReader<R> {
        MessageReader { stream, received: Vec::new(), splitter: ObjectSplitter::default() }
    }

    /// The next message. What was received so far is kept when this is canceled.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, ReadEnd> {
        loop {
            match self.splitter.end_of_object(&self.received) {
                Err(found) => return Err(ReadEnd::Broken(not_an_object(found.byte))),
                Ok(Some(end)) => {
                    let rest = self.received.split_off(end);
                    self.splitter = ObjectSplitter::default();
                    return Ok(std::mem::replace(&mut self.received, rest));
                }
                Ok(None) if MESSAGE_BYTES_MAX <= self.received.len() => {
                    let message = format!("A message is larger than {MESSAGE_BYTES_MAX} bytes");
                    let error = ApiError::new(ErrorKind::InvalidData, message);
                    return Err(ReadEnd::Broken(error));
                }
                Ok(None) => {}
            }
            match self.stream.read_buf(&mut self.received).await {
                Ok(0) | Err(_) => return Err(ReadEnd::Gone),
                Ok(_) => {}
            }
        }
    }
}

fn not_an_object(byte: u8) -> ApiError {
    let found = char::from(byte).escape_default();
    let message = format!("Cannot have a '{found}' in this position, where an object should begin");
    ApiError::new(ErrorKind::InvalidData, message)
}

/// Sends bytes. The time limit applies to each piece that the client reads.
pub(super) async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
) -> Result<(), Gone> {
    while !bytes.is_empty() {
        match timeout(SEND_TIME_MAX, stream.write(bytes)).await {
            Ok(Ok(written)) if 0 < written => bytes = &bytes[written..],
            Ok(Ok(_) | Err(_)) | Err(_) => return Err(Gone),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> (Vec<String>, ReadEnd) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut reader = MessageReader::new(bytes);
            let mut messages = Vec::new();
            loop {
                match reader.next().await {
                    Ok(message) => messages.push(String::from_utf8(message).unwrap()),
                    Err(end) => return (messages, end),
                }
            }
        })
    }

    #[test]
    fn messages_come_one_after_the_other() {
        let (messages, end) = read_all(b"{\"a\":1}{}\r\n{\"b\":{}}");
        assert_eq!(messages, ["{\"a\":1}", "{}", "\r\n{\"b\":{}}"]);
        assert_eq!(end, ReadEnd::Gone);
    }

    #[test]
    fn what_is_no_message_or_too_large_ends_the_connection() {
        let (messages, end) = read_all(b"{}x");
        assert_eq!(messages, ["{}"]);
        assert!(matches!(end, ReadEnd::Broken(error) if error.message.contains("'x'")));
        let (messages, end) = read_all(&[b'{'].repeat(MESSAGE_BYTES_MAX + 1));
        assert!(messages.is_empty());
        assert!(matches!(end, ReadEnd::Broken(error) if error.message.contains("larger")));
    }
}
