//! Why the server could not start.

use std::{error::Error, fmt, io, net::SocketAddr};

use cluster_state::ClusterError;
use database::CatalogError;
use platform::Exposure;
use settings::{Scheme, ServerUrl};
use storage::StorageError;

/// The server could not start. The display form says what to do about it.
#[derive(Debug)]
pub enum StartError {
    /// The name of a host could not be resolved.
    Resolve {
        /// The name.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// The address may be reached from further away than the settings allow without certificates.
    AccessNotAllowed {
        /// The address as it was given.
        url: String,
        /// What it means.
        address: SocketAddr,
        /// The value of `Security.UnsecuredAccessAllowed` that would allow it.
        needed: &'static str,
    },
    /// The address could not be listened on.
    Bind {
        /// The address as it was given.
        url: Box<ServerUrl>,
        /// What it means.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The server's own environment could not be opened.
    Catalog {
        /// The data directory.
        directory: String,
        /// What went wrong.
        source: CatalogError,
    },
    /// There are databases, and not the server's own environment that knows them.
    SystemMissing {
        /// The data directory.
        directory: String,
    },
    /// Another process, a server or an offline command, has the data directory.
    InUse {
        /// The data directory.
        directory: String,
    },
    /// Other users could change or replace the data.
    Exposed {
        /// The directory.
        directory: String,
        /// Who could.
        exposure: Exposure,
    },
    /// A thread could not be started.
    Thread {
        /// What the system said.
        source: io::Error,
    },
}

impl StartError {
    /// Whether another configuration would help, rather than another try.
    pub fn is_configuration(&self) -> bool {
        match self {
            StartError::Resolve { .. }
            | StartError::AccessNotAllowed { .. }
            | StartError::SystemMissing { .. }
            | StartError::InUse { .. }
            | StartError::Exposed { .. } => true,
            StartError::Catalog { source: CatalogError::Storage(error), .. } => {
                matches!(error, StorageError::Locked { .. } | StorageError::UnknownVersion { .. })
                    || is_permission_problem(error)
            }
            StartError::Catalog { source: CatalogError::Foreign { .. }, .. } => true,
            StartError::Catalog { source: CatalogError::Cluster(error), .. } => {
                matches!(error, ClusterError::UnknownVersion { .. })
            }
            StartError::Bind { .. } | StartError::Catalog { .. } | StartError::Thread { .. } => {
                false
            }
        }
    }
}

fn is_permission_problem(error: &StorageError) -> bool {
    let StorageError::Io { source, .. } = error else { return false };
    matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Resolve { host, source } => {
                write!(f, "the host '{host}' of ServerUrl cannot be resolved: {source}")
            }
            StartError::AccessNotAllowed { url, address, needed } => write!(
                f,
                "{url} means {address}, where others could reach the server without any \
                 authentication. Listen on 127.0.0.1, or set Security.UnsecuredAccessAllowed to \
                 {needed} if everybody on that network may read and change all data"
            ),
            StartError::Bind { url, address, source } => write_bind(f, url, *address, source),
            StartError::Catalog { directory, source } => write_catalog(f, directory, source),
            StartError::SystemMissing { directory } => write!(
                f,
                "there are databases in {directory}, but the server's own directory System, which \
                 knows them, is missing. Nothing was changed. Mount or put back System, or make a new \
                 one that takes the databases in: corvus offline adopt {directory}"
            ),
            StartError::InUse { directory } => write!(
                f,
                "another server or an offline command uses the data directory {directory}. Stop it, or \
                 give this server a DataDir of its own"
            ),
            StartError::Exposed { directory, exposure } => write_exposure(f, directory, *exposure),
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
            "The system keeps ports below 1024 for privileged users. Take another port: \
             --{setting}={}",
            with_port(usual_port)
        ),
        io::ErrorKind::AddrNotAvailable => write!(
            f,
            "This machine has no such address. {setting} names an address of this machine, or \
             127.0.0.1; names for clients belong in PublicServerUrl"
        ),
        _ => write!(f, "{setting} says where to listen"),
    }
}

fn write_catalog(
    f: &mut fmt::Formatter<'_>,
    directory: &str,
    source: &CatalogError,
) -> fmt::Result {
    write!(f, "cannot open the data directory {directory}: {source}")?;
    match source {
        CatalogError::Storage(StorageError::Locked { .. }) => {
            f.write_str(". Stop the other server, or give this one a DataDir of its own")
        }
        CatalogError::Storage(error) if is_permission_problem(error) => f.write_str(
            ". The server must be allowed to write there; set DataDir to a directory it owns",
        ),
        _ => Ok(()),
    }
}

fn write_exposure(f: &mut fmt::Formatter<'_>, directory: &str, exposure: Exposure) -> fmt::Result {
    match exposure {
        Exposure::OwnedByAnother { owner, own } => write!(
            f,
            "the directory {directory} belongs to the user {owner}, and the server runs as the user \
             {own}. Run it as that user, or give the directory to {own} (chown)"
        ),
        Exposure::WritableByAll | Exposure::OpenToOthers | Exposure::Private => write!(
            f,
            "every user of this machine may write in the directory {directory}. Take that away \
             (chmod o-w), or set DataDir to a directory of its own"
        ),
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StartError::Resolve { source, .. }
            | StartError::Bind { source, .. }
            | StartError::Thread { source } => Some(source),
            StartError::Catalog { source, .. } => Some(source),
            StartError::AccessNotAllowed { .. }
            | StartError::SystemMissing { .. }
            | StartError::InUse { .. }
            | StartError::Exposed { .. } => None,
        }
    }
}
