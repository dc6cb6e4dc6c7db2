//! The TCP protocol, on listeners of its own and on those for HTTP: a connection whose first byte is a
//! brace speaks it, because no HTTP request begins so.
//!
//! | file | what |
//! |---|---|
//! | `messages` | JSON objects from a socket and to it, within time and size |
//! | `negotiation` | what the connection is for, and in which version |
//! | `worker_session` | a worker of a subscription, from its options to its end |
//! | `working` | a worker that was let in: its turn, and what it waits for |
//! | `batches` | the batches that it is sent |
//! | `received` | what its client sends |
//! | `stored_position` | what is stored while it works |
//! | `session_end` | how the session ends, and what the client is told then |
//! | `wake` | how a session waits for changes |

mod batches;
mod messages;
mod negotiation;
mod received;
mod session_end;
mod stored_position;
mod wake;
mod worker_session;
mod working;

use std::{sync::Arc, time::Duration};

use tokio::net::TcpStream;

pub(crate) use crate::tcp::{
    negotiation::serve,
    worker_session::{check_query, read_error},
};
use crate::{
    connection_limiter::ConnectionLimiter, server_state::ServerState, web_socket::ConnectionPlace,
};

/// What an object of the TCP protocol begins with, and no request of HTTP.
pub(crate) const FIRST_BYTE: u8 = b'{';

/// A connection of the TCP protocol that was accepted.
pub(crate) struct TcpConnection {
    pub(crate) state: Arc<ServerState>,
    pub(crate) stream: TcpStream,
    /// Its place among all connections, and when the server stops.
    pub(crate) place: ConnectionPlace,
    /// Those who wait for a place.
    pub(crate) limiter: Arc<ConnectionLimiter>,
}

/// The client has gone, is too slow, or the server stops: there is nobody to tell anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// How long a client may take to make room for what is sent to it, and its machine to say that it came.
const SEND_TIME_MAX: Duration = Duration::from_secs(30);
