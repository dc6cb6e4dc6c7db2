//! A connection of the TCP protocol.

use std::sync::Arc;

use tokio::net::TcpStream;

use crate::{
    connection_limiter::ConnectionLimiter, server_state::ServerState, web_socket::ConnectionPlace,
};

/// A connection of the TCP protocol that was accepted.
pub(crate) struct TcpConnection {
    pub(crate) state: Arc<ServerState>,
    pub(crate) stream: TcpStream,
    /// Its place among all connections, and when the server stops.
    pub(crate) place: ConnectionPlace,
    /// Closes it while it is unused, when another connection needs its place.
    pub(crate) limiter: Arc<ConnectionLimiter>,
}
