//! The transport below both protocols: listening sockets, and connections as streams of bytes.
//!
//! The first byte of a connection decides which protocol it speaks, so it can be read ahead here.
//! Everything above sees only the protocols' bytes, whether or not they are encrypted on their way.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use security::Client;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, ReadHalf, WriteHalf, split},
    net::{TcpListener, TcpSocket, TcpStream},
};
use tokio_rustls::server::TlsStream;

use crate::tls::ServerTls;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// The first byte of a TLS handshake (RFC 8446, 5.1), and of neither of our protocols.
const HANDSHAKE_BYTE: u8 = 0x16;

/// A socket that listens on one address.
pub(crate) struct Listener {
    socket: TcpListener,
    /// Encrypts its connections.
    tls: Option<Arc<ServerTls>>,
}

impl Listener {
    /// Listens on the address; with port 0 on a free port. With `tls` its connections are encrypted.
    ///
    /// # Errors
    /// Those of the system, for instance that the address is in use.
    pub(crate) fn bind(address: SocketAddr, tls: Option<&Arc<ServerTls>>) -> io::Result<Listener> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Listener { socket: socket.listen(BACKLOG)?, tls: tls.cloned() })
    }

    /// The address, with the port that it has.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The next connection, before any handshake.
    ///
    /// # Errors
    /// Those of the system, for instance that there are no file descriptors left. The next call may
    /// succeed.
    pub(crate) async fn accept(&self) -> io::Result<Incoming> {
        let (stream, peer) = self.socket.accept().await?;
        // Without this, small responses wait for the client's acknowledgement. If it fails, they do.
        drop(stream.set_nodelay(true));
        Ok(Incoming { stream, peer, tls: self.tls.clone() })
    }
}

/// A connection that was accepted, on which nothing has been read.
pub(crate) struct Incoming {
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<ServerTls>>,
}

/// What became of a handshake.
pub(crate) enum Opened {
    /// The connection is ready for a protocol.
    Ready(Box<Connection>),
    /// The client does not encrypt, although the listener does.
    Unencrypted(TcpStream),
}

impl Incoming {
    /// The address of the client.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Performs the handshake, if the listener encrypts.
    ///
    /// # Errors
    /// The client disconnected, or its handshake is not acceptable.
    pub(crate) async fn open(self) -> io::Result<Opened> {
        let Incoming { stream, peer, tls } = self;
        let (stream, client) = match tls {
            None => (Stream::Plain(stream), Client::Unsecured),
            Some(tls) => {
                let mut first = [0];
                if stream.peek(&mut first).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if first != [HANDSHAKE_BYTE] {
                    return Ok(Opened::Unencrypted(stream));
                }
                let (stream, client) = tls.accept(stream).await?;
                (Stream::Encrypted(Box::new(stream)), client)
            }
        };
        Ok(Opened::Ready(Box::new(Connection { stream, peer, client, read_ahead: None })))
    }
}

/// The bytes of a connection.
enum Stream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Encrypted(stream) => stream.get_ref().0,
        }
    }
}

/// A connection to a client.
pub(crate) struct Connection {
    stream: Stream,
    peer: SocketAddr,
    client: Client,
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

    /// The client, as the handshake has proven it.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Its two halves, for tasks that read and write independently.
    pub(crate) fn into_halves(self) -> (Reading, Writing) {
        split(self)
    }

    /// Waits for the first byte from the client, which can still be read; `None` if the client
    /// disconnected. To be called before anything is read.
    pub(crate) async fn first_byte(&mut self) -> Option<u8> {
        self.read_ahead = match &mut self.stream {
            Stream::Plain(stream) => stream.read_u8().await.ok(),
            Stream::Encrypted(stream) => stream.read_u8().await.ok(),
        };
        self.read_ahead
    }

    /// Closes the connection when sent data is not acknowledged within that time.
    ///
    /// # Errors
    /// When the system refuses; the connection then behaves as before.
    pub(crate) fn end_when_unacknowledged(&self, after: Duration) -> io::Result<()> {
        platform::sockets::end_when_unacknowledged(self.stream.socket(), after)
    }

    /// Bounds what the system buffers for a client that does not read.
    ///
    /// # Errors
    /// When the system refuses; its default then applies.
    pub(crate) fn limit_send_buffer(&self, bytes: usize) -> io::Result<()> {
        platform::sockets::limit_send_buffer(self.stream.socket(), bytes)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(byte) = self.read_ahead.take_if(|_| 0 < buffer.remaining()) else {
            return match &mut self.stream {
                Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
                Stream::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
            };
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
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Encrypted(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Encrypted(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn accepted(listener: &Listener) -> Box<Connection> {
        match listener.accept().await.unwrap().open().await.unwrap() {
            Opened::Ready(connection) => connection,
            Opened::Unencrypted(_) => panic!("nothing is encrypted here"),
        }
    }

    #[test]
    fn the_first_byte_can_be_read_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
            let mut client = TcpStream::connect(listener.address().unwrap()).await.unwrap();
            let mut connection = accepted(&listener).await;
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
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
            let client = TcpStream::connect(listener.address().unwrap()).await.unwrap();
            let mut connection = accepted(&listener).await;
            drop(client);
            assert_eq!(connection.first_byte().await, None);
        });
    }
}
