//! Why a wait for other nodes after a write has failed.

use std::{fmt, time::Duration};

use model::{ChangeVector, TimeSpan};

/// A write that fewer nodes have than expected. The write is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicasBehind {
    /// Of the database, after the write.
    pub change_vector: ChangeVector,
    /// How many other nodes were to have the write.
    pub count: u32,
    /// How many have it.
    pub replicated: u32,
    /// How long the caller waited for them.
    pub timeout: Duration,
}

impl fmt::Display for ReplicasBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReplicasBehind { change_vector, count, replicated, timeout } = self;
        let timeout = TimeSpan::of(*timeout);
        write!(
            f,
            "Could not verify that the change vector '{change_vector}' was replicated to {count} servers in \
             {timeout}. So far, it only replicated to {replicated}"
        )
    }
}
