//! Why a wait for indexes after a write has failed.

use std::{fmt, time::Duration};

use model::{Etag, TimeSpan};

/// Indexes that have not caught up in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexesBehind {
    /// How long the caller waited.
    pub elapsed: Duration,
    /// The change with which they were to catch up.
    pub etag: Etag,
    /// How many indexes the caller waited for.
    pub relevant: usize,
    /// The names of those that are behind.
    pub stale: Vec<String>,
    /// Those of them that are paused.
    pub paused: Vec<String>,
    /// Those of them that have stopped because of errors.
    pub errored: Vec<String>,
}

impl fmt::Display for IndexesBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "After waiting for {}, could not verify that all indexes has caught up with the changes as of \
             etag: {}. Total relevant indexes: {}, total stale indexes: {} ({})",
            TimeSpan::of(self.elapsed),
            self.etag.0,
            self.relevant,
            self.stale.len(),
            self.stale.join(", ")
        )?;
        for (kind, names) in [("paused", &self.paused), ("errored", &self.errored)] {
            if !names.is_empty() {
                write!(f, ", total {kind} indexes: {} ({})", names.len(), names.join(", "))?;
            }
        }
        Ok(())
    }
}
