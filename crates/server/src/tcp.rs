//! The TCP protocol, on separate listeners and on those for HTTP: a connection whose first byte is
//! a brace uses it, because no HTTP request begins with one.
//!
//! | file | what |
//! |---|---|
//! | `connection` | an accepted connection |
//! | `messages` | sending and receiving JSON objects, with limits of time and size |
//! | `negotiation` | the purpose and version of the connection |
//! | `worker_session` | a subscription worker, from its options to its end |
//! | `working` | an admitted worker: its turn, and what it waits for |
//! | `batches` | the batches sent to it |
//! | `placement` | which node serves a subscription, and the answer to workers elsewhere |
//! | `received` | messages of its client |
//! | `session_end` | how the session ends, and the last message to the client |
//! | `wake` | how a session waits for changes |

mod batches;
mod connection;
mod messages;
mod negotiation;
mod placement;
mod received;
mod session_end;
mod wake;
mod worker_session;
mod working;

pub(crate) use crate::tcp::{
    connection::TcpConnection, negotiation::serve, worker_session::read_error,
};
/// The first byte of the TCP protocol, and of no HTTP request.
pub(crate) const FIRST_BYTE: u8 = b'{';
