//! Sizes that tests make smaller, so that rare things happen often.

/// How much the log keeps, and how a state is sent to a node that lags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Applied entries that the log keeps. A node that lags further behind is sent the state.
    pub log_entries: u64,
    /// Bytes of rows in one piece of a state, unless a single row is larger.
    pub piece_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { log_entries: 1024, piece_bytes: 1 << 20 }
    }
}
