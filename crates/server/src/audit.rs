//! The audit log: one entry for each request that administers something, and for each that was refused for want
//! of a certificate or a clearance.
//!
//! Bodies are not in it: they may contain secrets. Connections of the TCP protocol administer nothing.

use std::{net::SocketAddr, sync::Arc};

use http::{Method, StatusCode};
use security::{Client, Requirement};
use serde_json::json;
use tokio::sync::Mutex as AsyncMutex;

/// Writes one entry, a line of JSON. It may block: never two calls at a time, on threads that read no requests.
pub type AuditSink = Box<dyn Fn(&[u8]) + Send + Sync>;

/// The log, if there is one.
pub(crate) struct AuditLog {
    sink: Option<Arc<AuditSink>>,
    /// Entries wait here for each other, so that a disk that hangs holds one thread.
    turn: AsyncMutex<()>,
}

/// A request that is being answered, as far as an entry shows it.
pub(crate) struct Act {
    method: Method,
    target: String,
    peer: SocketAddr,
    client: Client,
}

impl AuditLog {
    pub(crate) fn new(sink: Option<AuditSink>) -> AuditLog {
        AuditLog { sink: sink.map(Arc::new), turn: AsyncMutex::new(()) }
    }

    /// Remembers a request, if there is a log.
    pub(crate) fn begin(
        &self,
        method: &Method,
        target: &str,
        (peer, client): (SocketAddr, &Client),
    ) -> Option<Act> {
        self.sink.as_ref()?;
        let (method, target) = (method.clone(), target.to_owned());
        Some(Act { method, target, peer, client: client.clone() })
    }

    /// Writes the entry of a request, if it belongs in the log, and waits until it is written. `requirement` is
    /// that of its route.
    pub(crate) async fn end(
        &self,
        act: &Act,
        requirement: Option<Requirement>,
        is_denied: bool,
        (status, at): (StatusCode, i64),
    ) {
        let is_reading = matches!(act.method, Method::GET | Method::HEAD);
        let is_administration = !is_reading && requirement.is_some_and(is_administrative);
        let (Some(sink), true) = (&self.sink, is_denied || is_administration) else { return };
        let certificate = match &act.client {
            Client::Unsecured | Client::Anonymous => None,
            Client::Certified(certificate) => Some(certificate.in_words()),
        };
        let entry = json!({
            "Time": model::date::format(at),
            "From": act.peer.to_string(),
            "Certificate": certificate,
            "Method": act.method.as_str(),
            "Target": act.target,
            "Status": status.as_u16(),
            "Denied": is_denied,
        });
        let (sink, entry) = (Arc::clone(sink), format!("{entry}\n"));
        let _turn = self.turn.lock().await;
        drop(tokio::task::spawn_blocking(move || sink(entry.as_bytes())).await);
    }
}

fn is_administrative(requirement: Requirement) -> bool {
    match requirement {
        Requirement::DatabaseAdmin | Requirement::Operator | Requirement::ClusterAdmin => true,
        Requirement::Anyone | Requirement::ValidUser | Requirement::Read | Requirement::Write => {
            false
        }
    }
}
