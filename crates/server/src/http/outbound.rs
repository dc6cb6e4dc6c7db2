//! Requests to other servers, for the engine: HTTP/1.1 with or without TLS, one after another on a connection that is
//! kept for each server.
//!
//! The server identifies itself with its own certificate, if it has one. It trusts the authorities that the machine
//! trusts, and the certificates in the chain of its own.

use std::{
    collections::HashMap,
    fs,
    io::{self, Read},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use engine::{
    Cancel, Outbound, OutboundAnswer, OutboundError, OutboundRequest, OutboundStream, StillWanted,
};
use http::{Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
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

use crate::server_state::ServerState;

/// Where systems keep the certificates that they trust; the first that is there counts.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Servers to which a connection is kept.
const KEPT_MAX: usize = 64;

type Sender = SendRequest<Full<Bytes>>;

/// A server: whether it encrypts, its host and its port.
type Origin = (bool, String, u16);

/// See the module.
pub(crate) struct HttpOutbound {
    runtime: Handle,
    state: Weak<ServerState>,
    /// Connections on which nothing is in progress.
    kept: Mutex<HashMap<Origin, Sender>>,
    system_roots: OnceLock<Vec<CertificateDer<'static>>>,
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
        let (url, time_max) = (server_of(&request.url), request.time_max);
        let work = async {
            tokio::select! {
                answered = timeout(time_max, self.exchange(request)) => match answered {
                    Ok(answered) => answered.map_err(|reason| failed(format!("{url}: {reason}"))),
                    Err(_) => Err(failed(format!(
                        "{url} did not answer within {} seconds", time_max.as_secs()
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
        let (url, silence_max) = (server_of(&request.url), request.time_max);
        let waiting = Waiting { is_wanted, silence_max };
        let work = async {
            let opened = waiting.wait_for(self.begin_exchange(request)).await;
            opened.and_then(|opened| opened).map_err(|reason| match reason.is_empty() {
                true => OutboundError::Canceled,
                false => failed(format!("{url}: {reason}")),
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

/// The scheme, host and port of an address: what an operator needs to know of it.
fn server_of(url: &str) -> String {
    url.split('/').take(3).collect::<Vec<_>>().join("/")
}

impl HttpOutbound {
    /// Requests run on the runtime of the caller.
    pub(crate) fn new(state: &Arc<ServerState>) -> HttpOutbound {
        HttpOutbound {
            runtime: Handle::current(),
            state: Arc::downgrade(state),
            kept: Mutex::default(),
            system_roots: OnceLock::new(),
        }
    }

    /// Sends a request on a connection of its own, and waits until the answer begins.
    async fn begin_exchange(
        &self,
        request: OutboundRequest,
    ) -> Result<(Sender, Response<Incoming>), String> {
        let uri: Uri = request.url.parse().map_err(|error| format!("invalid address: {error}"))?;
        let origin = origin_of(&uri)?;
        let made = made(request, &uri)?;
        let mut sender = self.connect(&origin).await?;
        let answered = sender.send_request(made).await;
        Ok((sender, answered.map_err(|error| format!("the connection broke: {error}"))?))
    }

    async fn exchange(&self, request: OutboundRequest) -> Result<OutboundAnswer, String> {
        let uri: Uri = request.url.parse().map_err(|error| format!("invalid address: {error}"))?;
        let origin = origin_of(&uri)?;
        let answer_bytes_max = request.answer_bytes_max;
        let made = made(request, &uri)?;
        let kept = self.kept().remove(&origin).filter(|sender| !sender.is_closed());
        if let Some(mut sender) = kept {
            // The server may have closed it meanwhile.
            if let Ok(answer) = exchange_on(&mut sender, made.clone(), answer_bytes_max).await {
                self.keep(origin, sender);
                return Ok(answer);
            }
        }
        let mut sender = self.connect(&origin).await?;
        let answer = exchange_on(&mut sender, made, answer_bytes_max).await?;
        self.keep(origin, sender);
        Ok(answer)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<Origin, Sender>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, origin: Origin, sender: Sender) {
        let mut kept = self.kept();
        kept.retain(|_, sender| !sender.is_closed());
        if kept.len() < KEPT_MAX && !sender.is_closed() {
            kept.insert(origin, sender);
        }
    }

    async fn connect(&self, (encrypts, host, port): &Origin) -> Result<Sender, String> {
        let connected = TcpStream::connect((host.as_str(), *port)).await;
        let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
        // Without this, small requests wait for the acknowledgement of the one before. If it fails, they do.
        drop(stream.set_nodelay(true));
        if !encrypts {
            return begin(stream).await;
        }
        let name = ServerName::try_from(host.clone())
            .map_err(|error| format!("no certificate can have this host: {error}"))?;
        let connector = TlsConnector::from(Arc::new(self.config()?));
        let stream = connector.connect(name, stream).await;
        begin(stream.map_err(|error| format!("the handshake failed: {error}"))?).await
    }

    /// How connections are encrypted: with the certificate that the server has now.
    fn config(&self) -> Result<ClientConfig, String> {
        let pair = self.state.upgrade().and_then(|state| Some(state.tls()?.key_pair()));
        let mut roots = RootCertStore::empty();
        let own = pair.iter().flat_map(|pair| pair.chain());
        let own = own.map(|one| CertificateDer::from(one.der().to_vec()));
        // One that cannot be an authority is none.
        roots.add_parsable_certificates(own);
        roots.add_parsable_certificates(self.system_roots().iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let unusable = |error: rustls::Error| format!("the certificate cannot be used: {error}");
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(unusable)?
            .with_root_certificates(roots);
        let Some(pair) = pair else { return Ok(config.with_no_client_auth()) };
        let chain = pair.chain().iter().map(|one| CertificateDer::from(one.der().to_vec()));
        config.with_client_auth_cert(chain.collect(), pair.private_key()).map_err(unusable)
    }

    fn system_roots(&self) -> &[CertificateDer<'static>] {
        self.system_roots.get_or_init(|| {
            CertificateDer::pem_slice_iter(&system_certificates()).filter_map(Result::ok).collect()
        })
    }
}

/// The certificates that this machine trusts, as PEM; nothing if it has no such file.
#[expect(clippy::disallowed_methods, reason = "a file of the system")]
pub fn system_certificates() -> Vec<u8> {
    SYSTEM_ROOTS.iter().find_map(|path| fs::read(path).ok()).unwrap_or_default()
}

fn origin_of(uri: &Uri) -> Result<Origin, String> {
    let encrypts = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err("an address begins with http:// or https://".to_owned()),
    };
    let host = uri.host().filter(|host| !host.is_empty()).ok_or("an address needs a host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok((encrypts, host, uri.port_u16().unwrap_or(if encrypts { 443 } else { 80 })))
}

fn made(request: OutboundRequest, uri: &Uri) -> Result<Request<Full<Bytes>>, String> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut made = Request::builder()
        .method(request.method)
        .uri(path)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, concat!("corvus/", env!("CARGO_PKG_VERSION")));
    if !request.content_type.is_empty() {
        made = made.header(header::CONTENT_TYPE, request.content_type);
    }
    let body = Full::new(Bytes::from_owner(SharedBody(request.body)));
    made.body(body).map_err(|error| format!("invalid request: {error}"))
}

/// Begins to speak the protocol on a connection.
async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Sender, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_servers() {
        let origin = |url: &str| origin_of(&url.parse().unwrap());
        assert_eq!(origin("http://a/x?y=1").unwrap(), (false, "a".to_owned(), 80));
        assert_eq!(origin("https://[::1]/").unwrap(), (true, "::1".to_owned(), 443));
        assert_eq!(origin("https://a:8443/").unwrap().2, 8443);
        assert!(origin("ftp://a/").is_err() && origin("/a").is_err());
        assert_eq!(server_of("https://a:1/databases/secret?x"), "https://a:1");
    }
}
