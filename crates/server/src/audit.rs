//! The audit log: one entry for each request that administers something, and for each that was refused for want
//! of a certificate or a clearance.
//!
//! Bodies are not in it: they may contain secrets. Connections of the TCP protocol administer nothing.

use std::net::SocketAddr;

use http::{Method, StatusCode};
use security::{Client, Requirement};
use serde_json::json;

/// Writes one entry, a line of JSON. It is called on threads that serve requests.
pub type AuditSink = Box<dyn Fn(&[u8]) + Send + Sync>;

/// The log, if there is one.
pub(crate) struct AuditLog(Option<AuditSink>);

/// A request that is being answered, as far as an entry shows it.
pub(crate) struct Act {
    method: Method,
    target: String,
    peer: SocketAddr,
    client: Client,
}

impl AuditLog {
    pub(crate) fn new(sink: Option<AuditSink>) -> AuditLog {
        AuditLog(sink)
    }

    /// Remembers a request, if there is a log.
    pub(crate) fn begin(
        &self,
        method: &Method,
        target: &str,
        (peer, client): (SocketAddr, &Client),
    ) -> Option<Act> {
        self.0.as_ref()?;
        let (method, target) = (method.clone(), target.to_owned());
        Some(Act { method, target, peer, client: client.clone() })
    }

    /// Writes the entry of a request, if it belongs into the log. `requirement` is that of its route.
    pub(crate) fn end(
        &self,
        act: &Act,
        requirement: Option<Requirement>,
        is_denied: bool,
        (status, at): (StatusCode, i64),
    ) {
        let is_reading = matches!(act.method, Method::GET | Method::HEAD);
        let is_administration = !is_reading && requirement.is_some_and(is_administrative);
        let (Some(sink), true) = (&self.0, is_denied || is_administration) else { return };
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
        sink(format!("{entry}\n").as_bytes());
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
