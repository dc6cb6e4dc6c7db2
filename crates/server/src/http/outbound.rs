//! Requests to other servers, for the engine and the cluster: HTTP/1.1 with or without TLS, on connections that are kept.
//!
//! The server identifies itself with its own certificate, if it has one. It trusts the authorities that the machine
//! trusts, and the certificates in the chain of its own. Connections that were made with a certificate that it no longer
//! has are not used again.

use std::{
    collections::HashMap,
    io::{self, Read},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use ::security::KeyPair;
use bytes::Bytes;
use engine::{
    Cancel, Outbound, OutboundAnswer, OutboundError, OutboundRequest, OutboundStream, StillWanted,
};
use http::{Request, Response, header};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName},
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime::Handle,
    sync::Notify,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;
use wire::NodeAddress;

use crate::server_state::ServerState;

/// Connections that are kept.
const KEPT_MAX: usize = 256;
/// Certificates of clients that are remembered.
const CLIENTS_MAX: usize = 1024;
/// A connection on which nothing was sent for so long is closed.
const KEPT_IDLE_MAX: Duration = Duration::from_secs(60);

type Sender = SendRequest<Full<Bytes>>;

/// See the module.
pub(crate) struct HttpOutbound {
    runtime: Handle,
    state: Weak<ServerState>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Connections on which nothing is in progress.
    kept: HashMap<Way, Vec<Kept>>,
    /// How connections are encrypted, with the certificate that it was made for.
    encryption: Option<(Option<Arc<KeyPair>>, Arc<ClientConfig>)>,
    /// The same for clients with certificates of their own, by the thumbprints of these.
    of_clients: HashMap<String, Arc<ClientConfig>>,
}

/// A server, and the thumbprint of the certificate that connections to it are made with, if that is not the server's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Way {
    server: NodeAddress,
    certificate: Option<String>,
}

impl Way {
    fn of(request: &OutboundRequest) -> Way {
        let identity = request.identity.as_ref().filter(|_| request.server.is_encrypted());
        let certificate = identity.map(|identity| identity.thumbprint().to_owned());
        Way { server: request.server.clone(), certificate }
    }
}

struct Kept {
    sender: Sender,
    used_at: Instant,
}

impl Kept {
    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.used_at.elapsed() < KEPT_IDLE_MAX
    }
}

impl Outbound for HttpOutbound {
    fn send(
        &self,
        request: OutboundRequest,
        cancel: &Cancel,
    ) -> Result<OutboundAnswer, OutboundError> {
        let canceled = Arc::new(Notify::new());
        let notified = Arc::clone(&canceled);
        cancel.on_cancel(move || notified.notify_one());
        let (server, time_max) = (request.server.clone(), request.time_max);
        let work = async {
            tokio::select! {
                answered = timeout(time_max, self.exchange(request)) => match answered {
                    Ok(answered) => answered.map_err(|reason| failed(format!("{server}: {reason}"))),
                    Err(_) => Err(failed(format!(
                        "{server} did not answer within {} seconds", time_max.as_secs()
                    ))),
                },
                () = canceled.notified() => Err(OutboundError::Canceled),
            }
        };
        // A runtime that ends meanwhile panics.
        let answered = catch_unwind(AssertUnwindSafe(|| self.runtime.block_on(work)));
        answered.unwrap_or_else(|_| Err(failed("the server is stopping".to_owned())))
    }

    fn open(
        &self,
        request: OutboundRequest,
        is_wanted: StillWanted,
    ) -> Result<OutboundStream, OutboundError> {
        let (server, silence_max) = (request.server.clone(), request.time_max);
        let waiting = Waiting { is_wanted, silence_max };
        let work = async {
            let opened = waiting.wait_for(self.begin_exchange(request)).await;
            opened.and_then(|opened| opened).map_err(|reason| match reason.is_empty() {
                true => OutboundError::Canceled,
                false => failed(format!("{server}: {reason}")),
            })
        };
        let opened = catch_unwind(AssertUnwindSafe(|| self.runtime.block_on(work)));
        let opened = opened.unwrap_or_else(|_| Err(failed("the server is stopping".to_owned())));
        let (sender, response) = opened?;
        let (status, body) = (response.status().as_u16(), response.into_body());
        let runtime = self.runtime.clone();
        let (_sender, piece) = (sender, Bytes::new());
        Ok(OutboundStream {
            status,
            body: Box::new(ArrivingBody { runtime, _sender, body, piece, waiting }),
        })
    }
}

/// Why a request brought no answer.
pub(crate) enum ExchangeError {
    /// It was not sent.
    NotSent(String),
    /// The connection broke; the request may have been carried out.
    Broken(String),
}

/// How often it is asked whether what is waited for is still wanted.
const WANTED_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// How long something is waited for.
struct Waiting {
    is_wanted: StillWanted,
    silence_max: Duration,
}

