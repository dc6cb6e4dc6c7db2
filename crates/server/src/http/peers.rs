//! The way to the other nodes of the cluster: `POST /cluster/raft`.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use cluster::{PeerAnswer, Peers};
use engine::OutboundRequest;
use tokio::runtime::Handle;
use wire::NodeAddress;

use super::outbound::{ExchangeError, HttpOutbound};

/// The path of requests of other nodes.
pub(crate) const PATH: &str = "/cluster/raft";

/// An answer is as large as a batch of commands' outcomes at most.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The consensus gives up much earlier.
const TIME_MAX: Duration = Duration::from_secs(120);

/// See the module. Until the server listens, no node can be reached.
#[derive(Default)]
pub(crate) struct HttpPeers(OnceLock<(Handle, Arc<HttpOutbound>)>);

impl HttpPeers {
    /// From now on, nodes are reached through this.
    pub(crate) fn begin(&self, outbound: Arc<HttpOutbound>) {
        self.0.get_or_init(|| (Handle::current(), outbound));
    }
}

impl Peers for HttpPeers {
    fn call(&self, url: &str, request: Vec<u8>) -> PeerAnswer {
        let not_connected = |reason: String| io::Error::new(io::ErrorKind::NotConnected, reason);
        let Some((runtime, outbound)) = self.0.get() else {
            let error = not_connected("the server is starting".to_owned());
            return Box::pin(std::future::ready(Err(error)));
        };
        let server: NodeAddress = match url.parse() {
            Ok(server) => server,
            Err(error) => {
                let error = not_connected(format!("{url}: {error}"));
                return Box::pin(std::future::ready(Err(error)));
            }
        };
        let (outbound, url) = (Arc::clone(outbound), url.to_owned());
        let request = OutboundRequest {
            method: "POST",
            server,
            path: PATH.to_owned(),
            content_type: "application/octet-stream".to_owned(),
            body: Arc::new(request),
            time_max: TIME_MAX,
            answer_bytes_max: ANSWER_BYTES_MAX,
            identity: None,
        };
        // Sockets belong to the server's runtime; the consensus has one of its own.
        let exchange = runtime.spawn(async move { outbound.exchange_once(request).await });
        Box::pin(async move {
            let answer = exchange.await.map_err(|error| io::Error::other(error.to_string()))?;
            let answer = answer.map_err(|error| match error {
                ExchangeError::NotSent(reason) => not_connected(format!("{url}: {reason}")),
                ExchangeError::Broken(reason) => io::Error::other(format!("{url}: {reason}")),
            })?;
            match answer.status {
                200 => Ok(answer.body),
                status => {
                    let text = String::from_utf8_lossy(&answer.body);
                    let shown: String = text.chars().take(300).collect();
                    Err(io::Error::other(format!("{url} answered {status}: {shown}")))
                }
            }
        })
    }
}
