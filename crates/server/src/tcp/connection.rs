//! A connection of the TCP protocol.

use std::sync::Arc;

use crate::{
    http::{connection_limiter::ConnectionLimiter, web_socket::ConnectionPlace},
    server_state::ServerState,
    transport::Connection,
};

/// An accepted connection of the TCP protocol.
pub(crate) struct TcpConnection {
    pub(crate) state: Arc<ServerState>,
    pub(crate) connection: Connection,
    /// Its place among all connections, and the signal that the server stops.
    pub(crate) place: ConnectionPlace,
    /// Closes it while it is unused, when another connection needs its place.
    pub(crate) limiter: Arc<ConnectionLimiter>,
}
