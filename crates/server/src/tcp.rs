//! The TCP protocol, on listeners of its own and on those for HTTP: a connection whose first byte is a
//! brace speaks it, because no HTTP request begins so.
//!
//! | file | what |
//! |---|---|
//! | `connection` | a connection that was accepted |
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
mod connection;
mod messages;
mod negotiation;
mod received;
mod session_end;
mod stored_position;
mod wake;
mod worker_session;
mod working;

pub(crate) use crate::tcp::{
    connection::TcpConnection,
    negotiation::serve,
    worker_session::{check_query, read_error},
};
/// What an object of the TCP protocol begins with, and no request of HTTP.
pub(crate) const FIRST_BYTE: u8 = b'{';
