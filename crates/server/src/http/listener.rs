//! Listens, accepts and serves connections, within limits of number and time.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use security::Client;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, lookup_host},
    sync::watch,
    time::{MissedTickBehavior, timeout},
};

use settings::{Host, HttpSettings, ServerUrl, Settings, UnsecuredAccess};

use crate::{
    error::StartError,
    http::{
        connection_limiter::ConnectionLimiter,
        connection_watch::{ConnectionWatch, Verdict, WatchedBody, WatchedConnection},
        data_rate::MinDataRate,
        service::{Service, serve},
        web_socket::ConnectionPlace,
    },
    tcp::{self, TcpConnection},
    tls::ServerTls,
    transport::{Connection, Incoming, Listener, Opened},
};

/// How often a connection is checked for idleness and slow heads.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long accepting pauses when the system refuses another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a client has to read why it is refused.
const REFUSAL_TIME_MAX: Duration = Duration::from_millis(200);

/// The protocols spoken on a listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerProtocol {
    /// HTTP, and the TCP protocol.
    Both,
    /// The TCP protocol alone.
    Tcp,
}

/// Where a server without a certificate may listen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllowedAccess {
    access: UnsecuredAccess,
    /// Clients identify themselves by API keys, which must not be sent in the clear.
    has_keys: bool,
}

impl AllowedAccess {
    /// By the settings.
    pub(crate) fn of(settings: &Settings) -> AllowedAccess {
        let access = settings.access_without_certificate();
        AllowedAccess { access, has_keys: settings.security.api_keys.is_some() }
    }
}

/// Listens on all addresses of `urls`. Without `tls`, on none that `allowed` forbids.
pub(crate) async fn bind_all(
    urls: &[ServerUrl],
    allowed: AllowedAccess,
    tls: Option<&Arc<ServerTls>>,
) -> Result<Vec<Listener>, StartError> {
    let mut listeners = Vec::new();
    for url in urls {
        for address in resolve(url).await? {
            if tls.is_none() {
                check_access(url, address, allowed)?;
            }
            let refused = |source| StartError::Bind { url: Box::new(url.clone()), address, source };
            listeners.push(Listener::bind(address, tls).map_err(refused)?);
        }
    }
    Ok(listeners)
}

async fn resolve(url: &ServerUrl) -> Result<Vec<SocketAddr>, StartError> {
    let name = match &url.host {
        Host::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, url.port)]),
        Host::Name(name) => name,
    };
    let unresolved = |source| StartError::Resolve { host: name.clone(), source };
    let addresses: Vec<SocketAddr> =
        lookup_host((name.as_str(), url.port)).await.map_err(unresolved)?.collect();
    // One port for all addresses of a name: with port 0 each would get its own.
    let count = if url.port == 0 { 1 } else { addresses.len() };
    Ok(addresses.into_iter().take(count).collect())
}

/// Names were not resolved when the settings were validated, so the rule is checked again here.
fn check_access(
    url: &ServerUrl,
    address: SocketAddr,
    allowed: AllowedAccess,
) -> Result<(), StartError> {
    if allowed.access.allows(address.ip()) {
        return Ok(());
    }
    if allowed.has_keys {
        return Err(StartError::KeysInTheClear { url: url.to_string(), address });
    }
    let needed = UnsecuredAccess::needed_for(address.ip()).name();
    Err(StartError::AccessNotAllowed { url: url.to_string(), address, needed })
}

