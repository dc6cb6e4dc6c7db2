//! How a node reaches the others. The consensus knows no sockets: what starts it brings the transport.

use std::{future::Future, io, pin::Pin};

/// The answer of another node, on its way.
pub type PeerAnswer = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>> + Send>>;

/// Carries requests to other nodes, which answer them by [`Cluster::answer`](crate::Cluster::answer).
pub trait Peers: Send + Sync {
    /// Sends a request to the node at a URL. Dropping the answer abandons the request, which may be carried out all the
    /// same. The future is polled on the thread of the consensus, and must not block.
    ///
    /// An error of the kind `ConnectionRefused` or `NotConnected` says that the request was not sent.
    fn call(&self, url: &str, request: Vec<u8>) -> PeerAnswer;
}

/// For a server that has no transport: no other node can be reached.
pub struct NoPeers;

impl Peers for NoPeers {
    fn call(&self, _url: &str, _request: Vec<u8>) -> PeerAnswer {
        Box::pin(std::future::ready(Err(io::Error::new(
            io::ErrorKind::NotConnected,
            "this server cannot reach other nodes",
        ))))
    }
}

/// Whether the request was certainly not sent.
pub(crate) fn was_not_sent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotConnected)
}
