//! Why the server could not start.

use std::{error::Error, fmt, io, net::SocketAddr};

use database::CatalogError;
use engine::OpenError;
use settings::{Scheme, ServerUrl};

use crate::tls::CertificateError;

/// The server could not start. The display form suggests what to do.
#[derive(Debug)]
pub enum StartError {
    /// The name of a host could not be resolved.
    Resolve {
        /// The host name as configured.
        host: String,
        /// What the system reported.
        source: io::Error,
    },
    /// The address is reachable from further away than the settings allow without certificates.
    AccessNotAllowed {
        /// The address as configured.
        url: String,
        /// The address to which it resolves.
        address: SocketAddr,
        /// The value of `Security.UnsecuredAccessAllowed` that would allow it.
        needed: &'static str,
    },
    /// API keys would be sent there in the clear.
    KeysInTheClear {
        /// The address as configured.
        url: String,
        /// The address to which it resolves.
        address: SocketAddr,
    },
    /// Listening on the address failed.
    Bind {
        /// The address as configured.
        url: Box<ServerUrl>,
        /// The address to which it resolves.
        address: SocketAddr,
        /// What the system reported.
        source: io::Error,
    },
    /// The certificate of the server cannot be used, or should not be.
    Certificate(Box<CertificateError>),
    /// The registered certificates or API keys cannot be read.
    Registered(Box<CatalogError>),
    /// The data directory could not be opened.
    Engine(OpenError),
    /// A thread could not be started.
    Thread {
        /// What the system reported.
        source: io::Error,
    },
}

impl StartError {
    /// Whether another configuration would help, rather than a retry.
    pub fn is_configuration(&self) -> bool {
        match self {
            StartError::Resolve { .. }
            | StartError::AccessNotAllowed { .. }
            | StartError::KeysInTheClear { .. }
            | StartError::Certificate(_) => true,
            StartError::Engine(error) => error.is_configuration(),
            StartError::Bind { .. } | StartError::Registered(_) | StartError::Thread { .. } => {
                false
            }
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Resolve { host, source } => {
                write!(f, "the host '{host}' of ServerUrl cannot be resolved: {source}")
            }
            StartError::AccessNotAllowed { url, address, needed } => write!(
                f,
                "{url} resolves to {address}, where others could reach the server without any \
                 authentication. Listen on 127.0.0.1, or set Security.UnsecuredAccessAllowed to \
                 {needed} if everybody on that network may read and change all data"
            ),
            StartError::KeysInTheClear { url, address } => write!(
                f,
                "{url} resolves to {address}, where API keys would be sent without encryption. Listen on 127.0.0.1, or \
                 set up a certificate, or set Security.TlsTerminatedByProxy=true if the address can be reached only \
                 through something that ends TLS"
            ),
            StartError::Bind { url, address, source } => write_bind(f, url, *address, source),
            StartError::Certificate(error) => error.fmt(f),
            StartError::Registered(error) => {
                write!(f, "the registered certificates and API keys cannot be read: {error}")
            }
            StartError::Engine(error) => error.fmt(f),
            StartError::Thread { source } => write!(f, "cannot start a thread: {source}"),
        }
    }
}

fn write_bind(
    f: &mut fmt::Formatter<'_>,
    url: &ServerUrl,
    address: SocketAddr,
    source: &io::Error,
) -> fmt::Result {
    let (setting, usual_port) = match url.scheme {
        Scheme::Http | Scheme::Https => ("ServerUrl", 8080),
        Scheme::Tcp => ("ServerUrl.Tcp", 38888),
    };
    let with_port = |port| ServerUrl { port, ..url.clone() };
    write!(f, "cannot listen on {address}: {source}. ")?;
    match source.kind() {
        io::ErrorKind::AddrInUse => write!(
            f,
            "Another program, maybe another Corvus or RavenDB, listens there. Stop it, or take \
             another port: --{setting}={}",
            with_port(url.port.checked_add(1).unwrap_or(usual_port))
        ),
        io::ErrorKind::PermissionDenied => write!(
            f,
            "The system keeps ports below 1024 for privileged users. Choose another port: \
             --{setting}={}",
            with_port(usual_port)
        ),
        io::ErrorKind::AddrNotAvailable => write!(
            f,
            "This machine has no such address. {setting} names an address of this machine, or \
             127.0.0.1; names for clients belong in PublicServerUrl"
        ),
        _ => write!(f, "{setting} determines where to listen"),
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StartError::Resolve { source, .. }
            | StartError::Bind { source, .. }
            | StartError::Thread { source } => Some(source),
            StartError::Engine(error) => Some(error),
            StartError::Certificate(error) => Some(&**error),
            StartError::Registered(error) => Some(&**error),
            StartError::AccessNotAllowed { .. } | StartError::KeysInTheClear { .. } => None,
        }
    }
}
