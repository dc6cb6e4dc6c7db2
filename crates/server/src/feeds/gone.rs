//! Why a session on a WebSocket or of the TCP protocol ends early.

/// The client disconnected, was too slow, violated the protocol, or the server is stopping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gone;
