//! The transport below both protocols: listening sockets, and connections as streams of bytes.
//!
//! The first byte of a connection decides which protocol it speaks, so it can be read ahead here.
//! Everything above sees only the protocols' bytes: a transport that encrypts them, or one of a
//! simulated network, changes this file and no other.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, ReadHalf, WriteHalf, split},
    net::{TcpListener, TcpSocket, TcpStream},
};

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A socket that listens on one address.
pub(crate) struct Listener(TcpListener);

impl Listener {
    /// Listens on the address; with port 0 on a free port.
    ///
    /// # Errors
    /// Those of the system, for instance that the address is in use.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Listener> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG).map(Listener)
    }

    /// The address, with the port that it has.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection.
    ///
    /// # Errors
    /// Those of the system, for instance that there are no file descriptors left. The next call may
    /// succeed.
    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        let (stream, peer) = self.0.accept().await?;
        // Without this, small responses wait for the client's acknowledgement. If it fails, they do.
        drop(stream.set_nodelay(true));
        Ok(Connection { stream, peer, read_ahead: None })
    }
}

/// A connection to a client.
pub(crate) struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    /// The byte that [`Connection::first_byte`] has read, which the next read returns.
    read_ahead: Option<u8>,
}

/// The half of a connection that reads.
pub(crate) type Reading = ReadHalf<Connection>;
/// The half of a connection that writes.
pub(crate) type Writing = WriteHalf<Connection>;

impl Connection {
    /// The address of the client.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Its two halves, for tasks that read and write independently.
    pub(crate) fn into_halves(self) -> (Reading, Writing) {
        split(self)
    }

    /// Waits for the first byte from the client, which can still be read; `None` if the client
    /// disconnected. To be called before anything is read.
    pub(crate) async fn first_byte(&mut self) -> Option<u8> {
        self.read_ahead = self.stream.read_u8().await.ok();
        self.read_ahead
    }

    /// Closes the connection when sent data is not acknowledged within that time.
    ///
    /// # Errors
    /// When the system refuses; the connection then behaves as before.
    pub(crate) fn end_when_unacknowledged(&self, after: Duration) -> io::Result<()> {
        platform::sockets::end_when_unacknowledged(&self.stream, after)
    }

    /// Bounds what the system buffers for a client that does not read.
    ///
    /// # Errors
    /// When the system refuses; its default then applies.
    pub(crate) fn limit_send_buffer(&self, bytes: usize) -> io::Result<()> {
        platform::sockets::limit_send_buffer(&self.stream, bytes)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(byte) = self.read_ahead.take_if(|_| 0 < buffer.remaining()) else {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        };
        buffer.put_slice(&[byte]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn the_first_byte_can_be_read_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let mut client = TcpStream::connect(listener.address().unwrap()).await.unwrap();
            let mut connection = listener.accept().await.unwrap();
            client.write_all(b"GET /").await.unwrap();
            assert_eq!(connection.first_byte().await, Some(b'G'));
            let mut nothing = [0; 0];
            connection.read_exact(&mut nothing).await.unwrap();
            let mut received = [0; 5];
            connection.read_exact(&mut received).await.unwrap();
            assert_eq!(&received, b"GET /");
            connection.write_all(b"answer").await.unwrap();
            let mut answer = [0; 6];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"answer");
        });
    }

    #[test]
    fn a_client_that_disconnects_has_no_first_byte() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let client = TcpStream::connect(listener.address().unwrap()).await.unwrap();
            let mut connection = listener.accept().await.unwrap();
            drop(client);
            assert_eq!(connection.first_byte().await, None);
        });
    }
}
