//! Why a session on a WebSocket or of the TCP protocol ends early.

/// The client has gone, was too slow, broke the rules, or the server stops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gone;
