//! WebSockets on the connections of the HTTP server: the upgrade, and sending and receiving after
//! it.
//!
//! A route of the kind [`crate::http::router::Handler::WebSocket`] returns a session, which runs in a
//! separate task once the client has the response 101. Invariants: a session holds its connection's
//! place until it ends; it ends when the server stops; and a client that does not read what is sent
//! to it, or sends more than it may, is disconnected: nothing is queued for it beyond the system's
//! buffers.

use std::{future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use security::Client;
use storage::{MemoryBudget, MemoryShare};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, timeout, timeout_at},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::derive_accept_key,
        protocol::{Role, WebSocketConfig},
    },
};

use crate::feeds::gone::Gone;
use crate::{
    answers::answer::{Answer, AnswerBody},
    api_error::ApiError,
};

/// Maximum size of a client's message.
const RECEIVED_BYTES_MAX: usize = 64 << 10;
/// Size of the read buffer; messages of clients are short.
const READ_BUFFER_BYTES: usize = 1 << 10;
/// How much may wait to be written before sending waits.
const WRITE_BUFFER_BYTES: usize = 16 << 10;
/// A queued message takes this many times its size: once as it was built, and once as a frame.
const SENT_TIMES: u64 = 2;
/// Always sent, even if there is no memory: the messages of an idle session.
const ALWAYS_SENT_BYTES: u64 = 4 << 10;
/// How long a client may take to read what is sent to it.
const SEND_TIME_MAX: Duration = Duration::from_secs(30);
/// How long the graceful end of a session may take.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);
/// The only supported version of the protocol.
const VERSION: &str = "13";

/// What a session needs from the connection that it takes over.
#[derive(Clone)]
pub(crate) struct ConnectionPlace {
    /// Its place among all connections.
    pub(crate) _permit: Arc<OwnedSemaphorePermit>,
    /// Signals that the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Messages that wait to be sent are charged to it.
    pub(crate) answers: Arc<MemoryBudget>,
    /// The client, as the handshake has proven it.
    pub(crate) client: Client,
    /// The address of the client.
    pub(crate) peer: SocketAddr,
}

/// A connection that can be taken over from HTTP.
pub(crate) struct Upgrade {
    pub(crate) connection: Option<OnUpgrade>,
    pub(crate) place: ConnectionPlace,
}

/// What runs on a WebSocket, to its end.
pub(crate) type Session =
    Box<dyn FnOnce(Socket) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Why a session woke up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    /// The timeout elapsed.
    Time,
    /// The client sent a text.
    Text(String),
}

/// The server's side of one client's WebSocket.
pub(crate) struct Socket<S = TokioIo<Upgraded>> {
    stream: WebSocketStream<S>,
    send_time_max: Duration,
    place: ConnectionPlace,
}

/// The validated handshake of a request.
pub(crate) struct Handshake {
    accept: String,
}

impl Handshake {
    /// Parses the headers of a request.
    ///
    /// # Errors
    ///
    /// When it is not a valid request for a WebSocket.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Handshake, ApiError> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let lists = |name: HeaderName, word: &str| {
            text(name).is_some_and(|list| {
                list.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
            })
        };
        let is_upgrade =
            lists(header::CONNECTION, "upgrade") && lists(header::UPGRADE, "websocket");
        let is_known = text(header::SEC_WEBSOCKET_VERSION) == Some(VERSION);
        match text(header::SEC_WEBSOCKET_KEY) {
            Some(key) if is_upgrade && is_known => {
                Ok(Handshake { accept: derive_accept_key(key.as_bytes()) })
            }
            _ => Err(ApiError::invalid_operation("Not a WebSocket request.")),
        }
    }

    /// The response after which the connection is a WebSocket.
    fn answer(&self) -> Answer {
        let headers = vec![
            (header::CONNECTION, HeaderValue::from_static("Upgrade")),
            (header::UPGRADE, HeaderValue::from_static("websocket")),
        ];
        let answer =
            Answer { status: StatusCode::SWITCHING_PROTOCOLS, headers, body: AnswerBody::Empty };
        answer.with_header("sec-websocket-accept", &self.accept)
    }
}