impl Waiting {
    /// The reason why it did not happen; an empty one if it is no longer wanted.
    async fn wait_for<T>(&self, work: impl Future<Output = T>) -> Result<T, String> {
        let (began, mut work) = (Instant::now(), std::pin::pin!(work));
        loop {
            match timeout(WANTED_CHECK_INTERVAL, &mut work).await {
                Ok(done) => return Ok(done),
                Err(_) if !(self.is_wanted)() => return Err(String::new()),
                Err(_) if self.silence_max < began.elapsed() => {
                    let seconds = self.silence_max.as_secs();
                    return Err(format!("nothing arrived for {seconds} seconds"));
                }
                Err(_) => {}
            }
        }
    }
}

/// The body of an answer, which is read as it arrives. A thread of the runtime must not read it.
struct ArrivingBody {
    runtime: Handle,
    /// The connection lives as long as it.
    _sender: Sender,
    body: Incoming,
    piece: Bytes,
    waiting: Waiting,
}

impl Read for ArrivingBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let (waiting, body) = (&self.waiting, &mut self.body);
            let work = async { waiting.wait_for(body.frame()).await };
            // A runtime that ends meanwhile panics.
            let frame = catch_unwind(AssertUnwindSafe(|| self.runtime.block_on(work)));
            let frame = frame.unwrap_or_else(|_| Err("the server is stopping".to_owned()));
            match frame.map_err(io::Error::other)? {
                None => return Ok(0),
                Some(Err(error)) => {
                    return Err(io::Error::other(format!("the connection broke: {error}")));
                }
                Some(Ok(frame)) => self.piece = frame.into_data().unwrap_or_default(),
            }
        }
        let taken = buffer.len().min(self.piece.len());
        buffer[..taken].copy_from_slice(&self.piece.split_to(taken));
        Ok(taken)
    }
}

