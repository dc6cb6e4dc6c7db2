//! What can go wrong while measuring.

use std::{fmt, io, path::PathBuf, time::Duration};

/// A server, or the connection to it, did not do what the work needs.
#[derive(Debug)]
pub(crate) enum DriverError {
    /// The connection.
    Connection(io::Error),
    /// The server closed the connection before its response was complete.
    ClosedEarly,
    /// No response on any connection for this long.
    Silent(Duration),
    /// Not HTTP as the driver understands it.
    NotHttp(String),
    /// A response other than success: status and the start of the body.
    Refused { request: String, status: u16, body: String },
    /// A response without the requested content.
    UnexpectedAnswer { request: String, body: String },
    /// The server did not start; contains the end of its output.
    NotStarted { server: &'static str, printed: String },
    /// A client program failed; contains its output.
    ClientFailed { printed: String },
    /// The server has no files in a folder of that name.
    NoFiles { folder: &'static str },
    /// A file or a directory of the driver's own.
    File { path: PathBuf, source: io::Error },
}

impl DriverError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

impl From<io::Error> for DriverError {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(source) => write!(f, "connection: {source}"),
            Self::ClosedEarly => {
                write!(f, "the server closed the connection before its response was complete")
            }
            Self::Silent(time) => write!(f, "the server was silent for {time:?}"),
            Self::NotHttp(reason) => write!(f, "not HTTP: {reason}"),
            Self::Refused { request, status, body } => {
                write!(f, "{request} returned {status}: {body}")
            }
            Self::UnexpectedAnswer { request, body } => {
                write!(f, "{request} returned an unexpected response: {body}")
            }
            Self::NotStarted { server, printed } => {
                write!(f, "{server} did not start; it printed:\n{printed}")
            }
            Self::ClientFailed { printed } => {
                write!(f, "the client failed; it printed:\n{printed}")
            }
            Self::NoFiles { folder } => write!(f, "no files in a folder {folder}"),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for DriverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection(source) | Self::File { source, .. } => Some(source),
            Self::ClosedEarly
            | Self::Silent(_)
            | Self::NotHttp(_)
            | Self::Refused { .. }
            | Self::UnexpectedAnswer { .. }
            | Self::NotStarted { .. }
            | Self::NoFiles { .. }
            | Self::ClientFailed { .. } => None,
        }
    }
}