/// Answers the handshake; the session begins when the client has the response.
///
/// # Errors
/// When the connection cannot be taken over.
pub(crate) fn begin(
    handshake: &Handshake,
    upgrade: Upgrade,
    session: Session,
) -> Result<Answer, ApiError> {
    let Some(connection) = upgrade.connection else {
        return Err(ApiError::invalid_operation("Not a WebSocket request."));
    };
    tokio::spawn(async move {
        // A client that disconnected before it had the response needs no session.
        let Ok(upgraded) = connection.await else { return };
        session(Socket::over(TokioIo::new(upgraded), upgrade.place, SEND_TIME_MAX).await).await;
    });
    Ok(handshake.answer())
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    async fn over(io: S, place: ConnectionPlace, send_time_max: Duration) -> Socket<S> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(RECEIVED_BYTES_MAX))
            .max_frame_size(Some(RECEIVED_BYTES_MAX))
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(WRITE_BUFFER_BYTES);
        let stream = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        Socket { stream, send_time_max, place }
    }

    /// Sends a text and waits until the system has accepted it.
    ///
    /// # Errors
    ///
    /// [`Gone`] when the client has disconnected or takes too long, or when there is not enough
    /// memory for queued messages; the session should end.
    pub(crate) async fn send(&mut self, text: String) -> Result<(), Gone> {
        let _waiting = self.count(text.len())?;
        self.send_counted(text).await
    }

    /// Like [`Self::send`], for several texts.
    ///
    /// # Errors
    /// Those of [`Self::send`].
    pub(crate) async fn send_all(&mut self, texts: Vec<String>) -> Result<(), Gone> {
        let _waiting = self.count(texts.iter().map(String::len).sum())?;
        for text in texts {
            self.send_counted(text).await?;
        }
        Ok(())
    }

    fn count(&self, bytes: usize) -> Result<MemoryShare, Gone> {
        let mut share = self.place.answers.share(ALWAYS_SENT_BYTES);
        share.try_grow_to(SENT_TIMES * bytes as u64).map_err(|_| Gone)?;
        Ok(share)
    }

    async fn send_counted(&mut self, text: String) -> Result<(), Gone> {
        match timeout(self.send_time_max, self.stream.send(Message::text(text))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    /// Waits until a moment, or until the client sends something. Pings are answered in the
    /// meantime.
    ///
    /// # Errors
    ///
    /// [`Gone`] when the client has disconnected or the server stops; the session should end.
    pub(crate) async fn wait_until(&mut self, moment: Instant) -> Result<Wake, Gone> {
        loop {
            let received = tokio::select! {
                received = timeout_at(moment, self.stream.next()) => received,
                _ = self.place.stopping.wait_for(|stopping| *stopping) => return Err(Gone),
            };
            match received {
                Err(_) => return Ok(Wake::Time),
                Ok(Some(Ok(Message::Text(text)))) => return Ok(Wake::Text(text.to_string())),
                // Some clients send text in binary frames.
                Ok(Some(Ok(Message::Binary(bytes)))) => {
                    return Ok(Wake::Text(String::from_utf8_lossy(&bytes).into_owned()));
                }
                Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => return Err(Gone),
                Ok(Some(Ok(_))) => {}
            }
        }
    }

    /// Ends the session gracefully, if the client cooperates.
    pub(crate) async fn close(mut self) {
        // Whether or not the client receives it, the connection ends here.
        drop(timeout(CLOSE_TIME_MAX, self.stream.close(None)).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)], expected: Option<&str>) {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        let read = Handshake::read(&headers).ok();
        assert_eq!(read.map(|handshake| handshake.accept).as_deref(), expected, "{headers:?}");
    }

    #[test]
    fn only_a_whole_handshake_is_one() {
        // The example of RFC 6455.
        let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let accept = Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let version = ("sec-websocket-version", "13");
        let (upgrade, connection) =
            (("upgrade", "WebSocket"), ("connection", "keep-alive, Upgrade"));
        check(&[upgrade, connection, version, key], accept);
        check(&[connection, version, key], None);
        check(&[upgrade, version, key], None);
        check(&[upgrade, connection, key], None);
        check(&[upgrade, connection, version], None);
        check(&[upgrade, connection, ("sec-websocket-version", "8"), key], None);
        check(&[], None);
    }

    async fn place(answers: &Arc<MemoryBudget>) -> (ConnectionPlace, watch::Sender<bool>) {
        let permit = Arc::new(tokio::sync::Semaphore::new(1)).acquire_owned().await.unwrap();
        let (stop, stopping) = watch::channel(false);
        (
            ConnectionPlace {
                _permit: Arc::new(permit),
                stopping,
                answers: Arc::clone(answers),
                client: Client::Unsecured,
                peer: SocketAddr::from(([127, 0, 0, 1], 0)),
            },
            stop,
        )
    }

    #[test]
    fn what_waits_to_be_sent_is_counted_and_without_room_a_client_is_let_go_of() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let answers = MemoryBudget::new(64 << 10);
            let (place, _stop) = place(&answers).await;
            let (client, server) = tokio::io::duplex(1 << 10);
            let mut socket = Socket::over(server, place, Duration::from_millis(50)).await;
            let _all = {
                let mut all = answers.share(0);
                all.try_grow_to(34 << 10).unwrap();
                all
            };
            assert_eq!(socket.send("x".repeat(16 << 10)).await, Err(Gone), "no room");
            let sending = socket.send_all(vec!["x".repeat(5 << 10), "x".repeat(10 << 10)]);
            tokio::pin!(sending);
            assert!(timeout(Duration::from_millis(1), &mut sending).await.is_err(), "it waits");
            assert_eq!(answers.held_bytes(), (34 + 2 * 15) << 10);
            assert_eq!(sending.await, Err(Gone), "the client does not read");
            assert_eq!(answers.held_bytes(), 34 << 10);
            drop(client);
        });
    }

    #[test]
    fn a_client_that_takes_nothing_is_let_go_of() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (place, _stop) = place(&MemoryBudget::unlimited()).await;
            // The client's side exists and is never read from.
            let (_client, server) = tokio::io::duplex(WRITE_BUFFER_BYTES);
            let mut socket = Socket::over(server, place, Duration::from_millis(50)).await;
            let sent = loop {
                if let Err(gone) = socket.send("x".repeat(1000)).await {
                    break gone;
                }
            };
            assert_eq!(sent, Gone);
        });
    }
}
