//! Errors of commands and of reading the state.

use std::{fmt, io, sync::Arc};

use storage::StorageError;

use crate::encoding::Malformed;

/// An error of the server-wide state.
#[derive(Clone, Debug)]
pub enum ClusterError {
    /// The caller's: the command is larger than [`crate::COMMAND_BYTES_MAX`].
    CommandTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The caller's: a compare exchange key is longer than [`crate::COMPARE_EXCHANGE_KEY_BYTES_MAX`].
    KeyTooLong {
        /// The key.
        key: String,
        /// Its length in lower case.
        bytes: usize,
    },
    /// The caller's: the name of an identity is longer than a document id may be.
    NameTooLong {
        /// The name.
        name: String,
        /// Its length in lower case, with the `|`.
        bytes: usize,
    },
    /// The environment's, may be retried: the queue of commands is full.
    Busy,
    /// The environment's: the server is shutting down.
    Closed,
    /// The environment's: it is unknown whether the command was or will be applied.
    Unfinished {
        /// What went wrong.
        reason: String,
        /// The storage error that caused it, if any.
        source: Option<StorageError>,
    },
    /// Reading or writing failed, and nothing was changed.
    Storage(StorageError),
    /// Ours, or the disk's: stored data is damaged.
    Corrupt {
        /// What is wrong.
        detail: &'static str,
    },
    /// Ours, or the disk's: a row is damaged.
    CorruptRow {
        /// The tree.
        tree: &'static str,
        /// The key of the row.
        key: String,
    },
    /// The files were written by a newer build.
    UnknownVersion {
        /// The version found.
        found: u32,
    },
    /// The environment's: the state has lost part of the database's history, so its commands are refused.
    Refused {
        /// Why, and what an operator can do.
        reason: Arc<str>,
    },
    /// The environment's, may be retried: the cluster has no leader that this node can reach. Nothing was done.
    NoLeader {
        /// What this node knows.
        reason: String,
    },
    /// The caller's: the nodes of the cluster cannot be changed like that. Nothing was done.
    Membership {
        /// Why, and what to do.
        reason: String,
    },
    /// The machine could not be started.
    Start {
        /// Why.
        source: Arc<io::Error>,
    },
}

impl fmt::Display for ClusterError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { reason } => formatter.write_str(reason),
            Self::CommandTooLarge { bytes } => {
                let limit = crate::COMMAND_BYTES_MAX;
                write!(formatter, "a command of {bytes} bytes is larger than {limit}")
            }
            Self::KeyTooLong { key, bytes } => {
                let limit = crate::COMPARE_EXCHANGE_KEY_BYTES_MAX;
                write!(
                    formatter,
                    "Compare Exchange key cannot exceed {limit} bytes, but the key was {bytes} \
                     bytes. The invalid key is '{key}'."
                )
            }
            Self::NameTooLong { name, bytes } => {
                write!(formatter, "the name '{name}' of an identity is too long: {bytes} bytes")
            }
            Self::Busy => formatter.write_str("too many cluster commands are queued"),
            Self::Closed => formatter.write_str("the server is shutting down"),
            Self::Unfinished { reason, .. } => write!(
                formatter,
                "a cluster command ended without an outcome; it is unknown whether it was \
                 done: {reason}"
            ),
            Self::Storage(error) => error.fmt(formatter),
            Self::Corrupt { detail } => {
                write!(formatter, "the cluster's state is damaged: {detail}")
            }
            Self::CorruptRow { tree, key } => write!(
                formatter,
                "the cluster's state is damaged: the row '{key}' of the tree {tree} cannot be read"
            ),
            Self::UnknownVersion { found } => write!(
                formatter,
                "the cluster's state has version {found}, which this build does not know"
            ),
            Self::NoLeader { reason } => write!(
                formatter,
                "the cluster has no leader that this node can reach, so it takes no changes: {reason}"
            ),
            Self::Membership { reason } => formatter.write_str(reason),
            Self::Start { source } => write!(formatter, "the cluster cannot be started: {source}"),
        }
    }
}

impl std::error::Error for ClusterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unfinished { source: Some(source), .. } | Self::Storage(source) => Some(source),
            Self::Start { source } => Some(source),
            _ => None,
        }
    }
}

impl From<StorageError> for ClusterError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<Malformed> for ClusterError {
    fn from(Malformed(detail): Malformed) -> Self {
        Self::Corrupt { detail }
    }
}

impl From<blittable::Corrupt> for ClusterError {
    fn from(_: blittable::Corrupt) -> Self {
        Self::Corrupt { detail: "a value cannot be read" }
    }
}