/// A body that several requests may have.
struct SharedBody(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBody {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn failed(message: String) -> OutboundError {
    OutboundError::Failed { message }
}

impl HttpOutbound {
    /// Requests run on the runtime of the caller.
    pub(crate) fn new(state: &Arc<ServerState>) -> HttpOutbound {
        HttpOutbound {
            runtime: Handle::current(),
            state: Arc::downgrade(state),
            inner: Mutex::default(),
        }
    }

    /// Sends a request on a connection of its own, and waits until the answer begins.
    async fn begin_exchange(
        &self,
        request: OutboundRequest,
    ) -> Result<(Sender, Response<Incoming>), String> {
        let server = request.server.clone();
        let encryption = self.encryption_of(&request)?;
        let made = made(request)?;
        let mut sender = connect(&server, encryption).await?;
        let answered = sender.send_request(made).await;
        Ok((sender, answered.map_err(|error| format!("the connection broke: {error}"))?))
    }

    async fn exchange(&self, request: OutboundRequest) -> Result<OutboundAnswer, String> {
        let (way, answer_bytes_max) = (Way::of(&request), request.answer_bytes_max);
        let encryption = self.encryption_of(&request)?;
        let made = made(request)?;
        if let Some(mut sender) = self.take_kept(&way) {
            // The server may have closed it meanwhile.
            if let Ok(answer) = exchange_on(&mut sender, made.clone(), answer_bytes_max).await {
                self.keep(way, sender);
                return Ok(answer);
            }
        }
        let mut sender = connect(&way.server, encryption).await?;
        let answer = exchange_on(&mut sender, made, answer_bytes_max).await?;
        self.keep(way, sender);
        Ok(answer)
    }

    /// As [`Self::exchange`], but the request is sent at most once, on whatever connection.
    pub(crate) async fn exchange_once(
        &self,
        request: OutboundRequest,
    ) -> Result<OutboundAnswer, ExchangeError> {
        let (way, answer_bytes_max) = (Way::of(&request), request.answer_bytes_max);
        let encryption = self.encryption_of(&request).map_err(ExchangeError::NotSent)?;
        let made = made(request).map_err(ExchangeError::NotSent)?;
        let mut kept = None;
        while let Some(mut sender) = self.take_kept(&way) {
            if sender.ready().await.is_ok() {
                kept = Some(sender);
                break;
            }
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => connect(&way.server, encryption).await.map_err(ExchangeError::NotSent)?,
        };
        let answer = exchange_on(&mut sender, made, answer_bytes_max).await;
        let answer = answer.map_err(ExchangeError::Broken)?;
        self.keep(way, sender);
        Ok(answer)
    }

    /// A connection of its own, for bodies of any kind.
    pub(crate) async fn connect_to<B>(&self, server: &NodeAddress) -> Result<SendRequest<B>, String>
    where
        B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let encryption = if server.is_encrypted() { Some(self.encryption()?) } else { None };
        connect(server, encryption).await
    }

    fn take_kept(&self, way: &Way) -> Option<Sender> {
        let mut inner = self.inner();
        let kept = inner.kept.get_mut(way)?;
        std::iter::from_fn(|| kept.pop()).find(Kept::is_usable).map(|kept| kept.sender)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, way: Way, sender: Sender) {
        let kept = &mut self.inner().kept;
        kept.retain(|_, of_server| {
            of_server.retain(Kept::is_usable);
            !of_server.is_empty()
        });
        if kept.values().map(Vec::len).sum::<usize>() < KEPT_MAX && !sender.is_closed() {
            kept.entry(way).or_default().push(Kept { sender, used_at: Instant::now() });
        }
    }

    /// How the connection of a request is encrypted; `None`: not at all.
    fn encryption_of(
        &self,
        request: &OutboundRequest,
    ) -> Result<Option<Arc<ClientConfig>>, String> {
        if !request.server.is_encrypted() {
            return Ok(None);
        }
        let own = self.encryption()?;
        let Some(identity) = &request.identity else { return Ok(Some(own)) };
        let mut inner = self.inner();
        if let Some(known) = inner.of_clients.get(identity.thumbprint()) {
            return Ok(Some(Arc::clone(known)));
        }
        let own_pair = inner.encryption.as_ref().and_then(|(pair, _)| pair.clone());
        let config = Arc::new(config_of(own_pair.as_deref(), Some(&identity.0))?);
        if CLIENTS_MAX <= inner.of_clients.len() {
            inner.of_clients.clear();
        }
        inner.of_clients.insert(identity.thumbprint().to_owned(), Arc::clone(&config));
        Ok(Some(config))
    }

    /// How connections are encrypted with the certificate that the server has now. Those of the former one are closed.
    fn encryption(&self) -> Result<Arc<ClientConfig>, String> {
        let pair = self.state.upgrade().and_then(|state| Some(state.tls()?.key_pair()));
        let mut inner = self.inner();
        if let Some((known, config)) = &inner.encryption
            && known.as_ref().map(Arc::as_ptr) == pair.as_ref().map(Arc::as_ptr)
        {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(config_of(pair.as_deref(), pair.as_deref())?);
        inner.kept.retain(|way, _| !way.server.is_encrypted());
        // They trust what the server trusts.
        inner.of_clients.clear();
        inner.encryption = Some((pair, Arc::clone(&config)));
        Ok(config)
    }
}

async fn connect<B>(
    server: &NodeAddress,
    encryption: Option<Arc<ClientConfig>>,
) -> Result<SendRequest<B>, String>
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let connected = TcpStream::connect((server.host(), server.port())).await;
    let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
    // Without this, small requests wait for the acknowledgement of the one before. If it fails, they do.
    drop(stream.set_nodelay(true));
    let Some(encryption) = encryption else { return begin(stream).await };
    let name = ServerName::try_from(server.host().to_owned())
        .map_err(|error| format!("no certificate can have this host: {error}"))?;
    let stream = TlsConnector::from(encryption).connect(name, stream).await;
    begin(stream.map_err(|error| format!("the handshake failed: {error}"))?).await
}

/// Trusts what is in the chain of the server's own certificate, and in that of the one to connect with.
fn config_of(own: Option<&KeyPair>, pair: Option<&KeyPair>) -> Result<ClientConfig, String> {
    let chain = |pair: &KeyPair| -> Vec<CertificateDer<'static>> {
        pair.chain().iter().map(|one| CertificateDer::from(one.der().to_vec())).collect()
    };
    let mut roots = RootCertStore::empty();
    // One that cannot be an authority is none.
    roots.add_parsable_certificates(own.map(chain).unwrap_or_default());
    roots.add_parsable_certificates(pair.map(chain).unwrap_or_default());
    let of_system = rustls_native_certs::load_native_certs();
    for error in of_system.errors {
        tracing::warn!(%error, "a certificate that the system trusts could not be read");
    }
    roots.add_parsable_certificates(of_system.certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let unusable = |error: rustls::Error| format!("the certificate cannot be used: {error}");
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(unusable)?
        .with_root_certificates(roots);
    match pair {
        None => Ok(config.with_no_client_auth()),
        Some(pair) => {
            config.with_client_auth_cert(chain(pair), pair.private_key()).map_err(unusable)
        }
    }
}

fn made(request: OutboundRequest) -> Result<Request<Full<Bytes>>, String> {
    let mut made = Request::builder()
        .method(request.method)
        .uri(request.path)
        .header(header::HOST, request.server.authority())
        .header(header::USER_AGENT, concat!("corvus/", env!("CARGO_PKG_VERSION")));
    if !request.content_type.is_empty() {
        made = made.header(header::CONTENT_TYPE, request.content_type);
    }
    let body = Full::new(Bytes::from_owner(SharedBody(request.body)));
    made.body(body).map_err(|error| format!("invalid request: {error}"))
}

/// Begins to speak the protocol on a connection.
async fn begin<B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<B>, String>
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let begun = handshake(TokioIo::new(stream)).await;
    let (sender, connection) = begun.map_err(|error| format!("no connection: {error}"))?;
    // It ends with the sender; its errors reach the requests.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn exchange_on(
    sender: &mut Sender,
    request: Request<Full<Bytes>>,
    answer_bytes_max: usize,
) -> Result<OutboundAnswer, String> {
    let broken = |error: hyper::Error| format!("the connection broke: {error}");
    sender.ready().await.map_err(broken)?;
    let mut response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(frame) = response.frame().await {
        if let Ok(piece) = frame.map_err(broken)?.into_data() {
            let room = answer_bytes_max.saturating_sub(body.len());
            body.extend_from_slice(&piece[..piece.len().min(room)]);
        }
    }
    Ok(OutboundAnswer { status, body })
}