/// Accepts connections until the server stops.
pub(crate) async fn accept(
    service: Service,
    (listener, protocol): (Listener, ListenerProtocol),
    limiter: Arc<ConnectionLimiter>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut refusals = Refusals::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let incoming = match accepted {
            Ok(incoming) => incoming,
            Err(error) => {
                refusals.note(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        refusals.end();
        let place = tokio::select! {
            place = limiter.place() => place,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let Some(permit) = place else { return };
        let place = ConnectionPlace {
            _permit: Arc::new(permit),
            stopping: stopping.clone(),
            answers: Arc::clone(&service.state.engine.memory().answers),
            client: Client::Unsecured,
            peer: incoming.peer(),
        };
        tokio::spawn(open(service.clone(), (incoming, protocol), place, Arc::clone(&limiter)));
    }
}

/// Performs the handshake of a connection, and serves it to its end.
async fn open(
    service: Service,
    (incoming, protocol): (Incoming, ListenerProtocol),
    place: ConnectionPlace,
    limiter: Arc<ConnectionLimiter>,
) {
    let handshake_max = service.state.engine.settings().http.request_head_timeout;
    let mut stopping = place.stopping.clone();
    let opened = tokio::select! {
        opened = timeout(handshake_max, incoming.open()) => opened,
        () = limiter.evicted_when_unused() => return,
        _ = stopping.wait_for(|stopping| *stopping) => return,
    };
    match opened {
        Ok(Ok(Opened::Ready(connection))) => {
            let place = ConnectionPlace { client: connection.client().clone(), ..place };
            keep(service, (*connection, protocol), place, limiter).await;
        }
        Ok(Ok(Opened::Unencrypted(stream))) => tokio::select! {
            () = refuse_unencrypted(stream) => {}
            () = limiter.evicted() => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        },
        Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
        Err(_) => {}
    }
}

/// Responds to a client that does not encrypt, although the listener does, whatever it requests.
async fn refuse_unencrypted(mut stream: TcpStream) {
    let body = r#"{"Url":null,"Type":"Raven.Client.Exceptions.Security.InsufficientTransportLayerProtectionException","Message":"This port speaks HTTPS. Use an address that begins with https://","Error":"This port speaks HTTPS. Use an address that begins with https://"}"#;
    let length = body.len();
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let sending = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing with unread data would discard the response on its way.
        let mut unread = [0; 1024];
        while 0 < stream.read(&mut unread).await? {}
        Ok::<_, std::io::Error>(())
    };
    drop(timeout(REFUSAL_TIME_MAX, sending).await);
}

/// A series of connections that the system refused: the first and the last are logged.
#[derive(Default)]
struct Refusals(u64);

impl Refusals {
    fn note(&mut self, error: &std::io::Error) {
        self.0 += 1;
        if self.0 > 1 {
            return;
        }
        let open_files_max = platform::descriptors::limit();
        tracing::warn!(
            %error,
            open_files_max,
            "no connection can be accepted; retrying. If there are no file descriptors left, \
             raise the limit of open files of the process"
        );
    }

    fn end(&mut self) {
        if self.0 > 0 {
            tracing::info!(failed = self.0, "connections are accepted again");
            self.0 = 0;
        }
    }
}

/// How connections are served. The time for the head of a request is not hyper's matter: see
/// [`ConnectionWatch::judge`].
fn builder_of(http: &HttpSettings) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(http.request_head_bytes_max.max(8 << 10));
    builder
}

/// Serves one connection to its end. A session that takes over the connection keeps its place.
async fn keep(
    service: Service,
    (mut connection, protocol): (Connection, ListenerProtocol),
    place: ConnectionPlace,
    limiter: Arc<ConnectionLimiter>,
) {
    let state = Arc::clone(&service.state);
    let mut stopping = place.stopping.clone();
    // If this fails, a client that has vanished keeps its place for longer.
    let idle_max = state.engine.settings().http.idle_connection_timeout;
    drop(connection.end_when_unacknowledged(idle_max));
    // If this fails, the system decides how much is buffered for a client that does not read.
    drop(connection.limit_send_buffer(state.engine.memory().send_buffer_bytes));
    let http = &state.engine.settings().http;
    let (head_max, rate) = (http.request_head_timeout, MinDataRate::of(http));
    let first = tokio::select! {
        first = timeout(idle_max, connection.first_byte()) => first,
        () = limiter.evicted_when_unused() => return,
        _ = stopping.wait_for(|stopping| *stopping) => return,
    };
    match first {
        Ok(Some(byte)) if byte == tcp::FIRST_BYTE || protocol == ListenerProtocol::Tcp => {
            return tcp::serve(TcpConnection { state, connection, place, limiter }).await;
        }
        Ok(Some(_)) => {}
        Ok(None) | Err(_) => return,
    }
    let watch = ConnectionWatch::new(Arc::clone(&limiter));
    let builder = builder_of(http);
    let io = TokioIo::new(WatchedConnection::new(connection, Arc::clone(&watch)));
    let serving = service_fn(|request| {
        let (service, watch, place) = (service.clone(), Arc::clone(&watch), place.clone());
        async move {
            watch.answering();
            let response = serve(service, request, Arc::clone(&watch), place).await;
            watch.answered();
            let response = response.map(|body| WatchedBody::new(body, watch));
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut served = std::pin::pin!(builder.serve_connection(io, serving).with_upgrades());
    let mut looks = tokio::time::interval(CONNECTION_CHECK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_leaving = false;
    let mut cut = std::pin::pin!(limiter.cut());
    loop {
        tokio::select! {
            // Whatever ends a connection, there is no one left to report it to.
            _ = served.as_mut() => break,
            () = cut.as_mut() => break,
            _ = stopping.wait_for(|stopping| *stopping), if !is_leaving => {
                is_leaving = true;
                served.as_mut().graceful_shutdown();
            }
            // Requests sent since then are not answered: the client repeats them on another
            // connection.
            () = limiter.evicted(), if watch.is_unused() => break,
            _ = looks.tick() => match watch.judge(idle_max, head_max, rate) {
                // The response is on its way; there is no need to wait for the rest of a body.
                Verdict::Keep if is_leaving && watch.is_draining() => break,
                Verdict::Keep => {}
                Verdict::CloseIdle => served.as_mut().graceful_shutdown(),
                Verdict::Cut => break,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use settings::Scheme;

    use super::*;

    #[test]
    fn what_a_name_means_is_held_against_the_rule_again() {
        let host = Host::Name("db.example".to_owned());
        let url = ServerUrl { scheme: Scheme::Http, host, port: 8080 };
        let table = [
            ("127.0.0.1:8080", UnsecuredAccess::Local, true),
            ("[::1]:8080", UnsecuredAccess::Local, true),
            ("10.0.0.7:8080", UnsecuredAccess::Local, false),
            ("10.0.0.7:8080", UnsecuredAccess::PrivateNetwork, true),
            ("203.0.113.9:8080", UnsecuredAccess::PrivateNetwork, false),
            ("203.0.113.9:8080", UnsecuredAccess::PublicNetwork, true),
        ];
        let settings = ["Security.UnsecuredAccessAllowed", "Security.TlsTerminatedByProxy=true"];
        for (address, access, expected) in table {
            for (has_keys, setting) in [false, true].into_iter().zip(settings) {
                let allowed = AllowedAccess { access, has_keys };
                let checked = check_access(&url, address.parse().unwrap(), allowed);
                assert_eq!(checked.is_ok(), expected, "{address} {allowed:?}");
                if let Err(refused) = checked {
                    assert!(refused.is_configuration());
                    assert!(refused.to_string().contains(setting));
                }
            }
        }
    }
}
